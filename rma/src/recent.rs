//! The target that this process accessed last at once, or whose lock it took last: the next call
//! finds it by two comparisons. Likewise the operation of the last accumulate.
//!
//! Invariant: it says what the window says. Whatever changes a window borrows it mutably from
//! `windows`, which forgets the target; but for a lock that is taken and returned at once, which
//! changes both.

use fabric::UserBuf;
use objects::op::{PackedOp, Primitive};

use crate::atomic;
use crate::combine::is_short;
use crate::epoch::Hold;
use crate::records::{Attempt, Records, TakenBy};
use crate::window::Window;

/// A target of a window.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    target: u32,
    slot: u32,
    allows: Allows,
    words: Words,
    /// The records of its lock, if that is one in memory.
    lock: Option<Records>,
    /// Mapped by this process, otherwise empty.
    memory: UserBuf,
    /// The displacement unit, bytes.
    unit: usize,
}

/// What calls may do at once. Each is what the caller knows the window by, or [`NO_WINDOW`].
#[derive(Clone, Copy, Debug)]
struct Allows {
    /// Accesses to the memory.
    access: usize,
    /// A flush, which has nothing to wait for.
    flush: usize,
    /// To take the lock, if it is free.
    lock: usize,
    /// To return the lock.
    unlock: usize,
}

/// The handle of no window.
const NO_WINDOW: usize = usize::MAX;

/// How words of the target's memory are changed.
#[derive(Clone, Copy, Debug)]
enum Words {
    /// By the general path.
    Elsewhere,
    /// By processor atomics.
    Freely,
    /// By processor atomics that are announced (`guard`).
    Announced(Records),
}

/// Returns `len` bytes at `disp` units of a rank's memory, if they are inside of it.
#[inline(always)]
pub(crate) fn part_of(memory: UserBuf, unit: usize, disp: i64, len: usize) -> Option<UserBuf> {
    let begin = usize::try_from(disp).ok()?.checked_mul(unit)?;
    let is_inside = begin <= memory.len() && len <= memory.len() - begin;
    is_inside.then(|| memory.slice(begin, len))
}

impl Allows {
    const NOTHING: Allows =
        Allows { access: NO_WINDOW, flush: NO_WINDOW, lock: NO_WINDOW, unlock: NO_WINDOW };
}

impl Recent {
    /// No target.
    pub(crate) const NONE: Recent = Recent {
        target: 0,
        slot: u32::MAX,
        allows: Allows::NOTHING,
        words: Words::Elsewhere,
        lock: None,
        memory: UserBuf::EMPTY,
        unit: 0,
    };

    /// Returns what the window in a slot says of a target; `None` if there is no such rank.
    pub(crate) fn of(window: &Window, slot: u32, handle: usize, target: u32) -> Option<Recent> {
        let remote = window.remotes.get(target as usize)?;
        let words = match (window.leaves_words(), window.records_of_words(target)) {
            (true, _) => Words::Elsewhere,
            (false, Some(records)) => Words::Announced(records),
            (false, None) => Words::Freely,
        };
        let lock = window.records_of_lock(target);
        let memory = remote.direct.unwrap_or(UserBuf::EMPTY);
        let (reach, hold) = (window.epochs.reach(), window.epochs.only(target));
        let if_so = |is_allowed: bool| if is_allowed { handle } else { NO_WINDOW };
        let allows = Allows {
            access: if_so(reach.accesses(target) && remote.direct.is_some()),
            flush: if_so(reach.flushes(target) && !window.has_frames),
            lock: if_so(window.epochs.is_idle() && lock.is_some()),
            unlock: if_so(hold.is_some_and(|hold| hold.taken.is_some()) && !window.has_frames),
        };
        let unit = usize::try_from(remote.unit).ok()?;
        Some(Recent { target, slot, allows, words, lock, memory, unit })
    }

