//! Errors on their way to the user: through the error handler of the object
//! that the call was about (MPI-5.0 §9.3), outside the lock.

use std::os::raw::c_int;

use objects::errhandler::Raiser;
use objects::{Errhandler, Error};

use crate::abort;
use crate::lock::with;
use crate::process::{Process, predefined};

/// What a call was about, for the choice of the error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseOn {
    /// This communicator's error handler.
    Comm(usize),
    /// This window's.
    Win(usize),
    /// This file's.
    File(usize),
    /// This session's.
    Session(usize),
    /// No object: that of MPI_COMM_SELF (MPI-5.0 §9.3).
    Process,
}

/// Calls the error handler and gives the code that the MPI call returns.
#[cold]
pub fn raise(call: &'static str, on: RaiseOn, error: Error) -> c_int {
    let on = error.raise_on().map_or(on, RaiseOn::Comm);
    let (handler, handle, place) = match error.handler() {
        Some(&handler) => (handler, null_of(&handler), String::new()),
        None => with(|p| handler_of(p, on)),
    };
    match handler {
        Errhandler::Return => objects::error_codes().code_of(call, &error),
        Errhandler::Fatal | Errhandler::Abort => abort::fatal(call, &place, &error),
        Errhandler::User(function) => {
            let code = objects::error_codes().code_of(call, &error);
            function.call(handle, code);
            code
        }
    }
}

/// What stands for the object that was not made.
fn null_of(handler: &Errhandler) -> usize {
    match handler {
        Errhandler::User(user) if user.raiser() == Raiser::Session => predefined::SESSION_NULL,
        _ => predefined::COMM_NULL,
    }
}

/// The handler, the handle to pass to it, and words for where it happened. An
/// object that does not exist has no handler: MPI_COMM_SELF's serves.
fn handler_of(p: &Process, on: RaiseOn) -> (Errhandler, usize, String) {
    if let RaiseOn::Comm(handle) = on
        && let Ok(comm) = p.comm(handle)
    {
        return (*comm.errhandler(), handle, comm.describe());
    }
    if let RaiseOn::Session(handle) = on
        && let Ok(session) = p.session(handle)
    {
        return (session.errhandler, handle, "a session".to_owned());
    }
    if let RaiseOn::File(handle) = on {
        // MPI-5.0 §14.7: files start with MPI_ERRORS_RETURN.
        return (Errhandler::Return, handle, String::new());
    }
    match p.comm(predefined::COMM_SELF) {
        Ok(comm) => (*comm.errhandler(), predefined::COMM_SELF, String::new()),
        Err(_) => (Errhandler::Fatal, predefined::COMM_NULL, String::new()),
    }
}
