//! libibverbs: its structures, its functions, and types that own what it makes.
//!
//! Objects keep what they are made of alive (`Arc`), so they are destroyed in the
//! right order whoever drops them first. What a device checks by itself (keys,
//! bounds of registered memory) is not checked again here.

mod context;
pub mod layout;
mod library;
mod protection;
mod queue;

pub use context::{Context, Event, device_names};
pub use layout::{AhAttr, DeviceAttr, Gid, GidEntry, PortAttr, QpAttr, Sge, Wc};
pub use library::{Library, LibraryError, library};
pub use protection::{Ah, Mr, Pd};
pub use queue::{Channel, Completions, Cq, Destination, Qp, Srq, Work};

use std::io;

/// The result of a call that returns 0 or an error number.
fn check(code: std::ffi::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        // Some calls return -1 and set errno, most return the number.
        code if code < 0 => Err(io::Error::last_os_error()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// The result of a call that returns a pointer, null for an error.
fn non_null<T>(pointer: *mut T) -> io::Result<std::ptr::NonNull<T>> {
    std::ptr::NonNull::new(pointer).ok_or_else(|| match io::Error::last_os_error() {
        // A driver that fails without saying why.
        error if error.raw_os_error() == Some(0) => io::Error::from_raw_os_error(libc::EIO),
        error => error,
    })
}

/// Lends a descriptor of libibverbs (or of a store) for one call.
#[allow(unsafe_code)]
pub(crate) fn with_fd<R>(
    fd: std::os::fd::RawFd,
    each: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> R,
) -> R {
    // SAFETY: its owner keeps it open during the call.
    each(unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) })
}

#[allow(unsafe_code)]
/// Makes a descriptor of libibverbs return instead of wait.
fn set_non_blocking(fd: std::os::fd::RawFd) -> io::Result<()> {
    // SAFETY: fcntl with integers alone.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    let set = unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) };
    if flags < 0 || set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
