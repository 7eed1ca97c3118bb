//! The process lock of this process, and waiting on it.
//!
//! Below MPI_THREAD_MULTIPLE the user promises that one thread is in MPI at a time (MPI-5.0
//! §11.6.2). Before the first initialisation the lock is multithreaded: several threads may open
//! sessions at once. User callbacks always run outside the lock.

use objects::Result;
use progress::{ProcessGuard, ProcessLock};

use crate::process::Process;

/// The process lock.
pub(crate) static LOCK: ProcessLock<Process> = ProcessLock::new(Process::new());

/// Runs `work` on the state of the process.
#[inline]
pub fn with<R>(work: impl FnOnce(&mut Process) -> R) -> R {
    LOCK.with(work)
}

/// Runs work of a few instructions on the state of the process; `None`, and nothing done, if
/// several threads may be in MPI.
#[inline(always)]
pub fn with_alone<R>(work: impl FnOnce(&mut Process) -> R) -> Option<R> {
    LOCK.with_alone(work)
}

/// Locks for a send or a receive. The engine records whether such a call did anything for other
/// threads (see [`pt2pt::Engine::take_news`]).
#[inline(always)]
pub(crate) fn lock_fast() -> ProcessGuard<'static, Process> {
    LOCK.lock_fast()
}

/// Makes progress until `ready` returns a result. Another thread of the process may call `ready`.
#[inline]
pub fn block_on<R>(ready: impl FnMut(&mut Process) -> Option<R>) -> R {
    LOCK.block_on(ready)
}

/// Makes progress, then runs `look`, for calls that test and return. A loop over calls that find
/// nothing, as `is_vain` says, gives way to other ranks.
#[inline]
pub fn poll<R>(
    look: impl FnOnce(&mut Process) -> Result<R>,
    is_vain: impl FnOnce(&R) -> bool,
) -> Result<R> {
    LOCK.give_way();
    progress_once();
    let found = with(look)?;
    if is_vain(&found) {
        LOCK.count_vain_poll();
    }
    Ok(found)
}

/// Makes one round of progress.
#[inline]
pub fn progress_once() {
    LOCK.progress_once();
}
