//! Accesses that go on after the call that began them, and how they wake the process.
//!
//! A [`Pending`] is *running* until its outcome is stored, by a worker or by progress, then *done*;
//! the outcome is taken once. A thread that sleeps until something happens must also wake when a
//! worker is done: it polls the descriptor of [`sleep`] as well, which is readable then.
//!
//! Order, so that no wake-up is missed: a worker stores the outcome, sets [`FINISHED`], makes the
//! descriptor readable, and only then leaves [`RUNNING`]. A thread that is about to sleep reads
//! [`RUNNING`] first and then [`FINISHED`].

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use objects::Error;

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
    /// A thread of the pool finishes it: it counts in [`RUNNING`], and wakes a sleeper.
    is_work: bool,
    outcome: Mutex<Option<Outcome>>,
}

/// Accesses that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// An access was finished since the last look.
static FINISHED: AtomicBool = AtomicBool::new(false);
/// An access was finished since waiting threads were last asked.
static NEWS: AtomicBool = AtomicBool::new(false);
/// The descriptor that sleepers poll, and the one that workers write to.
static WAKE: OnceLock<Option<(UnixStream, UnixStream)>> = OnceLock::new();

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

    /// Returns an access that begins to run on a thread of the pool.
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
        if let Some((_, to)) = wake_pair() {
            // A full stream is readable already.
            let _ = (&*to).write(&[1]);
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true if the access is done.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
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
    let Some((from, _)) = wake_pair() else { return Sleep::Never };
    if FINISHED.swap(false, Ordering::SeqCst) {
        let mut bytes = [0; 64];
        while matches!((&*from).read(&mut bytes), Ok(64)) {}
        return Sleep::Never;
    }
    Sleep::With(from.as_raw_fd())
}

fn wake_pair() -> Option<&'static (UnixStream, UnixStream)> {
    let pair = WAKE.get_or_init(|| {
        let (from, to) = UnixStream::pair().ok()?;
        from.set_nonblocking(true).ok()?;
        to.set_nonblocking(true).ok()?;
        Some((from, to))
    });
    pair.as_ref()
}
