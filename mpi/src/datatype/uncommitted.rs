//! Construction of datatypes (MPI-5.0 §5.1.2). The caller decides whether to commit them.

#![allow(unsafe_code)]

use super::owner::construct;
use super::{UncommittedDatatype, UncommittedUserDatatype};
use crate::ffi::{MPI_Count, MPI_Datatype};
use crate::raw::traits::*;
use crate::{Address, Count};

/// Constructors. They panic if MPI refuses their arguments and does not end the job.
impl UncommittedUserDatatype {
    /// Makes a datatype of `count` elements of `oldtype` in a row.
    pub fn contiguous<D>(count: Count, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        construct!(MPI_Type_contiguous_c(MPI_Count::from(count), oldtype.as_raw()))
    }

    /// Makes a datatype of `count` blocks of `blocklength` elements of `oldtype`. `stride` elements
    /// lie between the starts of two blocks.
    pub fn vector<D>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        construct!(MPI_Type_vector_c(
            MPI_Count::from(count),
            MPI_Count::from(blocklength),
            MPI_Count::from(stride),
            oldtype.as_raw(),
        ))
    }

    /// Makes a datatype like [`vector`](Self::vector), with `stride` in bytes.
    pub fn heterogeneous_vector<D>(
        count: Count,
        blocklength: Count,
        stride: Address,
        oldtype: &D,
    ) -> Self
    where
        D: UncommittedDatatype,
    {
        construct!(MPI_Type_create_hvector_c(
            MPI_Count::from(count),
            MPI_Count::from(blocklength),
            stride as MPI_Count,
            oldtype.as_raw(),
        ))
    }

    /// Makes a datatype of blocks: block `i` has `blocklengths[i]` elements of `oldtype` and starts
    /// `displacements[i]` elements from the datatype's start.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn indexed<D>(blocklengths: &[Count], displacements: &[Count], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        construct!(MPI_Type_indexed(
            equal_lengths(&[blocklengths.len(), displacements.len()]),
            blocklengths.as_ptr(),
            displacements.as_ptr(),
            oldtype.as_raw(),
        ))
    }

    /// Makes a datatype like [`indexed`](Self::indexed), with `displacements` in bytes.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn heterogeneous_indexed<D>(
        blocklengths: &[Count],
        displacements: &[Address],
        oldtype: &D,
    ) -> Self
    where
        D: UncommittedDatatype,
    {
        construct!(MPI_Type_create_hindexed(
            equal_lengths(&[blocklengths.len(), displacements.len()]),
            blocklengths.as_ptr(),
            displacements.as_ptr(),
            oldtype.as_raw(),
        ))
    }

    /// Makes a datatype of blocks of `blocklength` elements of `oldtype`. Block `i` starts
    /// `displacements[i]` elements from the datatype's start.
    pub fn indexed_block<D>(blocklength: Count, displacements: &[Count], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        construct!(MPI_Type_create_indexed_block(
            equal_lengths(&[displacements.len()]),
            blocklength,
            displacements.as_ptr(),
            oldtype.as_raw(),
        ))
    }

    /// Makes a datatype like [`indexed_block`](Self::indexed_block), with `displacements` in bytes.
    pub fn heterogeneous_indexed_block<D>(
        blocklength: Count,
        displacements: &[Address],
        oldtype: &D,
    ) -> Self
    where
        D: UncommittedDatatype,
    {
        construct!(MPI_Type_create_hindexed_block(
            equal_lengths(&[displacements.len()]),
            blocklength,
            displacements.as_ptr(),
            oldtype.as_raw(),
        ))
    }

    /// Makes a datatype of blocks: block `i` has `blocklengths[i]` elements of `types[i]` and
    /// starts `displacements[i]` bytes from the datatype's start.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn structured<D>(blocklengths: &[Count], displacements: &[Address], types: &[D]) -> Self
    where
        D: UncommittedDatatype + MatchesRaw<Raw = MPI_Datatype>,
    {
        construct!(MPI_Type_create_struct(
            equal_lengths(&[blocklengths.len(), displacements.len(), types.len()]),
            blocklengths.as_ptr(),
            displacements.as_ptr(),
            // A type that matches its raw type has the layout of a handle.
            types.as_ptr().cast::<MPI_Datatype>(),
        ))
    }
}

/// Returns the common length of arrays that are passed to MPI together.
fn equal_lengths(lengths: &[usize]) -> Count {
    let first = lengths[0];
    assert!(
        lengths.iter().all(|&length| length == first),
        "slices of the lengths {lengths:?} describe one datatype: they must have the same length"
    );
    first.try_into().expect("a datatype must have fewer than 2^31 blocks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "[2, 3, 2] describe one datatype")]
    fn slices_of_one_datatype_have_one_length() {
        assert_eq!(equal_lengths(&[4, 4]), 4);
        equal_lengths(&[2, 3, 2]);
    }
}
