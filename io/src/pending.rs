//! Accesses that go on after the call that began them, and how they wake the process.
//!
//! A [`Pending`] is *running* until its outcome is stored, then *done*; the outcome is taken once.
//! Three parts end one: a worker, progress, and the kernel by [`uring`], whose completions are
//! looked for by [`Pending::is_done`], [`take_news`] and [`sleep`]. A thread that sleeps until
//! something happens must also wake when an access is done: it polls the descriptor of [`sleep`].
//!
//! Order, so that no wake-up is missed: a worker stores the outcome, sets [`FINISHED`], makes the
//! descriptor readable, and only then leaves [`RUNNING`]. A thread that is about to sleep reads
//! [`RUNNING`] first, then looks for completions, and then reads [`FINISHED`]. It sleeps only if it
//! took no signal off the descriptor.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use objects::Error;

use crate::{uring, wake};

/// How long [`settle`] waits for accesses to end by themselves, and then for cancelled ones.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// How long it sleeps between two looks.
const SETTLE_INTERVAL: Duration = Duration::from_micros(200);

/// The result of an access.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes of the user's data that were moved, also with an error.
    pub bytes: u64,
    /// What went wrong.
    pub error: Option<Error>,
}

/// An access that may still run.
#[derive(Debug, Default)]
pub struct Pending {
    done: AtomicBool,
    /// A worker or the kernel moves the data: it counts in [`RUNNING`], and wakes a sleeper.
    is_work: bool,
    outcome: Mutex<Option<Outcome>>,
}

/// Accesses that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// An access was finished since the last look.
static FINISHED: AtomicBool = AtomicBool::new(false);
/// An access was finished since waiting threads were last asked.
static NEWS: AtomicBool = AtomicBool::new(false);

impl Outcome {
    /// Returns the outcome of an access that failed before it moved anything.
    pub fn failed(error: Error) -> Outcome {
        Outcome { bytes: 0, error: Some(error) }
    }
}

impl Pending {
    /// Returns an access that is done.
    pub fn finished(outcome: Outcome) -> Pending {
        let outcome = Mutex::new(Some(outcome));
        Pending { done: AtomicBool::new(true), outcome, ..Pending::default() }
    }

    /// Returns an access that begins to run on a thread of the pool or in the kernel.
    pub(crate) fn begin() -> Pending {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Pending { is_work: true, ..Pending::default() }
    }

    /// Returns an access that progress finishes.
    pub(crate) fn promise() -> Pending {
        Pending::default()
    }

    /// Ends an access.
    pub(crate) fn finish(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        // Release: a thread that sees it done sees the data.
        self.done.store(true, Ordering::Release);
        announce();
        if !self.is_work {
            return;
        }
        FINISHED.store(true, Ordering::SeqCst);
        wake::signal();
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true if the access is done.
    pub fn is_done(&self) -> bool {
        let is_done = || self.done.load(Ordering::Acquire);
        is_done()
            || self.is_work && {
                uring::reap();
                is_done()
            }
    }

    /// Returns the outcome, once, if the access is done.
    pub fn take(&self) -> Option<Outcome> {
        if !self.is_done() {
            return None;
        }
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a thread that is about to sleep must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// No access runs.
    Freely,
    /// It must wake when this descriptor is readable.
    With(RawFd),
    /// It must not sleep: something is done, or the system has no descriptor left.
    Never,
}

/// Returns true, once, if an access was finished: what waits for it may go on.
#[inline]
pub fn take_news() -> bool {
    uring::reap();
    // Most processes have no such access: no write to the shared line.
    NEWS.load(Ordering::Relaxed) && NEWS.swap(false, Ordering::SeqCst)
}

/// Has progress look at what waits for an access.
pub fn announce() {
    NEWS.store(true, Ordering::SeqCst);
}

/// Returns true if [`take_news`] would.
pub fn has_news() -> bool {
    NEWS.load(Ordering::SeqCst)
}

/// Returns true while an access runs, or one was finished that no thread has heard of.
pub fn is_active() -> bool {
    RUNNING.load(Ordering::SeqCst) > 0 || FINISHED.load(Ordering::SeqCst)
}

/// Returns how a thread may sleep.
pub fn sleep() -> Sleep {
    if !is_active() {
        return Sleep::Freely;
    }
    let Some(descriptor) = wake::descriptor() else { return Sleep::Never };
    if uring::reap() > 0 || FINISHED.swap(false, Ordering::SeqCst) {
        wake::drain();
        return Sleep::Never;
    }
    Sleep::With(descriptor)
}

/// Waits until no access runs, at MPI_Finalize: the program may give back memory of accesses whose
/// requests it has freed. Those of io_uring that do not end in time are cancelled.
pub fn settle() {
    if !wait_for_all() {
        uring::cancel_all();
        wait_for_all();
    }
}

fn wait_for_all() -> bool {
    let limit = Instant::now() + SETTLE_TIME;
    while RUNNING.load(Ordering::SeqCst) > 0 && Instant::now() < limit {
        if uring::reap() == 0 {
            std::thread::sleep(SETTLE_INTERVAL);
        }
    }
    RUNNING.load(Ordering::SeqCst) == 0
}
