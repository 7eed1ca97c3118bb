//! Accumulates by the atomics of an RDMA device.
//!
//! *At the origin*: a fetch-and-add, a fetch or a compare-and-swap of one element of 8 aligned
//! bytes is an atomic of the device in the target's memory. All other accumulates travel in frames.
//! Since those of one origin are done in order, an atomic is begun only when no frame is under way
//! to the target, and a frame of an accumulate is posted only when no atomic is.
//!
//! *At the target*: where devices are not atomic towards processors, the target has its own device
//! change all elements of 8 aligned bytes, one after the other. An operation that no device knows
//! is a loop of compare-and-swap.
//!
//! A connection that breaks leaves it open whether an atomic was done: the operation fails. So it
//! does if the target's own device leaves that open. Processors take over only where the device is
//! gone, since they are not atomic towards it.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use fabric::{Atomic, AtomicFailure, OwnAtomics, Region, UserBuf};
use objects::op::{PackedOp, Primitive};

use crate::atomic;

/// An atomic of a device.
#[derive(Debug)]
pub(crate) struct DeviceAtomic {
    pub(crate) region: Region,
    /// Displacement of the element.
    pub(crate) disp: i64,
    pub(crate) what: Atomic,
    /// Gets what the element was.
    old: AtomicU64,
}

impl DeviceAtomic {
    /// Prepares an atomic on the element at `disp` of a region.
    pub(crate) fn new(region: Region, disp: i64, what: Atomic) -> DeviceAtomic {
        DeviceAtomic { region, disp, what, old: AtomicU64::new(0) }
    }

    /// Returns the memory that gets the old value, valid as long as this.
    pub(crate) fn memory(&self) -> UserBuf {
        // SAFETY: the word is alive while this is, changes as an atomic alone, and the operation
        // keeps this until the transfer has ended.
        unsafe { UserBuf::new(self.old.as_ptr().cast(), 8) }
    }

    /// Returns what the element was, after the end of the transfer.
    pub(crate) fn old(&self) -> [u8; 8] {
        self.old.load(Ordering::Acquire).to_ne_bytes()
    }
}

/// Returns the word that 8 bytes are.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|at| bytes[at]))
}

/// It is not known whether a device has changed an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear;

/// Combines elements of 8 bytes with those at `at` by the device; `old` gets what they were. All
/// are equally long.
pub(crate) fn combine(
    device: &dyn OwnAtomics,
    at: UserBuf,
    op: PackedOp,
    data: &[u8],
    mut old: Option<&mut [u8]>,
) -> Result<(), Unclear> {
    for (index, operand) in data.chunks_exact(8).enumerate() {
        let at = at.slice(8 * index, 8);
        let mut before = [0; 8];
        match combine_word(device, at, op, operand) {
            Ok(found) => before = found.to_ne_bytes(),
            Err(AtomicFailure::Gone) => atomic::combine(at, op, operand, Some(&mut before)),
            Err(AtomicFailure::Unclear) => return Err(Unclear),
        }
        if let Some(old) = &mut old {
            old[8 * index..8 * index + 8].copy_from_slice(&before);
        }
    }
    Ok(())
}

fn combine_word(
    device: &dyn OwnAtomics,
    at: UserBuf,
    op: PackedOp,
    operand: &[u8],
) -> Result<u64, AtomicFailure> {
    match op.primitive() {
        Primitive::Add => return device.change(at, Atomic::Add(word(operand))),
        Primitive::Keep => return device.change(at, Atomic::Add(0)),
        Primitive::Replace | Primitive::Other => {}
    }
    let mut expected = device.change(at, Atomic::Add(0))?;
    loop {
        let mut new = expected.to_ne_bytes();
        op.apply(operand, &mut new);
        let new = u64::from_ne_bytes(new);
        let found = device.change(at, Atomic::CompareSwap { expected, new })?;
        if found == expected {
            return Ok(found);
        }
        expected = found;
    }
}

