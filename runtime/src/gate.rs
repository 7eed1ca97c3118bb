//! The gate: the one way to the state of this process.
//!
//! Invariants:
//! - At most one thread is inside [`with`]. Below MPI_THREAD_MULTIPLE the user
//!   promises that (MPI-5.0 §11.6.2) and the gate costs one branch; at
//!   MPI_THREAD_MULTIPLE a mutex enforces it, and also before anybody has said
//!   which level it is to be: several threads may open sessions at once.
//! - Whoever leaves the gate at that level has asked the waiting threads whether
//!   they have what they wait for now (see `waiters`).
//! - No user callback runs inside, so the gate is never entered twice by one
//!   thread. Builds with debug assertions check this.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::process::Process;
use crate::waiters::Waiters;

struct Gate {
    process: UnsafeCell<Process>,
    mutex: Mutex<Waiters>,
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
    mutex: Mutex::new(Waiters::new()),
    locked: AtomicBool::new(true),
    queue: AtomicU32::new(0),
    inside: AtomicBool::new(false),
};

/// Runs `work` on the state of the process.
#[inline]
pub fn with<R>(work: impl FnOnce(&mut Process) -> R) -> R {
    work(&mut Entered::new(true))
}

/// The state of the process until the result is dropped, for a send or a receive: what it does for other threads,
/// beyond its own message, the engine knows (see [`pt2pt::Engine::take_news`]). No closure, which
/// the int and the large form of a call would share and not have in line.
#[inline(always)]
pub(crate) fn enter_quietly() -> Entered {
    Entered::new(false)
}

/// This thread is inside. Its fields are dropped in their order: who leaves is not inside any more.
pub(crate) struct Entered {
    inside: Option<Inside>,
    leave: Option<Leave>,
}

impl Entered {
    /// `news`: there may be something in it for threads that wait.
    #[inline(always)]
    fn new(news: bool) -> Entered {
        let mut entered = Entered { inside: None, leave: None };
        if is_shared() {
            entered.take_turn(news);
        }
        entered.inside = Some(Inside::enter());
        entered
    }

    #[cold]
    #[inline(never)]
    fn take_turn(&mut self, news: bool) {
        self.leave = Some(Leave { waiters: Some(lock()), news });
    }
}

impl Deref for Entered {
    type Target = Process;

    #[inline(always)]
    fn deref(&self) -> &Process {
        // SAFETY: as below.
        unsafe { &*GATE.process.get() }
    }
}

impl DerefMut for Entered {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Process {
        // SAFETY: this thread is alone inside (module invariant), and `Process` is
        // never reached by another path.
        unsafe { &mut *GATE.process.get() }
    }
}

/// As [`with`], at MPI_THREAD_MULTIPLE, for work on the waiting threads. It
/// asks their questions itself if it changes anything.
pub(crate) fn with_waiters<R>(work: impl FnOnce(&mut Process, &mut Waiters) -> R) -> R {
    among_waiters(lock(), work)
}

/// The same, if nobody is inside.
pub(crate) fn try_with_waiters<R>(work: impl FnOnce(&mut Process, &mut Waiters) -> R) -> Option<R> {
    Some(among_waiters(GATE.mutex.try_lock().ok()?, work))
}

fn among_waiters<R>(
    mut waiters: MutexGuard<'static, Waiters>,
    work: impl FnOnce(&mut Process, &mut Waiters) -> R,
) -> R {
    let inside = Inside::enter();
    // SAFETY: this thread is alone inside, for it holds the mutex.
    let result = work(unsafe { &mut *GATE.process.get() }, &mut waiters);
    let calls = waiters.calls();
    drop(inside);
    drop(waiters);
    calls.make();
    result
}

/// The way out at MPI_THREAD_MULTIPLE.
struct Leave {
    waiters: Option<MutexGuard<'static, Waiters>>,
    news: bool,
}

impl Drop for Leave {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let Some(mut waiters) = self.waiters.take() else { return };
        let inside = Inside::enter();
        // SAFETY: this thread is alone inside, for it holds the mutex, and the work is over.
        let process = unsafe { &mut *GATE.process.get() };
        if self.news || process.stack().is_some_and(|stack| stack.pt2pt().take_news()) {
            waiters.settle(process);
        }
        let calls = waiters.calls();
        drop(inside);
        drop(waiters);
        calls.make();
    }
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
fn lock() -> MutexGuard<'static, Waiters> {
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
