//! Sleeping until one of several descriptors is readable.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::time::Duration;

/// Sleeps until one of them is readable, but no longer than `most`; true if one is.
pub fn until_readable(fds: &[RawFd], most: Duration) -> bool {
    !readable(fds, most).is_empty()
}

/// Sleeps until one of them is readable, but no longer than `most`. Returns the indices of those
/// that are.
pub fn readable(fds: &[RawFd], most: Duration) -> Vec<usize> {
    let mut list: Vec<_> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: as many valid entries as the argument gives, for the length of the call.
    let count = unsafe {
        libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, most.as_millis() as i32)
    };
    if count <= 0 {
        return Vec::new();
    }
    (0..list.len()).filter(|&index| list[index].revents != 0).collect()
}
