//! Functions for tests, which libibverbs does not have, and the answer about forks.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::ffi::{CStr, c_char, c_int};

use super::device::setup;
use crate::{context, forks, memory, responder};

/// Tells this library from libibverbs: carries out what a test wants, see [`context::control`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_device_control(text: *const c_char) -> c_int {
    // SAFETY: the test passes a terminated string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    c_int::from(context::control(&text)) - 1
}

/// Returns how often `ibv_fork_init` was called.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_device_fork_inits() -> c_int {
    forks::inits()
}

/// Returns the KiB that were pinned so far.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_device_all_pinned() -> c_int {
    (memory::all_pinned() >> 10) as c_int
}

/// Returns how often a send has found no receive.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_device_missed_receives() -> c_int {
    responder::missed_receives()
}

/// What the options say.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    setup().options.copies
}

/// From now on registered pages are missing in children.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    forks::init();
    0
}
