//! Calls that end at once: contiguous accesses to memory that this process maps, single words that
//! processors change atomically, and locks in shared memory that are free.
//!
//! Each function here does a call as a whole or changes nothing; then the general path does it, or
//! finds its error. Nothing here allocates, hashes or posts; waiters are left to be woken.
//! [`Epochs::reach`] tells by one comparison whether an epoch allows an access. After
//! [`PROGRESS_EVERY`] calls they are refused until there was progress, so that a program that only
//! polls a window still makes some for others.
//!
//! [`Epochs::reach`]: crate::epoch::Epochs::reach

use std::sync::atomic::{Ordering, fence};

use fabric::UserBuf;
use objects::op::PackedOp;

use crate::combine::{Olds, Operands, combine};
use crate::control::{ALL, Control, Use};
use crate::engine::Engine;
use crate::epoch::Hold;
use crate::recent::{Recent, part_of};
use crate::records::{Attempt, Records, TakenBy};
use crate::window::{Remote, Window};

/// Most calls that synchronise at once between two that make progress.
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

    /// Returns the operation of a predefined one on a predefined datatype, by their handles.
    #[inline]
    pub fn packed_op(&mut self, op: usize, datatype: usize) -> Option<PackedOp> {
        self.recent_op.of(op, datatype)
    }

    /// Makes a target of the window in a slot, whose handle is no other window's, the one that was
    /// accessed last. `accesses`: the displacement and length, bytes, of what is about to be
    /// accessed, which may begin the epoch of a fence.
    #[inline(never)]
    pub fn remember(
        &mut self,
        slot: u32,
        handle: usize,
        target: u32,
        accesses: Option<(i64, usize)>,
    ) {
        let begins = |window: &Window| {
            window.epochs.begins_fence()
                && accesses.is_some_and(|(disp, len)| window.part_at(target, disp, len).is_some())
        };
        if self.windows.at(slot).is_some_and(begins)
            && let Some(window) = self.windows.at_mut(slot)
        {
            window.epochs.begin_access();
        }
        let window = self.windows.at(slot);
        let recent = window.and_then(|window| Recent::of(window, slot, handle, target));
        self.windows.remember(recent.unwrap_or(Recent::NONE));
    }

    /// Completes all operations at the target that was accessed last, if it is this one and there
    /// is nothing to wait for.
    #[inline(always)]
    pub fn flush_recent(&mut self, handle: usize, target: u32) -> bool {
        self.order_stores();
        self.windows.recent().is_complete(handle, target) && !self.is_progress_due()
    }

    /// Completes all operations at a target, if there is nothing to wait for.
    #[inline(always)]
    pub fn flush_now(&mut self, slot: u32, target: u32) -> bool {
        let is_done = self.windows.at(slot).is_some_and(|window| window.is_complete_at(target));
        self.order_stores();
        is_done && !self.is_progress_due()
    }

    /// Takes the lock of the target that was accessed last, if it is this one and free, and no
    /// other epoch is open. If not, waiters may have to be woken.
    #[inline(always)]
    pub fn lock_now(&mut self, handle: usize, target: u32, exclusive: bool) -> bool {
        if !self.windows.recent().is_lockable(handle, target) || self.is_progress_due() {
            return false;
        }
        let Some((recent, window)) = self.windows.recent_mut() else { return false };
        let attempt = recent.lock(window, exclusive);
        if attempt == Attempt::Withdrawn {
            self.left = Some(window.id);
        }
        matches!(attempt, Attempt::Taken(_))
    }

    /// Returns a lock that [`Engine::lock_now`] took, if there is nothing to wait for.
    #[inline(always)]
    pub fn unlock_now(&mut self, handle: usize, target: u32) -> Unlocked {
        if !self.windows.recent().is_locked(handle, target) {
            return Unlocked::Refused;
        }
        self.order_stores();
        let Some((recent, window)) = self.windows.recent_mut() else { return Unlocked::Refused };
        if recent.unlock(window) {
            self.left = Some(window.id);
            return Unlocked::WithWaiters;
        }
        Unlocked::Quietly
    }

    /// Completes all operations at all targets, if there is nothing to wait for.
    #[inline(always)]
    pub fn flush_all_now(&mut self, slot: u32) -> bool {
        let is_done = |window: &Window| !window.has_frames && window.epochs.reach().flushes_all();
        let is_done = self.windows.at(slot).is_some_and(is_done);
        self.order_stores();
        is_done && !self.is_progress_due()
    }

    /// Returns true if ranks of the window map memory of each other.
    #[inline]
    pub fn is_shared(&self, slot: u32) -> bool {
        self.windows.at(slot).is_some_and(Window::is_shared)
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
        let records = window.records_of_lock(window.rank).filter(|_| window.epochs.is_idle());
        let Some(records) = records else { return false };
        if !records.first.is_used_for(Use::Writers) {
            let attempt = records.announce_reader(ALL);
            let is_taken = matches!(attempt, Attempt::Taken(_));
            if is_taken {
                let _ = window.epochs.lock_all(Hold::at_once(false, TakenBy::Announcement));
            } else {
                let id = window.id;
                self.wake_all(id);
            }
            return is_taken;
        }
        let take = |control: Control| control.begin_free(false, records.own.rank());
        let is_taken = |remote: &&Remote| remote.control.is_some_and(take);
        let taken = window.remotes.iter().take_while(is_taken).count();
        let hold = Hold::at_once(false, TakenBy::Ticket);
        if taken == window.remotes.len() && window.epochs.lock_all(hold).is_ok() {
            return true;
        }
        self.end_shared(slot, taken);
        false
    }

    /// Returns the locks that [`Engine::lock_all_now`] took, if there is nothing to wait for.
    pub fn unlock_all_now(&mut self, slot: u32) -> Unlocked {
        self.order_stores();
        let Some(window) = self.windows.at_mut(slot) else { return Unlocked::Refused };
        let taken_by = match window.epochs.all_taken_by() {
            Some(taken_by) if !window.has_frames => taken_by,
            _ => return Unlocked::Refused,
        };
        window.epochs.unlock_all();
        let all = window.remotes.len();
        let has_waiters = match (taken_by, window.records_of(window.rank)) {
            (TakenBy::Announcement, Some(Records { own, first, fences, .. })) => {
                let (id, has_waiters) = (window.id, own.end_reader(&first, fences));
                if has_waiters {
                    self.wake_all(id);
                }
                has_waiters
            }
            _ => self.end_shared(slot, all),
        };
        if has_waiters { Unlocked::WithWaiters } else { Unlocked::Quietly }
    }

    /// Returns the shared locks of the first targets; true if waiters have to be woken.
    fn end_shared(&mut self, slot: u32, targets: usize) -> bool {
        let Some(window) = self.windows.at(slot) else { return false };
        let controls = window.remotes[..targets].iter().filter_map(|remote| remote.control);
        let end = |others, control: Control| control.end(false, window.fences) | others;
        let has_waiters = controls.fold(false, end);
        if has_waiters {
            let id = window.id;
            self.wake_all(id);
        }
        has_waiters
    }

    /// Records that this process has stored into memory of others.
    #[inline(always)]
    pub fn note_stores(&mut self) {
        *self.has_stores.get_mut() = true;
    }

    /// Orders what this process has stored before its later stores: a rank that sees those sees it.
    #[inline(always)]
    pub(crate) fn order_stores(&self) {
        fence(Ordering::AcqRel);
    }

    /// Orders what this process has stored before what it loads next, which a processor may do
    /// while its stores wait. Each access that returns data begins with this; a flush does not
    /// need it, since a program that loads by itself orders that by MPI_Win_sync (MPI-5.0,
    /// section 12.7).
    #[inline(always)]
    pub fn order_loads(&mut self) {
        if *self.has_stores.get_mut() {
            // A locked instruction is a full fence of x86-64, at half of the cost of MFENCE.
            self.has_stores.swap(false, Ordering::SeqCst);
            if !cfg!(target_arch = "x86_64") {
                fence(Ordering::SeqCst);
            }
        }
    }

    /// Counts a call that synchronises at once; returns true if it has to make progress instead.
    #[inline(always)]
    pub fn is_progress_due(&mut self) -> bool {
        let is_due = self.quick_calls >= PROGRESS_EVERY;
        self.quick_calls += u32::from(!is_due);
        is_due
    }

    /// Ends what [`Engine::is_progress_due`] has found.
    pub fn progress_made(&mut self) {
        self.quick_calls = 0;
    }
}

impl Window {
    /// Returns `len` bytes of a target at `disp` of its units, if this process maps them and an
    /// epoch allows to access them.
    #[inline(always)]
    fn reach(&self, target: u32, disp: i64, len: usize) -> Option<UserBuf> {
        self.part_at(target, disp, len).filter(|_| self.epochs.reach().accesses(target))
    }

    /// Returns `len` bytes of a target at `disp` of its units, if this process maps them.
    #[inline(always)]
    fn part_at(&self, target: u32, disp: i64, len: usize) -> Option<UserBuf> {
        let remote = self.remotes.get(target as usize)?;
        part_of(remote.direct?, remote.unit as usize, disp, len)
    }

    /// Returns true if a flush of the target is right and has nothing to wait for.
    #[inline(always)]
    fn is_complete_at(&self, target: u32) -> bool {
        let is_rank = (target as usize) < self.remotes.len();
        is_rank && !self.has_frames && self.epochs.reach().flushes(target)
    }

    /// Combines adjacent elements with those that [`Window::reach`] finds; `old` gets what they
    /// were, by processors. False if another path has to.
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
        let (operands, olds) = (Operands::Memory(operands), old.map(Olds::Memory));
        combine(self.executor(target), op, at, operands, olds).is_ok()
    }
}
