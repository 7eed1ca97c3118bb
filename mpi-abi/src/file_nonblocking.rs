//! MPI-5.0 §14.4: nonblocking reads and writes of files.
//!
//! A collective form passes wrong arguments on, like the blocking one: the request of each member
//! then ends with an error.

use std::os::raw::c_void;

use io::Coordination::{Collective, Independent};
use io::Direction::{Read, Write};
use io::Position::{At, Individual, Shared};
use io::{Coordination, Direction, Position, UserData};
use objects::Result;
use runtime::files;

use crate::abi::{MPI_Count, MPI_Datatype, MPI_File, MPI_Offset, MPI_Request};
use crate::args::{not_null, put};
use crate::file_access::user_data;

/// Starts an access and stores its request.
unsafe fn start(
    fh: MPI_File,
    how: (Direction, Position, Coordination),
    data: Result<UserData>,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    let pending = files::file(fh.0)?.start(how.0, how.1, how.2, data)?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(request, MPI_Request(files::request(fh.0, pending)), "request") }
}

pub(crate) unsafe fn file_iread(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Read, Individual, Independent), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iread_all(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Read, Individual, Collective), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iread_at(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Read, At(offset), Independent), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iread_at_all(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Read, At(offset), Collective), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iread_shared(
    fh: MPI_File,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Read, Shared, Independent), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iwrite(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Write, Individual, Independent), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iwrite_all(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Write, Individual, Collective), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iwrite_at(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Write, At(offset), Independent), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iwrite_at_all(
    fh: MPI_File,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Write, At(offset), Collective), user_data(buf, count, datatype), request) }
}

pub(crate) unsafe fn file_iwrite_shared(
    fh: MPI_File,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's buffer, valid until the request is complete, and pointer.
    unsafe { start(fh, (Write, Shared, Independent), user_data(buf, count, datatype), request) }
}
