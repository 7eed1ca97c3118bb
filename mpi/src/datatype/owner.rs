//! Owners of datatypes that the program made.
//!
//! Invariant: a value frees its datatype, and nothing else does. That of a [`UserDatatype`] is
//! committed.

#![allow(unsafe_code)]

use super::{Datatype, UncommittedDatatype};
use crate::environment::is_finalized;
use crate::error::call;
use crate::ffi::{self, MPI_Datatype};
use crate::raw::traits::*;

/// A datatype that the program made, not committed yet: a part of other datatypes.
///
/// It is freed when it is dropped. Datatypes that were made of it live on (MPI-5.0 §5.1.9).
#[derive(Debug)]
#[repr(transparent)]
pub struct UncommittedUserDatatype(MPI_Datatype);

impl UncommittedUserDatatype {
    /// Commits the datatype, so that it can describe messages (MPI-5.0 §5.1.9).
    pub fn commit(mut self) -> UserDatatype {
        // SAFETY: the value owns the datatype. The handle stays the same.
        unsafe { call!(MPI_Type_commit(&mut self.0)) };
        UserDatatype(self)
    }
}

impl Drop for UncommittedUserDatatype {
    fn drop(&mut self) {
        if !is_finalized() {
            // SAFETY: the value owns the datatype and ends.
            unsafe { call!(MPI_Type_free(&mut self.0)) };
        }
    }
}

impl Clone for UncommittedUserDatatype {
    fn clone(&self) -> Self {
        self.dup()
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
        UncommittedUserDatatype(handle)
    }
}

// SAFETY: the type is transparent over its handle.
unsafe impl MatchesRaw for UncommittedUserDatatype {}

impl UncommittedDatatype for UncommittedUserDatatype {
    type DuplicatedDatatype = UncommittedUserDatatype;
}

/// A datatype that the program made and committed: it describes messages (MPI-5.0 §5.1.9).
///
/// It is freed when it is dropped; messages on the way are not harmed.
#[derive(Debug)]
#[repr(transparent)]
pub struct UserDatatype(UncommittedUserDatatype);

impl Clone for UserDatatype {
    fn clone(&self) -> Self {
        self.dup()
    }
}

// SAFETY: the value owns the datatype.
unsafe impl AsRaw for UserDatatype {
    type Raw = MPI_Datatype;

    fn as_raw(&self) -> Self::Raw {
        self.0.as_raw()
    }
}

impl FromRaw for UserDatatype {
    /// Makes the owner of a datatype.
    ///
    /// # Safety
    /// The handle is that of a committed datatype, and nothing else frees it.
    unsafe fn from_raw(handle: MPI_Datatype) -> Self {
        // SAFETY: as the caller promises.
        UserDatatype(unsafe { UncommittedUserDatatype::from_raw(handle) })
    }
}

// SAFETY: the type is transparent over a type that is transparent over its handle.
unsafe impl MatchesRaw for UserDatatype {}

impl Datatype for UserDatatype {}

impl UncommittedDatatype for UserDatatype {
    type DuplicatedDatatype = UserDatatype;
}

/// Makes an [`UncommittedUserDatatype`] by a constructor of MPI, whose last argument is where the
/// new handle goes.
macro_rules! construct {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut datatype = $crate::ffi::MPI_DATATYPE_NULL;
        // SAFETY: the old datatypes are borrowed and so valid, each array has the length that is
        // passed, and MPI copies them. The new datatype belongs to the value.
        unsafe {
            $crate::error::call!($name($($argument),*, &mut datatype));
            <$crate::datatype::UncommittedUserDatatype as $crate::raw::FromRaw>::from_raw(datatype)
        }
    }};
}
pub(super) use construct;
