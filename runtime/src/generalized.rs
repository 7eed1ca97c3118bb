//! Generalized requests (MPI-5.0 §13.2): operations that the user performs and
//! MPI only waits for. The user's functions are called outside the lock.

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
    /// Frees what the user keeps.
    pub free: unsafe extern "C" fn(*mut c_void) -> i32,
    /// Told of MPI_Cancel; the flag says whether it is complete.
    pub cancel: unsafe extern "C" fn(*mut c_void, i32) -> i32,
    /// Passed to each.
    pub extra_state: *mut c_void,
    /// MPI_Grequest_complete was called.
    pub complete: bool,
    /// MPI_Request_free was called; the request goes when it is complete.
    pub freed: bool,
}

// SAFETY: the functions and the state belong to the user, who may call MPI from
// any thread at the level that was asked for; we only carry the pointers.
unsafe impl Send for Generalized {}

impl Generalized {
    /// Tells the user of MPI_Cancel.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the user registered this function for this state (MPI-5.0
        // §13.2); we are outside the lock, so it may call MPI.
        let code = unsafe { user(|| (self.cancel)(self.extra_state, i32::from(self.complete))) };
        Error::from_code(code).map_or(Ok(()), Err)
    }

    /// Calls `free`; once, when the request goes.
    pub fn free(&self) -> Result<()> {
        // SAFETY: the user registered this function for this state (MPI-5.0
        // §13.2); we are outside the lock, so it may call MPI.
        let code = unsafe { user(|| (self.free)(self.extra_state)) };
        Error::from_code(code).map_or(Ok(()), Err)
    }

    /// Calls `query` alone, as MPI_Request_get_status does.
    pub fn ask(&self) -> Outcome {
        let mut status = Status::empty();
        // SAFETY: the user registered this function for this state (MPI-5.0
        // §13.2); we are outside the lock, so it may call MPI.
        let code = unsafe { user(|| (self.query)(self.extra_state, &mut status)) };
        Outcome { status, error: Error::from_code(code) }
    }
}
