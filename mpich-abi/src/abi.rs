//! Types of both ABIs.
//!
//! A handle of MPICH is an int, a file the pointer of the library below. A handle of the standard
//! ABI is a number of the size of a pointer.

use std::os::raw::c_int;

macro_rules! handles {
    ($($name:ident)*) => {
        $(
            /// A handle of MPICH.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            #[allow(non_camel_case_types)]
            pub(crate) struct $name(pub(crate) c_int);
        )*
    };
}

handles! {
    MPI_Comm MPI_Group MPI_Datatype MPI_Op MPI_Request MPI_Message MPI_Win MPI_Info MPI_Errhandler
    MPI_Session
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[allow(non_camel_case_types)]
pub(crate) struct MPI_File(pub(crate) usize);

/// A handle of the standard ABI.
pub(crate) type Standard = usize;

/// A status of MPICH; also one of Fortran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(non_camel_case_types, non_snake_case)]
pub(crate) struct MPI_Status {
    /// The lower 32 bits of the byte count.
    pub(crate) count_lo: u32,
    /// The upper 31 bits of the byte count, above one bit: whether the operation was cancelled.
    pub(crate) count_hi_and_cancelled: u32,
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
}

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

const _: () = assert!(size_of::<MPI_Status>() == 20 && size_of::<StandardStatus>() == 32);
