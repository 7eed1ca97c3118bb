//! The seam between protocol and device: `Transport` for TCP, each call in the file that does it.

use fabric::{
    Caps, GiveUp, Header, HybridGet, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot,
    Transfer, Transport, UserBuf, WaitOn,
};

use crate::transport::TcpTransport;

impl HybridGet for TcpTransport {}

impl GiveUp for TcpTransport {
    /// The peer is neither dialed nor waited for any more.
    fn give_up(&mut self, peer: Peer, why: &str) {
        if let Some(at) = self.peer_index(peer) {
            self.fail(at, why.to_owned());
            self.wake_sleeper();
        }
    }
}

impl Transport for TcpTransport {
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
        self.post_frame(peer, header, len, fill)
    }

    fn begin_batch(&mut self, peer: Peer) {
        self.writing.batch = Some(peer);
    }

    fn end_batch(&mut self, peer: Peer) {
        self.close_batch(peer);
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let moved = self.progress(sink);
        self.wake_sleeper();
        moved
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        Some(self.register_for(peer, memory, rights))
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.release_from(peer, &region);
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
        self.prepare_wait()
    }

    fn disarm(&mut self) {
        self.attention.is_armed = false;
    }

    fn flush(&mut self) -> bool {
        self.flush_all()
    }
}
