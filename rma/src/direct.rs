//! Calls that end at once: contiguous accesses to memory that this process maps, single words that
//! processors change atomically, and locks in shared memory that are free.
//!
//! Each function here does a call as a whole or changes nothing; then the general path does it, or
//! finds its error. Nothing here allocates, hashes or posts. [`Epochs::reach`] tells by one
//! comparison whether an epoch allows an access. One call in [`PROGRESS_EVERY`] is refused, so that
//! a program that only polls a window still makes progress for others.
//!
//! [`Epochs::reach`]: crate::epoch::Epochs::reach

use fabric::UserBuf;
use objects::op::PackedOp;

use crate::combine::{Operands, combine};
use crate::control::Control;
use crate::engine::Engine;
use crate::epoch::Hold;
use crate::recent::{Recent, part_of};
use crate::window::{LockBy, Remote, Window};

/// Calls that synchronise at once between two that make progress.
const PROGRESS_EVERY: u32 = 256;

/// How a free lock was returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlocked {
    /// The general path has to return it.
    Refused,
    /// No rank waits for it.
    Quietly,
    /// Ranks that wait for it have to be woken.
    WithWaiters,
}

impl Engine {
    /// Returns the window of a slot ([`Engine::open`]).
    #[inline(always)]
    pub fn at(&self, slot: u32) -> Option<&Window> {
        self.windows.at(slot)
    }

    /// Returns the target that was accessed last.
    #[inline(always)]
    pub fn recent(&self) -> &Recent {
        self.windows.recent()
    }

    /// Makes a target of the window in a slot, whose handle is no other window's, the one that was
    /// accessed last. False if operations at once are not possible.
    #[inline(never)]
    pub fn remember(&mut self, slot: u32, handle: usize, target: u32) -> bool {
        let begins = |window: &Window| window.epochs.begins_fence() && window.is_direct_at(target);
        if self.windows.at(slot).is_some_and(begins) {
            // The epoch of a fence begins with its first access.
            let _ = self.windows.at_mut(slot).map(|window| window.epochs.access(target));
        }
        let window = self.windows.at(slot);
        match window.and_then(|window| Recent::of(window, handle, target)) {
            Some(recent) => {
                self.windows.remember(recent);
                true
            }
            None => false,
        }
    }

    /// Completes all operations at the target that was accessed last, if it is this one and there
    /// is nothing to wait for.
    #[inline(always)]
    pub fn flush_recent(&mut self, handle: usize, target: u32) -> bool {
        // As in `flush_now`.
        std::sync::atomic::fence(std::sync::atomic::Ordering::AcqRel);
        self.windows.recent().is_complete(handle, target) && !self.is_progress_due()
    }

    /// Completes all operations at a target, if there is nothing to wait for.
    #[inline(always)]
    pub fn flush_now(&mut self, slot: u32, target: u32) -> bool {
        let is_done = self.windows.at(slot).is_some_and(|window| window.is_complete_at(target));
        // What was copied is in place before what this process does next.
        std::sync::atomic::fence(std::sync::atomic::Ordering::AcqRel);
        is_done && !self.is_progress_due()
    }

    /// Takes the lock of a target, if it is free and in shared memory and no other epoch is open.
    #[inline(always)]
    pub fn lock_now(&mut self, slot: u32, target: u32, exclusive: bool) -> bool {
        if self.is_progress_due() {
            return false;
        }
        let Some(window) = self.windows.at_mut(slot) else { return false };
        if window.lock_by != LockBy::Memory || !window.has_locks || !window.epochs.is_idle() {
            return false;
        }
        let control = window.remotes.get(target as usize).and_then(|remote| remote.control);
        let Some(control) = control else { return false };
        if !control.begin_free(exclusive, window.rank) {
            return false;
        }
        window.epochs.lock_first(target, Hold { exclusive, nocheck: false, is_quick: true });
        true
    }

    /// Returns a lock that [`Engine::lock_now`] took, if there is nothing to wait for.
    #[inline(always)]
    pub fn unlock_now(&mut self, slot: u32, target: u32) -> Unlocked {
        let Some(window) = self.windows.at_mut(slot) else { return Unlocked::Refused };
        let Some(hold) = window.epochs.only(target) else { return Unlocked::Refused };
        if window.has_frames || !hold.is_quick {
            return Unlocked::Refused;
        }
        let Some(control) = window.remotes[target as usize].control else {
            return Unlocked::Refused;
        };
        window.epochs.unlock_only();
        match control.end(hold.exclusive) {
            true => {
                let id = window.id;
                self.wake_all(id);
                Unlocked::WithWaiters
            }
            false => Unlocked::Quietly,
        }
    }

    /// Completes all operations at all targets, if there is nothing to wait for.
    #[inline(always)]
    pub fn flush_all_now(&mut self, slot: u32) -> bool {
        let is_done = |window: &Window| !window.has_frames && window.epochs.reach().flushes_all();
        let is_done = self.windows.at(slot).is_some_and(is_done);
        // As in `flush_now`.
        std::sync::atomic::fence(std::sync::atomic::Ordering::AcqRel);
        is_done && !self.is_progress_due()
    }

