//! The seam: what each call of [`Transport`] comes to on shared memory.

use fabric::{
    Header, Kind, Limits, Lost, Memory, OneSided, Peer, Post, Region, Rights, Sink, Slot, Transfer, Transport, WaitOn,
};

use crate::connect::ShmTransport;
use crate::single_copy::Read;

impl Transport for ShmTransport {
    #[inline]
    fn limits(&self, peer: Peer) -> &Limits {
        self.limits_of(peer)
    }

    #[inline]
    fn post(&mut self, peer: Peer, header: &Header, len: usize, fill: impl FnOnce(&mut Slot)) -> Result<Post, Lost> {
        match header.kind {
            Kind::Data => self.post_claimed(peer, header, len, fill),
            _ => self.post_frame(peer, header, len, fill),
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        self.poll_rings(sink)
    }

    fn register(&mut self, peer: Peer, memory: Memory, rights: Rights) -> Option<Region> {
        (rights == Rights::Get && self.limits_of(peer).get_from != u64::MAX)
            .then(|| Region { addr: memory.addr(), keys: [0; 4] })
    }

    fn release(&mut self, _peer: Peer, _region: Region) {}

    /// Reads alone: the kernel copies.
    fn one_sided(&mut self, peer: Peer, region: &Region, at: u64, what: OneSided, _: u64) -> Result<Transfer, Lost> {
        let (Some(local), OneSided::Get(into) | OneSided::Take(into)) = (self.local(peer), what) else {
            return Ok(Transfer::Refused);
        };
        let (is_taken, from) = (matches!(what, OneSided::Take(_)), self.limits_of(peer).get_from);
        // Two that both copy are faster; one alone waits no longer for the other than that takes which is
        // between two calls.
        if from != u64::MAX && self.is_inside_soon(local) {
            return Ok(if is_taken { Transfer::NoRoom } else { Transfer::Together });
        }
        if from == u64::MAX || !self.may_read(peer, local) {
            return Ok(Transfer::Refused);
        }
        let claim = if is_taken { self.inbound.claim(local) } else { None };
        if is_taken && claim.is_none() {
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
        self.fall_asleep()
    }

    #[inline]
    fn disarm(&mut self) {
        self.own.doorbell.awake();
    }

    /// What is in a ring stays there without its sender.
    fn flush(&mut self) -> bool {
        true
    }
}
