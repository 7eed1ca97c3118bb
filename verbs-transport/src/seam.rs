//! The seam: what each call of [`Transport`] comes to on verbs.

use fabric::{
    Caps, Header, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot, Transfer,
    Transport, UserBuf, WaitOn,
};

use crate::connect::VerbsTransport;

impl Transport for VerbsTransport {
    #[inline]
    fn caps(&self, _: Peer) -> &Caps {
        &self.caps
    }

    #[inline]
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        self.post_frame(peer, header, len, fill)
    }

    fn begin_batch(&mut self, peer: Peer) {
        self.gather_frames(peer, true);
    }

    fn end_batch(&mut self, peer: Peer) {
        self.gather_frames(peer, false);
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        self.poll_queue(sink)
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        self.register_for(peer, memory, rights)
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.release_from(peer, region);
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        self.begin(peer, region, at, what, token)
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
