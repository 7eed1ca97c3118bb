//! Operations of reductions: those of MPI, and functions of C.

#![allow(unsafe_code)]

use std::os::raw::c_int;

use super::buffers::{received, sent};
use crate::datatype::{Buffer, BufferMut};
use crate::environment::is_finalized;
use crate::error::call;
use crate::ffi::{self, MPI_Op};
use crate::raw::AsRaw;

/// A binary operation that is associative, for reductions (MPI-5.0 §6.9).
///
/// Owners of operations are none themselves, but references to them are. Therefore an operation
/// that is under way borrows its owner.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operation of a reduction",
    note = "a closure becomes one by UserOperation::commutative or associative, which is passed by \
            reference; those of MPI are made by functions such as SystemOperation::sum"
)]
pub trait Operation: AsRaw<Raw = MPI_Op> {
    /// Returns whether the order of the operands does not matter (MPI-5.0 §6.9.7).
    fn is_commutative(&self) -> bool {
        let mut commutative = 0;
        // SAFETY: the operation is valid.
        unsafe { call!(MPI_Op_commutative(self.as_raw(), &mut commutative)) };
        commutative != 0
    }
}

impl<'a, T: 'a + Operation> Operation for &'a T {}

/// An operation of MPI (MPI-5.0 §6.9.2).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct SystemOperation(MPI_Op);

macro_rules! system_operations {
    ($($(#[$doc:meta])* $name:ident: $handle:ident;)*) => {
        impl SystemOperation {
            $(
                $(#[$doc])*
                pub fn $name() -> SystemOperation {
                    SystemOperation(ffi::$handle)
                }
            )*
        }
    };
}

system_operations! {
    /// Returns the operation for the largest value, MPI_MAX.
    max: MPI_MAX;
    /// Returns the operation for the smallest value, MPI_MIN.
    min: MPI_MIN;
    /// Returns the operation for the sum, MPI_SUM.
    sum: MPI_SUM;
    /// Returns the operation for the product, MPI_PROD.
    product: MPI_PROD;
    /// Returns the operation for whether all are true, MPI_LAND.
    logical_and: MPI_LAND;
    /// Returns the operation for the bits that are set in all, MPI_BAND.
    bitwise_and: MPI_BAND;
    /// Returns the operation for whether any is true, MPI_LOR.
    logical_or: MPI_LOR;
    /// Returns the operation for the bits that are set in any, MPI_BOR.
    bitwise_or: MPI_BOR;
    /// Returns the operation for whether an odd number is true, MPI_LXOR.
    logical_xor: MPI_LXOR;
    /// Returns the operation for the bits that are set in an odd number, MPI_BXOR.
    bitwise_xor: MPI_BXOR;
}

// SAFETY: a predefined handle is always valid.
unsafe impl AsRaw for SystemOperation {
    type Raw = MPI_Op;

    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl Operation for SystemOperation {}

/// A function of C that computes an operation (MPI-5.0 §6.9.5).
pub type UnsafeUserFunction = ffi::MPI_User_function;

/// An operation that a function of C computes. It is freed when it is dropped.
///
/// [`UserOperation`](super::UserOperation) is the safe way to define an operation.
#[derive(Debug)]
pub struct UnsafeUserOperation {
    op: MPI_Op,
}

impl UnsafeUserOperation {
    /// Makes an operation that is associative, but not commutative.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn associative(function: UnsafeUserFunction) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::new(false, function) }
    }

    /// Makes an operation that is associative and commutative.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn commutative(function: UnsafeUserFunction) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::new(true, function) }
    }

    /// Makes an operation that is associative, and commutative if `commute` says so
    /// (MPI-5.0 §6.9.5).
    ///
    /// The function gets the addresses of two arrays, the number of their elements and a datatype.
    /// It combines each element of the first with that of the second, and writes the result in the
    /// second.
    ///
    /// # Safety
    /// The function can be called with all datatypes and by all threads for which the operation is
    /// used, and does not unwind.
    pub unsafe fn new(commute: bool, function: UnsafeUserFunction) -> Self {
        let mut op = ffi::MPI_OP_NULL;
        // SAFETY: the function can be called, as the caller promises.
        unsafe { call!(MPI_Op_create(Some(function), c_int::from(commute), &mut op)) };
        UnsafeUserOperation { op }
    }
}

impl Drop for UnsafeUserOperation {
    fn drop(&mut self) {
        free(self.op);
    }
}

// SAFETY: the operation is valid until it is dropped.
unsafe impl AsRaw for UnsafeUserOperation {
    type Raw = MPI_Op;

    fn as_raw(&self) -> Self::Raw {
        self.op
    }
}

impl Operation for &UnsafeUserOperation {}

/// Frees an operation that the program has made, unless MPI is finalised.
pub(super) fn free(mut op: MPI_Op) {
    if !is_finalized() {
        // SAFETY: the caller owns the operation, and it is used no more after this.
        unsafe { call!(MPI_Op_free(&mut op)) };
    }
}

/// Reduces two buffers of this process, element by element, and writes the result in the second
/// (MPI-5.0 §6.9.7).
///
/// # Panics
/// If `inoutbuf` is shorter than `inbuf`, or has another datatype.
#[track_caller]
pub fn reduce_local_into<S, R, O>(inbuf: &S, inoutbuf: &mut R, op: O)
where
    S: Buffer + ?Sized,
    R: BufferMut + ?Sized,
    O: Operation,
{
    let (first, second) = (sent(inbuf), received(inoutbuf));
    second.check_result_of(&first);
    // SAFETY: both buffers and the operation live until the call is complete, and the second holds
    // the result.
    unsafe {
        call!(MPI_Reduce_local_c(
            first.pointer,
            second.pointer,
            first.count,
            first.datatype,
            op.as_raw(),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_mpi_have_their_handles() {
        assert_eq!(SystemOperation::sum().as_raw(), ffi::MPI_SUM);
        assert_eq!(SystemOperation::bitwise_xor().as_raw(), ffi::MPI_BXOR);
    }
}
