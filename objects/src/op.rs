//! Reduction operations: the predefined ones on all predefined types
//! (MPI-5.0 §6.9.2, §6.9.4) and the user's own (§6.9.5).
//!
//! Every reduction computes `inout[i] = left[i] op inout[i]`, in that order of
//! operands. Integer sums and products wrap. The loops are in `op/kernels.rs`.

#![allow(unsafe_code)] // to call kernels and the user's functions

mod binary128;
mod elements;
mod kernels;
mod packed;
#[cfg(target_arch = "x86_64")]
mod x87;

pub use packed::{PackedOp, Primitive};

use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::Arc;

use fabric::UserBuf;

use crate::datatype::{Basic, Family};
use crate::{Buffer, Class, Datatype, Error, Operands, Result, callback};

/// A reduction operation. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Op {
    /// A predefined operation.
    Builtin(BuiltinOp),
    /// From MPI_Op_create.
    User(Arc<UserOp>),
}

/// The predefined operations, by their ABI handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum BuiltinOp {
    Sum = 0x21,
    Min = 0x22,
    Max = 0x23,
    Prod = 0x24,
    Band = 0x28,
    Bor = 0x29,
    Bxor = 0x2a,
    Land = 0x30,
    Lor = 0x31,
    Lxor = 0x32,
    Minloc = 0x38,
    Maxloc = 0x39,
    /// `left`. For one-sided accumulation only.
    Replace = 0x3c,
    /// `inout`. For one-sided accumulation only.
    NoOp = 0x3d,
}

impl BuiltinOp {
    /// All predefined operations.
    pub const ALL: [BuiltinOp; 14] = {
        use BuiltinOp::*;
        [Sum, Min, Max, Prod, Band, Bor, Bxor, Land, Lor, Lxor, Minloc, Maxloc, Replace, NoOp]
    };

    /// Returns the operation of an ABI handle.
    pub fn from_handle(handle: usize) -> Option<BuiltinOp> {
        BuiltinOp::ALL.into_iter().find(|&op| op as usize == handle)
    }

    /// Returns the standard's name.
    pub const fn name(self) -> &'static str {
        use BuiltinOp::*;
        match self {
            Sum => "MPI_SUM",
            Min => "MPI_MIN",
            Max => "MPI_MAX",
            Prod => "MPI_PROD",
            Band => "MPI_BAND",
            Bor => "MPI_BOR",
            Bxor => "MPI_BXOR",
            Land => "MPI_LAND",
            Lor => "MPI_LOR",
            Lxor => "MPI_LXOR",
            Minloc => "MPI_MINLOC",
            Maxloc => "MPI_MAXLOC",
            Replace => "MPI_REPLACE",
            NoOp => "MPI_NO_OP",
        }
    }

    /// Returns true for operations of one-sided accumulation, which collectives refuse (MPI-5.0
    /// §12.3.4).
    pub const fn is_rma_only(self) -> bool {
        matches!(self, BuiltinOp::Replace | BuiltinOp::NoOp)
    }

    /// Returns whether the operation applies to a type: the table of MPI-5.0 §6.9.2 with MPI_CHAR
    /// as a C integer and with addresses, offsets and counts as truth values, as other libraries
    /// have it.
    pub fn applies_to(self, basic: Basic) -> bool {
        use BuiltinOp::*;
        use Family::*;
        let legal = match self {
            Max | Min => {
                matches!(basic.family, CInteger | Char | FortranInteger | Floating | MultiLanguage)
            }
            Sum | Prod => matches!(
                basic.family,
                CInteger | Char | FortranInteger | Floating | Complex | MultiLanguage
            ),
            Land | Lor | Lxor => {
                matches!(basic.family, CInteger | Char | Logical | MultiLanguage)
            }
            Band | Bor | Bxor => {
                matches!(
                    basic.family,
                    CInteger | Char | FortranInteger | Family::Byte | MultiLanguage
                )
            }
            Minloc | Maxloc => basic.family == Pair,
            Replace | NoOp => return true,
        };
        legal && kernels::kernel(self, basic.repr).is_some()
    }

    /// Computes `inout[i] = left[i] op inout[i]` for each left operand from the last to the first;
    /// see [`BuiltinOp::reduce_into`].
    pub fn reduce(self, left: &Operands, inout: &Buffer, datatype: &Datatype) {
        self.reduce_into(left, inout, inout, datatype);
    }

    /// Computes `out[i] = left[i] op right[i]`, then `out[i] = left[i] op out[i]` for each left
    /// operand before the last one, from the last to the first. The buffers have equal counts and
    /// are made with `datatype`, for which [`Op::check`] has passed. Panics otherwise.
    pub fn reduce_into(self, left: &Operands, right: &Buffer, out: &Buffer, datatype: &Datatype) {
        match self {
            BuiltinOp::NoOp => {
                out.copy_from(right);
                return;
            }
            BuiltinOp::Replace => {
                left.backwards().for_each(|left| _ = out.copy_from(&left));
                return;
            }
            _ => {}
        }
        let (bytes, of_left, of_right) = (out.len(), left.len(), right.len());
        assert!(
            of_left == bytes && of_right == bytes,
            "a reduction of {of_left} and {of_right} bytes into {bytes}"
        );
        let (left, mut right) = (left.addresses(datatype), right.address(datatype));
        let (out, count) = (out.address(datatype), out.count(datatype));
        let kernel = datatype.own_basic().and_then(|basic| kernels::kernel(self, basic.repr));
        let kernel =
            kernel.unwrap_or_else(|| panic!("{} on {datatype:?} was not checked", self.name()));
        for left in left {
            // SAFETY: all buffers hold `count` elements of the type that the kernel is
            // for, valid by their makers' promise, at the C layout's distances. MPI forbids that
            // the buffers of one call overlap; the result may be one of the operands.
            unsafe { kernel(left, right, out, count as usize) }
            right = out;
        }
    }
}

