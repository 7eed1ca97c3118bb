//! A connection: its descriptor, and its TLS session if `tcp.tls` is on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fabric::UserBuf;
use rustix::io::Errno;

use crate::sys::{self, Part};
use crate::tls::Session;

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    tls: Option<Box<Session>>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd, tls: Option<Box<Session>>) -> Socket {
        Socket { fd, tls }
    }

    /// Sends parts without waiting; returns the bytes taken.
    #[inline]
    pub(crate) fn send(&mut self, parts: &[Part<'_>]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => sys::send(&self.fd, parts),
            Some(tls) => tls.send(&self.fd, parts),
        }
    }

    /// Receives into `into` and then into `rest`, without waiting; returns the bytes received, 0
    /// at the end of the stream.
    #[inline]
    pub(crate) fn receive(&mut self, into: UserBuf, rest: &mut [u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => sys::receive(&self.fd, into, rest),
            Some(tls) => tls.receive(&self.fd, into, rest),
        }
    }

    /// Returns true while bytes that were taken wait for the system.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Returns true if a read that takes less than it may is not the last: bytes may be left in
    /// the TLS session.
    #[inline]
    pub(crate) fn reads_in_parts(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the bytes that the peer's system has not acknowledged; 0 if that is unknown.
    pub(crate) fn unacknowledged(&self) -> usize {
        sys::unacknowledged(self.fd.as_fd())
    }
}
