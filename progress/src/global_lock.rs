//! The process lock: the one way to the state that all threads of a process share.
//!
//! Invariants:
//! - At most one thread is inside. Single-threaded, the caller promises that and the lock costs one
//!   branch; multithreaded, a mutex enforces it. A new lock is multithreaded.
//! - A thread that leaves a multithreaded lock has run the wait predicates of the others (see
//!   [`leader_followers`](crate::leader_followers)).
//! - No call that may enter runs inside; therefore no thread enters twice. Builds with debug
//!   assertions check this.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool as DebugFlag;

use crate::guarded::{Guarded, Progress};
use crate::leader_followers::{Scheduler, Waiters};
use crate::shared::{Settings, Shared};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, const_fn};

/// The process lock around a state.
pub struct ProcessLock<S: Guarded> {
    state: UnsafeCell<S>,
    mutex: Mutex<Waiters<S>>,
    /// Several threads may enter.
    multithreaded: AtomicBool,
    pub(crate) shared: Shared,
    /// A thread is inside; only kept with debug assertions.
    inside: DebugFlag,
}

// SAFETY: `state` is reached only inside the lock, where one thread is at a time: by the caller's
// promise while single-threaded (see `set_multithreaded`), by the mutex otherwise. `S: Send` as
// that thread changes.
unsafe impl<S: Guarded + Send> Sync for ProcessLock<S> {}

impl<S: Guarded> ProcessLock<S> {
    const_fn! {
        /// Returns a multithreaded lock.
        pub fn new(state: S) -> ProcessLock<S> {
            ProcessLock {
                state: UnsafeCell::new(state),
                mutex: Mutex::new(Waiters::new()),
                multithreaded: AtomicBool::new(true),
                shared: Shared::new(),
                inside: DebugFlag::new(false),
            }
        }
    }

    /// Sets the lock's job and machine.
    pub fn configure(&self, settings: Settings) {
        self.shared.configure(settings);
    }

    /// Runs `work` on the state.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        // In memory, and apart from a guard: single-threaded, it needs no registers.
        let mut leave = LeaveOnDrop(ManuallyDrop::new(None));
        if self.is_multithreaded() {
            leave.enter(self);
        }
        let _inside = Inside::enter(&self.inside);
        // SAFETY: this thread is alone inside (module invariant).
        work(unsafe { &mut *self.state.get() })
    }

    /// As [`with`](ProcessLock::with), for work of a few instructions; `None`, and nothing done, if
    /// the lock is multithreaded.
    #[inline(always)]
    pub fn with_alone<R>(&self, work: impl FnOnce(&mut S) -> R) -> Option<R> {
        if self.is_multithreaded() {
            return None;
        }
        let _inside = Inside::enter(&self.inside);
        // SAFETY: this thread is alone inside, since it is the only one (module invariant).
        Some(work(unsafe { &mut *self.state.get() }))
    }

    /// Enters until the result is dropped, for a call that itself knows whether it did anything for
    /// other threads ([`Guarded::wake_needed`]). A guard, as a closure would be shared between
    /// callers and not be inlined.
    #[inline(always)]
    pub fn lock_fast(&self) -> ProcessGuard<'_, S> {
        ProcessGuard::new(self)
    }

    /// Sets whether several threads of the application may enter. With a progress thread the lock
    /// is always multithreaded. Outside the lock; while false, the caller lets one thread in at a
    /// time.
    pub fn set_multithreaded(&self, multithreaded: bool) {
        let multithreaded =
            multithreaded || self.shared.has_progress_thread.load(Ordering::Relaxed);
        self.multithreaded.store(multithreaded, Ordering::SeqCst);
    }

    /// Has each entry of a multithreaded lock checked by [`Guarded::check_entry`].
    pub fn check_entries(&self) {
        self.shared.checks_entries.store(true, Ordering::Relaxed);
    }

    /// Returns true if several threads may enter.
    #[inline]
    pub fn is_multithreaded(&self) -> bool {
        self.multithreaded.load(Ordering::Relaxed)
    }

    /// Counts and makes one round of progress. `state` is the one of this lock.
    #[inline(always)]
    pub(crate) fn progress(&self, state: &mut S) -> Progress<S::Call> {
        self.shared.count_round();
        state.progress()
    }

    /// As [`with`](ProcessLock::with), for work on the waiters of a multithreaded lock. It runs the
    /// predicates itself if it changes the state.
    pub(crate) fn with_scheduler<R>(&self, work: impl FnOnce(&mut Scheduler<'_, S>) -> R) -> R {
        self.schedule(self.acquire(), work)
    }

    /// As [`with`](ProcessLock::with), for a leader that is about to park and changes nothing that
    /// a waiter waits for: no predicate runs, and the leader's own target stays valid.
    pub(crate) fn with_quietly<R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        if self.is_multithreaded() {
            self.with_scheduler(|scheduler| work(scheduler.state))
        } else {
            self.with(work)
        }
    }

    /// As [`with_scheduler`](ProcessLock::with_scheduler); `None` if another thread is inside.
    pub(crate) fn try_with_scheduler<R>(
        &self,
        work: impl FnOnce(&mut Scheduler<'_, S>) -> R,
    ) -> Option<R> {
        Some(self.schedule(self.mutex.try_lock().ok()?, work))
    }

    fn schedule<R>(
        &self,
        mut waiters: MutexGuard<'_, Waiters<S>>,
        work: impl FnOnce(&mut Scheduler<'_, S>) -> R,
    ) -> R {
        let inside = Inside::enter(&self.inside);
        // SAFETY: this thread is alone inside, since it holds the mutex.
        let state = unsafe { &mut *self.state.get() };
        let mut scheduler = Scheduler { state, waiters: &mut waiters, shared: &self.shared };
        let result = work(&mut scheduler);
        let wakes = scheduler.take_wakes();
        drop(inside);
        drop(waiters);
        wakes.send();
        result
    }

    #[cold]
    fn acquire(&self) -> MutexGuard<'_, Waiters<S>> {
        let free = self.mutex.try_lock().ok();
        if self.shared.checks_entries.load(Ordering::Relaxed) {
            S::check_entry(free.is_none());
        }
        if let Some(guard) = free {
            return guard;
        }
        self.shared.contenders.fetch_add(1, Ordering::Relaxed);
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.contenders.fetch_sub(1, Ordering::Relaxed);
        guard
    }
}

