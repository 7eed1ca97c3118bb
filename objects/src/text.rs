//! Strings that users give and get back: bytes that need not be UTF-8.
//!
//! They are kept as [`OsStr`], byte for byte. Texts that are printed show what is not UTF-8 as
//! replacement characters.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Returns the first `max` bytes of a string, without the beginning of a UTF-8 character that ends
/// after them.
pub fn truncated(text: &OsStr, max: usize) -> &OsStr {
    let Some(bytes) = text.as_bytes().get(..max).filter(|_| text.len() > max) else { return text };
    match std::str::from_utf8(bytes) {
        // The bytes end within a character.
        Err(error) if error.error_len().is_none() => {
            OsStr::from_bytes(&bytes[..error.valid_up_to()])
        }
        _ => OsStr::from_bytes(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_cut_off_whole_and_other_bytes_anywhere() {
        let cut = |text: &[u8], max| truncated(OsStr::from_bytes(text), max).len();
        assert_eq!((cut(b"halo", 4), cut(b"halo", 9), cut(b"halo", 3)), (4, 4, 3));
        let [utf8, latin1] = ["né".as_bytes(), b"n\xe9 a"];
        assert_eq!((cut(utf8, 1), cut(utf8, 2), cut(utf8, 3)), (1, 1, 3));
        assert_eq!((cut(latin1, 4), cut(latin1, 3)), (4, 3));
    }
}
