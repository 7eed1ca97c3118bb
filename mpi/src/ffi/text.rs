//! Texts that the library writes.

#![allow(unsafe_code)]

use std::os::raw::{c_char, c_int};

/// Returns the text that `write` writes, given a buffer and where its length goes.
///
/// # Safety
/// `write` writes no more than `max` bytes, and a length of at most that.
pub(crate) unsafe fn written(max: c_int, write: impl FnOnce(*mut c_char, *mut c_int)) -> Vec<u8> {
    let mut text = vec![0_u8; max as usize];
    let mut len = 0;
    write(text.as_mut_ptr().cast(), &mut len);
    text.truncate(usize::try_from(len).expect("the library gives a negative length"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_text_ends_at_its_length() {
        // SAFETY: two bytes are written of three.
        let text = unsafe {
            written(3, |text, len| {
                text.cast::<u8>().write(b'h');
                text.cast::<u8>().add(1).write(b'i');
                *len = 2;
            })
        };
        assert_eq!(text, b"hi");
    }
}
