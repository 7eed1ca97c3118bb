//! The target that this process accessed last at once: the next access finds it by two comparisons.
//!
//! Invariant: it says what the window says. Whatever changes a window borrows it mutably from
//! `windows`, which forgets the target.

use fabric::UserBuf;
use objects::op::Primitive;

use crate::atomic;
use crate::combine::SHORT_MAX;
use crate::control::Control;
use crate::window::Window;

/// A target that this process maps, inside of an epoch that allows to access it.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// What the caller knows the window by; the largest number is no window's.
    handle: usize,
    target: u32,
    /// A flush of the target is right, and has nothing to wait for.
    is_complete: bool,
    words: Words,
    memory: UserBuf,
    /// The displacement unit, bytes.
    unit: usize,
}

/// How words of the target's memory are changed.
#[derive(Clone, Copy, Debug)]
enum Words {
    /// By the general path.
    Elsewhere,
    /// By processor atomics.
    Freely,
    /// By processor atomics, announced in the first record (`guard`); the second is the target's.
    Announced(Control, Control),
}

/// Returns `len` bytes at `disp` units of a rank's memory, if they are inside of it.
#[inline(always)]
pub(crate) fn part_of(memory: UserBuf, unit: usize, disp: i64, len: usize) -> Option<UserBuf> {
    let begin = usize::try_from(disp).ok()?.checked_mul(unit)?;
    let is_inside = begin <= memory.len() && len <= memory.len() - begin;
    is_inside.then(|| memory.slice(begin, len))
}

impl Recent {
    /// No target.
    pub(crate) const NONE: Recent = Recent {
        handle: usize::MAX,
        target: 0,
        is_complete: false,
        words: Words::Elsewhere,
        memory: UserBuf::EMPTY,
        unit: 0,
    };

    /// Returns what a window says of a target; `None` if operations at once are not possible.
    pub(crate) fn of(window: &Window, handle: usize, target: u32) -> Option<Recent> {
        let remote = window.remotes.get(target as usize)?;
        let (memory, unit) = (remote.direct?, usize::try_from(remote.unit).ok()?);
        let reach = window.epochs.reach();
        let words = match (window.leaves_words(), window.records_of(target)) {
            (true, _) => Words::Elsewhere,
            (false, Some((own, theirs))) => Words::Announced(own, theirs),
            (false, None) => Words::Freely,
        };
        let is_complete = !window.has_frames && reach.flushes(target);
        let recent = Recent { handle, target, is_complete, words, memory, unit };
        reach.accesses(target).then_some(recent)
    }

    /// Forgets the target.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.handle = Recent::NONE.handle;
    }

    /// Returns whether it is that target.
    #[inline(always)]
    pub fn is(&self, handle: usize, target: u32) -> bool {
        self.handle == handle && self.target == target
    }

    /// Returns whether it is that target, and a flush has nothing to wait for.
    #[inline(always)]
    pub(crate) fn is_complete(&self, handle: usize, target: u32) -> bool {
        self.is(handle, target) && self.is_complete
    }

    /// Returns `len` bytes at `disp` units of the target's memory.
    #[inline(always)]
    pub fn reach(&self, disp: i64, len: usize) -> Option<UserBuf> {
        part_of(self.memory, self.unit, disp, len)
    }

    /// Changes a word of 4 or 8 bytes; `old` gets what it was. False if another path has to.
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
        self.on_words(|| atomic::change(at, primitive, operand, old))
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
        let Some(at) = self.reach(disp, len) else { return false };
        if len > SHORT_MAX || !len.is_multiple_of(size) || !atomic::is_word(at, size) {
            return false;
        }
        self.on_words(|| {
            let change = |begin: usize| {
                let (at, operand) = (at.slice(begin, size), operands.slice(begin, size));
                atomic::change(at, primitive, operand, None)
            };
            (0..len).step_by(size).all(change)
        })
    }

    /// Replaces a word of 4 or 8 bytes by `new` if it is `expected`, like [`Recent::change`].
    #[inline(always)]
    pub fn swap(&self, disp: i64, (expected, new): (UserBuf, UserBuf), old: UserBuf) -> bool {
        let Some(at) = self.reach(disp, old.len()) else { return false };
        self.on_words(|| atomic::change_equal(at, expected, new, old))
    }

    #[inline(always)]
    fn on_words(&self, work: impl FnOnce() -> bool) -> bool {
        let announced = match &self.words {
            Words::Elsewhere => return false,
            Words::Freely => None,
            // The general path waits for a long accumulate.
            Words::Announced(own, theirs) if !own.announce(theirs) => return false,
            Words::Announced(own, _) => Some(own),
        };
        let is_done = work();
        if let Some(own) = announced {
            own.withdraw();
        }
        is_done
    }
}
