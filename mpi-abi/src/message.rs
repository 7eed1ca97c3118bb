//! MPI-5.0 chapter 3, point-to-point communication: sends, receives, probes and
//! buffered mode. Requests are in `request.rs`.

use std::os::raw::{c_int, c_void};

use objects::{Buffer, Result, Status};
use runtime::bsend::{Attachment, PROCESS};
use runtime::{SendMode, message, with};

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Message, MPI_Request, MPI_Session};
use crate::args::{buffer, not_null, null_argument, put, put_status};
use crate::convert::CountOut;

/// Sends and waits; the four blocking sends differ only in the mode.
#[inline]
unsafe fn send_as(
    mode: SendMode,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's promise about the buffer, passed on.
    message::send(mode, |p| unsafe { buffer(p, buf, count, datatype) }, dest, tag, comm.0)
}

/// Starts a send. Inlined, so that MPI_Isend knows its mode; the other modes have one body each for
/// both forms.
#[inline(always)]
unsafe fn isend_as(
    mode: SendMode,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    // SAFETY: the user's promise about the buffer, passed on.
    let handle =
        message::isend(mode, |p| unsafe { buffer(p, buf, count, datatype) }, dest, tag, comm.0)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

unsafe fn send_init_as(
    mode: SendMode,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    // SAFETY: the user's promise about the buffer, passed on.
    let data = with(|p| unsafe { buffer(p, buf, count, datatype) })?;
    let handle = message::send_init(mode, data, dest, tag, comm.0)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

#[inline]
pub(crate) unsafe fn send(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_as(SendMode::Standard, buf, count, datatype, dest, tag, comm) }
}

#[inline]
pub(crate) unsafe fn bsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_as(SendMode::Buffered, buf, count, datatype, dest, tag, comm) }
}

#[inline]
pub(crate) unsafe fn ssend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_as(SendMode::Synchronous, buf, count, datatype, dest, tag, comm) }
}

#[inline]
pub(crate) unsafe fn rsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_as(SendMode::Ready, buf, count, datatype, dest, tag, comm) }
}

#[inline(always)]
pub(crate) unsafe fn isend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { isend_as(SendMode::Standard, buf, count, datatype, dest, tag, comm, request) }
}

#[inline(never)]
pub(crate) unsafe fn ibsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { isend_as(SendMode::Buffered, buf, count, datatype, dest, tag, comm, request) }
}

#[inline(never)]
pub(crate) unsafe fn issend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { isend_as(SendMode::Synchronous, buf, count, datatype, dest, tag, comm, request) }
}

#[inline(never)]
pub(crate) unsafe fn irsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { isend_as(SendMode::Ready, buf, count, datatype, dest, tag, comm, request) }
}

pub(crate) unsafe fn send_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_init_as(SendMode::Standard, buf, count, datatype, dest, tag, comm, request) }
}

pub(crate) unsafe fn bsend_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_init_as(SendMode::Buffered, buf, count, datatype, dest, tag, comm, request) }
}

pub(crate) unsafe fn ssend_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_init_as(SendMode::Synchronous, buf, count, datatype, dest, tag, comm, request) }
}

pub(crate) unsafe fn rsend_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's promises, passed on.
    unsafe { send_init_as(SendMode::Ready, buf, count, datatype, dest, tag, comm, request) }
}

#[inline]
pub(crate) unsafe fn recv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's promise about the buffer, passed on.
    let received =
        message::receive(|p| unsafe { buffer(p, buf, count, datatype) }, source, tag, comm.0);
    // SAFETY: the user passes MPI_STATUS_IGNORE or a status.
    unsafe { store(status, received) }
}

/// Stores a status also if it came with an error (truncation).
unsafe fn store(status: *mut Status, result: Result<Status>) -> Result<()> {
    let seen = match &result {
        Ok(seen) => Some(seen),
        Err(error) => error.status(),
    };
    if let Some(seen) = seen {
        // SAFETY: the caller's promise.
        unsafe { put_status(status, seen) };
    }
    result.map(|_| ())
}

#[inline(always)]
pub(crate) unsafe fn irecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    // SAFETY: the user's promise about the buffer, passed on.
    let handle =
        message::ireceive(|p| unsafe { buffer(p, buf, count, datatype) }, source, tag, comm.0)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

