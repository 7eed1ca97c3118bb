//! Layouts for the views of files and for parts of arrays (MPI-5.0 §5.1.3, §5.1.7).

#![allow(unsafe_code)]

use std::os::raw::c_int;

use super::owner::construct;
use super::{UncommittedDatatype, UserDatatype};
use crate::ffi::{self, MPI_Count};

impl UserDatatype {
    /// Describes a part of an array of several dimensions in C order, with the extent of the whole
    /// (`MPI_Type_create_subarray`, MPI-5.0 §5.1.3).
    ///
    /// `sizes` are the sides of the array, `part` those of the part, and `start` is where it
    /// begins, by dimension. The element is of `oldtype`.
    ///
    /// # Panics
    /// The call panics if the three have different lengths or the part is not within the array.
    #[track_caller]
    pub fn subarray<D: UncommittedDatatype>(
        sizes: &[usize],
        part: &[usize],
        start: &[usize],
        oldtype: &D,
    ) -> UserDatatype {
        let dimensions = sizes.len();
        assert!(
            part.len() == dimensions && start.len() == dimensions,
            "part of {} and start of {} dimensions in an array of {dimensions}",
            part.len(),
            start.len()
        );
        for ((&size, &part), &start) in sizes.iter().zip(part).zip(start) {
            assert!(
                part <= size && start <= size - part,
                "part of {part} from {start} on: must be within {size}"
            );
        }
        let counts = |numbers: &[usize]| -> Vec<MPI_Count> {
            // MPI refuses arrays that have more bytes than an MPI_Count can count.
            numbers.iter().map(|&n| MPI_Count::try_from(n).unwrap_or(MPI_Count::MAX)).collect()
        };
        let (sizes, part, start) = (counts(sizes), counts(part), counts(start));
        let datatype = construct!(MPI_Type_create_subarray_c(
            dimensions as c_int,
            sizes.as_ptr(),
            part.as_ptr(),
            start.as_ptr(),
            ffi::MPI_ORDER_C,
            oldtype.as_raw(),
        ));
        datatype.commit()
    }

    /// Describes `oldtype` with other bounds: it begins `lower` bytes from its address, and the
    /// next one follows after `extent` bytes (`MPI_Type_create_resized`, MPI-5.0 §5.1.7).
    pub fn resized<D: UncommittedDatatype>(
        lower: crate::Address,
        extent: crate::Address,
        oldtype: &D,
    ) -> UserDatatype {
        let (lower, extent) = (lower as MPI_Count, extent as MPI_Count);
        construct!(MPI_Type_create_resized_c(oldtype.as_raw(), lower, extent)).commit()
    }
}
