//! Committed datatypes that the program made.

#![allow(unsafe_code)]

use super::uncommitted::free;
use super::{Datatype, DatatypeRef, UncommittedDatatype, UncommittedUserDatatype};
use crate::ffi::{self, MPI_Datatype};
use crate::raw::traits::*;
use crate::{Address, Count};

/// A datatype that the program made and committed: it describes messages (MPI-5.0 §5.1.9).
///
/// It is freed when it is dropped; messages on the way are not harmed. Each constructor is that of
/// [`UncommittedUserDatatype`] and commits what it makes.
#[derive(Debug)]
#[repr(transparent)]
pub struct UserDatatype(MPI_Datatype);

impl UserDatatype {
    /// Makes a datatype of `count` elements of `oldtype` in a row.
    pub fn contiguous<D>(count: Count, oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::contiguous(count, oldtype).commit()
    }

    /// Makes a datatype of `count` blocks of `blocklength` elements of `oldtype`. `stride` elements
    /// lie between the starts of two blocks.
    pub fn vector<D>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::vector(count, blocklength, stride, oldtype).commit()
    }

    /// Makes a datatype like [`vector`](Self::vector), with `stride` in bytes.
    pub fn heterogeneous_vector<D>(
        count: Count,
        blocklength: Count,
        stride: Address,
        oldtype: &D,
    ) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::heterogeneous_vector(count, blocklength, stride, oldtype).commit()
    }

    /// Makes a datatype of blocks: block `i` has `blocklengths[i]` elements of `oldtype` and starts
    /// `displacements[i]` elements from the datatype's start.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn indexed<D>(blocklengths: &[Count], displacements: &[Count], oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::indexed(blocklengths, displacements, oldtype).commit()
    }

    /// Makes a datatype like [`indexed`](Self::indexed), with `displacements` in bytes.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn heterogeneous_indexed<D>(
        blocklengths: &[Count],
        displacements: &[Address],
        oldtype: &D,
    ) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::heterogeneous_indexed(blocklengths, displacements, oldtype)
            .commit()
    }

    /// Makes a datatype of blocks of `blocklength` elements of `oldtype`. Block `i` starts
    /// `displacements[i]` elements from the datatype's start.
    pub fn indexed_block<D>(
        blocklength: Count,
        displacements: &[Count],
        oldtype: &D,
    ) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::indexed_block(blocklength, displacements, oldtype).commit()
    }

    /// Makes a datatype like [`indexed_block`](Self::indexed_block), with `displacements` in bytes.
    pub fn heterogeneous_indexed_block<D>(
        blocklength: Count,
        displacements: &[Address],
        oldtype: &D,
    ) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::heterogeneous_indexed_block(blocklength, displacements, oldtype)
            .commit()
    }

    /// Makes a datatype of blocks: block `i` has `blocklengths[i]` elements of `types[i]` and
    /// starts `displacements[i]` bytes from the datatype's start.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn structured<D>(
        blocklengths: &[Count],
        displacements: &[Address],
        types: &[D],
    ) -> UserDatatype
    where
        D: UncommittedDatatype + MatchesRaw<Raw = MPI_Datatype>,
    {
        UncommittedUserDatatype::structured(blocklengths, displacements, types).commit()
    }

    /// Returns a reference to the datatype.
    pub fn as_ref(&self) -> DatatypeRef<'_> {
        self.into()
    }
}

impl Clone for UserDatatype {
    fn clone(&self) -> Self {
        self.dup()
    }
}

impl Drop for UserDatatype {
    fn drop(&mut self) {
        // SAFETY: the value owns the datatype and ends.
        unsafe { free(self.0) };
    }
}

// SAFETY: the value owns the datatype.
unsafe impl AsRaw for UserDatatype {
    type Raw = MPI_Datatype;

    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl FromRaw for UserDatatype {
    /// Makes the owner of a datatype.
    ///
    /// # Safety
    /// The handle is that of a committed datatype, and nothing else frees it.
    unsafe fn from_raw(handle: MPI_Datatype) -> Self {
        assert_ne!(handle, ffi::MPI_DATATYPE_NULL, "a datatype must not be MPI_DATATYPE_NULL");
        UserDatatype(handle)
    }
}

// SAFETY: the type is transparent over its handle.
unsafe impl MatchesRaw for UserDatatype {}

impl Datatype for UserDatatype {}

impl UncommittedDatatype for UserDatatype {
    type DuplicatedDatatype = UserDatatype;
}
