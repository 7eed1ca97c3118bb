//! The transports of a process whose job runs on several hosts.
//!
//! Out of line, so that jobs on one host have no cost. A rank that is alone on its host has no
//! intra-host transport, and sleeps on the inter-host device alone. A failure that one device
//! reports is passed on only for peers that the device serves.

use crate::body::Body;
use crate::header::Header;
use crate::local_ranks::LocalRanks;
use crate::transport::{
    Caps, GetOrPush, HybridGet, OneSided, Peer, PeerFailed, Placed, Post, Region, Rights, Sink,
    Slot, Transfer, Transport, WaitOn,
};
use crate::user_buf::UserBuf;

use super::traffic::Traffic;

/// Both transports, and the ranks that the first one reaches.
#[derive(Debug)]
pub(super) struct MultiHost<Intra, Inter> {
    local_ranks: LocalRanks,
    intra: Option<Intra>,
    inter: Inter,
    traffic: Traffic,
}

impl<Intra, Inter> MultiHost<Intra, Inter> {
    pub(super) fn new(local_ranks: LocalRanks, intra: Option<Intra>, inter: Inter) -> Self {
        MultiHost { local_ranks, intra, inter, traffic: Traffic::default() }
    }

    pub(super) fn add_intra(&mut self, intra: Intra) {
        debug_assert!(self.intra.is_none());
        self.intra = Some(intra);
    }

    pub(super) fn add_local(&mut self, peer: Peer) {
        debug_assert!(self.intra.is_some());
        self.local_ranks.insert(peer.0);
    }

    pub(super) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(super) fn intra(&self) -> Option<&Intra> {
        self.intra.as_ref()
    }

    pub(super) fn intra_mut(&mut self) -> Option<&mut Intra> {
        self.intra.as_mut()
    }

    pub(super) fn inter(&self) -> &Inter {
        &self.inter
    }

    pub(super) fn inter_mut(&mut self) -> &mut Inter {
        &mut self.inter
    }

    /// Returns the intra-host transport if it serves the peer.
    #[inline]
    fn intra_to(&mut self, peer: Peer) -> Option<&mut Intra> {
        if self.local_ranks.contains(peer.0) { self.intra.as_mut() } else { None }
    }
}

/// The sink of the inter-host transport. A device that fails reports all peers as failed, also
/// those that shared memory serves: these reports are dropped.
struct InterSink<'a, S> {
    sink: &'a mut S,
    local_ranks: &'a LocalRanks,
}

impl<S: Sink> Sink for InterSink<'_, S> {
    #[inline]
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        self.sink.frame(from, header, body);
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        self.sink.transferred(token, outcome);
    }

    fn peer_failed(&mut self, failed: PeerFailed) {
        if !self.local_ranks.contains(failed.peer.0) {
            self.sink.peer_failed(failed);
        }
    }
}

impl<Intra: HybridGet, Inter: HybridGet> Transport for MultiHost<Intra, Inter> {
    #[inline(never)]
    fn caps(&self, peer: Peer) -> &Caps {
        match &self.intra {
            Some(intra) if self.local_ranks.contains(peer.0) => intra.caps(peer),
            _ => self.inter.caps(peer),
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
        match self.intra_to(peer) {
            Some(intra) => {
                let posted = intra.post(peer, header, len, fill)?;
                Ok(self.traffic.intra.count_post(posted, len))
            }
            None => {
                let posted = self.inter.post(peer, header, len, fill)?;
                Ok(self.traffic.inter.count_post(posted, len))
            }
        }
    }

    fn begin_batch(&mut self, peer: Peer) {
        match self.intra_to(peer) {
            Some(intra) => intra.begin_batch(peer),
            None => self.inter.begin_batch(peer),
        }
    }

    fn end_batch(&mut self, peer: Peer) {
        match self.intra_to(peer) {
            Some(intra) => intra.end_batch(peer),
            None => self.inter.end_batch(peer),
        }
    }

    #[inline(never)]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let moved = self.intra.as_mut().is_some_and(|intra| intra.poll(sink));
        self.inter.poll(&mut InterSink { sink, local_ranks: &self.local_ranks }) | moved
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        match self.intra_to(peer) {
            Some(intra) => intra.register(peer, memory, rights),
            None => self.inter.register(peer, memory, rights),
        }
    }

