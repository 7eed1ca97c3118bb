//! Construction of committed datatypes.

use super::{UncommittedDatatype, UncommittedUserDatatype, UserDatatype};
use crate::ffi::MPI_Datatype;
use crate::raw::MatchesRaw;
use crate::{Address, Count};

/// Constructors: each is that of [`UncommittedUserDatatype`], and commits what it makes.
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
}
