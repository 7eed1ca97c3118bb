//! Parking and waking: one futex event count in the control block of each rank.
//!
//! The waiter stores 1 in its word, looks at its rings once more, and then waits on the futex while
//! the word is 1. A sender publishes its frame, then reads the word; if it is 1, the sender stores
//! 0 and wakes. Each wait thus costs one wake, and no wait none.
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

/// The word that senders read after each message: a line that changes only when its owner waits or
/// is woken. It is therefore in every sender's cache.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct EventCount {
    /// The futex. 1: the owner waits or is about to.
    waiting: AtomicU32,
    /// 1: the owner runs the barrier of its waits for all senders.
    waiter_fences: AtomicU32,
}

impl EventCount {
    /// Sets which side fences. Either value of `waiter_fences` is right at any time for a sender
    /// that reads it late.
    pub(crate) fn init(&self, waiter_fences: bool) {
        self.waiter_fences.store(waiter_fences.into(), Ordering::Release);
    }

    /// Announces that the owner is about to wait; the owner must then look once more. Returns false
    /// if it must not wait this time.
    #[must_use]
    pub(crate) fn prepare_wait(&self) -> bool {
        self.waiting.store(1, Ordering::Relaxed);
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
        // Relaxed: a sender that still reads 1 only wakes once too often.
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.waiting.store(0, Ordering::Relaxed);
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
        self.waiting.load(Ordering::Relaxed) != 0 && self.wake()
    }

    #[cold]
    fn wake(&self) -> bool {
        // One of several senders swaps out the 1. Relaxed: the futex call orders.
        let first = self.waiting.swap(0, Ordering::Relaxed) != 0;
        #[cfg(not(loom))]
        if first {
            // SAFETY: FUTEX_WAKE reads nothing through the address.
            unsafe { libc::syscall(libc::SYS_futex, &raw const self.waiting, libc::FUTEX_WAKE, 1) };
        }
        first
    }

    /// Returns the word that the owner waits on while it holds 1.
    #[cfg(not(loom))]
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.waiting
    }
}
