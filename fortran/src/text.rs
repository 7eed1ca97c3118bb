//! CHARACTER arguments: blank-padded and without an end mark, their length passed apart.

use std::ffi::CString;
use std::os::raw::c_char;

/// A string that the caller passes in.
pub(crate) struct TextIn(CString);

impl TextIn {
    /// Drops blanks at the end; a NUL ends the text too.
    ///
    /// # Safety
    /// `len` characters at `text` are readable.
    pub(crate) unsafe fn new(text: *const c_char, len: usize) -> TextIn {
        // SAFETY: by this function's contract.
        TextIn(unsafe { trimmed(text, len, false) })
    }

    /// Drops blanks on both sides, as MPI-5.0 §10 asks for info keys and values, and §11.8.2 for
    /// commands and their arguments.
    ///
    /// # Safety
    /// As for `new`.
    pub(crate) unsafe fn without_blanks(text: *const c_char, len: usize) -> TextIn {
        // SAFETY: by this function's contract.
        TextIn(unsafe { trimmed(text, len, true) })
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr()
    }

    pub(crate) fn into_inner(self) -> CString {
        self.0
    }
}

unsafe fn trimmed(text: *const c_char, len: usize, at_start: bool) -> CString {
    if text.is_null() || len == 0 {
        return CString::default();
    }
    // SAFETY: not null, and by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    let mut bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    while let [rest @ .., b' '] = bytes {
        bytes = rest;
    }
    while let ([b' ', rest @ ..], true) = (bytes, at_start) {
        bytes = rest;
    }
    CString::new(bytes).unwrap_or_default()
}

/// A string that the call fills.
pub(crate) struct TextOut {
    to: *mut c_char,
    len: usize,
    bytes: Vec<u8>,
}

impl TextOut {
    /// Makes space for `most` characters and their end mark.
    pub(crate) fn new(to: *mut c_char, len: usize, most: usize) -> TextOut {
        TextOut { to, len, bytes: vec![0; most + 1] }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_char {
        self.bytes.as_mut_ptr().cast()
    }

    /// Copies what C has written, cut or padded to the length in Fortran.
    ///
    /// # Safety
    /// `len` characters at `to` are writable.
    pub(crate) unsafe fn store(&self) {
        let text = self.bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        // SAFETY: by this function's contract.
        unsafe { pad(self.to, self.len, text) };
    }
}

/// Writes a string into a CHARACTER variable.
///
/// # Safety
/// `len` characters at `to` are writable.
pub(crate) unsafe fn pad(to: *mut c_char, len: usize, text: &[u8]) {
    if to.is_null() || len == 0 {
        return;
    }
    // SAFETY: by this function's contract.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len) };
    let used = text.len().min(len);
    to[..used].copy_from_slice(&text[..used]);
    to[used..].fill(b' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CString {
        // SAFETY: a slice's own pointer and length.
        unsafe { TextIn::new(text.as_ptr().cast(), text.len()) }.into_inner()
    }

    #[test]
    fn blanks_end_a_string() {
        assert_eq!(read("  ab c   ").as_bytes(), b"  ab c");
        assert_eq!(read("ab\0   ").as_bytes(), b"ab");
        assert_eq!(read("    ").as_bytes(), b"");
        let key = "  key ";
        // SAFETY: a slice's own pointer and length.
        let key = unsafe { TextIn::without_blanks(key.as_ptr().cast(), key.len()) };
        assert_eq!(key.into_inner().as_bytes(), b"key");
    }

    #[test]
    fn what_c_wrote_is_padded_or_cut() {
        for (len, wanted) in [(6, "abc   "), (3, "abc"), (2, "ab")] {
            let mut to = vec![b'x'; len];
            let mut out = TextOut::new(to.as_mut_ptr().cast(), len, 8);
            out.bytes[..3].copy_from_slice(b"abc");
            // SAFETY: `to` has `len` bytes.
            unsafe { out.store() };
            assert_eq!(to, wanted.as_bytes());
        }
    }
}
