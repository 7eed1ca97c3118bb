//! The [`Transport`] trait on shared memory: each call goes to the file that does it.

use fabric::{
    Caps, GetOrPush, Header, HybridGet, Kind, OneSided, Peer, PeerFailed, Post, Region, Rights,
    Sink, Slot, Transfer, Transport, UserBuf, WaitOn,
};

use crate::connect::ShmTransport;
use crate::single_copy::Read;

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
        (rights == Rights::Get && self.caps_of(peer).get_min != u64::MAX)
            .then(|| Region { addr: memory.addr(), keys: [0; 4] })
    }

    /// Reads alone: the kernel copies.
    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        _: u64,
    ) -> Result<Transfer, PeerFailed> {
        let (Some(local), OneSided::Get(into)) = (self.peers.local(peer), what) else {
            return Ok(Transfer::Refused);
        };
        Ok(self.single_copy(peer, local, region.addr.wrapping_add(at), into))
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
    /// A push is copied by both sides, which is faster; it needs the sender to be in MPI.
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        match self.peers.local(peer) {
            Some(local) if self.is_pushing_soon(peer, local) => Ok(GetOrPush::Push),
            _ => self.one_sided(peer, region, 0, OneSided::Get(into), token).map(GetOrPush::Get),
        }
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
            return Ok(Transfer::NoRoom);
        }
        if !self.may_get(peer, local) {
            return Ok(Transfer::Refused);
        }
        let Some(_lock) = self.inbound.lock_transfers(local) else { return Ok(Transfer::NoRoom) };
        Ok(self.single_copy(peer, local, region.addr.wrapping_add(at), into))
    }
}

impl ShmTransport {
    /// Returns true if a get is possible and the peer is in MPI, or soon again: a get waits no
    /// longer for the peer than the time between two of its calls.
    fn is_pushing_soon(&mut self, peer: Peer, local: u32) -> bool {
        self.caps_of(peer).get_min != u64::MAX && self.peers.wait_until_in_mpi(local)
    }

    fn may_get(&mut self, peer: Peer, local: u32) -> bool {
        self.caps_of(peer).get_min != u64::MAX && self.may_read(peer, local)
    }

    /// Gets memory of a peer at `addr`, if that is possible.
    fn single_copy(&mut self, peer: Peer, local: u32, addr: u64, into: UserBuf) -> Transfer {
        if !self.may_get(peer, local) {
            return Transfer::Refused;
        }
        match self.access[local as usize].read(addr, into) {
            Read::Done => Transfer::Done,
            Read::Failed => Transfer::Refused,
            Read::Forbidden => {
                self.refuse(peer, local);
                Transfer::Refused
            }
        }
    }
}
