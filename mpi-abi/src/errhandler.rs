//! MPI-5.0 §9.3 to §9.5: error handlers, error codes and classes.

use std::os::raw::{c_char, c_int};

use objects::errhandler::{ErrhandlerFunction, Raiser};
use objects::{Class, Errhandler, Error, Result, error_codes};
use runtime::{RaiseOn, predefined, with};

use crate::abi::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session};
use crate::args::{not_null, null_argument, put};
use crate::constants::MPI_MAX_ERROR_STRING;
use crate::text::{exact, put_text};

/// Returns the handle of an error handler, for the user to free; predefined ones have fixed values.
pub(crate) fn handle_of(handler: Errhandler) -> MPI_Errhandler {
    MPI_Errhandler(match handler {
        Errhandler::Fatal => predefined::ERRORS_ARE_FATAL,
        Errhandler::Abort => predefined::ERRORS_ABORT,
        Errhandler::Return => predefined::ERRORS_RETURN,
        Errhandler::User(user) => with(|p| p.tables.errhandlers.handle_of(user)),
    })
}

/// Returns the handler of a handle, if it may be attached to such an object.
pub(crate) fn attachable(errhandler: MPI_Errhandler, raiser: Raiser) -> Result<Errhandler> {
    let handler = with(|p| p.errhandler(errhandler.0))?;
    if !handler.suits(raiser) {
        return Err(Error::new(
            Class::Errhandler,
            "invalid error handler: it was created for another kind of object",
        ));
    }
    Ok(handler)
}

unsafe fn create(
    raiser: Raiser,
    function: Option<ErrhandlerFunction>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let function = function.ok_or_else(|| null_argument("the error handler function"))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errhandler, handle_of(Errhandler::user(raiser, function)), "errhandler") }
}

pub(crate) unsafe fn comm_create_errhandler(
    comm_errhandler_fn: Option<ErrhandlerFunction>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { create(Raiser::Comm, comm_errhandler_fn, errhandler) }
}

pub(crate) unsafe fn win_create_errhandler(
    win_errhandler_fn: Option<ErrhandlerFunction>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { create(Raiser::Win, win_errhandler_fn, errhandler) }
}

pub(crate) unsafe fn file_create_errhandler(
    file_errhandler_fn: Option<ErrhandlerFunction>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { create(Raiser::File, file_errhandler_fn, errhandler) }
}

pub(crate) unsafe fn session_create_errhandler(
    session_errhandler_fn: Option<ErrhandlerFunction>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { create(Raiser::Session, session_errhandler_fn, errhandler) }
}

pub(crate) unsafe fn errhandler_create(
    function: Option<ErrhandlerFunction>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { create(Raiser::Comm, function, errhandler) }
}

pub(crate) unsafe fn comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> Result<()> {
    with(|p| p.comm(comm.0).map(|_| ()))?;
    let handler = attachable(errhandler, Raiser::Comm)?;
    with(|p| p.comm_mut(comm.0).map(|comm| comm.set_errhandler(handler)))
}

pub(crate) unsafe fn comm_get_errhandler(
    comm: MPI_Comm,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let handler = with(|p| p.comm(comm.0).map(|comm| *comm.errhandler()))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errhandler, handle_of(handler), "errhandler") }
}

pub(crate) unsafe fn errhandler_set(comm: MPI_Comm, errhandler: MPI_Errhandler) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { comm_set_errhandler(comm, errhandler) }
}

pub(crate) unsafe fn errhandler_get(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { comm_get_errhandler(comm, errhandler) }
}

pub(crate) unsafe fn errhandler_free(errhandler: *mut MPI_Errhandler) -> Result<()> {
    not_null(errhandler, "errhandler")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *errhandler };
    with(|p| p.errhandler(handle.0).map(|_| ()))?;
    if handle.0 >= predefined::END {
        let _ = with(|p| p.tables.errhandlers.free(handle.0));
    }
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(errhandler, MPI_Errhandler(predefined::ERRHANDLER_NULL), "errhandler") }
}

pub(crate) unsafe fn comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> Result<()> {
    let handler = with(|p| p.comm(comm.0).map(|comm| *comm.errhandler()))?;
    call(handler, RaiseOn::Comm(comm.0), errorcode, "MPI_Comm_call_errhandler")
}

