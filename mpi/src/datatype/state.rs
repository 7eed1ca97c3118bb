//! The two states of a datatype, each a trait: committed, and any.

#![allow(unsafe_code)]

use crate::error::call;
use crate::ffi::{self, MPI_Count, MPI_Datatype};
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