pub(crate) unsafe fn recv_init(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    // SAFETY: the user's promise about the buffer, passed on.
    let into = with(|p| unsafe { buffer(p, buf, count, datatype) })?;
    let handle = message::receive_init(into, source, tag, comm.0)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's promise about both buffers, passed on.
    let (outgoing, incoming) = with(|p| unsafe {
        Ok((buffer(p, sendbuf, sendcount, sendtype)?, buffer(p, recvbuf, recvcount, recvtype)?))
    })?;
    let received = message::sendrecv(outgoing, dest, sendtag, incoming, source, recvtag, comm.0);
    // SAFETY: the user passes MPI_STATUS_IGNORE or a status.
    unsafe { store(status, received) }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn sendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's promise about the buffer, passed on.
    let incoming = with(|p| unsafe { buffer(p, buf, count, datatype) })?;
    let (mut copy, outgoing) = copied(&incoming)?;
    let received = message::sendrecv(outgoing, dest, sendtag, incoming, source, recvtag, comm.0);
    copy.clear();
    // SAFETY: the user passes MPI_STATUS_IGNORE or a status.
    unsafe { store(status, received) }
}

/// Returns the packed bytes of a buffer, and a buffer over them. The vector must live until the
/// send has completed.
fn copied(data: &Buffer) -> Result<(Vec<u8>, Buffer)> {
    let mut copy = data.packed()?;
    // SAFETY: the callers keep the vector until the send has completed; moving a
    // vector does not move its bytes.
    let memory = unsafe { fabric::UserBuf::new(copy.as_mut_ptr(), copy.len()) };
    Ok((copy, Buffer::contiguous(memory)))
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn isendrecv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    // SAFETY: the user's promise about both buffers, passed on.
    let (outgoing, incoming) = with(|p| unsafe {
        Ok((buffer(p, sendbuf, sendcount, sendtype)?, buffer(p, recvbuf, recvcount, recvtype)?))
    })?;
    let handle =
        message::isendrecv(outgoing, dest, sendtag, incoming, source, recvtag, comm.0, None)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn isendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    // SAFETY: the user's promise about the buffer, passed on.
    let incoming = with(|p| unsafe { buffer(p, buf, count, datatype) })?;
    let (copy, outgoing) = copied(&incoming)?;
    let copy = Some(copy.into_boxed_slice());
    let handle =
        message::isendrecv(outgoing, dest, sendtag, incoming, source, recvtag, comm.0, copy)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

pub(crate) unsafe fn probe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut Status,
) -> Result<()> {
    let seen = message::probe(source, tag, comm.0)?;
    // SAFETY: the user passes MPI_STATUS_IGNORE or a status.
    unsafe { put_status(status, &seen) };
    Ok(())
}

pub(crate) unsafe fn iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let seen = message::iprobe(source, tag, comm.0)?;
    // SAFETY: null is refused or ignored; other pointers are valid by the user's promise.
    unsafe {
        if let Some(seen) = &seen {
            put_status(status, seen);
        }
        put(flag, c_int::from(seen.is_some()), "flag")
    }
}

pub(crate) unsafe fn mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut Status,
) -> Result<()> {
    let (handle, seen) = message::mprobe(source, tag, comm.0)?;
    // SAFETY: null is refused or ignored; other pointers are valid by the user's promise.
    unsafe {
        put_status(status, &seen);
        put(message, MPI_Message(handle), "message")
    }
}

pub(crate) unsafe fn improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut Status,
) -> Result<()> {
    let found = message::improbe(source, tag, comm.0)?;
    // SAFETY: null is refused or ignored; other pointers are valid by the user's promise.
    unsafe {
        put(flag, c_int::from(found.is_some()), "flag")?;
        if let Some((handle, seen)) = found {
            put_status(status, &seen);
            put(message, MPI_Message(handle), "message")?;
        }
    }
    Ok(())
}

pub(crate) unsafe fn mrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's promise about the buffer, passed on; null is refused.
    let (into, taken) =
        unsafe { (with(|p| buffer(p, buf, count, datatype))?, take_message(message)?) };
    let received = message::mreceive(into, taken);
    // SAFETY: the user passes MPI_STATUS_IGNORE or a status.
    unsafe { store(status, received) }
}

pub(crate) unsafe fn imrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    // SAFETY: the user's promise about the buffer, passed on; null is refused.
    let (into, taken) =
        unsafe { (with(|p| buffer(p, buf, count, datatype))?, take_message(message)?) };
    let handle = message::imreceive(into, taken)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

