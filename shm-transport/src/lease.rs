//! What a member keeps of an arena of either kind: which meetings it has entered and left, and that it is to give the
//! arena back. The states of leases stand in `arena`.

use crate::sync::{AtomicU64, Ordering};

/// A member's, from the agreement that its communicator has the arena to its last use by that member.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Leases of this arena that were given back.
    returned: &'static AtomicU64,
    /// Meetings that this member has entered, and left. Relaxed, and not counted in one go: one thread at a time.
    entered: AtomicU64,
    left: AtomicU64,
}

impl Lease {
    /// One of those that `returned` will count.
    pub(crate) fn new(returned: &'static AtomicU64) -> Lease {
        Lease { returned, entered: AtomicU64::new(0), left: AtomicU64::new(0) }
    }

    /// The number of the next meeting.
    #[inline]
    pub(crate) fn next_round(&self) -> u64 {
        let meeting = self.entered.load(Ordering::Relaxed);
        self.entered.store(meeting + 1, Ordering::Relaxed);
        meeting
    }

    /// True when this member has left all meetings before.
    #[inline]
    pub(crate) fn is_next(&self, meeting: u64) -> bool {
        self.left.load(Ordering::Relaxed) == meeting
    }

    #[inline]
    pub(crate) fn leave(&self, meeting: u64) {
        self.left.store(meeting + 1, Ordering::Relaxed);
    }
}

/// It touches nothing in the arena any more.
impl Drop for Lease {
    fn drop(&mut self) {
        // Release: the owner finds all that this member has done.
        self.returned.fetch_add(1, Ordering::Release);
    }
}

/// By the owner: true when so many, all that there were, have been given back.
pub(crate) fn are_back(returned: &AtomicU64, leases: u64) -> bool {
    // Acquire: whoever had it is done with it.
    returned.load(Ordering::Acquire) == leases
}