    /// Forgets the target.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.allows = Allows::NOTHING;
    }

    /// Returns the slot of the window.
    #[inline(always)]
    pub(crate) fn slot(&self) -> usize {
        self.slot as usize
    }

    /// Returns whether it is that target, and may be accessed.
    #[inline(always)]
    pub fn is(&self, handle: usize, target: u32) -> bool {
        self.allows.access == handle && self.target == target
    }

    /// Returns whether it is that target, and a flush has nothing to wait for.
    #[inline(always)]
    pub(crate) fn is_complete(&self, handle: usize, target: u32) -> bool {
        self.allows.flush == handle && self.target == target
    }

    /// Returns whether it is that target, and its lock may be taken.
    #[inline(always)]
    pub(crate) fn is_lockable(&self, handle: usize, target: u32) -> bool {
        self.allows.lock == handle && self.target == target
    }

    /// Returns whether it is that target, and its lock may be returned.
    #[inline(always)]
    pub(crate) fn is_locked(&self, handle: usize, target: u32) -> bool {
        self.allows.unlock == handle && self.target == target
    }

    /// Takes the lock of the target, if it is free: an epoch of its window. It must be lockable.
    #[inline(always)]
    pub(crate) fn lock(&mut self, window: &mut Window, exclusive: bool) -> Attempt {
        let Some(records) = &self.lock else { return Attempt::Refused };
        let attempt = records.take(exclusive);
        let Attempt::Taken(taken_by) = attempt else { return attempt };
        window.epochs.lock_at_once(self.target, Hold::at_once(exclusive, taken_by));
        let handle = self.allows.lock;
        let unless = |is_not: bool| if is_not { NO_WINDOW } else { handle };
        let done = unless(window.has_frames);
        let access = unless(self.memory.is_empty());
        self.allows = Allows { access, flush: done, lock: NO_WINDOW, unlock: done };
        attempt
    }

    /// Returns the lock of the target, which must be locked; true if ranks that wait for it have to
    /// be woken.
    #[inline(always)]
    pub(crate) fn unlock(&mut self, window: &mut Window) -> bool {
        let (Some(records), Some(hold)) = (&self.lock, window.epochs.only(self.target)) else {
            return false;
        };
        let taken_by = hold.taken.unwrap_or(TakenBy::Ticket);
        window.epochs.unlock_only();
        self.allows = Allows { lock: self.allows.unlock, ..Allows::NOTHING };
        records.give_back(hold.exclusive, taken_by)
    }

    /// Returns `len` bytes at `disp` units of the target's memory.
    #[inline(always)]
    pub fn reach(&self, disp: i64, len: usize) -> Option<UserBuf> {
        part_of(self.memory, self.unit, disp, len)
    }

    /// Changes a word of 1, 2, 4 or 8 bytes; `old` gets what it was. False if another path has to.
    #[inline(always)]
    pub fn change(
        &self,
        disp: i64,
        primitive: Primitive,
        operand: UserBuf,
        len: usize,
        old: Option<UserBuf>,
    ) -> bool {
        let Some(at) = self.reach(disp, len) else { return false };
        let Some(announced) = self.words.begin() else { return false };
        let is_done = atomic::change(at, primitive, operand, old);
        announced.end();
        is_done
    }

    /// Changes as many words of `size` bytes as there are operands, like [`Recent::change`].
    pub fn change_all(
        &self,
        disp: i64,
        primitive: Primitive,
        operands: UserBuf,
        size: usize,
    ) -> bool {
        let len = operands.len();
        if !is_short(len, size) {
            return false;
        }
        let Some(at) = self.reach(disp, len) else { return false };
        if !len.is_multiple_of(size) || !atomic::is_atomic(at, size) {
            return false;
        }
        let Some(announced) = self.words.begin() else { return false };
        let change = |begin: usize| {
            let (at, operand) = (at.slice(begin, size), operands.slice(begin, size));
            atomic::change(at, primitive, operand, None)
        };
        let is_done = (0..len).step_by(size).all(change);
        announced.end();
        is_done
    }

    /// Replaces a word of 1, 2, 4 or 8 bytes by `new` if it is `expected`, like [`Recent::change`].
    #[inline(always)]
    pub fn swap(&self, disp: i64, (expected, new): (UserBuf, UserBuf), old: UserBuf) -> bool {
        let Some(at) = self.reach(disp, old.len()) else { return false };
        let Some(announced) = self.words.begin() else { return false };
        let is_done = atomic::change_equal(at, expected, new, old);
        announced.end();
        is_done
    }
}

/// The operation of the last accumulate of several elements. To make it takes as long as to
/// combine a hundred bytes.
#[derive(Clone, Copy)]
pub(crate) struct RecentOp {
    /// The handles of the operation and of the datatype.
    handles: (usize, usize),
    op: Option<PackedOp>,
}

impl RecentOp {
    /// No operation: null is no handle of a predefined one.
    pub(crate) const NONE: RecentOp = RecentOp { handles: (0, 0), op: None };

    /// Returns [`PackedOp::of_handles`].
    #[inline]
    pub(crate) fn of(&mut self, op: usize, datatype: usize) -> Option<PackedOp> {
        if self.handles != (op, datatype) {
            let handles = (op, datatype);
            *self = RecentOp { handles, op: PackedOp::of_handles(op, datatype) };
        }
        self.op
    }
}

/// An announcement, where one is needed, of processor atomics.
#[derive(Clone, Copy)]
struct Announced<'a>(Option<&'a Records>);

impl Words {
    /// Begins processor atomics; `None` if the general path has to do them, which waits for a long
    /// accumulate.
    #[inline(always)]
    fn begin(&self) -> Option<Announced<'_>> {
        match self {
            Words::Elsewhere => None,
            Words::Freely => Some(Announced(None)),
            Words::Announced(records) if !records.announce() => None,
            Words::Announced(records) => Some(Announced(Some(records))),
        }
    }
}

impl Announced<'_> {
    #[inline(always)]
    fn end(self) {
        if let Some(records) = self.0 {
            records.own.withdraw();
        }
    }
}
