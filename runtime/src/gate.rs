//! The gate: the one way to the state of this process.
//!
//! Invariants:
//! - At most one thread is inside [`with`]. Below MPI_THREAD_MULTIPLE the user
//!   promises that (MPI-5.0 §11.6.2) and the gate costs one branch; at
//!   MPI_THREAD_MULTIPLE a mutex enforces it, and also before anybody has said
//!   which level it is to be: several threads may open sessions at once.
//! - No user callback runs inside, so the gate is never entered twice by one
//!   thread. Builds with debug assertions check this.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::process::Process;

struct Gate {
    process: UnsafeCell<Process>,
    mutex: Mutex<()>,
    /// True at MPI_THREAD_MULTIPLE, and before the first initialisation.
    locked: AtomicBool,
    /// Threads that want the mutex, so that a spinning waiter lets them in.
    queue: AtomicU32,
    /// A thread is inside; only kept with debug assertions.
    inside: AtomicBool,
}

// SAFETY: `process` is reached only through `with`, and only one thread at a
// time is there: by the user's promise below MPI_THREAD_MULTIPLE, by the mutex at it.
unsafe impl Sync for Gate {}

static GATE: Gate = Gate {
    process: UnsafeCell::new(Process::new()),
    mutex: Mutex::new(()),
    locked: AtomicBool::new(true),
    queue: AtomicU32::new(0),
    inside: AtomicBool::new(false),
};

/// Runs `work` on the state of the process.
#[inline]
pub fn with<R>(work: impl FnOnce(&mut Process) -> R) -> R {
    let _guard = if GATE.locked.load(Ordering::Relaxed) { Some(lock()) } else { None };
    let _inside = Inside::enter();
    // SAFETY: this thread is alone inside (module invariant), and `Process` is
    // never reached by another path.
    work(unsafe { &mut *GATE.process.get() })
}

/// Switches the mutex on or off. Called by initialisations, outside the gate: the
/// first one says the level, and a later one that is asked for
/// MPI_THREAD_MULTIPLE raises it.
pub(crate) fn require_lock(required: bool) {
    GATE.locked.store(required, Ordering::SeqCst);
}

/// True when several threads may be in MPI at once.
#[inline]
pub(crate) fn is_shared() -> bool {
    GATE.locked.load(Ordering::Relaxed)
}

/// True when another thread waits to come in.
#[inline]
pub(crate) fn is_wanted() -> bool {
    GATE.queue.load(Ordering::Relaxed) > 0
}

#[cold]
fn lock() -> MutexGuard<'static, ()> {
    if let Ok(guard) = GATE.mutex.try_lock() {
        return guard;
    }
    GATE.queue.fetch_add(1, Ordering::Relaxed);
    let guard = GATE.mutex.lock().unwrap_or_else(PoisonError::into_inner);
    GATE.queue.fetch_sub(1, Ordering::Relaxed);
    guard
}

struct Inside;

impl Inside {
    #[inline]
    fn enter() -> Inside {
        if cfg!(debug_assertions) {
            assert!(!GATE.inside.swap(true, Ordering::Acquire), "the gate was entered twice");
        }
        Inside
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            GATE.inside.store(false, Ordering::Release);
        }
    }
}
