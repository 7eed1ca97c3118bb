//! The seam: what each call of [`Transport`] comes to on verbs.

use fabric::{Header, Limits, Lost, Memory, Peer, Post, Region, Sink, Slot, Transfer, Transport, WaitOn};

use crate::connect::VerbsTransport;

impl Transport for VerbsTransport {
    #[inline]
    fn limits(&self, _: Peer) -> &Limits {
        &self.limits
    }

    #[inline]
    fn post(&mut self, peer: Peer, header: &Header, len: usize, fill: impl FnOnce(&mut Slot)) -> Result<Post, Lost> {
        self.post_frame(peer, header, len, fill)
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        self.poll_queue(sink)
    }

    fn register(&mut self, peer: Peer, memory: Memory) -> Option<Region> {
        (self.limits.get_from != u64::MAX).then(|| self.register_for(peer, memory)).flatten()
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.release_from(peer, region);
    }

    fn get(&mut self, peer: Peer, region: &Region, from: u64, into: Memory, token: u64) -> Result<Transfer, Lost> {
        self.begin_read(peer, region, from, into, token)
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        self.fall_asleep()
    }

    #[inline]
    fn disarm(&mut self) {
        if self.is_armed {
            self.wake_up();
        }
    }

    fn flush(&mut self) -> bool {
        self.flush_all()
    }
}