/// A thread inside the lock.
///
/// Single-threaded, no address of it is taken, so that it costs no memory and the lock's address is
/// a constant.
pub struct ProcessGuard<'a, S: Guarded> {
    inside: Option<Inside<'a>>,
    leave: Option<Leave<'a, S>>,
    lock: &'a ProcessLock<S>,
}

impl<'a, S: Guarded> ProcessGuard<'a, S> {
    #[inline(always)]
    fn new(lock: &'a ProcessLock<S>) -> ProcessGuard<'a, S> {
        let leave = if lock.is_multithreaded() { Some(Leave::new(lock, false)) } else { None };
        ProcessGuard { inside: Some(Inside::enter(&lock.inside)), leave, lock }
    }
}

impl<S: Guarded> Drop for ProcessGuard<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        drop(self.inside.take());
        if let Some(leave) = self.leave.take() {
            leave.run();
        }
    }
}

impl<S: Guarded> Deref for ProcessGuard<'_, S> {
    type Target = S;

    #[inline(always)]
    fn deref(&self) -> &S {
        // SAFETY: this thread is alone inside (module invariant); the guard's borrow keeps
        // `deref_mut` away.
        unsafe { &*self.lock.state.get() }
    }
}

impl<S: Guarded> DerefMut for ProcessGuard<'_, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: this thread is alone inside (module invariant), and the guard is borrowed
        // mutably.
        unsafe { &mut *self.lock.state.get() }
    }
}

/// The way out of a multithreaded lock.
struct Leave<'a, S: Guarded> {
    waiters: MutexGuard<'a, Waiters<S>>,
    lock: &'a ProcessLock<S>,
    /// Other threads' predicates may be true.
    changes: bool,
}

impl<'a, S: Guarded> Leave<'a, S> {
    #[cold]
    #[inline(never)]
    fn new(lock: &'a ProcessLock<S>, changes: bool) -> Leave<'a, S> {
        Leave { waiters: lock.acquire(), lock, changes }
    }

    #[cold]
    #[inline(never)]
    fn run(self) {
        self.lock.schedule(self.waiters, |scheduler| {
            if self.changes || scheduler.state.wake_needed() {
                scheduler.run_predicates();
            }
        });
    }
}

/// Leaves a multithreaded lock when it is dropped. [`run`](LeaveOnDrop::run) empties it; with
/// `ManuallyDrop` the compiler does not look again afterwards, for which it would save a register.
struct LeaveOnDrop<'a, S: Guarded>(ManuallyDrop<Option<Leave<'a, S>>>);

impl<'a, S: Guarded> LeaveOnDrop<'a, S> {
    #[cold]
    #[inline(never)]
    fn enter(&mut self, lock: &'a ProcessLock<S>) {
        *self.0 = Some(Leave::new(lock, true));
    }

    #[cold]
    #[inline(never)]
    fn run(&mut self) {
        self.0.take().into_iter().for_each(Leave::run);
    }
}

impl<S: Guarded> Drop for LeaveOnDrop<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.is_some() {
            self.run();
        }
    }
}

struct Inside<'a>(&'a DebugFlag);

impl Inside<'_> {
    #[inline]
    fn enter(flag: &DebugFlag) -> Inside<'_> {
        if cfg!(debug_assertions) {
            let was_inside = flag.swap(true, Ordering::Acquire);
            assert!(!was_inside, "a thread entered the process lock twice");
        }
        Inside(flag)
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            self.0.store(false, Ordering::Release);
        }
    }
}
