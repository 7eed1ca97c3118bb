//! The [`Transport`] trait on shared memory: each call goes to the file that does it.

use std::time::Instant;

use fabric::{
    Caps, GetOrPush, Header, HybridGet, Kind, OneSided, Peer, PeerFailed, Post, Region, Rights,
    Sink, Slot, Transfer, Transport, UserBuf, WaitOn,
};

use crate::connect::ShmTransport;
use crate::copy_tuner::{self, Copies};

impl Transport for ShmTransport {
    #[inline]
    fn caps(&self, peer: Peer) -> &Caps {
        self.caps_of(peer)
    }

    #[inline]
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        match header.kind {
            Kind::Data => self.post_piece(peer, header, len, fill),
            _ => self.post_frame(peer, header, len, fill),
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        self.poll_rings(sink)
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        // The data of a message that is about to be announced.
        self.large_posts = self.large_posts.wrapping_add((rights == Rights::Get).into());
        self.describe(peer, memory, rights)
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        _: u64,
    ) -> Result<Transfer, PeerFailed> {
        Ok(match self.peers.local(peer) {
            Some(local) => self.access_region((peer, local), region, at, what),
            None => Transfer::Refused,
        })
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        self.prepare_wait()
    }

    #[inline]
    fn disarm(&mut self) {
        self.own.event_count.cancel_wait();
    }
}

impl HybridGet for ShmTransport {
    /// A push is copied by both sides. It needs the sender to be in MPI, and is faster where the
    /// tuner does not know better.
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        let Some(local) = self.peers.local(peer) else {
            return Ok(GetOrPush::Get(Transfer::Refused));
        };
        let class = copy_tuner::class_of(into.len() as u64).filter(|_| self.pipelines);
        let tuner = self.inbound.ring_from_mut(local).and_then(|inbound| inbound.tuner.as_mut());
        let copies = class.zip(tuner).map_or(Copies::Two, |(class, tuner)| {
            tuner.request(class);
            tuner.next(class)
        });
        if copies == Copies::Two && self.is_pushing_soon(peer, local) {
            return Ok(GetOrPush::Push);
        }
        let begun = Instant::now();
        let transfer = self.one_sided(peer, region, 0, OneSided::Get(into), token)?;
        if transfer == Transfer::Done
            && let Some(class) = class
            && let Some(inbound) = self.inbound.ring_from_mut(local)
        {
            let cost = copy_tuner::cost_of_one(begun.elapsed(), into.len());
            inbound.record_copies(class, false, Copies::One, cost);
        }
        Ok(GetOrPush::Get(transfer))
    }

    fn prefers_get(&self, peer: Peer, bytes: u64) -> bool {
        let Some(class) = copy_tuner::class_of(bytes).filter(|_| self.pipelines) else {
            return false;
        };
        let Some(Some(outbound)) = self.outbound.get(peer.0 as usize) else { return false };
        bytes >= outbound.caps.get_min
            && outbound.producer.wanted_classes() >> class & 1 != 0
            && self.peers.is_in_mpi(outbound.local)
    }

    fn get_remainder(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        into: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        let Some(local) = self.peers.local(peer) else { return Ok(Transfer::Refused) };
        if self.is_pushing_soon(peer, local) {
            return Ok(Transfer::NoSpace);
        }
        if !self.may_access(peer, local) {
            return Ok(Transfer::Refused);
        }
        let Some(_lock) = self.inbound.lock_transfers(local) else { return Ok(Transfer::NoSpace) };
        Ok(self.access_region((peer, local), region, at, OneSided::Get(into)))
    }
}

impl ShmTransport {
    /// Returns whether a get is possible and the peer is in MPI, or soon again: a get waits no
    /// longer for the peer than the time between two of its calls.
    fn is_pushing_soon(&mut self, peer: Peer, local: u32) -> bool {
        self.caps_of(peer).get_min != u64::MAX && self.peers.wait_until_in_mpi(local)
    }
}