    fn release(&mut self, peer: Peer, region: Region) {
        match self.intra_to(peer) {
            Some(intra) => intra.release(peer, region),
            None => self.inter.release(peer, region),
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
        match self.intra_to(peer) {
            Some(intra) => intra.one_sided(peer, region, at, what, token),
            None => {
                let transfer = self.inter.one_sided(peer, region, at, what, token)?;
                Ok(self.traffic.count_transfer(transfer, what))
            }
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        let Some(intra) = &mut self.intra else { return self.inter.arm() };
        match (intra.arm()?, self.inter.arm()?) {
            (WaitOn::Futex { word, value }, WaitOn::Fd(fd)) => {
                Some(WaitOn::Either { word, value, fd })
            }
            (intra, WaitOn::Nothing) => Some(intra),
            (_, inter) => Some(inter),
        }
    }

    fn disarm(&mut self) {
        if let Some(intra) = &mut self.intra {
            intra.disarm();
        }
        self.inter.disarm();
    }

    fn flush(&mut self) -> bool {
        let intra = self.intra.as_mut().is_none_or(Intra::flush);
        self.inter.flush() && intra
    }
}

impl<Intra: HybridGet, Inter: HybridGet> HybridGet for MultiHost<Intra, Inter> {
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        match self.intra_to(peer) {
            Some(intra) => intra.get_or_push(peer, region, into, token),
            None => {
                let get = self.inter.get_or_push(peer, region, into, token)?;
                Ok(match get {
                    GetOrPush::Get(transfer) => {
                        GetOrPush::Get(self.traffic.count_transfer(transfer, OneSided::Get(into)))
                    }
                    other => other,
                })
            }
        }
    }

    fn get_remainder(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        into: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        match self.intra_to(peer) {
            Some(intra) => intra.get_remainder(peer, region, at, into),
            None => {
                let transfer = self.inter.get_remainder(peer, region, at, into)?;
                Ok(self.traffic.count_transfer(transfer, OneSided::Get(into)))
            }
        }
    }

    fn prefers_get(&self, peer: Peer, bytes: u64) -> bool {
        match &self.intra {
            Some(intra) if self.local_ranks.contains(peer.0) => intra.prefers_get(peer, bytes),
            _ => self.inter.prefers_get(peer, bytes),
        }
    }

    fn get_now(&mut self, peer: Peer, region: &Region, at: u64, into: UserBuf) -> Transfer {
        match self.intra_to(peer) {
            Some(intra) => intra.get_now(peer, region, at, into),
            None => self.inter.get_now(peer, region, at, into),
        }
    }

    fn offer(&mut self, peer: Peer, memory: UserBuf) -> Option<Region> {
        match self.intra_to(peer) {
            Some(intra) => intra.offer(peer, memory),
            None => self.inter.offer(peer, memory),
        }
    }

    fn withdraw(&mut self, peer: Peer) -> bool {
        match self.intra_to(peer) {
            Some(intra) => intra.withdraw(peer),
            None => self.inter.withdraw(peer),
        }
    }

    fn end_offer(&mut self, peer: Peer) {
        match self.intra_to(peer) {
            Some(intra) => intra.end_offer(peer),
            None => self.inter.end_offer(peer),
        }
    }

    fn end_message(&mut self, peer: Peer, region: &Region) {
        match self.intra_to(peer) {
            Some(intra) => intra.end_message(peer, region),
            None => self.inter.end_message(peer, region),
        }
    }

    fn place(&mut self, peer: Peer, offer: &Region, from: UserBuf) -> Placed {
        match self.intra_to(peer) {
            Some(intra) => intra.place(peer, offer, from),
            None => self.inter.place(peer, offer, from),
        }
    }

    fn get_unexpected(&mut self, peer: Peer, region: &Region, bytes: usize) -> Option<Box<[u8]>> {
        match self.intra_to(peer) {
            Some(intra) => intra.get_unexpected(peer, region, bytes),
            None => self.inter.get_unexpected(peer, region, bytes),
        }
    }
}
