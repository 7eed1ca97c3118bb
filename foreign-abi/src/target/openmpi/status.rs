//! Open MPI's status; in Fortran it is six INTEGERs, which may lie at any multiple of 4.

use std::os::raw::c_int;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(non_camel_case_types, non_snake_case)]
pub(crate) struct MPI_Status {
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
    is_cancelled: c_int,
    bytes: usize,
}

const _: () = assert!(size_of::<MPI_Status>() == 24);

impl MPI_Status {
    /// The number of bytes, and whether the operation was cancelled.
    pub(crate) fn count(self) -> (i64, bool) {
        (self.bytes as i64, self.is_cancelled != 0)
    }

    /// Sets what [`MPI_Status::count`] returns.
    #[inline]
    pub(crate) fn set_count(&mut self, bytes: i64, is_cancelled: bool) {
        self.bytes = bytes as usize;
        self.is_cancelled = c_int::from(is_cancelled);
    }
}
