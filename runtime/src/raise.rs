//! Raises errors: calls the error handler of the object that the MPI call was about (MPI-5.0 §9.3).
//!
//! Handlers run outside the process lock. An object that does not exist has no handler; then the
//! one of MPI_COMM_SELF is called.

use std::os::raw::c_int;

use objects::errhandler::Raiser;
use objects::{Errhandler, Error, HandleKind};

use crate::abort;
use crate::lock::with;
use crate::process::{Process, predefined};

/// The object that a call was about; its error handler is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseOn {
    /// A communicator.
    Comm(usize),
    /// A window.
    Win(usize),
    /// A file.
    File(usize),
    /// A session.
    Session(usize),
    /// No object: the handler is that of MPI_COMM_SELF (MPI-5.0 §9.3), or of MPI_COMM_WORLD if the
    /// program has set that one alone, as was the rule until MPI-3.
    Process,
}

/// Calls the error handler and returns the code that the MPI call returns.
#[cold]
pub fn raise(call: &'static str, on: RaiseOn, error: Error) -> c_int {
    let on = error.raise_on().map_or(on, object_of);
    let (handler, handle, location) = match error.handler() {
        Some(&handler) => (handler, null_handle(&handler), String::new()),
        None => with(|p| handler_of(p, on)),
    };
    match handler {
        Errhandler::Return => objects::error_codes().code_of(call, &error),
        Errhandler::Fatal | Errhandler::Abort => abort::fatal(call, &location, &error),
        Errhandler::User(function) => {
            let code = objects::error_codes().code_of(call, &error);
            function.call(handle, code);
            code
        }
    }
}

/// Returns the object of a handle that an error names: a communicator, a window or a file.
fn object_of(handle: usize) -> RaiseOn {
    match HandleKind::of(handle as u64) {
        Some(HandleKind::File) => RaiseOn::File(handle),
        Some(HandleKind::Win) => RaiseOn::Win(handle),
        _ => RaiseOn::Comm(handle),
    }
}

/// Returns the handle to pass for an object that could not be created.
fn null_handle(handler: &Errhandler) -> usize {
    match handler {
        Errhandler::User(user) if user.raiser() == Raiser::Session => predefined::SESSION_NULL,
        Errhandler::User(user) if user.raiser() == Raiser::Win => predefined::WIN_NULL,
        _ => predefined::COMM_NULL,
    }
}

/// Returns the handler, the handle to pass to it, and the object's name for the message. An object
/// that does not exist counts as no object.
fn handler_of(p: &Process, on: RaiseOn) -> (Errhandler, usize, String) {
    if let RaiseOn::Comm(handle) = on
        && let Ok(comm) = p.comm(handle)
    {
        return (*comm.errhandler(), handle, comm.describe());
    }
    if let RaiseOn::Win(handle) = on
        && let Ok(win) = p.win(handle)
    {
        return (win.errhandler, handle, win.describe());
    }
    if let RaiseOn::Session(handle) = on
        && let Ok(session) = p.session(handle)
    {
        return (session.errhandler, handle, "a session".to_owned());
    }
    if let RaiseOn::File(handle) = on {
        let (handler, known) = (p.file_errhandler(handle), p.open_file(handle).is_ok());
        return (handler, if known { handle } else { predefined::FILE_NULL }, "a file".to_owned());
    }
    let of = |handle| p.comm(handle).ok().map(|comm| (comm, handle));
    let set = of(predefined::COMM_SELF).filter(|(comm, _)| !comm.has_initial_errhandler());
    match set.or_else(|| of(predefined::COMM_WORLD)) {
        Some((comm, handle)) => (*comm.errhandler(), handle, String::new()),
        None => (Errhandler::Fatal, predefined::COMM_NULL, String::new()),
    }
}
