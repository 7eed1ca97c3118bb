//! Parkers: the words that waiting threads sleep on.
//!
//! A thread is woken after its waker has left the lock. By then the sleeper may have seen its new
//! state, returned, and ended. A parker therefore outlives its thread: it is recycled for a later
//! waiter, to which a spurious wake means nothing.

use std::cell::Cell;
use std::ops::Deref;
use std::time::Duration;

use crate::affinity::SavedAffinity;
use crate::futex::{Scope, futex_wait, futex_wake};
use crate::sync::{AtomicU32, Ordering};
use crate::thread::ThreadId;

/// On a cache line of its own: one thread spins on it while others write to theirs.
#[repr(align(64))]
struct Line(AtomicU32, SavedAffinity);

/// The word of one waiting thread, and the affinity that it is to restore.
#[derive(Clone, Copy)]
pub(crate) struct Parker(&'static Line);

impl PartialEq for Parker {
    fn eq(&self, other: &Parker) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Deref for Parker {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0.0
    }
}

impl Parker {
    /// Returns a parker that no other thread has, and that holds `value`.
    pub(crate) fn take(value: u32) -> Parker {
        let parker = recycle::take().unwrap_or_else(|| {
            Parker(Box::leak(Box::new(Line(AtomicU32::new(0), SavedAffinity::new()))))
        });
        parker.store(value, Ordering::Relaxed);
        parker
    }

    /// Recycles a parker whose thread no longer waits.
    pub(crate) fn recycle(self) {
        recycle::put(self);
    }

    /// Sleeps while the word holds `value`, at most so long; returns true if the time is up. May
    /// return early.
    pub(crate) fn park(self, value: u32, most: Duration) -> bool {
        let timed_out = futex_wait(&self, value, Scope::Private, most);
        self.restore_affinity();
        timed_out
    }

    /// Wakes the thread.
    pub(crate) fn unpark(self) {
        futex_wake(&self, Scope::Private);
    }

    /// Announces [`unpark_here`](Parker::unpark_here). Under the lock.
    pub(crate) fn request_unpark_here(self) {
        self.0.1.request();
    }

    /// Wakes the thread on the processor that the caller is about to leave. The kernel by itself
    /// would wake it where it ran last: there the active thread of another process may run, and
    /// this processor would idle.
    pub(crate) fn unpark_here(self, thread: ThreadId) {
        self.0.1.pin_here(thread);
        self.unpark();
    }

    /// Restores the affinity of the calling thread, if its waker has pinned it.
    pub(crate) fn restore_affinity(self) {
        self.0.1.restore();
    }
}

/// Parkers between their threads.
#[cfg(not(loom))]
mod recycle {
    use std::sync::{Mutex, PoisonError};

    use super::{Cell, Parker};

    /// Those of threads that have ended.
    static UNUSED: Mutex<Vec<Parker>> = Mutex::new(Vec::new());

    /// A thread's own while it does not wait.
    struct Spare(Cell<Option<Parker>>);

    impl Drop for Spare {
        fn drop(&mut self) {
            if let Some(parker) = self.0.take() {
                UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(parker);
            }
        }
    }

    thread_local! {
        static SPARE: Spare = const { Spare(Cell::new(None)) };
    }

    pub(super) fn take() -> Option<Parker> {
        // A thread that is ending has no spare parker, and may still wait.
        let spare = SPARE.try_with(|spare| spare.0.take()).ok().flatten();
        spare.or_else(|| UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop())
    }

    pub(super) fn put(parker: Parker) {
        let other = SPARE.try_with(|spare| spare.0.replace(Some(parker))).unwrap_or(Some(parker));
        if let Some(parker) = other {
            UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(parker);
        }
    }
}

/// Loom's atomics live for one run: each wait has a new parker.
#[cfg(loom)]
mod recycle {
    use super::Parker;

    pub(super) fn take() -> Option<Parker> {
        None
    }

    pub(super) fn put(_: Parker) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nested_waits_have_parkers_of_their_own_and_an_ended_threads_parker_is_recycled() {
        let (outer, inner) = std::thread::spawn(|| {
            let outer = Parker::take(1);
            let inner = Parker::take(2);
            assert!(outer != inner && outer.load(Ordering::Relaxed) == 1);
            inner.recycle();
            outer.recycle();
            (outer, inner)
        })
        .join()
        .unwrap();
        // Waits of other tests in this process may have them for a while.
        let started = std::time::Instant::now();
        let mut again = Vec::new();
        while !(again.contains(&outer) && again.contains(&inner)) {
            assert!(started.elapsed().as_secs() < 60, "neither comes back");
            again.push(Parker::take(0));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
