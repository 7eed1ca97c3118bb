//! Conversions between the types of this crate and the handles of [`crate::ffi`].

#![allow(unsafe_code)]

/// The traits of this module.
pub mod traits {
    pub use super::{AsRaw, AsRawMut, FromRaw, MatchesRaw};
}

/// A type that stands for a handle of the C interface.
///
/// # Safety
/// The handle is valid for as long as the value lives.
pub unsafe trait AsRaw {
    /// The handle's type.
    type Raw: Copy;
    /// Returns the handle.
    fn as_raw(&self) -> Self::Raw;
}

// SAFETY: the handle is that of the value that is borrowed.
unsafe impl<T: AsRaw + ?Sized> AsRaw for &T {
    type Raw = T::Raw;

    fn as_raw(&self) -> Self::Raw {
        (**self).as_raw()
    }
}

/// A type that stands for a handle, and lets MPI write one.
///
/// # Safety
/// What is written through the pointer becomes the value's handle.
pub unsafe trait AsRawMut: AsRaw {
    /// Returns where the handle lies.
    fn as_raw_mut(&mut self) -> *mut <Self as AsRaw>::Raw;
}

/// A type that can be made from a handle.
pub trait FromRaw: AsRaw {
    /// Makes a value of a handle.
    ///
    /// # Safety
    /// The handle is valid and of the kind that the type stands for. If the type frees handles when
    /// it is dropped, the value owns this one from now on.
    unsafe fn from_raw(handle: <Self as AsRaw>::Raw) -> Self;
}

/// A type with the layout of its handle: a slice of it is an array of handles.
///
/// # Safety
/// The type is `repr(transparent)` over its handle.
pub unsafe trait MatchesRaw: AsRaw {}
