//! MPICH's status; also one of Fortran.

use std::os::raw::c_int;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(non_camel_case_types, non_snake_case)]
pub(crate) struct MPI_Status {
    /// The lower 32 bits of the byte count.
    count_lo: u32,
    /// The upper 31 bits of the byte count, above one bit: whether the operation was cancelled.
    count_hi_and_cancelled: u32,
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
}

const _: () = assert!(size_of::<MPI_Status>() == 20);

impl MPI_Status {
    /// The number of bytes, and whether the operation was cancelled.
    pub(crate) fn count(self) -> (i64, bool) {
        let bytes = i64::from(self.count_hi_and_cancelled >> 1) << 32 | i64::from(self.count_lo);
        (bytes, self.count_hi_and_cancelled & 1 != 0)
    }

    /// Sets what [`MPI_Status::count`] returns.
    #[inline]
    pub(crate) fn set_count(&mut self, bytes: i64, is_cancelled: bool) {
        self.count_lo = bytes as u32;
        self.count_hi_and_cancelled = ((bytes >> 32) as u32) << 1 | u32::from(is_cancelled);
    }
}