    /// Returns true if a fence is right and has nothing to complete. `is_first`: no operation of
    /// this rank precedes it.
    #[inline]
    pub fn may_fence_now(&self, slot: u32, is_first: bool) -> bool {
        let may = |window: &Window| {
            (is_first || !window.has_frames) && window.epochs.check_fence().is_ok()
        };
        self.windows.at(slot).is_some_and(may)
    }

    /// Ends a fence epoch like [`Engine::fence`].
    #[inline]
    pub fn end_fence(&mut self, slot: u32, is_last: bool) {
        if let Some(window) = self.windows.at_mut(slot) {
            window.end_fence(is_last);
        }
    }

    /// Takes the shared locks of all targets, if they are free and in shared memory and no other
    /// epoch is open. Whatever this returns, waiters may have to be woken.
    pub fn lock_all_now(&mut self, slot: u32) -> bool {
        if self.is_progress_due() {
            return false;
        }
        let Some(window) = self.windows.at_mut(slot) else { return false };
        if window.lock_by != LockBy::Memory || !window.has_locks || !window.epochs.is_idle() {
            return false;
        }
        let rank = window.rank;
        let take = |control: Control| control.begin_free(false, rank);
        let is_taken = |remote: &&Remote| remote.control.is_some_and(take);
        let taken = window.remotes.iter().take_while(is_taken).count();
        let hold = Hold { exclusive: false, nocheck: false, is_quick: true };
        if taken == window.remotes.len() && window.epochs.lock_all(hold).is_ok() {
            return true;
        }
        self.end_shared(slot, taken);
        false
    }

    /// Returns the locks that [`Engine::lock_all_now`] took, if there is nothing to wait for.
    pub fn unlock_all_now(&mut self, slot: u32) -> Unlocked {
        let Some(window) = self.windows.at_mut(slot) else { return Unlocked::Refused };
        if window.has_frames || !window.epochs.is_quick_all() {
            return Unlocked::Refused;
        }
        window.epochs.unlock_all();
        let all = window.remotes.len();
        match self.end_shared(slot, all) {
            true => Unlocked::WithWaiters,
            false => Unlocked::Quietly,
        }
    }

    /// Returns the shared locks of the first targets; true if waiters have to be woken.
    fn end_shared(&mut self, slot: u32, targets: usize) -> bool {
        let Some(window) = self.windows.at(slot) else { return false };
        let controls = window.remotes[..targets].iter().filter_map(|remote| remote.control);
        let has_waiters = controls.fold(false, |others, control| control.end(false) | others);
        if has_waiters {
            let id = window.id;
            self.wake_all(id);
        }
        has_waiters
    }

    /// Counts a call that synchronises at once; returns true if it has to make progress.
    #[inline(always)]
    pub fn is_progress_due(&mut self) -> bool {
        self.quick_calls = self.quick_calls.wrapping_add(1);
        self.quick_calls.is_multiple_of(PROGRESS_EVERY)
    }
}

impl Window {
    /// Returns `len` bytes of a target at `disp` of its units, if this process maps them and an
    /// epoch allows to access them.
    #[inline(always)]
    fn reach(&self, target: u32, disp: i64, len: usize) -> Option<UserBuf> {
        let remote = self.remotes.get(target as usize)?;
        let part = part_of(remote.direct?, remote.unit as usize, disp, len)?;
        self.epochs.reach().accesses(target).then_some(part)
    }

    /// Returns whether this process maps the memory of a rank, if there is such a rank.
    fn is_direct_at(&self, rank: u32) -> bool {
        self.remotes.get(rank as usize).is_some_and(|remote| remote.direct.is_some())
    }

    /// Returns true if a flush of the target is right and has nothing to wait for.
    #[inline(always)]
    fn is_complete_at(&self, target: u32) -> bool {
        let is_rank = (target as usize) < self.remotes.len();
        is_rank && !self.has_frames && self.epochs.reach().flushes(target)
    }

    /// Combines adjacent elements with those that [`Window::reach`] finds; `old` gets what they
    /// were. False if another path has to.
    pub fn combine_now(
        &self,
        (target, disp): (u32, i64),
        op: PackedOp,
        operands: UserBuf,
        len: usize,
        old: Option<UserBuf>,
    ) -> bool {
        let Some(at) = self.reach(target, disp, len) else { return false };
        if self.leaves_words() || !len.is_multiple_of(op.size()) {
            return false;
        }
        let (by, operands) = (self.executor(target), Operands::Memory(operands));
        match old {
            Some(old) => {
                let mut write = |begin: usize, found: &[u8]| old.write(begin, found);
                combine(by, op, at, operands, Some(&mut write));
            }
            None => combine(by, op, at, operands, None),
        }
        true
    }
}
