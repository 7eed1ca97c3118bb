//! Values, texts and lists from and to callers of the tool information interface, which may leave
//! out any of them (MPI-5.0 §15.3.3).

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

use runtime::tools::ToolError;

/// Stores a value, unless the caller does not want it.
///
/// # Safety
/// `to` is null or valid for a write.
pub(crate) unsafe fn put_value<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}

/// Stores a value like [`put_value`], as the last thing of a call.
///
/// # Safety
/// `to` is null or valid for a write.
pub(crate) unsafe fn store<T>(to: *mut T, value: T) -> Result<(), ToolError> {
    // SAFETY: the caller's promise.
    unsafe { put_value(to, value) };
    Ok(())
}

/// Writes as much of a text as fits, and its length with the terminator.
///
/// # Safety
/// `len` is null or valid; `buffer` is null or has `*len` characters.
pub(crate) unsafe fn put_text(buffer: *mut c_char, len: *mut c_int, text: &str) {
    // SAFETY: the caller's promise.
    let Some(len) = (unsafe { len.as_mut() }) else { return };
    if let Some(most) = usize::try_from(*len).ok().and_then(|len| len.checked_sub(1))
        && !buffer.is_null()
    {
        let bytes = &text.as_bytes()[..text.len().min(most)];
        // SAFETY: with the terminator at most `*len` characters.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buffer, bytes.len());
            *buffer.add(bytes.len()) = 0;
        }
    }
    *len = text.len() as c_int + 1;
}

/// Stores as many numbers as fit.
///
/// # Safety
/// `to` is null or has `len` elements.
pub(crate) unsafe fn put_list(to: *mut c_int, len: c_int, list: &[i32]) -> Result<(), ToolError> {
    let len = usize::try_from(len).map_err(|_| ToolError::Invalid)?;
    if to.is_null() && len > 0 {
        return Err(ToolError::Invalid);
    }
    for (at, number) in list.iter().enumerate().take(len) {
        // SAFETY: `at` is below `len`.
        unsafe { to.add(at).write(*number) };
    }
    Ok(())
}

/// Returns the caller's text.
///
/// # Safety
/// `text` is null or a terminated string that outlives the result.
pub(crate) unsafe fn c_text<'a>(text: *const c_char) -> Result<&'a str, ToolError> {
    if text.is_null() {
        return Err(ToolError::Invalid);
    }
    // SAFETY: not null, therefore a terminated string.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| ToolError::InvalidName)
}
