//! Construction of datatypes (MPI-5.0 §5.1.2).

#![allow(unsafe_code)]

use std::mem;

use super::{UncommittedDatatype, UncommittedDatatypeRef, UserDatatype};
use crate::environment::is_finalized;
use crate::error::call;
use crate::ffi::{self, MPI_Count, MPI_Datatype};
use crate::raw::traits::*;
use crate::{Address, Count};

/// A datatype that the program made, not committed yet: a part of other datatypes.
///
/// It is freed when it is dropped. Datatypes that were made of it live on (MPI-5.0 §5.1.9).
///
/// # Panics
/// Constructors panic if MPI refuses their arguments and does not end the job.
#[derive(Debug)]
#[repr(transparent)]
pub struct UncommittedUserDatatype(MPI_Datatype);

/// Calls a constructor of MPI, whose last argument is where the new handle goes.
macro_rules! construct {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut datatype = ffi::MPI_DATATYPE_NULL;
        // SAFETY: the old datatypes are borrowed and so valid, each array has the length that is
        // passed, and MPI copies them.
        unsafe { call!($name($($argument),*, &mut datatype)) };
        UncommittedUserDatatype(datatype)
    }};
}

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

    /// Commits the datatype, so that it can describe messages (MPI-5.0 §5.1.9).
    pub fn commit(self) -> UserDatatype {
        let mut datatype = self.0;
        mem::forget(self);
        // SAFETY: the handle was `self`'s, which no longer frees it; the new value owns it.
        unsafe {
            call!(MPI_Type_commit(&mut datatype));
            UserDatatype::from_raw(datatype)
        }
    }

    /// Returns a reference to the datatype.
    pub fn as_ref(&self) -> UncommittedDatatypeRef<'_> {
        self.into()
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

/// Frees a datatype, unless MPI did that when it was finalized.
///
/// # Safety
/// The handle is that of a datatype which the caller owns and uses no more.
pub(super) unsafe fn free(mut datatype: MPI_Datatype) {
    if !is_finalized() {
        // SAFETY: MPI still works, and the handle is the caller's.
        unsafe { call!(MPI_Type_free(&mut datatype)) };
    }
}

impl Clone for UncommittedUserDatatype {
    fn clone(&self) -> Self {
        self.dup()
    }
}

impl Drop for UncommittedUserDatatype {
    fn drop(&mut self) {
        // SAFETY: the value owns the datatype and ends.
        unsafe { free(self.0) };
    }
}

// SAFETY: the value owns the datatype.
unsafe impl AsRaw for UncommittedUserDatatype {
    type Raw = MPI_Datatype;

    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl FromRaw for UncommittedUserDatatype {
    /// Makes the owner of a datatype.
    ///
    /// # Safety
    /// The handle is valid, and nothing else frees it.
    unsafe fn from_raw(handle: MPI_Datatype) -> Self {
        assert_ne!(handle, ffi::MPI_DATATYPE_NULL, "a datatype must not be MPI_DATATYPE_NULL");
        Self(handle)
    }
}

// SAFETY: the type is transparent over its handle.
unsafe impl MatchesRaw for UncommittedUserDatatype {}

impl UncommittedDatatype for UncommittedUserDatatype {
    type DuplicatedDatatype = UncommittedUserDatatype;
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
