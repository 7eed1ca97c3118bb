//! Combining packed elements with adjacent ones in memory, without an allocation.
//!
//! Who changes an element, and how, is the same for all accesses to it:
//! - where one process alone accesses the memory: plain vector code;
//! - where processes share it: words by processor atomics if the access is short, all others by
//!   plain vector code while no other access runs (`guard`);
//! - words that devices change as well: always by processor atomics;
//! - words that only a device may change: by that device (`device_atomic`).

use fabric::{OwnAtomics, UserBuf};
use objects::op::{PackedOp, Primitive};

use crate::device_atomic::Unclear;
use crate::guard::Guard;
use crate::{atomic, device_atomic};

/// Most elements of an access that is short. A processor atomic takes as long as vector code for
/// hundreds of bytes.
const SHORT_COUNT: usize = 4;

/// Most bytes of an access that is short.
const SHORT_MAX: usize = SHORT_COUNT * WORD;

/// Bytes of the largest word. In memory of no more, all accesses to words are short.
pub(crate) const WORD: usize = 8;

/// Returns true if an access of `len` bytes to words of `size` bytes is short.
#[inline(always)]
pub(crate) fn is_short(len: usize, size: usize) -> bool {
    len <= SHORT_COUNT * size
}

/// Packed operands.
#[derive(Clone, Copy)]
pub(crate) enum Operands<'a> {
    Slice(&'a [u8]),
    Memory(UserBuf),
}

impl Operands<'_> {
    /// Fills a slice with the operands from an offset on, bytes.
    fn read(&self, begin: usize, out: &mut [u8]) {
        match self {
            Operands::Slice(all) => out.copy_from_slice(&all[begin..begin + out.len()]),
            Operands::Memory(all) => all.read(begin, out),
        }
    }

    /// Combines the operands from an offset on with the elements at `at`.
    fn apply(&self, op: PackedOp, begin: usize, at: UserBuf) {
        match self {
            _ if op.primitive() == Primitive::Keep => {}
            Operands::Slice(all) => op.apply_to_memory(&all[begin..begin + at.len()], at),
            Operands::Memory(all) => op.apply_in_memory(all.slice(begin, at.len()), at),
        }
    }
}

/// Takes what elements were, packed.
pub(crate) enum Olds<'a> {
    Slice(&'a mut [u8]),
    Memory(UserBuf),
}

impl Olds<'_> {
    /// Takes elements for an offset, bytes.
    fn write(&mut self, begin: usize, found: &[u8]) {
        match self {
            Olds::Slice(all) => all[begin..begin + found.len()].copy_from_slice(found),
            Olds::Memory(all) => all.write(begin, found),
        }
    }

    /// Takes the elements at `at` for an offset, bytes.
    fn take(&mut self, begin: usize, at: UserBuf) {
        match self {
            Olds::Slice(all) => at.read(0, &mut all[begin..begin + at.len()]),
            Olds::Memory(all) => all.slice(begin, at.len()).copy_from(at),
        }
    }
}

/// Which processes access the memory of a rank.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Sharing<'a> {
    /// This one.
    #[default]
    Alone,
    /// Several, without records: words are changed by processor atomics, all others unguarded.
    Unguarded,
    /// Several.
    Guarded(Guard<'a>),
}

/// What changes elements in the memory of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Executor<'a> {
    pub(crate) sharing: Sharing<'a>,
    /// Accesses to words may be long; if not, processor atomics announce nothing.
    pub(crate) has_long_words: bool,
    /// Devices change words of 8 bytes beside processors.
    pub(crate) has_device_words: bool,
    /// The device that changes elements of 8 aligned bytes.
    pub(crate) device: Option<&'a dyn OwnAtomics>,
}

impl Executor<'_> {
    /// Returns the device, if it changes elements of `size` bytes at that address.
    pub(crate) fn device(&self, at: UserBuf, size: usize) -> Option<&dyn OwnAtomics> {
        self.device.filter(|_| size == 8 && atomic::is_atomic(at, size))
    }

    /// Runs `work`, which changes elements by processor atomics.
    pub(crate) fn beside_others<R>(&self, work: impl FnOnce() -> R) -> R {
        match self.sharing {
            Sharing::Guarded(guard) => guard.beside_others(work),
            Sharing::Alone | Sharing::Unguarded => work(),
        }
    }

    /// Runs `work` while no other access to the memory runs.
    pub(crate) fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        match self.sharing {
            Sharing::Guarded(guard) => guard.alone(work),
            Sharing::Alone | Sharing::Unguarded => work(),
        }
    }

    /// Returns whether elements are changed by plain code.
    fn is_plain(&self, at: UserBuf, size: usize) -> bool {
        self.device(at, size).is_none() && !self.is_atomic(at, size)
    }

    /// Returns whether elements are changed by processor atomics.
    fn is_atomic(&self, at: UserBuf, size: usize) -> bool {
        atomic::is_atomic(at, size)
            && match self.sharing {
                _ if self.has_device_words && size == 8 => true,
                Sharing::Alone => false,
                Sharing::Unguarded => true,
                Sharing::Guarded(_) => !self.has_long_words || is_short(at.len(), size),
            }
    }
}

/// Combines all elements at `at`; `olds` gets what they were. Ends at an element that a device may
/// have changed or not.
pub(crate) fn combine(
    by: Executor<'_>,
    op: PackedOp,
    at: UserBuf,
    operands: Operands<'_>,
    olds: Option<Olds<'_>>,
) -> Result<(), Unclear> {
    match at.len() {
        _ if by.is_plain(at, op.size()) => {
            in_place(by, op, at, operands, olds);
            Ok(())
        }
        ..=SHORT_MAX => by_atomics::<SHORT_MAX>(by, op, at, operands, olds),
        _ => by_atomics::<512>(by, op, at, operands, olds),
    }
}

/// Most bytes that are combined in place before others may access the memory.
const PIECE: usize = 32 << 10;

/// Combines elements where they lie, by plain code.
fn in_place(
    by: Executor<'_>,
    op: PackedOp,
    at: UserBuf,
    operands: Operands<'_>,
    mut olds: Option<Olds<'_>>,
) {
    let whole = PIECE - PIECE % op.size();
    for begin in (0..at.len()).step_by(whole) {
        let part = at.slice(begin, whole.min(at.len() - begin));
        by.alone(|| {
            if let Some(olds) = &mut olds {
                olds.take(begin, part);
            }
            operands.apply(op, begin, part);
        });
    }
}

/// Combines elements by atomics of the device or the processor, in chunks of at most `BYTES`. No
/// announcement lasts from one to the next, so that others wait for one chunk at most.
fn by_atomics<const BYTES: usize>(
    by: Executor<'_>,
    op: PackedOp,
    at: UserBuf,
    operands: Operands<'_>,
    mut olds: Option<Olds<'_>>,
) -> Result<(), Unclear> {
    let (mut operand, mut found) = ([0; BYTES], [0; BYTES]);
    let whole = BYTES - BYTES % op.size();
    for begin in (0..at.len()).step_by(whole) {
        let part = at.slice(begin, whole.min(at.len() - begin));
        let (operand, found) = (&mut operand[..part.len()], &mut found[..part.len()]);
        if op.primitive() != Primitive::Keep {
            operands.read(begin, operand);
        }
        let old = olds.is_some().then_some(&mut *found);
        match by.device(part, op.size()) {
            Some(device) => device_atomic::combine(device, part, op, operand, old)?,
            None => by.beside_others(|| atomic::combine(part, op, operand, old)),
        }
        if let Some(olds) = &mut olds {
            olds.write(begin, found);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
