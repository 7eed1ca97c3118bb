//! Credits: how much eager data a peer may have unmatched here.
//!
//! The sender pays when it posts an eager message, the receiver owes the same
//! once the message needs no unexpected memory, and pays back in lots of half
//! the budget.

use fabric::{Header, Kind, Peer};

use crate::engine::Engine;

/// What keeping a message costs beside its data, bytes.
const OVERHEAD: u64 = 128;

/// What an eager message of that many bytes takes from the budget.
#[inline]
pub(crate) fn cost(bytes: u64) -> u64 {
    bytes.saturating_add(OVERHEAD)
}

impl Engine {
    /// An eager message of that many bytes from `from` needs no memory any more.
    #[inline]
    pub(crate) fn owe(&mut self, from: Peer, bytes: u64) {
        self.owe_for(from, bytes, 0);
    }

    /// An eager message has come from `from` and was stored where it belongs.
    #[inline]
    pub(crate) fn count_stored(&mut self, from: Peer, bytes: u64) {
        self.owe_for(from, bytes, 1);
    }

    /// Both in one look at the peer.
    #[inline(always)]
    fn owe_for(&mut self, from: Peer, bytes: u64, arrivals: u64) {
        let half = self.peers.budget() / 2;
        let peer = self.peers.of(from);
        peer.arrived += arrivals;
        peer.owed += cost(bytes);
        if peer.owed >= half {
            self.pay(from);
        }
    }

    #[cold]
    fn pay(&mut self, to: Peer) {
        let owed = std::mem::take(&mut self.peers.of(to).owed);
        if to == self.me {
            self.peers.of(to).credit += owed;
        } else {
            self.reply(to, Header { length: owed, ..Header::new(Kind::Credit) });
        }
    }

    /// A `Credit` frame. Nobody can give more than the budget.
    pub(crate) fn credit_arrived(&mut self, from: Peer, header: &Header) {
        let budget = self.peers.budget();
        let peer = self.peers.of(from);
        if peer.failure.is_none() {
            peer.credit = peer.credit.saturating_add(header.length).min(budget);
        }
    }
}
