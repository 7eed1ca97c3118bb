//! Texts that the library below returns in more bytes than the program's limits allow.

use std::ffi::CStr;
use std::os::raw::c_char;

/// Copies a text and its end into `limit` bytes, as far as it fits. Returns its length there, and
/// whether it is complete.
///
/// # Safety
/// `text` ends with 0; `to` has `limit` bytes, which are not those of `text`.
pub(crate) unsafe fn copy(text: *const c_char, to: *mut c_char, limit: usize) -> (usize, bool) {
    // SAFETY: the caller's promise.
    unsafe {
        let length = CStr::from_ptr(text).to_bytes().len();
        let copied = length.min(limit - 1);
        std::ptr::copy_nonoverlapping(text, to, copied);
        *to.add(copied) = 0;
        (copied, copied == length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_never_exceeds_its_limit() {
        let mut to = [1; 6];
        // SAFETY: a constant, and an array of ours.
        let mut copy = |text: &CStr| (unsafe { copy(text.as_ptr(), to.as_mut_ptr(), 4) }, to);
        assert_eq!(copy(c"abc"), ((3, true), [97, 98, 99, 0, 1, 1]));
        assert_eq!(copy(c"defgh"), ((3, false), [100, 101, 102, 0, 1, 1]));
    }
}
