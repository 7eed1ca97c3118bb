//! What entry points and bodies use.

pub(crate) use std::os::raw::{c_char, c_int, c_void};

pub(crate) use crate::array::{Handles, Logicals};
pub(crate) use crate::descriptor::{Descriptor, refuse};
pub(crate) use crate::generated::c;
pub(crate) use crate::generated::c::pick;
pub(crate) use crate::handle::*;
pub(crate) use crate::logical::{from_logical, to_logical};
pub(crate) use crate::names::names;
pub(crate) use crate::pending::{keep, keep_with_types};
pub(crate) use crate::section::Section;
pub(crate) use crate::sentinel::{c_buffer, c_status, c_statuses, c_weights};
pub(crate) use crate::target::{Passed, described, limits};
pub(crate) use crate::text::{TextIn, TextOut};

/// MPI_SUCCESS.
pub(crate) const SUCCESS: c_int = 0;

/// Stores the error code, if the caller passed `ierror`.
///
/// # Safety
/// `ierror` is null or the caller's INTEGER.
pub(crate) unsafe fn finish(ierror: *mut c_int, code: c_int) {
    if !ierror.is_null() {
        // SAFETY: not null, therefore the caller's INTEGER.
        unsafe { ierror.write(code) };
    }
}