/// A predefined operation on runs: elements of a predefined type without gaps. Its loop is found
/// once, for many reductions.
#[derive(Clone, Copy, Debug)]
pub struct RunOp {
    kernel: kernels::Kernel,
    /// Bytes of an element.
    size: u64,
}

impl RunOp {
    /// Returns the bytes of so many elements (saturating).
    #[inline]
    pub fn bytes(self, count: u64) -> u64 {
        count.saturating_mul(self.size)
    }

    /// Computes `out[i] = left[i] op right[i]` for `count` elements. `out` may be one of the
    /// others, and must not overlap them otherwise. Panics if they have other lengths.
    #[inline]
    pub fn reduce(self, left: UserBuf, right: UserBuf, out: UserBuf, count: u64) {
        let bytes = self.bytes(count);
        let lengths = [left.len(), right.len(), out.len()].map(|len| len as u64);
        assert!(lengths == [bytes; 3], "runs of {lengths:?} bytes: must have {bytes}");
        // SAFETY: all runs hold `count` elements of the type that the kernel is for, valid by their
        // makers' promise. MPI forbids that the buffers of one call overlap; the result may be one
        // of the operands.
        unsafe { (self.kernel)(left.as_ptr(), right.as_ptr(), out.as_ptr(), count as usize) }
    }
}

impl Op {
    /// Returns the operation on runs of a type; `None` for a user's operation, a type with gaps,
    /// and operations that move bytes only.
    pub fn on_runs(&self, datatype: &Datatype) -> Option<RunOp> {
        let Op::Builtin(op) = self else { return None };
        let basic = datatype.own_basic().filter(|_| datatype.is_contiguous())?;
        let kernel = kernels::kernel(*op, basic.repr).filter(|_| !op.is_rma_only())?;
        Some(RunOp { kernel, size: datatype.size() })
    }

    /// Returns the operation of an ABI handle.
    pub fn predefined(handle: usize) -> Option<Op> {
        BuiltinOp::from_handle(handle).map(Op::Builtin)
    }

