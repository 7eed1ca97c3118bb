//! Keeps accumulates of many bytes apart from all others in one rank's memory.
//!
//! A long accumulate holds the target's spin lock ([`Control::hold`]) and runs plain vector code.
//! A short one is a processor atomic and holds no lock: its rank announces the target in its own
//! record, then looks at the spin lock. The long one takes the lock, then looks at all
//! announcements. Each side writes before it reads, in one total order; therefore at least one of
//! them sees the other. The short one withdraws while the lock is taken; the long one waits until
//! no rank has announced its target. An announcement lasts for a few instructions.
//!
//! Before the first long one in a window ([`Use`]), an announcement is a store without a fence, and
//! what is looked at is whether there was one. The first long one says so, and then has a barrier
//! run on all processors: from there on announcements are as above.
//!
//! A rank may die with the lock, or while it announces an access. A rank that waits for it finds
//! that its process has ended, and goes on. What the dead one was doing is then done in part.

use crate::control::{Control, Use};
use crate::records::Records;

/// The records that matter to accesses of one rank's memory by this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    records: Records,
    /// Those of all ranks of the host.
    all: &'a [Control],
}

impl<'a> Guard<'a> {
    /// Returns the guard of the memory of the target's rank.
    pub(crate) fn new(records: Records, all: &'a [Control]) -> Guard<'a> {
        Guard { records, all }
    }

    /// Runs `work`, a few processor atomics, while no rank runs anything in [`Guard::alone`].
    #[inline(always)]
    pub(crate) fn beside_others<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.records.announce() {
            self.announce_later();
        }
        let result = work();
        self.records.own.withdraw();
        result
    }

    #[cold]
    #[inline(never)]
    fn announce_later(&self) {
        let target = &self.records.target;
        self.poll_until(|| target.held_by().is_none() && self.records.announce());
    }

    /// Runs `work` while no other rank runs anything under the guard of this rank's memory.
    pub(crate) fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let Records { own, target, first, fences } = &self.records;
        first.begin_use(Use::LongAccumulates, *fences);
        self.poll_until(|| target.hold(own.rank()));
        for record in self.all {
            self.poll_until(|| !record.accesses(target.rank()));
        }
        let result = work();
        target.release();
        result
    }

    /// Polls a condition that another process makes true within a few instructions, if it runs.
    fn poll_until(&self, mut is_true: impl FnMut() -> bool) {
        let mut polls = 0_u32;
        while !is_true() {
            polls += 1;
            if polls.is_multiple_of(64) {
                self.release_for_dead();
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Releases the spin lock if the process that has it has ended.
    fn release_for_dead(&self) {
        let target = &self.records.target;
        let Some(holder) = target.held_by() else { return };
        let is_dead = |record: &Control| record.rank() == holder && record.has_ended();
        if self.all.iter().any(is_dead) {
            target.release_for(holder);
        }
    }
}

#[cfg(test)]
mod tests;
