//! Addresses that stand for something else. MPI_BOTTOM, MPI_ARGV_NULL and MPI_ERRCODES_IGNORE are
//! null in all ABIs.

use std::os::raw::c_void;

use crate::target::IN_PLACE;

/// MPI_IN_PLACE and MPI_BUFFER_AUTOMATIC of the standard ABI.
const STANDARD_IN_PLACE: usize = 1;
pub(crate) const STANDARD_BUFFER_AUTOMATIC: usize = 2;

/// The buffer of a collective operation.
#[inline]
pub(crate) fn buffer(address: *const c_void) -> *mut c_void {
    match address.addr() {
        IN_PLACE => std::ptr::without_provenance_mut(STANDARD_IN_PLACE),
        _ => address.cast_mut(),
    }
}