    /// Returns whether the operation commutes (MPI_Op_commutative).
    pub fn commutative(&self) -> bool {
        match self {
            Op::Builtin(op) => !op.is_rma_only(),
            Op::User(op) => op.commutative,
        }
    }

    /// Returns the standard's name, or a description.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Builtin(op) => op.name(),
            Op::User(_) => "a user-defined operation",
        }
    }

    /// Checks that a collective may reduce that type by this operation; otherwise MPI_ERR_OP. A
    /// user's operation accepts any type.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        let Op::Builtin(op) = self else { return Ok(()) };
        if op.is_rma_only() {
            return Err(Error::new(
                Class::Op,
                format!("invalid operation {}: it is for one-sided accumulation only", op.name()),
            ));
        }
        let name = || match datatype.name() {
            name if name.is_empty() => "a datatype without a name".to_owned(),
            name => name,
        };
        match datatype.own_basic() {
            Some(basic) if op.applies_to(basic) => Ok(()),
            Some(_) => {
                Err(Error::new(Class::Op, format!("{} does not apply to {}", op.name(), name())))
            }
            None => {
                let text = format!(
                    "{} applies to predefined datatypes only, not to {}",
                    op.name(),
                    name()
                );
                Err(Error::new(Class::Op, text))
            }
        }
    }

    /// Computes `inout[i] = left[i] op inout[i]` on buffers of equal counts, both made with
    /// `datatype`. A user's function gets `handle` as its datatype. The caller holds no lock.
    pub fn reduce(&self, left: Buffer, inout: &Buffer, datatype: &Datatype, handle: usize) {
        match self {
            Op::Builtin(op) => op.reduce(&left.into(), inout, datatype),
            Op::User(op) => op.call(&left, inout, datatype, handle),
        }
    }
}

/// A user's reduction function: the left operands, the right operands and
/// results, the number of elements, the datatype's handle.
#[derive(Clone, Copy, Debug)]
pub enum UserFunction {
    /// MPI_User_function.
    Int(extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut usize)),
    /// MPI_User_function_c.
    Large(extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut usize)),
}

/// A user's operation (MPI_Op_create).
#[derive(Debug)]
pub struct UserOp {
    function: UserFunction,
    commutative: bool,
}

impl UserOp {
    /// # Safety
    /// The function must be callable on arrays of each datatype that it is used with, as
    /// MPI demands of the user.
    pub unsafe fn new(function: UserFunction, commutative: bool) -> UserOp {
        UserOp { function, commutative }
    }

    /// Returns whether operands may be swapped.
    pub fn commutative(&self) -> bool {
        self.commutative
    }

    /// Calls the function on two buffers of equal counts, both made with
    /// `datatype`, whose handle is `handle`. An `int` function is called several
    /// times when there are more elements than an `int` counts.
    pub fn call(&self, left: &Buffer, inout: &Buffer, datatype: &Datatype, handle: usize) {
        let (many, mut count) = (left.count(datatype), inout.count(datatype));
        assert!(many == count, "a reduction of {many} elements into {count}");
        let (mut left, mut inout) = (left.address(datatype), inout.address(datatype));
        let most = match self.function {
            UserFunction::Int(_) => i32::MAX as u64,
            UserFunction::Large(_) => i64::MAX as u64,
        };
        while count > 0 {
            let piece = count.min(most);
            let mut handle = handle;
            let (left_operands, results) = (left.cast(), inout.cast());
            callback::user(|| match self.function {
                UserFunction::Int(function) => {
                    function(left_operands, results, &mut (piece as c_int), &mut handle);
                }
                UserFunction::Large(function) => {
                    function(left_operands, results, &mut (piece as i64), &mut handle);
                }
            });
            let step = (piece as i64).wrapping_mul(datatype.extent().1) as isize;
            (left, inout) = (left.wrapping_offset(step), inout.wrapping_offset(step));
            count -= piece;
        }
    }
}

#[cfg(test)]
mod binary128_tests;
#[cfg(test)]
mod level_tests;
#[cfg(test)]
mod tests;
