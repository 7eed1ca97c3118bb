//! Credits: how much eager data a peer may have unmatched here.
//!
//! A sender spends credit when it posts an eager message. The receiver owes the same credit once
//! the message needs no unexpected memory, and returns it in batches of half the budget.

use fabric::{Header, Kind, Peer};

use crate::engine::Engine;

/// Memory of an unexpected message besides its data, bytes.
const FRAME_OVERHEAD: u64 = 128;

/// Returns the credit that an eager message of that many bytes needs.
#[inline]
pub(crate) fn cost(bytes: u64) -> u64 {
    bytes.saturating_add(FRAME_OVERHEAD)
}

/// Returns whether the sender of an envelope has spent credit for it.
#[inline]
pub(crate) fn is_credited(header: &Header) -> bool {
    header.kind != Kind::Rts || header.flags & Header::CREDITED != 0
}

impl Engine {
    /// Owes the credit of an eager message whose memory is free.
    #[inline]
    pub(crate) fn owe(&mut self, from: Peer, bytes: u64) {
        self.owe_for(from, bytes, 0);
    }

    /// Owes the credit of a message that its sender may have spent credit for.
    #[inline]
    pub(crate) fn owe_if(&mut self, is_credited: bool, from: Peer, bytes: u64) {
        if is_credited {
            self.owe(from, bytes);
        }
    }

    /// Counts an eager message that was stored in its receive, and owes its credit.
    #[inline]
    pub(crate) fn count_stored(&mut self, from: Peer, bytes: u64) {
        self.owe_for(from, bytes, 1);
    }

    /// Does both with one look-up of the peer.
    #[inline(always)]
    fn owe_for(&mut self, from: Peer, bytes: u64, arrivals: u64) {
        let half = self.peers.budget() / 2;
        let peer = self.peers.of(from);
        peer.arrived += arrivals;
        peer.owed = peer.owed.saturating_add(cost(bytes));
        if peer.owed >= half {
            self.return_credit(from);
        }
    }

    #[cold]
    fn return_credit(&mut self, to: Peer) {
        let owed = std::mem::take(&mut self.peers.of(to).owed);
        if to == self.me {
            self.peers.of(to).credit += owed;
        } else {
            self.reply(to, Header { length: owed, ..Header::new(Kind::Credit) });
        }
    }

    /// Handles a `Credit` frame; the credit never exceeds the budget.
    pub(crate) fn credit_arrived(&mut self, from: Peer, header: &Header) {
        let budget = self.peers.budget();
        let peer = self.peers.of(from);
        if peer.failure.is_none() {
            peer.credit = peer.credit.saturating_add(header.length).min(budget);
        }
    }
}