/// Reads the message handle and leaves MPI_MESSAGE_NULL.
unsafe fn take_message(message: *mut MPI_Message) -> Result<usize> {
    not_null(message, "message")?;
    // SAFETY: not null, and valid by the user's promise.
    Ok(unsafe { message.replace(MPI_Message(runtime::predefined::MESSAGE_NULL)) }.0)
}

/// MPI_BUFFER_AUTOMATIC.
const AUTOMATIC: usize = 2;

fn attach(owner: usize, buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    let size = crate::args::length(size, "size")?;
    let what = match buffer as usize {
        0 => return Err(null_argument("buffer")),
        AUTOMATIC => Attachment::Automatic,
        // SAFETY: the user gives the memory away until it is detached (MPI-5.0 §3.6).
        _ => Attachment::User(unsafe { fabric::UserBuf::new(buffer.cast(), size) }),
    };
    with(|p| p.bsend.attach(owner, what))
}

/// Waits until all messages have left, then returns the buffer.
unsafe fn detach(owner: usize, buffer_addr: *mut c_void, size: CountOut) -> Result<()> {
    flush(owner)?;
    let (address, bytes) = match with(|p| p.bsend.detach(owner)) {
        Attachment::None => (std::ptr::null_mut(), 0),
        Attachment::User(memory) => (memory.as_ptr().cast(), memory.len()),
        Attachment::Automatic => (AUTOMATIC as *mut c_void, 0),
    };
    // SAFETY: the user passes the address of a pointer and of a count.
    unsafe {
        put(buffer_addr.cast::<*mut c_void>(), address, "buffer_addr")?;
        size.put(bytes as MPI_Count, "size")
    }
}

fn flush(owner: usize) -> Result<()> {
    with(|p| p.core().map(|_| ()))?;
    runtime::block_on(|p| p.bsend.is_drained(owner).then_some(()));
    Ok(())
}

unsafe fn iflush(owner: usize, comm: usize, request: *mut MPI_Request) -> Result<()> {
    not_null(request, "request")?;
    let handle = with(|p| p.requests.insert(runtime::Request::flush(comm, owner)));
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle as usize), "request") }
}

fn owner_of_comm(comm: MPI_Comm) -> Result<usize> {
    with(|p| p.comm(comm.0).map(|_| comm.0))
}

fn owner_of_session(session: MPI_Session) -> Result<usize> {
    with(|p| p.session(session.0).map(|_| session.0))
}

pub(crate) unsafe fn buffer_attach(buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    attach(PROCESS, buffer, size)
}

pub(crate) unsafe fn buffer_detach(buffer_addr: *mut c_void, size: CountOut) -> Result<()> {
    // SAFETY: the user's pointers, passed on.
    unsafe { detach(PROCESS, buffer_addr, size) }
}

pub(crate) unsafe fn buffer_flush() -> Result<()> {
    flush(PROCESS)
}

pub(crate) unsafe fn buffer_iflush(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { iflush(PROCESS, runtime::predefined::COMM_SELF, request) }
}

pub(crate) unsafe fn comm_attach_buffer(
    comm: MPI_Comm,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    attach(owner_of_comm(comm)?, buffer, size)
}

pub(crate) unsafe fn comm_detach_buffer(
    comm: MPI_Comm,
    buffer_addr: *mut c_void,
    size: CountOut,
) -> Result<()> {
    // SAFETY: the user's pointers, passed on.
    unsafe { detach(owner_of_comm(comm)?, buffer_addr, size) }
}

pub(crate) unsafe fn comm_flush_buffer(comm: MPI_Comm) -> Result<()> {
    flush(owner_of_comm(comm)?)
}

pub(crate) unsafe fn comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { iflush(owner_of_comm(comm)?, comm.0, request) }
}

pub(crate) unsafe fn session_attach_buffer(
    session: MPI_Session,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    attach(owner_of_session(session)?, buffer, size)
}

pub(crate) unsafe fn session_detach_buffer(
    session: MPI_Session,
    buffer_addr: *mut c_void,
    size: CountOut,
) -> Result<()> {
    // SAFETY: the user's pointers, passed on.
    unsafe { detach(owner_of_session(session)?, buffer_addr, size) }
}

pub(crate) unsafe fn session_flush_buffer(session: MPI_Session) -> Result<()> {
    flush(owner_of_session(session)?)
}

pub(crate) unsafe fn session_iflush_buffer(
    session: MPI_Session,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { iflush(owner_of_session(session)?, runtime::predefined::COMM_SELF, request) }
}
