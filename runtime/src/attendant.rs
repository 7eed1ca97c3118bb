//! The attendant: a thread that makes progress while the application computes
//! (`pt2pt.progress = "thread"`).
//!
//! To the others it is a waiting thread that is never answered: as their deputy it
//! notices that nobody has made progress for a while, becomes the driver, and sleeps
//! in the kernel until something arrives (see `waiters`). So it costs nothing while
//! nothing comes. It calls no user functions: a reduction of the user's waits for the
//! application. With it the gate locks at every thread level.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use objects::{Class, Error, Result};

use crate::gate;
use crate::waiters;

static HERE: AtomicBool = AtomicBool::new(false);

/// True once it was started.
pub(crate) fn is_here() -> bool {
    HERE.load(Ordering::Relaxed)
}

/// Starts it; it lives as long as the process.
pub(crate) fn start() -> Result<()> {
    HERE.store(true, Ordering::Relaxed);
    gate::require_lock(true);
    let started = without_signals(|| {
        std::thread::Builder::new().name("mpi-progress".into()).spawn(waiters::attend)
    });
    started.map(drop).map_err(|error| {
        Error::new(
            Class::Other,
            format!("cannot start the thread that pt2pt.progress asks for: {error}"),
        )
    })
}

/// Runs `work` with all signals blocked, which a thread started there inherits: the
/// application's handlers are to run on its own threads.
fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: two sets on our stack: the first is filled before it is used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}
