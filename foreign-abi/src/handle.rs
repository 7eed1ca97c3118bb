//! Handles of the user's, and those of the standard ABI for them.

use std::os::raw::c_int;

use crate::abi::Standard;

/// A class of handles.
pub(crate) trait Handle: Copy {
    /// The standard ABI's null handle.
    const NULL: Standard;
    /// The standard ABI's handle.
    fn to_standard(self) -> Standard;
    /// The user's handle.
    fn from_standard(handle: Standard) -> Self;
    /// The integer of the handle (MPI_X_c2f, MPI_X_toint).
    fn to_integer(self) -> c_int;
    /// The handle of an integer.
    fn from_integer(integer: c_int) -> Self;
}

/// The standard ABI's handle of one of the user's.
///
/// # Safety
/// `handle` is valid or null, which the library below refuses.
#[inline]
pub(crate) unsafe fn read<H: Handle>(handle: *const H) -> Standard {
    // SAFETY: the caller's promise.
    if handle.is_null() { H::NULL } else { unsafe { *handle }.to_standard() }
}

/// The address of `ours`, which stands for the user's; null if that is.
#[inline]
pub(crate) fn given<H>(users: *const H, ours: *mut Standard) -> *mut Standard {
    if users.is_null() { std::ptr::null_mut() } else { ours }
}
