//! A member's lease of a collective segment: which rounds the member has begun and left. The states
//! of leases stand in the parent module.

use crate::sync::{AtomicU64, Ordering};

/// One member's lease; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Leases of this segment that were given back.
    returned: &'static AtomicU64,
    /// Rounds that this member has begun. Only one thread at a time changes it.
    begun: AtomicU64,
    /// Rounds that this member has left. Only one thread at a time changes it.
    left: AtomicU64,
    /// One past the last round of which this member has reported a mismatch.
    reported: AtomicU64,
}

impl Lease {
    /// A lease that `returned` counts when it is given back.
    pub(crate) fn new(returned: &'static AtomicU64) -> Lease {
        let zero = || AtomicU64::new(0);
        Lease { returned, begun: zero(), left: zero(), reported: zero() }
    }

    /// Begins a round; its number.
    #[inline]
    pub(crate) fn next_round(&self) -> u64 {
        // Relaxed, and no read-modify-write: one thread at a time.
        let round = self.begun.load(Ordering::Relaxed);
        self.begun.store(round + 1, Ordering::Relaxed);
        round
    }

    /// Rounds that this member has begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Records that this member has reported what it found in a round.
    pub(crate) fn mark_reported(&self, round: u64) {
        self.reported.store(round + 1, Ordering::Relaxed);
    }

    /// True if this member has reported what it found in a round.
    pub(crate) fn is_reported(&self, round: u64) -> bool {
        self.reported.load(Ordering::Relaxed) == round + 1
    }

    /// True when this member has left all rounds before.
    #[inline]
    pub(crate) fn is_next(&self, round: u64) -> bool {
        self.left.load(Ordering::Relaxed) == round
    }

    /// Leaves a round.
    #[inline]
    pub(crate) fn leave(&self, round: u64) {
        self.left.store(round + 1, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Release: the owner sees all that this member did in the segment.
        self.returned.fetch_add(1, Ordering::Release);
    }
}

/// True when `leases` leases, all that there were, were given back. Called by the owner.
pub(crate) fn are_back(returned: &AtomicU64, leases: u64) -> bool {
    // Acquire: the members' last accesses come before the owner's next ones.
    returned.load(Ordering::Acquire) == leases
}
