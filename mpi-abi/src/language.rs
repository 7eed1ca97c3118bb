//! MPI-5.0 §19.1 and §20: handles as integers, for other languages. Names are those of the standard
//! ABI (toint, fromint) and of Fortran's C interface (c2f, f2c). Statuses are arrays of INTEGER.
//!
//! A predefined handle is its own number; other handles are slot numbers (see `objects::handle`). A
//! number that names no object becomes the null handle.

use std::os::raw::c_int;

use objects::{Result, Status, Table};
use runtime::{Process, with};

use crate::abi::*;
use crate::args::not_null;
use crate::constants::*;

/// The first number that is not a predefined handle.
const DYNAMIC: usize = 0x1000;

fn to_int(handle: usize) -> c_int {
    if handle < DYNAMIC { handle as c_int } else { objects::handle::to_int(handle as u64) }
}

fn from_int<T>(int: c_int, null: usize, table: impl FnOnce(&Process) -> &Table<T>) -> usize {
    match usize::try_from(int) {
        Ok(small) if small < DYNAMIC => small,
        Ok(_) => with(|p| table(p).from_int(int)).map_or(null, |handle| handle as usize),
        Err(_) => null,
    }
}

pub(crate) unsafe fn comm_toint(comm: MPI_Comm) -> c_int {
    to_int(comm.0)
}

pub(crate) unsafe fn comm_fromint(comm: c_int) -> MPI_Comm {
    MPI_Comm(from_int(comm, MPI_COMM_NULL.0, |p| &p.comms))
}

pub(crate) unsafe fn group_toint(group: MPI_Group) -> c_int {
    to_int(group.0)
}

pub(crate) unsafe fn group_fromint(group: c_int) -> MPI_Group {
    MPI_Group(from_int(group, MPI_GROUP_NULL.0, |p| &p.tables.groups))
}

pub(crate) unsafe fn type_toint(datatype: MPI_Datatype) -> c_int {
    to_int(datatype.0)
}

pub(crate) unsafe fn type_fromint(datatype: c_int) -> MPI_Datatype {
    MPI_Datatype(from_int(datatype, MPI_DATATYPE_NULL.0, |p| &p.tables.datatypes))
}

pub(crate) unsafe fn op_toint(op: MPI_Op) -> c_int {
    to_int(op.0)
}

pub(crate) unsafe fn op_fromint(op: c_int) -> MPI_Op {
    MPI_Op(from_int(op, MPI_OP_NULL.0, |p| &p.tables.ops))
}

pub(crate) unsafe fn request_toint(request: MPI_Request) -> c_int {
    runtime::request_to_int(request.0)
}

pub(crate) unsafe fn request_fromint(request: c_int) -> MPI_Request {
    MPI_Request(runtime::request_from_int(request).unwrap_or(MPI_REQUEST_NULL.0))
}

pub(crate) unsafe fn message_toint(message: MPI_Message) -> c_int {
    to_int(message.0)
}

pub(crate) unsafe fn message_fromint(message: c_int) -> MPI_Message {
    MPI_Message(from_int(message, MPI_MESSAGE_NULL.0, |p| &p.tables.messages))
}

pub(crate) unsafe fn info_toint(info: MPI_Info) -> c_int {
    to_int(info.0)
}

pub(crate) unsafe fn info_fromint(info: c_int) -> MPI_Info {
    MPI_Info(from_int(info, MPI_INFO_NULL.0, |p| &p.tables.infos))
}

pub(crate) unsafe fn errhandler_toint(errhandler: MPI_Errhandler) -> c_int {
    to_int(errhandler.0)
}

pub(crate) unsafe fn errhandler_fromint(errhandler: c_int) -> MPI_Errhandler {
    MPI_Errhandler(from_int(errhandler, MPI_ERRHANDLER_NULL.0, |p| p.tables.errhandlers.table()))
}

pub(crate) unsafe fn win_toint(win: MPI_Win) -> c_int {
    to_int(win.0)
}

pub(crate) unsafe fn win_fromint(win: c_int) -> MPI_Win {
    MPI_Win(from_int(win, MPI_WIN_NULL.0, |p| &p.tables.wins))
}

pub(crate) unsafe fn file_toint(file: MPI_File) -> c_int {
    to_int(file.0)
}

pub(crate) unsafe fn file_fromint(file: c_int) -> MPI_File {
    MPI_File(from_int(file, MPI_FILE_NULL.0, |p| &p.tables.files.table))
}

pub(crate) unsafe fn session_toint(session: MPI_Session) -> c_int {
    to_int(session.0)
}

pub(crate) unsafe fn session_fromint(session: c_int) -> MPI_Session {
    MPI_Session(from_int(session, MPI_SESSION_NULL.0, |p| &p.tables.sessions))
}

pub(crate) unsafe fn status_c2f(
    c_status: *const MPI_Status,
    f_status: *mut MPI_Fint,
) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe { copy_status(c_status, f_status.cast(), "c_status", "f_status") }
}

pub(crate) unsafe fn status_f2c(
    f_status: *const MPI_Fint,
    c_status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe { copy_status(f_status.cast(), c_status, "f_status", "c_status") }
}

pub(crate) unsafe fn status_c2f08(
    c_status: *const MPI_Status,
    f08_status: *mut MPI_F08_status,
) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe { copy_status(c_status, f08_status, "c_status", "f08_status") }
}

pub(crate) unsafe fn status_f082c(
    f08_status: *const MPI_F08_status,
    c_status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe { copy_status(f08_status, c_status, "f08_status", "c_status") }
}

pub(crate) unsafe fn status_f082f(
    f08_status: *const MPI_F08_status,
    f_status: *mut MPI_Fint,
) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe { copy_status(f08_status, f_status.cast(), "f08_status", "f_status") }
}

pub(crate) unsafe fn status_f2f08(
    f_status: *const MPI_Fint,
    f08_status: *mut MPI_F08_status,
) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe { copy_status(f_status.cast(), f08_status, "f_status", "f08_status") }
}

/// Copies a status; a Fortran status is the C one as eight INTEGERs.
unsafe fn copy_status(
    from: *const Status,
    to: *mut Status,
    from_name: &str,
    to_name: &str,
) -> Result<()> {
    not_null(from, from_name)?;
    not_null(to, to_name)?;
    // SAFETY: both are not null; any eight numbers are a status.
    unsafe { to.write(*from) };
    Ok(())
}
