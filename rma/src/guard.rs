//! Keeps accumulates of many bytes apart from all others in one rank's memory.
//!
//! A long accumulate holds the target's spin lock ([`Control::hold`]) and runs plain vector code.
//! A short one is a processor atomic and holds no lock: its rank announces the target in its own
//! record, then looks at the spin lock. The long one takes the lock, then looks at all
//! announcements. Each side writes before it reads, in one total order; therefore at least one of
//! them sees the other. The short one withdraws while the lock is taken; the long one waits until
//! no rank has announced its target. An announcement lasts for a few instructions.
//!
//! A rank may die with the lock, or while it announces an access. A rank that waits for it finds
//! that its process has ended, and goes on. What the dead one was doing is then done in part.

use crate::control::Control;

/// The records that matter to accesses of one rank's memory by this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    /// The record of this process.
    own: &'a Control,
    /// The record of the rank whose memory is accessed.
    target: &'a Control,
    /// Those of all ranks of the host.
    all: &'a [Control],
}

impl<'a> Guard<'a> {
    /// Returns the guard of the memory of the target's rank.
    pub(crate) fn new(own: &'a Control, target: &'a Control, all: &'a [Control]) -> Guard<'a> {
        Guard { own, target, all }
    }

    /// Runs `work`, a few processor atomics, while no rank runs anything in [`Guard::alone`].
    #[inline(always)]
    pub(crate) fn beside_others<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.own.announce(self.target) {
            self.announce_later();
        }
        let result = work();
        self.own.withdraw();
        result
    }

    #[cold]
    #[inline(never)]
    fn announce_later(&self) {
        self.poll_until(|| self.target.held_by().is_none() && self.own.announce(self.target));
    }

    /// Runs `work` while no other rank runs anything under the guard of this rank's memory.
    pub(crate) fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        self.poll_until(|| self.target.hold(self.own.rank()));
        for record in self.all {
            self.poll_until(|| !record.accesses(self.target.rank()));
        }
        let result = work();
        self.target.release();
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
        let Some(holder) = self.target.held_by() else { return };
        let is_dead = |record: &Control| record.rank() == holder && record.has_ended();
        if self.all.iter().any(is_dead) {
            self.target.release_for(holder);
        }
    }
}

#[cfg(test)]
mod tests;
