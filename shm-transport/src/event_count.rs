//! Parking and waking: one futex event count in the control block of each rank.
//!
//! The waiter stores 1 in its word, looks at its rings once more, and then waits on the futex while
//! the word is 1. A sender publishes its frame, then reads the word; if it is 1, the sender stores
//! 0 and wakes. Each wait thus costs one wake, and no wait none.
//!
//! When it is awake again, the waiter stores a third value. A 0 that it finds when it announces a
//! wait is therefore a wake-up that nothing has answered: another thread of the process has
//! announced a wait and not begun it, and what the sender stored may be no frame. It must not wait.
//!
//! Both sides store one thing and then load the other. One of them must see the other's store,
//! which takes a full fence between store and load on both sides. The waiter chooses how:
//! - `waiter_fences` is 0: each sender runs a fence after it publishes.
//! - `waiter_fences` is 1: the waiter makes the kernel run a barrier on all processors that run
//!   registered processes (membarrier, global expedited). Senders only keep their instructions in
//!   order. This suits jobs that seldom wait. A process that is not registered uses its fence.
//!
//! A consumer that returns space is a sender in this sense: it stores `head`, then looks whether
//! the producer waits for space. Futexes are shared; therefore a wake crosses processes.

#![allow(unsafe_code)]

use fabric::membarrier;

use crate::sync::{AtomicU32, Ordering, fence};

/// The owner has been woken, by a sender or for its descriptor.
const WOKEN: u32 = 0;
/// The owner waits or is about to.
pub(crate) const WAITING: u32 = 1;
/// The owner does not wait.
const AWAKE: u32 = 2;

/// The word that senders read after each message: a line that changes only when its owner waits or
/// is woken. It is therefore in every sender's cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct EventCount {
    /// The futex: [`WOKEN`], [`WAITING`] or [`AWAKE`].
    state: AtomicU32,
    /// 1: the owner runs the barrier of its waits for all senders.
    waiter_fences: AtomicU32,
}

impl Default for EventCount {
    fn default() -> EventCount {
        EventCount { state: AtomicU32::new(AWAKE), waiter_fences: AtomicU32::new(0) }
    }
}

impl EventCount {
    /// Announces an owner that is awake, and sets which side fences. Either value of
    /// `waiter_fences` is right at any time for a sender that reads it late.
    pub(crate) fn init(&self, waiter_fences: bool) {
        self.state.store(AWAKE, Ordering::Relaxed);
        self.waiter_fences.store(waiter_fences.into(), Ordering::Release);
    }

    /// Announces that the owner is about to wait, whether or not another thread of it has; the
    /// owner must then look once more. Returns false if it must not wait this time.
    #[must_use]
    pub(crate) fn prepare_wait(&self) -> bool {
        if self.state.swap(WAITING, Ordering::Relaxed) == WOKEN {
            return false;
        }
        // All processors see this store before the loads that follow: by the kernel's barrier,
        // which includes this processor, or by the fence.
        if self.waiter_fences.load(Ordering::Relaxed) == 0 {
            fence(Ordering::SeqCst);
            return true;
        }
        let ordered = membarrier::run();
        if !ordered {
            // The kernel refuses since a filter was set. Senders return to their fences, but one
            // may have read the old value already.
            self.waiter_fences.store(0, Ordering::Relaxed);
        }
        ordered
    }

    /// Announces that the owner does not wait.
    #[inline]
    pub(crate) fn cancel_wait(&self) {
        // Relaxed: a sender that still reads `WAITING` only wakes once too often.
        if self.state.load(Ordering::Relaxed) != AWAKE {
            self.state.store(AWAKE, Ordering::Relaxed);
        }
    }

    /// Runs the sender's half of the fence: a waiting owner sees the stores before it, or the loads
    /// after it see the owner's wait. `has_membarrier`: this process is registered.
    #[inline]
    pub(crate) fn publish_fence(&self, has_membarrier: bool) {
        if has_membarrier && self.waiter_fences.load(Ordering::Relaxed) == 1 {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Wakes the owner if it waits; to be called after [`EventCount::publish_fence`]. Returns
    /// whether this call woke it.
    #[inline]
    pub(crate) fn notify(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WAITING && self.wake()
    }

    #[cold]
    fn wake(&self) -> bool {
        // One of several senders swaps `WAITING` out. Relaxed: the futex call orders.
        let first = self.state.swap(WOKEN, Ordering::Relaxed) == WAITING;
        #[cfg(not(loom))]
        if first {
            // SAFETY: FUTEX_WAKE reads nothing through the address.
            unsafe { libc::syscall(libc::SYS_futex, &raw const self.state, libc::FUTEX_WAKE, 1) };
        }
        first
    }

    /// Returns the word that the owner waits on while it holds [`WAITING`].
    #[cfg(not(loom))]
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.state
    }
}
