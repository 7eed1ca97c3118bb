//! The records that matter when this process accesses one rank's memory, or takes its lock.

use crate::control::{Control, Fences, Use};

/// The records of this rank, of the target, and of the first rank of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records {
    pub(crate) own: Control,
    pub(crate) target: Control,
    pub(crate) first: Control,
    pub(crate) fences: Fences,
}

/// How a lock was taken that was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenBy {
    /// A ticket of the target's lock.
    Ticket,
    /// An announcement in the own record.
    Announcement,
}

/// What became of an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It was free.
    Taken(TakenBy),
    /// Another rank holds it or waits for it, or writers must not take it at once yet.
    Refused,
    /// As refused, but a writer may have seen an announcement: it has to be woken.
    Withdrawn,
}

impl Records {
    /// Takes the lock of the target, if that needs no waiting. This rank has no other.
    #[inline(always)]
    pub(crate) fn take(&self, exclusive: bool) -> Attempt {
        if exclusive && !self.first.readers_have_left() {
            return Attempt::Refused;
        }
        if !exclusive && !self.first.is_used_for(Use::Writers) {
            return self.announce_reader(self.target.rank());
        }
        match self.target.begin_free(exclusive, self.own.rank()) {
            true => Attempt::Taken(TakenBy::Ticket),
            false => Attempt::Refused,
        }
    }

    /// Takes the shared lock of a target, or those of [`ALL`](crate::control::ALL), in a window
    /// that had no writers a moment ago.
    #[inline(always)]
    pub(crate) fn announce_reader(&self, target: u32) -> Attempt {
        match self.own.announce_reader(target, &self.first, self.fences) {
            true => Attempt::Taken(TakenBy::Announcement),
            false => Attempt::Withdrawn,
        }
    }

    /// Returns the lock of the target; true if ranks that wait for it have to be woken.
    #[inline(always)]
    pub(crate) fn give_back(&self, exclusive: bool, taken_by: TakenBy) -> bool {
        match taken_by {
            TakenBy::Ticket => self.target.end(exclusive, self.fences),
            TakenBy::Announcement => self.own.end_reader(&self.first, self.fences),
        }
    }

    /// Announces an access to the target's memory by processor atomics; false while a long one
    /// runs.
    #[inline(always)]
    pub(crate) fn announce(&self) -> bool {
        self.own.announce(&self.target, &self.first, self.fences)
    }
}
