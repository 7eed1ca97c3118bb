//! The library with the standard ABI, opened when this one is loaded.
//!
//! Both libraries have functions of the same names, so that a plain reference to PMPI_Send would
//! find the entry point of this one. Therefore the library below is opened apart, its names are
//! visible to nobody else, and calls go through a table of addresses.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::mem::{MaybeUninit, transmute};
use std::os::raw::c_int;

use crate::code;
use crate::generated::library::{Library, NAMES};
use crate::target::NO_LIBRARY;

const SONAME: &CStr = c"libmpi_abi.so.1";
/// What the loader's own exit code is where it finds no library.
const NOT_FOUND: c_int = 127;

/// The table of functions; filled before the program runs, then only read.
struct Table(UnsafeCell<MaybeUninit<Library>>);

// SAFETY: written only by `open`, before any thread calls MPI.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(MaybeUninit::uninit()));

/// The functions below.
#[inline(always)]
pub(crate) fn library() -> &'static Library {
    // SAFETY: `open` has filled the table when this library was loaded.
    unsafe { (*TABLE.0.get()).assume_init_ref() }
}

/// What stands for a function that the library below does not have.
extern "C" fn absent() -> c_int {
    code::STANDARD_UNSUPPORTED
}

/// Opens the library below and fills the table.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn open() {
    const SLOTS: usize = size_of::<Library>() / size_of::<usize>();
    const _: () = assert!(SLOTS == NAMES.len());
    // SAFETY: constant names; the table consists of as many pointers as there are names.
    unsafe {
        let handle = open_below();
        let slots = TABLE.0.get().cast::<*const c_void>();
        for (at, name) in NAMES.iter().enumerate() {
            let found = libc::dlsym(handle, name.as_ptr()).cast_const();
            let function = if found.is_null() { absent as *const c_void } else { found };
            slots.add(at).write(function);
        }
    }
}

/// Opens the library below, or ends the process.
unsafe fn open_below() -> *mut c_void {
    // SAFETY: constant names, and a handle that dlopen returned.
    unsafe {
        let handle = libc::dlopen(SONAME.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
        if handle.is_null() {
            let reason = CStr::from_ptr(libc::dlerror()).to_string_lossy();
            eprintln!("{NO_LIBRARY}: {reason}");
            libc::_exit(NOT_FOUND);
        }
        if is_bound_to_itself(handle) {
            return handle;
        }
        // Its calls of its own functions would arrive here: open it so that it finds itself first.
        libc::dlclose(handle);
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
        libc::dlopen(SONAME.as_ptr(), flags)
    }
}

/// Whether the library calls its own functions directly. Verbena's does; opened like others, it
/// would not see the functions and variables that a program puts in front of those of the C
/// library, such as another malloc or the environment.
unsafe fn is_bound_to_itself(handle: *mut c_void) -> bool {
    type Version = unsafe extern "C" fn(*mut libc::c_char, *mut c_int) -> c_int;
    let mut text = [0; 8192];
    let mut length = 0;
    // SAFETY: the standard's function, which may be called at any time, and memory for any text.
    unsafe {
        let function = libc::dlsym(handle, c"PMPI_Get_library_version".as_ptr());
        if function.is_null() {
            return false;
        }
        let version = transmute::<*mut c_void, Version>(function);
        version(text.as_mut_ptr(), &raw mut length) == 0
            && CStr::from_ptr(text.as_ptr()).to_bytes().starts_with(b"Verbena")
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static OPEN: extern "C" fn() = open;
