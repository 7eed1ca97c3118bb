//! MPI-5.0 §14.4: blocking reads and writes of files.
//!
//! A body checks nothing but its handles: `io` decides what an access needs. A collective passes
//! wrong arguments on, so that all members hear of them and none waits.

use std::os::raw::c_void;

use io::Coordination::{Collective, Independent};
use io::Direction::{Read, Write};
use io::Position::{At, Individual, Shared};
use io::{Coordination, Direction, Outcome, Position, UserData};
use objects::{Result, Status};
use runtime::files::{self, status_of};
use runtime::with;

use crate::abi::{MPI_Count, MPI_Datatype, MPI_File, MPI_Offset, MPI_Status};
use crate::args::{buffer, put_status};

/// Describes the user's data.
///
/// # Safety
/// As for [`buffer`].
pub(super) unsafe fn user_data(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<UserData> {
    with(|p| {
        Ok(UserData {
            // SAFETY: the caller's promise, passed on.
            buffer: unsafe { buffer(p, buf, count, datatype)? },
            address: buf as usize,
            count: count as u64,
            datatype: p.datatype(datatype.0)?.clone(),
            handle: datatype.0,
        })
    })
}

/// Stores the status of an access, also of one that failed, and returns its error.
///
/// # Safety
/// `status` is MPI_STATUS_IGNORE (null) or points to a status.
pub(super) unsafe fn report(status: *mut Status, outcome: Outcome) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { put_status(status, &status_of(outcome.bytes)) };
    outcome.error.map_or(Ok(()), Err)
}

/// Reads or writes.
unsafe fn access(
    fh: MPI_File,
    how: (Direction, Position, Coordination),
    data: Result<UserData>,
    status: *mut Status,
) -> Result<()> {
    let outcome = match files::file(fh.0) {
        Ok(file) => file.access(how.0, how.1, how.2, data),
        Err(error) => Outcome::failed(error),
    };
    // SAFETY: the user's pointer.
    unsafe { report(status, outcome) }
}

/// Reads or writes in order of rank.
unsafe fn access_ordered(
    fh: MPI_File,
    direction: Direction,
    data: Result<UserData>,
    status: *mut Status,
) -> Result<()> {
    let outcome = match files::file(fh.0) {
        Ok(file) => file.access_ordered(direction, data),
        Err(error) => Outcome::failed(error),
    };
    // SAFETY: the user's pointer.
    unsafe { report(status, outcome) }
}

pub(crate) unsafe fn file_read(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Read, Individual, Independent), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_read_all(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Read, Individual, Collective), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_read_at(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Read, At(offset), Independent), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_read_at_all(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Read, At(offset), Collective), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_read_shared(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Read, Shared, Independent), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_read_ordered(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access_ordered(fh, Read, user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_write(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Write, Individual, Independent), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_write_all(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Write, Individual, Collective), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_write_at(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Write, At(offset), Independent), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_write_at_all(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Write, At(offset), Collective), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_write_shared(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access(fh, (Write, Shared, Independent), user_data(buf, count, datatype), status) }
}

pub(crate) unsafe fn file_write_ordered(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's buffer and pointer.
    unsafe { access_ordered(fh, Write, user_data(buf, count, datatype), status) }
}
