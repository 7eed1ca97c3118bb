//! Peer failure: requests that wait for a failed peer fail, and so do later ones.
//!
//! The engine knows the peer of every send and of every matched receive. Which peer a posted
//! receive waits for is the communicator's knowledge: its owner calls
//! [`Engine::fail_receives`] while [`Engine::failed_peers`] is not empty.

use fabric::{Peer, PeerFailed, RequestId};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::requests::State;

impl Engine {
    /// Returns the failed peers, in the order of their reports.
    #[inline]
    pub fn failed_peers(&self) -> &[PeerFailed] {
        &self.failed_peers
    }

    /// Records that every process of the job learns of failed peers by itself: no process need be
    /// told that another one has failed.
    pub fn set_all_learn_of_failures(&mut self) {
        self.all_learn_of_failures = true;
    }

    /// Returns true if every process of the job learns of failed peers by itself.
    pub fn all_learn_of_failures(&self) -> bool {
        self.all_learn_of_failures
    }

    /// Fails the posted receives that no live peer can satisfy: `gone` gets context and source
    /// (`None`: any) of each, and returns the failure it waits for. True if there were any.
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
    /// Records a failure, once, and fails what waits for the peer.
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
        self.has_incidents = true;
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

    /// Fails a receive whose message was cut: the peer has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail_cut(&mut self, id: RequestId, peer: Peer) {
        self.requests.fail(id, Fault::PeerFailed(PeerFailed::cut(peer)));
    }

    fn fail_request(&mut self, id: RequestId, lost: &PeerFailed) {
        let request = self.requests.held(id);
        match request.state {
            // The device may still write; it reports the end of the transfer.
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