pub(crate) unsafe fn session_set_errhandler(
    session: MPI_Session,
    errhandler: MPI_Errhandler,
) -> Result<()> {
    with(|p| p.session(session.0).map(|_| ()))?;
    let handler = attachable(errhandler, Raiser::Session)?;
    with(|p| p.session_mut(session.0).map(|session| session.errhandler = handler))
}

pub(crate) unsafe fn session_get_errhandler(
    session: MPI_Session,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let handler = with(|p| p.session(session.0).map(|session| session.errhandler))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errhandler, handle_of(handler), "errhandler") }
}

pub(crate) unsafe fn session_call_errhandler(session: MPI_Session, errorcode: c_int) -> Result<()> {
    let handler = with(|p| p.session(session.0).map(|session| session.errhandler))?;
    call(handler, RaiseOn::Session(session.0), errorcode, "MPI_Session_call_errhandler")
}

/// Checks that a handle names a file or is MPI_FILE_NULL.
fn check_file(file: MPI_File) -> Result<()> {
    if file.0 == predefined::FILE_NULL {
        return Ok(());
    }
    with(|p| p.open_file(file.0).map(|_| ()))
}

pub(crate) unsafe fn file_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> Result<()> {
    check_file(file)?;
    let handler = attachable(errhandler, Raiser::File)?;
    with(|p| p.set_file_errhandler(file.0, handler))
}

pub(crate) unsafe fn file_get_errhandler(
    file: MPI_File,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    check_file(file)?;
    let handler = with(|p| p.file_errhandler(file.0));
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errhandler, handle_of(handler), "errhandler") }
}

pub(crate) unsafe fn file_call_errhandler(fh: MPI_File, errorcode: c_int) -> Result<()> {
    check_file(fh)?;
    let handler = with(|p| p.file_errhandler(fh.0));
    call(handler, RaiseOn::File(fh.0), errorcode, "MPI_File_call_errhandler")
}

/// Calls a handler as for an error of the library. With MPI_ERRORS_RETURN the call succeeds
/// (MPI-5.0 §9.5).
pub(crate) fn call(
    handler: Errhandler,
    on: RaiseOn,
    errorcode: c_int,
    name: &'static str,
) -> Result<()> {
    match (handler, Error::from_code("the program raised", errorcode)) {
        (Errhandler::User(function), _) => match on {
            RaiseOn::Comm(handle)
            | RaiseOn::Win(handle)
            | RaiseOn::File(handle)
            | RaiseOn::Session(handle) => {
                function.call(handle, errorcode);
            }
            RaiseOn::Process => {}
        },
        (Errhandler::Fatal | Errhandler::Abort, Some(error)) => {
            runtime::raise(name, on, error);
        }
        (Errhandler::Return, _) | (_, None) => {}
    }
    Ok(())
}

pub(crate) unsafe fn add_error_class(errorclass: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errorclass, error_codes().add_class(), "errorclass") }
}

pub(crate) unsafe fn add_error_code(errorclass: c_int, errorcode: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errorcode, error_codes().add_code(errorclass)?, "errorcode") }
}

pub(crate) unsafe fn add_error_string(errorcode: c_int, string: *const c_char) -> Result<()> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    error_codes().add_string(errorcode, unsafe { exact(string, "string")? })
}

pub(crate) unsafe fn remove_error_class(errorclass: c_int) -> Result<()> {
    error_codes().remove_class(errorclass)
}

pub(crate) unsafe fn remove_error_code(errorcode: c_int) -> Result<()> {
    error_codes().remove_code(errorcode)
}

pub(crate) unsafe fn remove_error_string(errorcode: c_int) -> Result<()> {
    error_codes().remove_string(errorcode)
}

#[cold]
fn unknown(errorcode: c_int) -> Error {
    Error::new(Class::Arg, format!("invalid error code {errorcode}"))
}

pub(crate) unsafe fn error_class(errorcode: c_int, errorclass: *mut c_int) -> Result<()> {
    let class = error_codes().class_of(errorcode).ok_or_else(|| unknown(errorcode))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errorclass, class, "errorclass") }
}

pub(crate) unsafe fn error_string(
    errorcode: c_int,
    string: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let words = error_codes().text_of(errorcode).ok_or_else(|| unknown(errorcode))?;
    // SAFETY: the user's buffer of MPI_MAX_ERROR_STRING characters.
    unsafe { put_text(string, MPI_MAX_ERROR_STRING, resultlen, &words) }
}
