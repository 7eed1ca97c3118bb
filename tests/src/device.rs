//! Calls of the stand-in device's own functions, in the library that a transport has opened.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

fn find(library: &Path, name: &CStr) -> *mut c_void {
    let path = CString::new(library.as_os_str().as_bytes()).expect("a path");
    // SAFETY: the path is terminated; a library that is open already is not opened again.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{} cannot be opened", library.display());
    // SAFETY: the handle is of an open library that is never closed, and the name is terminated.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!found.is_null(), "no function {name:?}");
    found
}

/// Changes the open devices of this process. Returns false if the device does not know a word.
pub fn control(library: &Path, text: &CStr) -> bool {
    let symbol = find(library, c"verbs_device_control");
    // SAFETY: the function of this name has this signature; the text is terminated.
    unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(symbol)(
            text.as_ptr(),
        ) == 0
    }
}

/// Returns the number that a function without arguments returns.
pub fn number(library: &Path, function: &CStr) -> c_int {
    let symbol = find(library, function);
    // SAFETY: the functions of the device that return numbers have this signature.
    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(symbol)() }
}
