//! Constants that Fortran passes by reference: MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE and
//! their like (MPI-5.0 §2.5.4). Each is a variable in a common block with a C name. The library
//! defines the same names, so that the dynamic linker gives program and library one address.

use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_void};

use crate::handle::MPI_Status;

/// Memory that is compared by address only.
#[repr(C, align(16))]
pub(crate) struct Block<const N: usize>(UnsafeCell<[c_int; N]>);

// SAFETY: nothing here reads or writes the contents.
unsafe impl<const N: usize> Sync for Block<N> {}

macro_rules! sentinels {
    ($($(#[$doc:meta])* $symbol:ident: $integers:literal, $test:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            pub(crate) static $symbol: Block<$integers> = Block(UnsafeCell::new([0; $integers]));

            $(#[$doc])*
            #[inline]
            pub(crate) fn $test<T>(address: *const T) -> bool {
                std::ptr::addr_eq(address, &raw const $symbol)
            }
        )*
    };
}

sentinels! {
    /// MPI_BOTTOM.
    verbena_bottom: 1, is_bottom;
    /// MPI_IN_PLACE.
    verbena_in_place: 1, is_in_place;
    /// MPI_BUFFER_AUTOMATIC.
    verbena_buffer_automatic: 1, is_buffer_automatic;
    /// MPI_STATUS_IGNORE.
    verbena_status_ignore: 8, is_status_ignore;
    /// MPI_STATUSES_IGNORE.
    verbena_statuses_ignore: 8, is_statuses_ignore;
    /// MPI_ERRCODES_IGNORE.
    verbena_errcodes_ignore: 1, is_errcodes_ignore;
    /// MPI_ARGV_NULL.
    verbena_argv_null: 1, is_argv_null;
    /// MPI_ARGVS_NULL.
    verbena_argvs_null: 1, is_argvs_null;
    /// MPI_UNWEIGHTED.
    verbena_unweighted: 1, is_unweighted;
    /// MPI_WEIGHTS_EMPTY.
    verbena_weights_empty: 1, is_weights_empty;
}

/// C's values of these constants.
const BOTTOM: usize = 0;
const IN_PLACE: usize = 1;
const BUFFER_AUTOMATIC: usize = 2;
const UNWEIGHTED: usize = 10;
const WEIGHTS_EMPTY: usize = 11;

/// A buffer's address as C has it.
#[inline]
pub(crate) fn c_buffer(address: *mut c_void) -> *mut c_void {
    if is_bottom(address) {
        return std::ptr::without_provenance_mut(BOTTOM);
    }
    if is_in_place(address) {
        return std::ptr::without_provenance_mut(IN_PLACE);
    }
    if is_buffer_automatic(address) {
        return std::ptr::without_provenance_mut(BUFFER_AUTOMATIC);
    }
    address
}

/// One status, or C's MPI_STATUS_IGNORE.
#[inline]
pub(crate) fn c_status(address: *mut MPI_Status) -> *mut MPI_Status {
    if is_status_ignore(address) || is_statuses_ignore(address) {
        return std::ptr::null_mut();
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
    if is_unweighted(address) {
        return std::ptr::without_provenance_mut(UNWEIGHTED);
    }
    if is_weights_empty(address) {
        return std::ptr::without_provenance_mut(WEIGHTS_EMPTY);
    }
    address
}
