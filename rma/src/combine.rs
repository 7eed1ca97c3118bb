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

/// Most bytes of an access that is short.
pub(crate) const SHORT_MAX: usize = 32;

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
}

/// Takes what the elements from an offset on were.
pub(crate) type Olds<'a> = dyn FnMut(usize, &[u8]) + 'a;

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
                Sharing::Guarded(_) => at.len() <= SHORT_MAX,
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
    olds: Option<&mut Olds<'_>>,
) -> Result<(), Unclear> {
    match (at.len(), operands, &olds) {
        (len, Operands::Memory(memory), None) if len > SHORT_MAX && by.is_plain(at, op.size()) => {
            in_place(by, op, at, memory)
        }
        (..=SHORT_MAX, ..) => in_chunks::<SHORT_MAX>(by, op, at, operands, olds),
        (..=512, ..) => in_chunks::<512>(by, op, at, operands, olds),
        _ => in_chunks::<4096>(by, op, at, operands, olds),
    }
}

/// Most bytes that are combined in place before others may access the memory.
const PIECE: usize = 32 << 10;

/// Combines elements where they lie.
fn in_place(by: Executor<'_>, op: PackedOp, at: UserBuf, operands: UserBuf) -> Result<(), Unclear> {
    let whole = if at.len() <= PIECE { at.len() } else { PIECE - PIECE % op.size() };
    for begin in (0..at.len()).step_by(whole) {
        let len = whole.min(at.len() - begin);
        let (part, operands) = (at.slice(begin, len), operands.slice(begin, len));
        match by.is_plain(part, op.size()) {
            true => by.alone(|| op.apply_in_memory(operands, part)),
            // What remains is short.
            false => combine(by, op, part, Operands::Memory(operands), None)?,
        }
    }
    Ok(())
}

/// Combines chunks of at most `BYTES`. No lock is held from one to the next, so that others wait
/// for one chunk at most.
fn in_chunks<const BYTES: usize>(
    by: Executor<'_>,
    op: PackedOp,
    at: UserBuf,
    operands: Operands<'_>,
    mut olds: Option<&mut Olds<'_>>,
) -> Result<(), Unclear> {
    let (mut operand, mut found) = ([0; BYTES], [0; BYTES]);
    let whole = BYTES - BYTES % op.size();
    for begin in (0..at.len()).step_by(whole) {
        let part = at.slice(begin, whole.min(at.len() - begin));
        let (operand, found) = (&mut operand[..part.len()], &mut found[..part.len()]);
        if op.primitive() != Primitive::Keep {
            operands.read(begin, operand);
        }
        match &mut olds {
            Some(olds) => {
                fetch_chunk::<BYTES>(by, op, part, operand, found)?;
                olds(begin, found);
            }
            None => combine_chunk(by, op, part, operand, found)?,
        }
    }
    Ok(())
}

/// Combines one chunk by atomics of the device or the processor; `None` if neither has any for it.
/// `old` gets what the elements were.
#[inline]
fn by_atomics(
    by: Executor<'_>,
    op: PackedOp,
    at: UserBuf,
    operand: &[u8],
    old: Option<&mut [u8]>,
) -> Option<Result<(), Unclear>> {
    if let Some(device) = by.device(at, op.size()) {
        return Some(device_atomic::combine(device, at, op, operand, old));
    }
    by.is_atomic(at, op.size()).then(|| {
        by.beside_others(|| atomic::combine(at, op, operand, old));
        Ok(())
    })
}

/// Combines one chunk; `found` is scratch memory.
fn combine_chunk(
    by: Executor<'_>,
    op: PackedOp,
    at: UserBuf,
    operand: &[u8],
    found: &mut [u8],
) -> Result<(), Unclear> {
    if let Some(done) = by_atomics(by, op, at, operand, None) {
        return done;
    }
    by.alone(|| match op.primitive() {
        Primitive::Keep => {}
        Primitive::Replace => at.write(0, operand),
        Primitive::Add | Primitive::Other => {
            at.read(0, found);
            op.apply(operand, found);
            at.write(0, found);
        }
    });
    Ok(())
}

/// Combines one chunk; `found` gets what the elements were.
fn fetch_chunk<const BYTES: usize>(
    by: Executor<'_>,
    op: PackedOp,
    at: UserBuf,
    operand: &[u8],
    found: &mut [u8],
) -> Result<(), Unclear> {
    if let Some(done) = by_atomics(by, op, at, operand, Some(found)) {
        return done;
    }
    by.alone(|| {
        at.read(0, found);
        match op.primitive() {
            Primitive::Keep => {}
            Primitive::Replace => at.write(0, operand),
            Primitive::Add | Primitive::Other => {
                let mut new = [0; BYTES];
                let new = &mut new[..found.len()];
                new.copy_from_slice(found);
                op.apply(operand, new);
                at.write(0, new);
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests;
