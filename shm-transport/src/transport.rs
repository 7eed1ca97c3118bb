//! The [`Transport`] trait on shared memory: each call goes to the file that does it.

use std::time::Instant;

use fabric::{
    Caps, GetOrPush, Header, HybridGet, Kind, OneSided, Peer, PeerFailed, Placed, Post, Region,
    Rights, Sink, Slot, Transfer, Transport, UserBuf, WaitOn,
};

use crate::connect::ShmTransport;
use crate::copy_cost::CopyCost;
use crate::copy_tuner::{self, Copies};
use crate::inbound::Inbound;
use crate::rma::{describe_offer, get_boxed, is_message};

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
        let region = self.describe(peer, memory, rights)?;
        if is_message(&region) {
            self.large_posts = self.large_posts.wrapping_add(1);
            self.announced += 1;
        }
        Some(region)
    }

    fn release(&mut self, _: Peer, region: Region) {
        let is_over = u32::from(is_message(&region));
        self.announced = self.announced.saturating_sub(is_over);
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
    /// The way that the tuner knows to be the fastest, or a single copy where the sender cannot do
    /// its part because it is not in MPI.
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        _: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        let Some(local) = self.peers.local(peer) else {
            return Ok(GetOrPush::Get(Transfer::Refused));
        };
        let class = self.class_of(into.len() as u64);
        let may_halve = self.may_offer(peer, local);
        let tuner = self.inbound.ring_from_mut(local).and_then(|inbound| inbound.tuner.as_mut());
        let copies =
            class.zip(tuner).map_or(Copies::Two, |(class, tuner)| tuner.begin(class, may_halve));
        let advice = match copies {
            Copies::Two if self.is_pushing_soon(peer, local) => GetOrPush::Push,
            Copies::Halves => GetOrPush::Cooperate,
            _ => return Ok(GetOrPush::Get(self.get_message((peer, local), region, into))),
        };
        if let Some((class, inbound)) = class.zip(self.inbound.ring_from_mut(local)) {
            inbound.begin_message((region.addr, class), copies, self.announced > 0);
        }
        Ok(advice)
    }

    #[inline]
    fn prefers_get(&self, peer: Peer, bytes: u64) -> bool {
        let Some(class) = self.class_of(bytes) else { return false };
        let Some(Some(outbound)) = self.outbound.get(peer.0 as usize) else { return false };
        outbound.producer.wanted_classes() >> class & 1 != 0
            && self.peers.wait_until_in_mpi(outbound.local)
    }

    fn get_now(&mut self, peer: Peer, region: &Region, at: u64, into: UserBuf) -> Transfer {
        let Some(local) = self.peers.local(peer) else { return Transfer::Refused };
        if let Some(inbound) = self.inbound.ring_from_mut(local) {
            inbound.count_large(into.len());
        }
        self.access_region((peer, local), region, at, OneSided::Get(into))
    }

    fn offer(&mut self, peer: Peer, memory: UserBuf) -> Option<Region> {
        let number = self.inbound_from(peer)?.open_offer(memory)?;
        Some(describe_offer(number, memory))
    }

    fn withdraw(&mut self, peer: Peer) -> bool {
        self.inbound_from(peer).is_none_or(Inbound::withdraw_offer)
    }

    fn end_offer(&mut self, peer: Peer) {
        if let Some(inbound) = self.inbound_from(peer) {
            inbound.close_offer();
        }
    }

    fn end_message(&mut self, peer: Peer, region: &Region) {
        if let Some(inbound) = self.inbound_from(peer) {
            inbound.end_message(region.addr);
        }
    }

    fn place(&mut self, peer: Peer, offer: &Region, from: UserBuf) -> Placed {
        self.take_offer(peer, offer, from)
    }

    fn get_unexpected(&mut self, peer: Peer, region: &Region, bytes: usize) -> Option<Box<[u8]>> {
        let local = self.peers.local(peer)?;
        get_boxed(bytes, |into| self.get_message((peer, local), region, into))
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
    /// Gets a message that a peer has announced, and measures that.
    fn get_message(
        &mut self,
        (peer, local): (Peer, u32),
        region: &Region,
        into: UserBuf,
    ) -> Transfer {
        let (begun, is_exchange) = (Instant::now(), self.announced > 0);
        let transfer = self.access_region((peer, local), region, 0, OneSided::Get(into));
        let Some(class) = self.class_of(into.len() as u64) else { return transfer };
        let Some(inbound) = self.inbound.ring_from_mut(local) else { return transfer };
        let cost = match transfer {
            Transfer::Done => {
                inbound.count_large(into.len());
                copy_tuner::cost_of_announced(begun.elapsed(), into.len() as u64, is_exchange)
            }
            _ => CopyCost::MOST,
        };
        inbound.record_copies(class, Copies::One, cost);
        transfer
    }

    /// Returns the class of a message for the tuner; `None` if nothing is measured for it.
    #[inline]
    fn class_of(&self, bytes: u64) -> Option<usize> {
        copy_tuner::class_of(bytes).filter(|_| self.pipelines)
    }

    /// Returns whether the peer may soon take an offer.
    fn may_offer(&mut self, peer: Peer, local: u32) -> bool {
        self.caps_of(peer).get_min != u64::MAX
            && self.peers.is_in_mpi(local)
            && self.inbound.ring_from_mut(local).is_some_and(|inbound| !inbound.has_offer())
    }

    fn inbound_from(&mut self, peer: Peer) -> Option<&mut Inbound> {
        let local = self.peers.local(peer)?;
        self.inbound.ring_from_mut(local)
    }

    /// Returns whether a get is possible and the peer is in MPI, or soon again: a get waits no
    /// longer for the peer than the time between two of its calls.
    fn is_pushing_soon(&mut self, peer: Peer, local: u32) -> bool {
        self.caps_of(peer).get_min != u64::MAX && self.peers.wait_until_in_mpi(local)
    }
}
