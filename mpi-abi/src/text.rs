//! Strings from and to C.

use std::borrow::Cow;
use std::ffi::{CStr, OsStr};
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use objects::Result;

use crate::args::{not_null, put};

/// Writes `text` and its length into the user's buffer of `capacity` characters, terminator
/// included. Longer text is truncated at a character boundary.
///
/// # Safety
/// `buffer` is null or has `capacity` characters; `resultlen` is null or valid.
pub(crate) unsafe fn put_text(
    buffer: *mut c_char,
    capacity: c_int,
    resultlen: *mut c_int,
    text: &str,
) -> Result<()> {
    not_null(buffer, "the buffer for the result")?;
    let mut len = text.len().min(capacity as usize - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: `len` is below `capacity`; therefore text and terminator fit.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, len);
        *buffer.add(len) = 0;
        put(resultlen, len as c_int, "resultlen")
    }
}

/// Returns the user's string.
///
/// # Safety
/// `text` is null or a terminated string that outlives the result.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<Cow<'a, str>> {
    not_null(text, name)?;
    // SAFETY: not null, therefore a terminated string.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Returns the user's file name, whose bytes need not be UTF-8.
///
/// # Safety
/// `path` is null or a terminated string that outlives the result.
pub(crate) unsafe fn path<'a>(path: *const c_char, name: &str) -> Result<&'a Path> {
    not_null(path, name)?;
    // SAFETY: not null, therefore a terminated string.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}
