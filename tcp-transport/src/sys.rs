//! System calls that take user memory, and atomic changes of user memory.
//!
//! User memory is passed on by address, never as a slice: a program may change it meanwhile. Its
//! maker promised that it is valid until the operation completes ([`UserBuf`]), and this crate
//! keeps a `UserBuf` no longer than that.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabric::{Atomic, UserBuf};
use rustix::io::Errno;

/// Most parts of one send.
pub(crate) const MAX_PARTS: usize = 16;

/// A run of bytes to send.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Bytes of ours.
    Own(&'a [u8]),
    /// Bytes of the user.
    User(UserBuf),
}

impl Part<'_> {
    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Part::Own(bytes) => bytes.len(),
            Part::User(memory) => memory.len(),
        }
    }

    /// Returns as many bytes as `copy` has, from `at` on; those of the user are copied there.
    pub(crate) fn copy_to<'a>(&'a self, at: usize, copy: &'a mut [u8]) -> &'a [u8] {
        match self {
            Part::Own(bytes) => &bytes[at..at + copy.len()],
            Part::User(memory) => {
                memory.read(at, copy);
                copy
            }
        }
    }
}

const NO_BYTES: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Sends at most [`MAX_PARTS`] parts in one call, without waiting; returns the bytes taken.
pub(crate) fn send(fd: &OwnedFd, parts: &[Part<'_>]) -> Result<usize, Errno> {
    let mut list = [NO_BYTES; MAX_PARTS];
    let count = parts.len().min(MAX_PARTS);
    for (entry, part) in list.iter_mut().zip(parts) {
        *entry = match *part {
            Part::Own(bytes) => {
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
            }
            Part::User(memory) => {
                libc::iovec { iov_base: memory.as_ptr().cast(), iov_len: memory.len() }
            }
        };
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let sent = if count == 1 {
        // SAFETY: the kernel reads one run of bytes: a slice, or memory that its maker promised
        // to be readable. It reports an address that is not readable as an error.
        unsafe { libc::send(fd.as_raw_fd(), list[0].iov_base, list[0].iov_len, flags) }
    } else {
        // SAFETY: all zeros is a valid `msghdr`: no address, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = list.as_mut_ptr();
        message.msg_iovlen = count as _;
        // SAFETY: `count` initialised entries of `list`, which outlives the call; each run is
        // readable as above.
        unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) }
    };
    usize::try_from(sent).map_err(|_| errno())
}

/// Receives into `into` and then into `rest`, without waiting; returns the bytes received, 0 at the
/// end of the stream.
pub(crate) fn receive(fd: &OwnedFd, into: UserBuf, rest: &mut [u8]) -> Result<usize, Errno> {
    let read = if into.is_empty() {
        let (start, len) = (rest.as_mut_ptr(), rest.len());
        // SAFETY: a slice of ours, which the kernel writes.
        unsafe { libc::recv(fd.as_raw_fd(), start.cast(), len, libc::MSG_DONTWAIT) }
    } else {
        let mut list = [
            libc::iovec { iov_base: into.as_ptr().cast(), iov_len: into.len() },
            libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
        ];
        // SAFETY: the socket is nonblocking. The first run is writable by its maker's promise,
        // since it is received into; the second one is a slice of ours.
        unsafe { libc::readv(fd.as_raw_fd(), list.as_mut_ptr(), 2) }
    };
    usize::try_from(read).map_err(|_| errno())
}

/// Returns the bytes that the peer's system has not acknowledged; 0 if that is unknown.
pub(crate) fn unacknowledged(fd: BorrowedFd<'_>) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one `int`.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    usize::try_from(count).unwrap_or(0)
}

/// Returns the round trip of a connection as the system has measured it.
pub(crate) fn round_trip(fd: BorrowedFd<'_>) -> Option<Duration> {
    // SAFETY: all zeros is a valid `tcp_info`, which consists of numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let start = (&raw mut info).cast();
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is as long.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, start, &raw mut len)
    };
    (done == 0 && info.tcpi_rtt > 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

/// Returns a borrowed descriptor of another component, which outlives the call.
pub(crate) fn with_fd<R>(fd: i32, f: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
    // SAFETY: the caller's component owns the descriptor and keeps it open for its own life.
    f(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Changes 8 aligned bytes of user memory atomically; returns the old value. `None` if they are not
/// 8 aligned bytes.
pub(crate) fn change(memory: UserBuf, atomic: Atomic) -> Option<u64> {
    let start = memory.as_ptr().cast::<u64>();
    if memory.len() != 8 || !start.is_aligned() || start.is_null() {
        return None;
    }
    // SAFETY: 8 bytes, aligned, valid for reads and writes by the promise of their registration
    // with all rights.
    let word = unsafe { AtomicU64::from_ptr(start) };
    Some(match atomic {
        Atomic::Add(more) => word.fetch_add(more, Ordering::AcqRel),
        Atomic::CompareSwap { expected, new } => word
            .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|old| old),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_need_8_aligned_bytes() {
        let mut words = [5u64, 7];
        let start = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the array outlives all of these, and nothing else uses it.
        let memory = |at: usize, len| unsafe { UserBuf::new(start.wrapping_add(at), len) };
        assert_eq!(change(memory(0, 8), Atomic::Add(3)), Some(5));
        assert_eq!(change(memory(4, 8), Atomic::Add(3)), None);
        assert_eq!(change(memory(0, 4), Atomic::Add(3)), None);
        let swap = Atomic::CompareSwap { expected: 8, new: 1 };
        assert_eq!(change(memory(0, 8), swap), Some(8));
        assert_eq!(change(memory(0, 8), swap), Some(1));
        assert_eq!(words, [1, 7]);
    }
}
