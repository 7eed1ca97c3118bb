//! One poll(2) over all descriptors of a job.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A descriptor to wait for: its meaning to the caller, and the events.
pub(crate) type Interest<'a, S> = (S, BorrowedFd<'a>, PollFlags);

/// Waits until a descriptor is ready or the deadline has come. Returns what is ready, in the
/// order of `interests`; nothing if the call was interrupted.
pub(crate) fn wait<S: Copy>(interests: &[Interest<'_, S>], deadline: Option<Instant>) -> Vec<S> {
    let mut files: Vec<PollFd<'_>> =
        interests.iter().map(|(_, file, flags)| PollFd::from_borrowed_fd(*file, *flags)).collect();
    let timeout = deadline.map(|deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    });
    if poll(&mut files, timeout.as_ref()).is_err() {
        return Vec::new();
    }
    let ready = interests.iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
    ready.map(|((source, _, _), _)| *source).collect()
}
