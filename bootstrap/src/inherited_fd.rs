//! Descriptors that came to us as numbers in the environment.
//!
//! A number says nothing of whose descriptor it is: in a child of a rank the
//! same number may be any other file. So ownership is taken only after a look.

#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};

/// A close-on-exec duplicate of an open descriptor; `None` if it is not open.
pub(crate) fn duplicate(number: RawFd) -> Option<OwnedFd> {
    fcntl_dupfd_cloexec(borrow(number)?, 3).ok()
}

/// True if the descriptor is open and a socket.
pub(crate) fn is_socket(number: RawFd) -> bool {
    let stat = borrow(number).and_then(|fd| fstat(fd).ok());
    stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

/// Takes an inherited descriptor for our own and keeps it from our children.
/// The caller has made sure that the launcher meant it for us, and asks once.
pub(crate) fn take(number: RawFd) -> Option<OwnedFd> {
    fcntl_setfd(borrow(number)?, FdFlags::CLOEXEC).ok()?;
    // SAFETY: the descriptor is open (just asked), and nothing else in the
    // process owns it: the launcher opened it for this library alone, and the
    // board's claim lets one caller in one process come here.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

fn borrow(number: RawFd) -> Option<BorrowedFd<'static>> {
    if number < 0 {
        return None;
    }
    // SAFETY: only used for calls that fail with EBADF when the number is not
    // open, which is the question asked first.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(fd).is_ok().then_some(fd)
}
