//! Takes leave of a process manager when the process exits, and not in MPI_Finalize: a session may
//! use MPI and the manager's store again.
//!
//! States: bound (an exit is a failure, and the manager ends the job) <-> free, while MPI is not in
//! use. A free process takes leave in a function of atexit(3). `_exit` runs none: such an end looks
//! like a failure to some managers. A child that was forked never takes leave for its parent.

#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use rustix::process::{Pid, getpid};

use crate::process_manager::ProcessManager;

/// The manager, and the process that is free to go.
static FREE: Mutex<Option<(Pid, Arc<ProcessManager>)>> = Mutex::new(None);
static REGISTERED: Once = Once::new();

/// Lets this process take leave of the manager when it exits.
pub(crate) fn allow(manager: &Arc<ProcessManager>) {
    *free() = Some((getpid(), manager.clone()));
    REGISTERED.call_once(|| {
        // SAFETY: `take` is a function of the C ABI without arguments, as atexit wants it. It lives
        // as long as the library: glibc runs it when the library is unloaded, if not before.
        if unsafe { libc::atexit(take) } != 0 {
            take();
        }
    });
}

/// Binds this process again: MPI is in use.
pub(crate) fn forbid() {
    free().take();
}

extern "C" fn take() {
    let taken = free().take();
    if let Some((_, manager)) = taken.filter(|(process, _)| *process == getpid()) {
        // The process ends in any case.
        let _ = manager.finalize();
    }
}

fn free() -> MutexGuard<'static, Option<(Pid, Arc<ProcessManager>)>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}
