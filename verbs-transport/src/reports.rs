//! Events that the next poll must report to the protocol above.

use fabric::{PeerFailed, Sink};

/// Outcomes of RMA operations, and failed peers.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) transfers: Vec<(u64, Result<(), PeerFailed>)>,
    pub(crate) failures: Vec<PeerFailed>,
}

impl Reports {
    /// Returns whether there is nothing to report.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.failures.is_empty()
    }

    /// Records that operations of the same peer have failed for the same reason.
    pub(crate) fn fail_all(&mut self, tokens: impl IntoIterator<Item = u64>, why: &PeerFailed) {
        self.transfers.extend(tokens.into_iter().map(|token| (token, Err(why.clone()))));
    }

    /// Reports everything to the sink.
    #[cold]
    pub(crate) fn deliver(&mut self, sink: &mut impl Sink) {
        for (token, outcome) in self.transfers.drain(..) {
            sink.transferred(token, outcome);
        }
        for failure in self.failures.drain(..) {
            sink.peer_failed(failure);
        }
    }
}
