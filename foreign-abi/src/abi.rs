//! Types of the standard ABI.

use std::os::raw::c_int;

/// A handle of the standard ABI: a number of the size of a pointer.
pub(crate) type Standard = usize;

/// A status of the standard ABI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(non_snake_case)]
pub(crate) struct StandardStatus {
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
    pub(crate) internal: [u32; 5],
}

const _: () = assert!(size_of::<StandardStatus>() == 32);
