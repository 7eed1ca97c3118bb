//! Receives of one value.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::raw::c_void;

use super::Status;
use crate::datatype::{Equivalence, address_mut};
use crate::ffi::{MPI_Datatype, MPI_Status};
use crate::raw::traits::*;

/// Returns the value that `receive` receives. It gets where the value goes, the datatype of its one
/// element, and where the status goes.
///
/// # Panics
/// If the message did not bring one value.
#[track_caller]
pub(super) fn receive_value<T: Equivalence>(
    receive: impl FnOnce(*mut c_void, MPI_Datatype, *mut MPI_Status),
) -> (T, Status) {
    let mut value = MaybeUninit::<T>::uninit();
    let mut status = MPI_Status::default();
    let datatype = T::equivalent_datatype();
    receive(address_mut(value.as_mut_ptr()), datatype.as_raw(), &mut status);
    let status = Status::from_raw(status);
    status.expect_value::<T>();
    // SAFETY: the message had a whole element of the datatype of `T`, so all its bytes are written.
    (unsafe { value.assume_init() }, status)
}
