//! A transport whose connections break at random, and whose process polls for some time before it
//! sleeps.

use fabric::sim::Rng;
use fabric::{
    Caps, Header, HybridGet, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot,
    Transfer, Transport, UserBuf, WaitOn,
};

/// A transport whose connections break at random.
pub(crate) struct Faulty<T> {
    pub(crate) inner: T,
    pub(crate) rng: Rng,
    pub(crate) ranks: u32,
    /// One of so many polls breaks a connection; 0: none does.
    pub(crate) every: u64,
    /// Polls in a row without a result before it sleeps.
    pub(crate) polls_before_sleep: u32,
    pub(crate) idle: u32,
    /// Breaks the connection to a peer.
    pub(crate) interrupt: fn(&mut T, Peer),
}

impl<T: Transport> HybridGet for Faulty<T> {}

impl<T: Transport> Transport for Faulty<T> {
    fn caps(&self, peer: Peer) -> &Caps {
        self.inner.caps(peer)
    }

    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        self.inner.post(peer, header, len, fill)
    }

    fn begin_batch(&mut self, peer: Peer) {
        self.inner.begin_batch(peer);
    }

    fn end_batch(&mut self, peer: Peer) {
        self.inner.end_batch(peer);
    }

    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        if self.every > 0 && self.rng.below(self.every) == 0 {
            (self.interrupt)(&mut self.inner, Peer(self.rng.below(self.ranks.into()) as u32));
        }
        let moved = self.inner.poll(sink);
        if moved {
            self.idle = 0;
        }
        moved
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        self.inner.register(peer, memory, rights)
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.inner.release(peer, region);
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        self.inner.one_sided(peer, region, at, what, token)
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        self.idle += 1;
        if self.idle > self.polls_before_sleep { self.inner.arm() } else { None }
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn flush(&mut self) -> bool {
        self.inner.flush()
    }
}
