//! References to datatypes, and the traits that tell committed datatypes from others.
//!
//! Invariant: the datatype of a reference lives as long as the reference's lifetime says, and that
//! of a [`DatatypeRef`] is committed.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::{UncommittedUserDatatype, UserDatatype};
use crate::error::call;
use crate::ffi;
use crate::ffi::{MPI_Count, MPI_Datatype};
use crate::raw::traits::*;

/// A committed datatype: it can describe messages (MPI-5.0 §5.1.9).
pub trait Datatype: UncommittedDatatype {}

impl<'a, D> Datatype for &'a D where D: 'a + Datatype {}

/// A datatype, committed or not: it can be a part of other datatypes.
pub trait UncommittedDatatype: AsRaw<Raw = MPI_Datatype> {
    /// The owner of a duplicate, which is committed if this datatype is.
    type DuplicatedDatatype: FromRaw<Raw = MPI_Datatype>;

    /// Duplicates the datatype with those of its attributes that are copied (MPI-5.0 §5.1.10).
    fn dup(&self) -> Self::DuplicatedDatatype {
        let mut duplicate = ffi::MPI_DATATYPE_NULL;
        // SAFETY: the handle is valid while `self` is borrowed. The duplicate is new, so its value
        // owns it, and it is committed exactly if the original is.
        unsafe {
            call!(MPI_Type_dup(self.as_raw(), &mut duplicate));
            Self::DuplicatedDatatype::from_raw(duplicate)
        }
    }

    /// Returns the number of bytes of an element's data, without gaps (MPI-5.0 §5.1.5).
    fn size(&self) -> MPI_Count {
        let mut size = 0;
        // SAFETY: the handle is valid while `self` is borrowed.
        unsafe { call!(MPI_Type_size_c(self.as_raw(), &mut size)) };
        size
    }

    /// Returns the lower bound and the extent in bytes (MPI-5.0 §5.1.7): one element of a buffer
    /// starts an extent after the one before.
    fn extent(&self) -> (MPI_Count, MPI_Count) {
        let (mut lower_bound, mut extent) = (0, 0);
        // SAFETY: the handle is valid while `self` is borrowed.
        unsafe { call!(MPI_Type_get_extent_c(self.as_raw(), &mut lower_bound, &mut extent)) };
        (lower_bound, extent)
    }
}

impl<'a, D> UncommittedDatatype for &'a D
where
    D: 'a + UncommittedDatatype,
{
    type DuplicatedDatatype = D::DuplicatedDatatype;
}

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
