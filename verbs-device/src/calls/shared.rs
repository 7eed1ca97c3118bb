//! What the functions of several files need.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use verbs_transport::ibv::layout as ibv;

use crate::context::Context;
use crate::objects::{ContextObject, Numbered};

pub(super) type Pd = Numbered<ibv::Pd>;
pub(super) type SharedQueue = Numbered<ibv::Srq>;
pub(super) type CompChannel = Numbered<ibv::CompChannel>;

pub(super) fn fail<T>(code: c_int) -> *mut T {
    // SAFETY: the address of errno of this thread is valid for writes.
    unsafe { *libc::__errno_location() = code };
    null_mut()
}

pub(super) fn fail_int(code: c_int) -> c_int {
    fail::<c_void>(code);
    -1
}

/// Returns the context of an object.
pub(super) unsafe fn context<'a>(context: *mut ibv::Context) -> &'a Context {
    // SAFETY: by the interface the context is open.
    &unsafe { ContextObject::of(context) }.context
}
