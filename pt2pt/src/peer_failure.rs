//! A peer is gone: what waits for it fails, and so does what comes after.
//!
//! The engine knows the peer of every send and of every matched receive. Whom a
//! posted receive waits for is the communicator's knowledge: its owner calls
//! [`Engine::fail_receives`] while [`Engine::failed_peers`] is not empty.

use fabric::{PeerFailed, RequestId};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::requests::State;

impl Engine {
    /// The peers that are gone, in the order in which we heard of it.
    #[inline]
    pub fn failed_peers(&self) -> &[PeerFailed] {
        &self.failed_peers
    }

    /// Fails the posted receives that nobody can satisfy any more: `gone` is given
    /// the context and the source (`None`: any) of each and says who is missing.
    /// True if there were any.
    #[cold]
    pub fn fail_receives(
        &mut self,
        mut gone: impl FnMut(u64, Option<u32>) -> Option<PeerFailed>,
    ) -> bool {
        let mut failed = Vec::new();
        self.posted.for_each(|key, slot| {
            let source = (key.source != crate::key::Key::ANY_SOURCE).then_some(key.source);
            failed.extend(gone(key.context, source).map(|lost| (slot, lost)));
        });
        for (slot, lost) in &failed {
            self.posted.remove(*slot);
            let id = self.requests.id(*slot);
            self.requests.held(id).bytes = 0;
            self.requests.fail(id, Fault::PeerFailed(lost.clone()));
        }
        !failed.is_empty()
    }
}

impl Engine {
    /// Notes a loss, once.
    #[cold]
    pub(crate) fn mark_failed(&mut self, lost: &PeerFailed) {
        let peer = self.peers.of(lost.peer);
        if peer.failure.is_some() {
            return;
        }
        peer.failure = Some(lost.clone());
        peer.credit = 0;
        peer.queue.clear();
        peer.pushing.clear();
        self.failed_peers.push(lost.clone());
        let of_peer: Vec<RequestId> = self
            .requests
            .active()
            .filter(|(_, request)| request.peer == lost.peer)
            .map(|(id, _)| id)
            .collect();
        for id in of_peer {
            self.fail_request(id, lost);
        }
    }

    fn fail_request(&mut self, id: RequestId, lost: &PeerFailed) {
        let request = self.requests.held(id);
        match request.state {
            // The device may still write: it will say when it does not.
            State::Pulling { started: true, .. } | State::Writing { started: true, .. } => {}
            // The send itself had succeeded.
            State::Recalling => self.requests.complete(id, false),
            State::Queued
            | State::Announced { .. }
            | State::Pushing { .. }
            | State::Filling { .. } => {
                let region = request.region.take();
                self.requests.fail(id, Fault::PeerFailed(lost.clone()));
                self.release(lost.peer, region);
            }
            _ => self.requests.fail(id, Fault::PeerFailed(lost.clone())),
        }
    }
}
