//! The ABI of Open MPI 4 and 5: `libmpi.so.40`.

mod handle;
mod objects;
mod status;
mod symbols;

use std::os::raw::{c_int, c_void};
use std::ptr::without_provenance_mut;

pub(crate) use self::handle::*;
pub(crate) use self::objects::{Address, Object, objects};
pub(crate) use self::status::MPI_Status;

/// What is written where no library with the standard ABI is found. mpiexec knows the library by
/// these words.
pub(crate) const NO_LIBRARY: &str =
    "Verbena's libmpi.so.40 cannot open the library that does its work";

/// MPI_IN_PLACE.
pub(crate) const IN_PLACE: usize = 1;
/// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
pub(crate) const STATUS_IGNORE: usize = 0;

/// MPI_ERR_ARG, MPI_ERR_OTHER and MPI_ERR_PORT.
pub(crate) const ERR_ARG: c_int = 13;
pub(crate) const ERR_OTHER: c_int = 16;
pub(crate) const ERR_PORT: c_int = 43;
/// MPI_ERR_LASTCODE.
pub(crate) const ERR_LASTCODE: c_int = 92;
/// Where codes that are no classes begin: out of the way of those that the program makes, which
/// begin behind MPI_ERR_LASTCODE.
pub(crate) const OTHER_CODES: c_int = 0x4000_0000;

/// MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY, here and in the standard ABI.
const UNWEIGHTED: usize = 2;
const WEIGHTS_EMPTY: usize = 3;
const STANDARD_UNWEIGHTED: usize = 10;
const STANDARD_WEIGHTS_EMPTY: usize = 11;
/// MPI_T_PVAR_ALL_HANDLES, here and in the standard ABI.
const ALL_HANDLES: usize = usize::MAX;
const STANDARD_ALL_HANDLES: usize = 1;

/// Weights of a graph.
#[inline]
pub(crate) fn graph_weights(address: *const c_int) -> *mut c_int {
    match address.addr() {
        UNWEIGHTED => without_provenance_mut(STANDARD_UNWEIGHTED),
        WEIGHTS_EMPTY => without_provenance_mut(STANDARD_WEIGHTS_EMPTY),
        _ => address.cast_mut(),
    }
}

/// The handle of a performance variable.
#[inline]
pub(crate) fn pvar_handle(handle: *mut c_void) -> *mut c_void {
    match handle.addr() {
        ALL_HANDLES => without_provenance_mut(STANDARD_ALL_HANDLES),
        _ => handle,
    }
}
