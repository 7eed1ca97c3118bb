//! Whether MPI is initialised or finalised in this process, and what that means for its objects.

#![allow(unsafe_code)]

use std::thread;

use crate::error::call;

/// Returns whether MPI was initialised, by this crate or by others (MPI-5.0 §11.4.1).
pub(crate) fn is_initialized() -> bool {
    let mut flag = 0;
    // SAFETY: the call is allowed at any time.
    unsafe { call!(MPI_Initialized(&mut flag)) };
    flag != 0
}

/// Returns whether MPI was finalised, by this crate or by others (MPI-5.0 §11.4.1).
pub(crate) fn is_finalized() -> bool {
    let mut flag = 0;
    // SAFETY: the call is allowed at any time.
    unsafe { call!(MPI_Finalized(&mut flag)) };
    flag != 0
}

/// Returns whether an object that processes free together is to be freed when it is dropped.
///
/// There is nothing to free in MPI once it is finalised. While a thread panics, other processes may
/// never make the call that frees the object with this one, and the job ends in any case.
pub(crate) fn frees_objects() -> bool {
    !thread::panicking() && !is_finalized()
}
