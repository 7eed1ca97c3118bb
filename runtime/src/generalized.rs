//! Generalized requests (MPI-5.0 §13.2): operations that the user performs and that MPI only waits
//! for. The user's functions are called outside the process lock.

#![allow(unsafe_code)]

use std::ffi::c_void;

use objects::callback::user;
use objects::{Error, Result, Status};

use crate::outcome::Outcome;

/// The user's functions of a generalized request, as the ABI passes them.
#[derive(Clone, Copy, Debug)]
pub struct Generalized {
    /// Fills in the status.
    pub query: unsafe extern "C" fn(*mut c_void, *mut Status) -> i32,
    /// Frees the user's state.
    pub free: unsafe extern "C" fn(*mut c_void) -> i32,
    /// Called by MPI_Cancel; the flag tells whether the request is complete.
    pub cancel: unsafe extern "C" fn(*mut c_void, i32) -> i32,
    /// Passed to each of the functions.
    pub extra_state: *mut c_void,
    /// MPI_Grequest_complete was called.
    pub complete: bool,
    /// MPI_Request_free was called; the request is removed when it is complete.
    pub freed: bool,
}

// SAFETY: the functions and the state belong to the user, whose program may call MPI from any
// thread at the level that it requested; the library only carries the pointers.
unsafe impl Send for Generalized {}

impl Generalized {
    /// Calls `cancel`.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the user registered this function for this state (MPI-5.0 §13.2). The caller is
        // outside the process lock, so the function may call MPI.
        let code = unsafe { user(|| (self.cancel)(self.extra_state, i32::from(self.complete))) };
        Error::from_code("the cancel function of the generalized request returned", code)
            .map_or(Ok(()), Err)
    }

    /// Calls `free`; once, when the request is removed.
    pub fn free(&self) -> Result<()> {
        // SAFETY: the user registered this function for this state (MPI-5.0 §13.2). The caller is
        // outside the process lock, so the function may call MPI.
        let code = unsafe { user(|| (self.free)(self.extra_state)) };
        Error::from_code("the free function of the generalized request returned", code)
            .map_or(Ok(()), Err)
    }

    /// Calls `query` alone, as MPI_Request_get_status does.
    pub fn query(&self) -> Outcome {
        let mut status = Status::empty();
        // SAFETY: the user registered this function for this state (MPI-5.0 §13.2). The caller is
        // outside the process lock, so the function may call MPI.
        let code = unsafe { user(|| (self.query)(self.extra_state, &mut status)) };
        let origin = "the query function of the generalized request returned";
        Outcome { status, error: Error::from_code(origin, code) }
    }
}
