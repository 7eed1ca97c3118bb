//! Constants that Fortran passes by reference: MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE and
//! their like (MPI-5.0 §2.5.4). Each is a variable of a name that the target defines. The library
//! defines the same names, so that the dynamic linker gives program and library one address.

use std::os::raw::{c_int, c_void};
use std::ptr::without_provenance_mut;

use crate::handle::MPI_Status;
use crate::target;
pub(crate) use crate::target::{is_argv_null, is_argvs_null, is_errcodes_ignore};

/// A buffer's address as C has it.
#[inline]
pub(crate) fn c_buffer(address: *mut c_void) -> *mut c_void {
    if target::is_bottom(address) {
        return without_provenance_mut(target::BOTTOM);
    }
    if target::is_in_place(address) {
        return without_provenance_mut(target::IN_PLACE);
    }
    if target::is_buffer_automatic(address) {
        return without_provenance_mut(target::BUFFER_AUTOMATIC);
    }
    address
}

/// One status, or C's MPI_STATUS_IGNORE.
#[inline]
pub(crate) fn c_status(address: *mut MPI_Status) -> *mut MPI_Status {
    if target::is_status_ignore(address) || target::is_statuses_ignore(address) {
        return without_provenance_mut(target::STATUS_IGNORE);
    }
    address
}

/// An array of statuses, or C's MPI_STATUSES_IGNORE.
#[inline]
pub(crate) fn c_statuses(address: *mut MPI_Status) -> *mut MPI_Status {
    c_status(address)
}

/// Weights of a graph's edges, or a constant in their place.
pub(crate) fn c_weights(address: *mut c_int) -> *mut c_int {
    if target::is_unweighted(address) {
        return target::unweighted();
    }
    if target::is_weights_empty(address) {
        return target::weights_empty();
    }
    address
}
