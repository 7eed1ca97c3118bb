//! Events that the next poll of a transport between hosts must report to the protocol above.

use crate::transport::{PeerFailed, Sink};

/// Outcomes of one-sided operations, and failed peers.
#[derive(Debug, Default)]
pub struct Reports {
    /// Outcomes of one-sided operations, by token.
    pub transfers: Vec<(u64, Result<(), PeerFailed>)>,
    /// Peers that can no longer be reached.
    pub failures: Vec<PeerFailed>,
}

impl Reports {
    /// Returns whether there is nothing to report.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.failures.is_empty()
    }

    /// Records that operations of the same peer have failed for the same reason.
    pub fn fail_all(&mut self, tokens: impl IntoIterator<Item = u64>, why: &PeerFailed) {
        self.transfers.extend(tokens.into_iter().map(|token| (token, Err(why.clone()))));
    }

    /// Reports everything to the sink.
    #[cold]
    pub fn deliver(&mut self, sink: &mut impl Sink) {
        for (token, outcome) in self.transfers.drain(..) {
            sink.transferred(token, outcome);
        }
        for failure in self.failures.drain(..) {
            sink.peer_failed(failure);
        }
    }
}
