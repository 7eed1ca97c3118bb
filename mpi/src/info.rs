//! Info objects: keys and values for the library (MPI-5.0 §10).

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int};

use crate::environment::frees_objects;
use crate::error::{MpiError, call, try_call};
use crate::ffi::{self, MPI_Info};

/// An info object, freed when it is dropped. It is MPI_INFO_NULL if it has no keys.
pub(crate) struct Info(MPI_Info);

impl Info {
    /// Returns an object without keys.
    pub(crate) fn empty() -> Info {
        Info(ffi::MPI_INFO_NULL)
    }

    /// Takes over an object.
    ///
    /// # Safety
    /// The handle is MPI_INFO_NULL or valid, and belongs to the result.
    pub(crate) unsafe fn from_raw(raw: MPI_Info) -> Info {
        Info(raw)
    }

    /// Makes an object of hints.
    ///
    /// # Panics
    /// If a key or value has a zero byte.
    pub(crate) fn of_hints<'a>(
        hints: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Info, MpiError> {
        let mut info = Info::empty();
        for (key, value) in hints {
            info.set(&terminated(key), &terminated(value))?;
        }
        Ok(info)
    }

    /// Sets the value of a key.
    pub(crate) fn set(&mut self, key: &CStr, value: &CStr) -> Result<(), MpiError> {
        // SAFETY: the object is null, or one that this value owns; the texts are terminated.
        unsafe {
            if self.0 == ffi::MPI_INFO_NULL {
                try_call!(MPI_Info_create(&mut self.0))?;
            }
            try_call!(MPI_Info_set(self.0, key.as_ptr(), value.as_ptr()))
        }
    }

    pub(crate) fn as_raw(&self) -> MPI_Info {
        self.0
    }

    /// Returns all keys and values.
    pub(crate) fn entries(&self) -> Result<Vec<(String, String)>, MpiError> {
        let mut number = 0;
        // SAFETY: the object is valid.
        unsafe { try_call!(MPI_Info_get_nkeys(self.0, &mut number))? };
        (0..number).map(|index| self.entry(index)).collect()
    }

    /// Returns the key and value of an index below their number.
    fn entry(&self, index: c_int) -> Result<(String, String), MpiError> {
        let mut key = [0 as c_char; ffi::MPI_MAX_INFO_KEY as usize + 1];
        let mut value = [0 as c_char; ffi::MPI_MAX_INFO_VAL as usize + 1];
        let (mut length, mut is_found) = (value.len() as c_int, 0);
        // SAFETY: the object is valid; the buffers are at least as long as the standard demands,
        // and the key that was written to one is terminated.
        unsafe {
            try_call!(MPI_Info_get_nthkey(self.0, index, key.as_mut_ptr()))?;
            let (key, value) = (key.as_ptr(), value.as_mut_ptr());
            try_call!(MPI_Info_get_string(self.0, key, &mut length, value, &mut is_found))?;
        }
        Ok((text(&key), text(&value)))
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        if self.0 != ffi::MPI_INFO_NULL && frees_objects() {
            // SAFETY: the object belongs to this value.
            unsafe { call!(MPI_Info_free(&mut self.0)) };
        }
    }
}

fn terminated(text: &str) -> CString {
    CString::new(text)
        .unwrap_or_else(|_| panic!("invalid hint {text:?}: must not have a zero byte"))
}

/// Returns the text of a buffer up to its first zero byte.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|&byte| byte as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_zero_byte() {
        assert_eq!(text(&[b'a' as c_char, b'b' as c_char, 0, b'c' as c_char]), "ab");
    }
}
