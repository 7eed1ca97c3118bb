//! Keeps accumulates of many bytes apart from all others in one rank's memory.
//!
//! A long accumulate holds the target's spin lock ([`Control::alone`]) and runs plain vector code.
//! A short one is a processor atomic and holds no lock: its rank announces the target in its own
//! record, then looks at the spin lock. The long one takes the lock, then looks at all
//! announcements. Each side writes before it reads, in one total order; therefore at least one of
//! them sees the other. The short one withdraws while the lock is taken; the long one waits until
//! no rank has announced its target. An announcement lasts for a few instructions.

use crate::control::Control;

/// The records that matter to accesses of one rank's memory by this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    /// The record of this process.
    own: &'a Control,
    /// The target's record, and its rank.
    target: &'a Control,
    rank: u32,
    /// Those of all ranks of the host.
    all: &'a [Control],
}

impl<'a> Guard<'a> {
    /// Returns the guard of the memory of a rank, whose record comes before its number.
    pub(crate) fn new(
        own: &'a Control,
        (target, rank): (&'a Control, u32),
        all: &'a [Control],
    ) -> Guard<'a> {
        Guard { own, target, rank, all }
    }

    /// Runs `work`, a few processor atomics, while no rank runs anything in [`Guard::alone`].
    #[inline(always)]
    pub(crate) fn beside_others<R>(&self, work: impl FnOnce() -> R) -> R {
        self.own.announced(self.target, self.rank, work)
    }

    /// Runs `work` while no other rank runs anything under the guard of this rank's memory.
    pub(crate) fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        self.target.alone(|| {
            for record in self.all {
                record.wait_until_withdrawn(self.rank);
            }
            work()
        })
    }
}

#[cfg(test)]
mod tests;
