//! Operations on packed elements, for one-sided accumulation.

#![allow(unsafe_code)] // to call kernels, and to lay out an element

use fabric::UserBuf;

use super::BuiltinOp;
use super::kernels::{self, Kernel};
use crate::datatype::{Basic, Repr, Scalar};
use crate::{Buffer, Datatype};

/// A predefined operation on a predefined type without gaps.
#[derive(Clone, Copy)]
pub struct PackedOp {
    op: BuiltinOp,
    kernel: Option<Kernel>,
    size: usize,
    wraps: bool,
}

/// The operations that processors do by one instruction, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// The operand replaces the value.
    Replace,
    /// The value remains.
    Keep,
    /// Integer addition that wraps.
    Add,
    /// Any other: compute and compare.
    Other,
}

impl Primitive {
    /// Returns how a processor does an operation on a word of a datatype, and the word's bytes, by
    /// the handles of predefined ones. [`Primitive::Other`] for all that it does not do.
    #[inline(always)]
    pub fn of_handles(op: usize, datatype: usize) -> (Primitive, usize) {
        const SUM: usize = BuiltinOp::Sum as usize;
        const REPLACE: usize = BuiltinOp::Replace as usize;
        const KEEP: usize = BuiltinOp::NoOp as usize;
        match op {
            SUM => match Datatype::integer_size(datatype) {
                0 => (Primitive::Other, 0),
                size => (Primitive::Add, size),
            },
            REPLACE => (Primitive::Replace, Datatype::plain_size(datatype)),
            KEEP => (Primitive::Keep, Datatype::plain_size(datatype)),
            _ => (Primitive::Other, 0),
        }
    }
}

impl PackedOp {
    /// Returns the operation on that type; `None` if it does not apply, or if the type has gaps.
    pub fn new(op: BuiltinOp, basic: Basic) -> Option<PackedOp> {
        let size = basic.repr.size();
        if !op.applies_to(basic) || size != basic.repr.extent() {
            return None;
        }
        let kernel = if op.is_rma_only() { None } else { kernels::kernel(op, basic.repr) };
        let wraps = matches!(
            basic.repr,
            Repr::Single(
                Scalar::I8
                    | Scalar::I16
                    | Scalar::I32
                    | Scalar::I64
                    | Scalar::Long
                    | Scalar::U8
                    | Scalar::U16
                    | Scalar::U32
                    | Scalar::U64
                    | Scalar::ULong
            )
        );
        Some(PackedOp { op, kernel, size: size as usize, wraps })
    }

    /// Returns the operation of a predefined one on a predefined datatype, by their handles; `None`
    /// like [`PackedOp::new`], and for all other handles.
    pub fn of_handles(op: usize, datatype: usize) -> Option<PackedOp> {
        let op = BuiltinOp::from_handle(op)?;
        PackedOp::new(op, Datatype::predefined(datatype)?.basic()?)
    }

    /// Returns how a processor may do it.
    pub fn primitive(self) -> Primitive {
        match self.op {
            BuiltinOp::Replace => Primitive::Replace,
            BuiltinOp::NoOp => Primitive::Keep,
            BuiltinOp::Sum if self.wraps => Primitive::Add,
            _ => Primitive::Other,
        }
    }

    /// Returns the bytes of an element.
    pub fn size(self) -> usize {
        self.size
    }

    /// Computes `inout[i] = left[i] op inout[i]`. Panics unless both have equally many whole
    /// elements.
    pub fn apply(self, left: &[u8], inout: &mut [u8]) {
        // SAFETY: the slice is borrowed exclusively until this returns.
        self.apply_to_memory(left, unsafe { UserBuf::new(inout.as_mut_ptr(), inout.len()) });
    }

    /// Computes like [`PackedOp::apply`] on elements in memory.
    pub fn apply_to_memory(self, left: &[u8], inout: UserBuf) {
        // SAFETY: the slice is borrowed until this returns; it is only read.
        let left = unsafe { UserBuf::new(left.as_ptr().cast_mut(), left.len()) };
        self.apply_in_memory(left, inout);
    }

    /// Computes like [`PackedOp::apply`] in memory where it lies. Panics unless both have equally
    /// many whole elements.
    pub fn apply_in_memory(self, left: UserBuf, inout: UserBuf) {
        assert!(left.len() == inout.len() && left.len().is_multiple_of(self.size));
        match (self.op, self.kernel) {
            (BuiltinOp::Replace, _) => inout.copy_from(left),
            // SAFETY: both hold so many elements of the type that the kernel is for, and are valid
            // by their makers' promises. Memory that overlaps yields wrong data and nothing worse.
            (_, Some(kernel)) => unsafe {
                let out = inout.as_ptr();
                kernel(left.as_ptr(), out, out, left.len() / self.size);
            },
            (_, None) => {}
        }
    }
}

impl BuiltinOp {
    /// Combines one packed element with one in memory: `inout = left op inout`. The buffer is one
    /// element of `datatype`, a predefined type to which the operation applies; panics otherwise.
    pub fn reduce_packed(self, left: &[u8], inout: &Buffer, datatype: &Datatype) {
        let mut scratch = [0_u128; 4];
        let bytes = size_of_val(&scratch);
        assert!(datatype.extent().1 as usize <= bytes && left.len() as u64 == datatype.size());
        // SAFETY: the array outlives the buffer, which ends with this function.
        let memory = unsafe { UserBuf::new(scratch.as_mut_ptr().cast(), bytes) };
        let element = crate::Area::from(memory).buffer(0, 1, datatype);
        element.unpack(0, left);
        self.reduce(&element.into(), inout, datatype);
    }
}
