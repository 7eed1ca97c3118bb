//! libibverbs: its structures, its functions, and types that own its objects.
//!
//! Objects keep the objects that they are made of alive (`Arc`). They are therefore destroyed in
//! the right order. Exceptions: a queue pair must be dropped before the queues that it uses. Checks
//! of the device itself (keys, bounds of registered memory) are not repeated here.

mod context;
pub mod dynamic;
mod functions;
pub mod layout;
mod library;
pub mod mlx5;
mod protection;
mod queue;

pub use context::{Context, Event, device_names};
pub use layout::{AhAttr, DeviceAttr, Gid, GidEntry, PortAttr, QpAttr, Sge, Wc};
pub use library::{Library, LibraryError, library};
pub use protection::{Ah, Mr, Pd};
pub use queue::{Channel, Completions, Cq, Destination, Qp, Srq, Work};

use std::io;

/// Returns the result of a call that returns 0 or an error number.
fn check(code: std::ffi::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        // Some calls return -1 and set errno, most return the number.
        code if code < 0 => Err(io::Error::last_os_error()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Takes the result of a call that destroys an object. A device that is gone may refuse it; but no
/// other object uses this one any more.
fn released(code: std::ffi::c_int) {
    debug_assert_ne!(code, libc::EBUSY, "an object is destroyed before another one that uses it");
}

/// Returns the result of a call that returns a pointer; null with errno for an error, EIO if a
/// driver set none.
fn non_null<T>(pointer: *mut T) -> io::Result<std::ptr::NonNull<T>> {
    std::ptr::NonNull::new(pointer).ok_or_else(|| match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(0) => io::Error::from_raw_os_error(libc::EIO),
        error => error,
    })
}

/// Lends a descriptor of libibverbs, or of a store, for one call.
#[allow(unsafe_code)]
pub(crate) fn with_fd<R>(
    fd: std::os::fd::RawFd,
    each: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> R,
) -> R {
    // SAFETY: the owner of the descriptor outlives the caller's object and keeps it open during the
    // call; the borrow ends with it.
    each(unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) })
}

/// Makes a descriptor of libibverbs non-blocking.
#[allow(unsafe_code)]
fn set_non_blocking(fd: std::os::fd::RawFd) -> io::Result<()> {
    // SAFETY: fcntl takes integers alone and accesses no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: fcntl takes integers alone and accesses no memory.
    let set = unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) };
    if flags < 0 || set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
