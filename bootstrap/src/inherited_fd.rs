//! Descriptors that were passed as numbers in the environment.
//!
//! A number does not show which library a descriptor belongs to: in a child of a rank the same
//! number may be any other file. Ownership is therefore taken only after a check.

#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};

/// Returns a close-on-exec duplicate of a descriptor; `None` if it is not open.
pub(crate) fn duplicate(number: RawFd) -> Option<OwnedFd> {
    fcntl_dupfd_cloexec(borrow(number)?, 3).ok()
}

/// Returns true if the descriptor is open and a socket.
pub(crate) fn is_socket(number: RawFd) -> bool {
    let stat = borrow(number).and_then(|fd| fstat(fd).ok());
    stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

/// Takes ownership of an inherited descriptor and makes it close-on-exec. The caller has checked
/// that the launcher opened it for this process, and calls once.
pub fn take(number: RawFd) -> Option<OwnedFd> {
    fcntl_setfd(borrow(number)?, FdFlags::CLOEXEC).ok()?;
    // SAFETY: the descriptor is open (`borrow` has checked), and nothing else in the process owns
    // it: the launcher opened it for this process alone, which calls once.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

fn borrow(number: RawFd) -> Option<BorrowedFd<'static>> {
    if number < 0 {
        return None;
    }
    // SAFETY: the number is not negative. The descriptor is used only for calls that fail with
    // EBADF if it is not open, and that is checked next.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(fd).is_ok().then_some(fd)
}
