//! Errors that MPI calls return.
//!
//! By default MPI ends the job at an error, with an explanation (MPI-5.0 §9.3). A program that sets
//! another error handler gets the return codes: functions of this crate that cannot fail otherwise
//! then panic with the text of the error, the others return it as an [`MpiError`].

#![allow(unsafe_code)]

use std::os::raw::c_int;

use crate::ffi;

/// An error of an MPI call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// A call returned an error code.
    #[error("{call}: {text}")]
    Call {
        /// The function, as C names it.
        call: &'static str,
        /// The error code.
        code: c_int,
        /// What the library says about it.
        text: String,
    },
    /// Some processes could not be started (MPI-5.0 §11.8.2): how many, and of how many.
    #[error("{0} of {1} processes could not be spawned")]
    Spawn(crate::Rank, crate::Rank),
    /// A text for C has a zero byte before its end.
    #[error("a text for MPI has a zero byte: {0}")]
    StringNul(#[from] std::ffi::NulError),
}

impl MpiError {
    /// Returns the error class, one of the constants `MPI_ERR` of [`crate::ffi`] (MPI-5.0 §9.4).
    pub fn class(&self) -> c_int {
        let MpiError::Call { code, .. } = self else { return ffi::MPI_ERR_SPAWN };
        let mut class = 0;
        // SAFETY: the call is allowed at any time.
        let returned = unsafe { ffi::MPI_Error_class(*code, &mut class) };
        if returned == ffi::MPI_SUCCESS { class } else { ffi::MPI_ERR_UNKNOWN }
    }
}

/// Returns an error unless the return code of `call` is MPI_SUCCESS.
#[inline]
pub(crate) fn check(call: &'static str, code: c_int) -> Result<(), MpiError> {
    if code == ffi::MPI_SUCCESS { Ok(()) } else { Err(error(call, code)) }
}

/// Panics unless the return code of `call` is MPI_SUCCESS.
#[inline]
#[track_caller]
pub(crate) fn expect(call: &'static str, code: c_int) {
    if code != ffi::MPI_SUCCESS {
        failed(call, code);
    }
}

#[cold]
#[track_caller]
fn failed(call: &'static str, code: c_int) -> ! {
    panic!("{}", error(call, code));
}

#[cold]
fn error(call: &'static str, code: c_int) -> MpiError {
    MpiError::Call { call, code, text: error_string(code) }
}

/// Returns what the library says about an error code (MPI-5.0 §9.4).
pub fn error_string(code: c_int) -> String {
    let mut returned = ffi::MPI_SUCCESS;
    // SAFETY: no text is longer than the constant says. A call that fails leaves the length 0.
    let text = unsafe {
        ffi::written(ffi::MPI_MAX_ERROR_STRING, |text, len| {
            returned = ffi::MPI_Error_string(code, text, len);
        })
    };
    if returned != ffi::MPI_SUCCESS {
        return format!("error code {code}");
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Calls a function of [`crate::ffi`] and panics with the error's text if it fails.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::error::expect(stringify!($name), $crate::ffi::$name($($argument),*))
    };
}
pub(crate) use call;

/// Calls a function of [`crate::ffi`]; the error is an [`MpiError`].
macro_rules! try_call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::error::check(stringify!($name), $crate::ffi::$name($($argument),*))
    };
}
pub(crate) use try_call;
