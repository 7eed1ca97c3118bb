//! The [`Transport`] trait on shared memory: each call goes to the file that does it.

use fabric::{
    Caps, Header, Kind, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot, Transfer,
    Transport, UserBuf, WaitOn,
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
        let (Some(local), OneSided::Get(into) | OneSided::GetRemainder(into)) =
            (self.peers.local(peer), what)
        else {
            return Ok(Transfer::Refused);
        };
        let (is_taken, from) =
            (matches!(what, OneSided::GetRemainder(_)), self.caps_of(peer).get_min);
        // Two that both copy are faster; one alone waits no longer for the other than that takes which is
        // between two calls.
        if from != u64::MAX && self.peers.wait_until_in_mpi(local) {
            return Ok(if is_taken { Transfer::NoRoom } else { Transfer::PreferPush });
        }
        if from == u64::MAX || !self.may_read(peer, local) {
            return Ok(Transfer::Refused);
        }
        let lock = if is_taken { self.inbound.lock_transfers(local) } else { None };
        if is_taken && lock.is_none() {
            return Ok(Transfer::NoRoom);
        }
        Ok(match self.access[local as usize].read(region.addr.wrapping_add(at), into) {
            Read::Done => Transfer::Done,
            Read::Failed => Transfer::Refused,
            Read::Forbidden => {
                self.refuse(peer, local);
                Transfer::Refused
            }
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
