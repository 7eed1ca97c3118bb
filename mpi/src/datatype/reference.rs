//! References to datatypes.
//!
//! Invariant: the datatype of a reference lives as long as the reference's lifetime says, and that
//! of a [`DatatypeRef`] is committed.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::{Datatype, UncommittedDatatype, UncommittedUserDatatype, UserDatatype};
use crate::ffi::MPI_Datatype;
use crate::raw::traits::*;

/// A reference to a committed datatype that lives for `'a`.
#[derive(Copy, Clone, Debug)]
#[repr(transparent)]
pub struct DatatypeRef<'a> {
    datatype: MPI_Datatype,
    phantom: PhantomData<&'a ()>,
}

// SAFETY: the datatype lives for `'a`, which the value does not outlive.
unsafe impl AsRaw for DatatypeRef<'_> {
    type Raw = MPI_Datatype;

    fn as_raw(&self) -> Self::Raw {
        self.datatype
    }
}

impl FromRaw for DatatypeRef<'_> {
    /// Makes a reference of a handle.
    ///
    /// # Safety
    /// The datatype is committed and lives for `'a`.
    unsafe fn from_raw(datatype: MPI_Datatype) -> Self {
        Self { datatype, phantom: PhantomData }
    }
}

// SAFETY: the type is transparent over its handle.
unsafe impl MatchesRaw for DatatypeRef<'_> {}

impl Datatype for DatatypeRef<'_> {}

impl UncommittedDatatype for DatatypeRef<'_> {
    type DuplicatedDatatype = UserDatatype;
}

/// A reference to a datatype, committed or not, that lives for `'a`.
#[derive(Copy, Clone, Debug)]
#[repr(transparent)]
pub struct UncommittedDatatypeRef<'a> {
    datatype: MPI_Datatype,
    phantom: PhantomData<&'a ()>,
}

// SAFETY: the datatype lives for `'a`, which the value does not outlive.
unsafe impl AsRaw for UncommittedDatatypeRef<'_> {
    type Raw = MPI_Datatype;

    fn as_raw(&self) -> Self::Raw {
        self.datatype
    }
}

impl FromRaw for UncommittedDatatypeRef<'_> {
    /// Makes a reference of a handle.
    ///
    /// # Safety
    /// The datatype lives for `'a`.
    unsafe fn from_raw(datatype: MPI_Datatype) -> Self {
        Self { datatype, phantom: PhantomData }
    }
}

// SAFETY: the type is transparent over its handle.
unsafe impl MatchesRaw for UncommittedDatatypeRef<'_> {}

impl UncommittedDatatype for UncommittedDatatypeRef<'_> {
    type DuplicatedDatatype = UncommittedUserDatatype;
}

impl<'a> From<DatatypeRef<'a>> for UncommittedDatatypeRef<'a> {
    fn from(committed: DatatypeRef<'a>) -> Self {
        Self { datatype: committed.datatype, phantom: PhantomData }
    }
}

impl<'a> From<&'a UserDatatype> for DatatypeRef<'a> {
    fn from(owner: &'a UserDatatype) -> Self {
        Self { datatype: owner.as_raw(), phantom: PhantomData }
    }
}

impl<'a> From<&'a UserDatatype> for UncommittedDatatypeRef<'a> {
    fn from(owner: &'a UserDatatype) -> Self {
        Self { datatype: owner.as_raw(), phantom: PhantomData }
    }
}

impl<'a> From<&'a UncommittedUserDatatype> for UncommittedDatatypeRef<'a> {
    fn from(owner: &'a UncommittedUserDatatype) -> Self {
        Self { datatype: owner.as_raw(), phantom: PhantomData }
    }
}

impl UserDatatype {
    /// Returns a reference to the datatype.
    pub fn as_ref(&self) -> DatatypeRef<'_> {
        self.into()
    }
}

impl UncommittedUserDatatype {
    /// Returns a reference to the datatype.
    pub fn as_ref(&self) -> UncommittedDatatypeRef<'_> {
        self.into()
    }
}
