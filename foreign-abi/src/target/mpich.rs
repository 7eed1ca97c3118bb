//! The ABI of MPICH, Intel MPI, MVAPICH and Cray MPICH: `libmpi.so.12`.

mod handle;
mod status;
mod symbols;

use std::os::raw::{c_int, c_void};

pub(crate) use self::handle::*;
pub(crate) use self::status::MPI_Status;

/// What is written where no library with the standard ABI is found. mpiexec knows the library by
/// these words.
pub(crate) const NO_LIBRARY: &str =
    "Verbena's libmpi.so.12 cannot open the library that does its work";

/// MPI_IN_PLACE.
pub(crate) const IN_PLACE: usize = usize::MAX;
/// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
pub(crate) const STATUS_IGNORE: usize = 1;

/// MPI_ERR_ARG, MPI_ERR_OTHER and MPI_ERR_PORT.
pub(crate) const ERR_ARG: c_int = 12;
pub(crate) const ERR_OTHER: c_int = 15;
pub(crate) const ERR_PORT: c_int = 38;
/// MPI_ERR_LASTCODE.
pub(crate) const ERR_LASTCODE: c_int = 0x3fff_ffff;
/// Where codes that are no classes begin.
pub(crate) const OTHER_CODES: c_int = 0x10000;

/// Weights of a graph: MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are variables of this library, which
/// have the standard ABI's values.
#[inline]
pub(crate) fn graph_weights(address: *const c_int) -> *mut c_int {
    address.cast_mut()
}

/// The handle of a performance variable: MPI_T_PVAR_ALL_HANDLES is a variable as well.
#[inline]
pub(crate) fn pvar_handle(handle: *mut c_void) -> *mut c_void {
    handle
}
