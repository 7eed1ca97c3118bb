//! MPI-5.0 §14.4.5: split collective reads and writes of files.

use std::os::raw::c_void;

use io::Direction::{Read, Write};
use io::SplitKind::{All, At, Ordered};
use io::{Direction, SplitKind, UserData};
use objects::{Result, Status};
use runtime::files;

use crate::abi::{MPI_Count, MPI_Datatype, MPI_File, MPI_Offset, MPI_Status};
use crate::file_access::{report, user_data};

/// Begins a split collective.
unsafe fn begin(
    fh: MPI_File,
    how: (SplitKind, Direction),
    offset: MPI_Offset,
    data: Result<UserData>,
) -> Result<()> {
    files::file(fh.0)?.begin_split(how.0, how.1, offset, data)
}

/// Ends a split collective.
unsafe fn end(fh: MPI_File, how: (SplitKind, Direction), status: *mut Status) -> Result<()> {
    let outcome = match files::file(fh.0) {
        Ok(file) => file.end_split(how.0, how.1),
        Err(error) => io::Outcome::failed(error),
    };
    // SAFETY: the user's pointer.
    unsafe { report(status, outcome) }
}

pub(crate) unsafe fn file_read_at_all_begin(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the end call.
    unsafe { begin(fh, (At, Read), offset, user_data(buf, count, datatype)) }
}

pub(crate) unsafe fn file_read_at_all_end(
    fh: MPI_File,
    _buf: *mut c_void,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's pointer.
    unsafe { end(fh, (At, Read), status) }
}

pub(crate) unsafe fn file_read_all_begin(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the end call.
    unsafe { begin(fh, (All, Read), 0, user_data(buf, count, datatype)) }
}

pub(crate) unsafe fn file_read_all_end(
    fh: MPI_File,
    _buf: *mut c_void,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's pointer.
    unsafe { end(fh, (All, Read), status) }
}

pub(crate) unsafe fn file_read_ordered_begin(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the end call.
    unsafe { begin(fh, (Ordered, Read), 0, user_data(buf, count, datatype)) }
}

pub(crate) unsafe fn file_read_ordered_end(
    fh: MPI_File,
    _buf: *mut c_void,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's pointer.
    unsafe { end(fh, (Ordered, Read), status) }
}

pub(crate) unsafe fn file_write_at_all_begin(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the end call.
    unsafe { begin(fh, (At, Write), offset, user_data(buf, count, datatype)) }
}

pub(crate) unsafe fn file_write_at_all_end(
    fh: MPI_File,
    _buf: *const c_void,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's pointer.
    unsafe { end(fh, (At, Write), status) }
}

pub(crate) unsafe fn file_write_all_begin(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the end call.
    unsafe { begin(fh, (All, Write), 0, user_data(buf, count, datatype)) }
}

pub(crate) unsafe fn file_write_all_end(
    fh: MPI_File,
    _buf: *const c_void,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's pointer.
    unsafe { end(fh, (All, Write), status) }
}

pub(crate) unsafe fn file_write_ordered_begin(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the end call.
    unsafe { begin(fh, (Ordered, Write), 0, user_data(buf, count, datatype)) }
}

pub(crate) unsafe fn file_write_ordered_end(
    fh: MPI_File,
    _buf: *const c_void,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the user's pointer.
    unsafe { end(fh, (Ordered, Write), status) }
}
