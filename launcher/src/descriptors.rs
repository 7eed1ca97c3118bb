//! Descriptors of a job on this host: their limit, and the numbers that ranks agree on.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that each rank costs this process: its control socket and two pipes.
const DESCRIPTORS_PER_RANK: u64 = 3;
/// Descriptors that each daemon that it has started costs it.
const DESCRIPTORS_PER_CHILD: u64 = 2;
/// Descriptors that this process needs besides those.
const BASE_DESCRIPTORS: u64 = 24;
/// The highest number of a rank's descriptors: above the numbers that scripts use.
const MAX_NUMBER: RawFd = 199;

/// The limit of open files is too low for a job. The text follows what needs the files.
#[derive(Debug, thiserror::Error)]
#[error(
    "{needed} open files and the limit is {maximum}: raise it (`ulimit -Hn`, or `--ulimit nofile=` \
     of the container)"
)]
pub(crate) struct LimitError {
    pub(crate) needed: u64,
    pub(crate) maximum: u64,
}

/// Reserves two free numbers that no other program uses, and lets both hold `file`. In the
/// ranks the first is the control socket.
pub(crate) fn reserve(file: BorrowedFd<'_>) -> Result<(OwnedFd, OwnedFd), Errno> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let mut number = MAX_NUMBER.min(limit.min(i32::MAX as u64) as RawFd - 1);
    let mut occupy = || {
        while number > 2 {
            let taken = fcntl_dupfd_cloexec(file, number)?;
            number -= 1;
            // Otherwise the number is in use: our caller left it open for the ranks.
            if taken.as_raw_fd() == number + 1 {
                return Ok(taken);
            }
        }
        Err(Errno::MFILE)
    };
    let high = occupy()?;
    Ok((occupy()?, high))
}

/// What needs descriptors in this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Users {
    /// The ranks of this host.
    pub(crate) ranks: u32,
    /// The daemons that this process starts.
    pub(crate) children: usize,
    /// The files that output goes to.
    pub(crate) output_files: u64,
}

impl Users {
    /// Returns the number of descriptors that they need.
    fn needed(self) -> u64 {
        let ranks = u64::from(self.ranks) * DESCRIPTORS_PER_RANK;
        let children = self.children as u64 * DESCRIPTORS_PER_CHILD;
        ranks + children + self.output_files + BASE_DESCRIPTORS
    }
}

/// Raises our limit of open files as far as its users need it. Returns the limit from before, for
/// the ranks, if it was changed.
pub(crate) fn raise_limit(users: Users) -> Result<Option<libc::rlimit>, LimitError> {
    let needed = users.needed();
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return Ok(None);
    }
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    let raised =
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum });
    if maximum < needed || raised.is_err() {
        return Err(LimitError { needed, maximum });
    }
    Ok(Some(libc::rlimit { rlim_cur: current, rlim_max: maximum }))
}
