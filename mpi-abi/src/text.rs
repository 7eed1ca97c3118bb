//! Strings from and to C. Their bytes need not be UTF-8.

use std::borrow::Cow;
use std::ffi::{CStr, OsStr};
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use objects::{Result, truncated};

use crate::args::{not_null, put};

/// Writes `text` and its length into the user's buffer of `capacity` characters, terminator
/// included. Longer text is truncated ([`objects::truncated`]).
///
/// # Safety
/// `buffer` is null or has `capacity` characters; `resultlen` is null or valid.
pub(crate) unsafe fn put_text(
    buffer: *mut c_char,
    capacity: c_int,
    resultlen: *mut c_int,
    text: impl AsRef<OsStr>,
) -> Result<()> {
    not_null(buffer, "the buffer for the result")?;
    let text = truncated(text.as_ref(), capacity as usize - 1).as_bytes();
    let len = text.len();
    // SAFETY: `len` is below `capacity`; therefore text and terminator fit.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, len);
        *buffer.add(len) = 0;
        put(resultlen, len as c_int, "resultlen")
    }
}

/// Returns the user's string as a word that is compared with known ones.
///
/// # Safety
/// `text` is null or a terminated string that outlives the result.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<Cow<'a, str>> {
    // SAFETY: the caller's promise, passed on.
    unsafe { exact(text, name) }.map(OsStr::to_string_lossy)
}

/// Returns the user's string byte for byte.
///
/// # Safety
/// `text` is null or a terminated string that outlives the result.
pub(crate) unsafe fn exact<'a>(text: *const c_char, name: &str) -> Result<&'a OsStr> {
    not_null(text, name)?;
    // SAFETY: not null, therefore a terminated string.
    Ok(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()))
}

/// Returns the user's file name.
///
/// # Safety
/// `path` is null or a terminated string that outlives the result.
pub(crate) unsafe fn path<'a>(path: *const c_char, name: &str) -> Result<&'a Path> {
    // SAFETY: the caller's promise, passed on.
    unsafe { exact(path, name) }.map(Path::new)
}
