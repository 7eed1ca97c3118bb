//! Sleeping and being woken, through one word in each rank's own doorbell.
//!
//! The sleeper says 1 in its word, then looks at its rings once more, then waits
//! on the futex while the word is 1. The sender publishes its frame, then looks
//! at the word; when it finds 1 it takes it back to 0 and wakes. So there is one
//! wake for each sleep, and none while nobody sleeps.
//!
//! Both sides store one thing and then load the other: one of the two must see
//! the other's store, which takes a full barrier between store and load on both
//! sides. Two ways, chosen by the sleeper and readable in its doorbell:
//! - `waiter_fences` is 0: every sender has a fence after publishing (some 20 cycles
//!   each time);
//! - `waiter_fences` is 1: the sleeper makes the kernel run a barrier on all processors
//!   that run processes of the job (membarrier, global expedited: some µs), and
//!   senders need only keep the order of their instructions. For jobs that spin
//!   and seldom sleep. It reaches processes that have registered; one that could
//!   not uses its fence whatever the sleeper says.
//!
//! A consumer that gives back room is a sender in this sense: it stores `head`,
//! then looks whether the producer wants room, and wakes it if it sleeps.
//!
//! Waking is through shared futexes, so it works between processes.

#![allow(unsafe_code)]

use crate::sync::{AtomicU32, Ordering, fence};

/// What senders look at after each message: a line that only changes when its
/// owner goes to sleep or is woken, so that it stays in every sender's cache.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct EventCount {
    /// 1: the owner sleeps or is about to. The futex.
    waiting: AtomicU32,
    /// 1: the owner runs the barrier of its sleeps for all senders.
    waiter_fences: AtomicU32,
}

impl EventCount {
    /// Once, before anybody is expected to look. Both values of `waiter_fences` are right
    /// at any time for whoever reads them late.
    pub(crate) fn init(&self, waiter_fences: bool) {
        self.waiter_fences.store(waiter_fences.into(), Ordering::Release);
    }

    /// Says that the owner is about to sleep; afterwards it must look once more.
    /// False: it may not sleep this time.
    #[must_use]
    pub(crate) fn prepare_wait(&self) -> bool {
        self.waiting.store(1, Ordering::Relaxed);
        // The store is before the loads that follow, for all to see: by the
        // kernel's barrier on every processor, ours included, or by the fence.
        if self.waiter_fences.load(Ordering::Relaxed) == 0 {
            fence(Ordering::SeqCst);
            return true;
        }
        let ordered = membarrier(GLOBAL_EXPEDITED);
        if !ordered {
            // It had agreed to register us; a filter may have come since. Senders
            // go back to their fences, but one may be past reading the old value.
            self.waiter_fences.store(0, Ordering::Relaxed);
        }
        ordered
    }

    /// Says that the owner is awake.
    #[inline]
    pub(crate) fn cancel_wait(&self) {
        // Relaxed: a sender that still reads 1 makes a wake too many.
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    /// The sender's barrier: what it stored before is seen by an owner that sleeps,
    /// or the owner's sleep is seen by what it loads afterwards. `registered`:
    /// this process takes part in membarrier.
    #[inline]
    pub(crate) fn publish_fence(&self, registered: bool) {
        if registered && self.waiter_fences.load(Ordering::Relaxed) == 1 {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Wakes the owner if it sleeps; to be called after [`EventCount::publish_fence`]. True
    /// if it slept and nobody else has woken it.
    #[inline]
    pub(crate) fn notify(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0 && self.wake()
    }

    #[cold]
    fn wake(&self) -> bool {
        // Of several senders one gets the 1. Relaxed: the futex call orders.
        let first = self.waiting.swap(0, Ordering::Relaxed) != 0;
        #[cfg(not(loom))]
        if first {
            // SAFETY: FUTEX_WAKE reads nothing through the address.
            unsafe { libc::syscall(libc::SYS_futex, &raw const self.waiting, libc::FUTEX_WAKE, 1) };
        }
        first
    }

    /// The word that the owner sleeps on while it holds 1.
    #[cfg(not(loom))]
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.waiting
    }
}

// From linux/membarrier.h; the libc crate does not have them.
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1; // MEMBARRIER_CMD_GLOBAL_EXPEDITED
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2; // MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED

/// Makes this process subject to others' barriers; false where the kernel can't.
pub(crate) fn register_membarrier() -> bool {
    membarrier(REGISTER_GLOBAL_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    if cfg!(any(loom, miri)) {
        return false;
    }
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
