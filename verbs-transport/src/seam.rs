//! The seam between protocol and device: `Transport` for verbs, each call in the file that does it.

use fabric::{
    Caps, GiveUp, Header, HybridGet, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot,
    Transfer, Transport, UserBuf, WaitOn,
};

use crate::endpoint::connection::MAX_BREAKS;
use crate::endpoint::rma::Path;
use crate::transport::VerbsTransport;

impl HybridGet for VerbsTransport {}

impl GiveUp for VerbsTransport {
    fn give_up(&mut self, peer: Peer, why: &str) {
        if let Ok(at) = self.endpoints.get_or_create(peer) {
            self.fail_silently(at, why.to_owned());
        }
    }
}

impl Transport for VerbsTransport {
    #[inline]
    fn caps(&self, _: Peer) -> &Caps {
        &self.config.caps
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
        self.open_batch(peer);
    }

    fn end_batch(&mut self, _: Peer) {
        self.close_batch();
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        self.progress(sink)
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
        self.prepare_wait()
    }

    #[inline]
    fn disarm(&mut self) {
        if self.wait_set.is_armed {
            self.on_wake();
        }
    }

    fn flush(&mut self) -> bool {
        self.flush_all()
    }
}

/// Faults for tests.
impl VerbsTransport {
    /// Breaks the connection to a peer, or the initiator that carries its operations, if there is
    /// one, as a fault of the device would. Breaks in a row, by which a peer is given up, are left
    /// to the device from half of [`MAX_BREAKS`] on.
    pub fn interrupt(&mut self, peer: Peer) {
        if let Some(at) = self.endpoints.find(peer)
            && let Path::Initiator(number) = self.endpoints[at].rma.path
        {
            return self.initiator_failed(number);
        }
        let may_break = |&at: &usize| {
            let endpoint = &self.endpoints[at];
            endpoint.is_ready() && endpoint.conn.breaks < MAX_BREAKS / 2
        };
        if let Some(at) = self.endpoints.find(peer).filter(may_break) {
            self.endpoints.interruptions += 1;
            self.break_connection(at, "a test has broken it");
        }
    }

    /// Behaves as if the device was removed.
    pub fn remove_device(&mut self) {
        self.give_up_device();
    }

    /// Returns the number of connections that [`VerbsTransport::interrupt`] has broken.
    pub fn interruptions(&self) -> u64 {
        self.endpoints.interruptions
    }

    /// Returns the number of registrations of buffers that were made.
    pub fn registrations_made(&self) -> u64 {
        self.registrations.made()
    }
}
