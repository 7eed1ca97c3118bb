//! The routes of a job over several hosts: shared memory to the ranks of this host,
//! InfiniBand or RoCE to the others.
//!
//! Out of line, so that jobs on one host pay nothing for it. A rank that is alone on
//! its host has no shared memory, and sleeps on the device's descriptor alone.

use std::ops::Range;

use fabric::{
    Caps, Header, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot, Transfer,
    Transport, UserBuf, WaitOn,
};
use shm_transport::ShmTransport;
use verbs_transport::Rails;

use crate::traffic::Traffic;

/// Both transports, and who is reached by which.
pub struct Hosts {
    /// Ranks of this host.
    here: Range<u32>,
    near: Option<ShmTransport>,
    far: Rails,
    traffic: Traffic,
}

impl Hosts {
    /// `near` reaches the ranks `here`.
    pub(crate) fn new(here: Range<u32>, near: Option<ShmTransport>, far: Rails) -> Hosts {
        Hosts { here, near, far, traffic: Traffic::default() }
    }

    /// What was sent so far.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic.with(self.far.frames_written(), self.far.frames_coalesced())
    }

    /// The way within this host, if it has other ranks.
    pub(crate) fn within(&self) -> Option<&ShmTransport> {
        self.near.as_ref()
    }

    /// The way to other hosts.
    pub(crate) fn far(&self) -> &Rails {
        &self.far
    }

    /// The way to a rank of this host.
    #[inline]
    fn near(&mut self, peer: Peer) -> Option<&mut ShmTransport> {
        if self.here.contains(&peer.0) { self.near.as_mut() } else { None }
    }
}

/// Hears of other hosts. A device that is gone has lost everybody, as far as it knows.
struct Far<'a, S> {
    sink: &'a mut S,
    here: &'a Range<u32>,
}

impl<S: Sink> Sink for Far<'_, S> {
    #[inline]
    fn frame(&mut self, from: Peer, header: &Header, body: &[u8]) {
        self.sink.frame(from, header, body);
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        self.sink.transferred(token, outcome);
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        if !self.here.contains(&lost.peer.0) {
            self.sink.peer_failed(lost);
        }
    }
}

impl Transport for Hosts {
    #[inline(never)]
    fn caps(&self, peer: Peer) -> &Caps {
        match &self.near {
            Some(near) if self.here.contains(&peer.0) => near.caps(peer),
            _ => self.far.caps(peer),
        }
    }

    #[inline(never)]
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        match self.near(peer) {
            Some(near) => {
                let posted = near.post(peer, header, len, fill)?;
                Ok(self.traffic.near.posted(posted, len))
            }
            None => {
                let posted = self.far.post(peer, header, len, fill)?;
                Ok(self.traffic.far.posted(posted, len))
            }
        }
    }

    fn gather(&mut self, peer: Peer, more: bool) {
        if !self.here.contains(&peer.0) {
            self.far.gather(peer, more);
        }
    }

    #[inline(never)]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let near = self.near.as_mut().is_some_and(|near| near.poll(sink));
        self.far.poll(&mut Far { sink, here: &self.here }) | near
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        match self.near(peer) {
            Some(near) => near.register(peer, memory, rights),
            None => self.far.register(peer, memory, rights),
        }
    }

    fn release(&mut self, peer: Peer, region: Region) {
        match self.near(peer) {
            Some(near) => near.release(peer, region),
            None => self.far.release(peer, region),
        }
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        match self.near(peer) {
            Some(near) => near.one_sided(peer, region, at, what, token),
            None => {
                let begun = self.far.one_sided(peer, region, at, what, token)?;
                Ok(self.traffic.begun(begun, what))
            }
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        let Some(near) = &mut self.near else { return self.far.arm() };
        match (near.arm()?, self.far.arm()?) {
            (WaitOn::Futex { word, value }, WaitOn::Fd(fd)) => {
                Some(WaitOn::Either { word, value, fd })
            }
            (near, WaitOn::Nothing) => Some(near),
            (_, far) => Some(far),
        }
    }

    fn disarm(&mut self) {
        if let Some(near) = &mut self.near {
            near.disarm();
        }
        self.far.disarm();
    }

    fn flush(&mut self) -> bool {
        self.far.flush()
    }
}
