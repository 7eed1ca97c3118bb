//! Functions of libraries that are opened at run time and never closed, by their names.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};

/// The functions of an open library: the number is its handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions(usize);

impl Functions {
    /// Opens a library; the error is the reason of the system.
    pub(super) fn open(file: &str) -> Result<Functions, String> {
        let path = CString::new(file).map_err(|_| "its name has a zero byte".to_owned())?;
        // SAFETY: the name is a terminated string. The library's constructors run like those of any
        // library that is loaded at run time.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok(Functions(handle.expose_provenance()));
        }
        // SAFETY: after a failed dlopen, dlerror returns null or a terminated string that lives
        // until the thread's next such call, and it is copied before that.
        Err(unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                "no reason given".into()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        })
    }

    /// Returns the function of this name.
    pub(super) fn find(self, symbol: &'static CStr) -> Option<*mut c_void> {
        let handle = std::ptr::with_exposed_provenance_mut(self.0);
        // SAFETY: the handle is of an open library that is never closed, and the name is
        // terminated.
        let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}