/// Replaces the element of 8 bytes at `at` by `new` if it equals `expected`, by the device.
pub(crate) fn compare_swap(
    device: &dyn OwnAtomics,
    at: UserBuf,
    (expected, new): (&[u8], &[u8]),
    old: &mut [u8],
) -> Result<(), Unclear> {
    let what = Atomic::CompareSwap { expected: word(expected), new: word(new) };
    match device.change(at, what) {
        Ok(found) => old.copy_from_slice(&found.to_ne_bytes()),
        Err(AtomicFailure::Gone) => atomic::compare_swap(at, expected, new, old),
        Err(AtomicFailure::Unclear) => return Err(Unclear),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use objects::Datatype;
    use objects::op::BuiltinOp;

    use super::*;

    /// A device whose compare-and-swap fails now and then.
    #[derive(Debug)]
    struct Device(AtomicU64);

    impl OwnAtomics for Device {
        fn change(&self, at: UserBuf, what: Atomic) -> Result<u64, AtomicFailure> {
            let turn = self.0.fetch_add(1, Ordering::Relaxed);
            let mut bytes = [0; 8];
            at.read(0, &mut bytes);
            let old = u64::from_ne_bytes(bytes);
            if turn % 3 == 2 && matches!(what, Atomic::CompareSwap { .. }) {
                at.write(0, &(old + 1).to_ne_bytes());
                return Ok(old + 1);
            }
            at.write(0, &what.of(old).to_ne_bytes());
            if turn < 100 { Ok(old) } else { Err(AtomicFailure::Gone) }
        }
    }

    #[test]
    fn operations_that_no_device_knows_are_loops() {
        let long = Datatype::predefined(0x20b).and_then(Datatype::basic).expect("MPI_LONG");
        let device = Device(AtomicU64::new(0));
        let mut memory = [5_u64, 9];
        // SAFETY: the array outlives the buffer, through which alone it is accessed meanwhile.
        let at = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), 16) };
        let run = |op: BuiltinOp, operands: [u64; 2]| {
            let data: Vec<u8> = operands.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut old = [0; 16];
            let op = PackedOp::new(op, long).expect("a packed operation");
            combine(&device, at, op, &data, Some(&mut old)).expect("it is clear");
            [word(&old[..8]), word(&old[8..])]
        };
        assert_eq!(run(BuiltinOp::Sum, [1, 2]), [5, 9]);
        assert_eq!(run(BuiltinOp::NoOp, [7, 7]), [6, 11]);
        let before = run(BuiltinOp::Max, [8, 3]);
        assert!(before[0] >= 6 && before[1] >= 11, "{before:?}");
        let mut old = [0; 8];
        run(BuiltinOp::Replace, [20, 30]);
        let values = (20_u64.to_ne_bytes(), 40_u64.to_ne_bytes());
        let values = (&values.0[..], &values.1[..]);
        compare_swap(&device, at.slice(0, 8), values, &mut old).expect("it is clear");
        assert_eq!(word(&old) % 20, u64::from(word(&old) != 20));
    }

    /// A device that always fails in one way.
    #[derive(Debug)]
    struct Failing(AtomicFailure);

    impl OwnAtomics for Failing {
        fn change(&self, _: UserBuf, _: Atomic) -> Result<u64, AtomicFailure> {
            Err(self.0)
        }
    }

    #[test]
    fn processors_take_over_only_where_the_device_is_gone() {
        let long = Datatype::predefined(0x20b).and_then(Datatype::basic).expect("MPI_LONG");
        let sum = PackedOp::new(BuiltinOp::Sum, long).expect("a packed operation");
        for (failure, expected) in [
            (AtomicFailure::Gone, (Ok(()), [7, 11])),
            (AtomicFailure::Unclear, (Err(Unclear), [5, 9])),
        ] {
            let mut memory = [5_u64, 9];
            // SAFETY: the array outlives the buffer, through which alone it is accessed meanwhile.
            let at = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), 16) };
            let two = 2_u64.to_ne_bytes().repeat(2);
            let done = combine(&Failing(failure), at, sum, &two, None);
            let mut after = [0; 16];
            at.read(0, &mut after);
            assert_eq!((done, [word(&after[..8]), word(&after[8..])]), expected);
            let swapped = compare_swap(
                &Failing(failure),
                at.slice(0, 8),
                (&two[..8], &two[..8]),
                &mut [0; 8],
            );
            assert_eq!(swapped, expected.0);
        }
    }
}
