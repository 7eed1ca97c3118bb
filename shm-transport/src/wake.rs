//! Sleeping and being woken, through one word in each rank's own control block.
//!
//! The sleeper says 1 in its word, then looks at its rings once more, then waits
//! on the futex. The sender publishes its frame, then looks at the word; when it
//! finds 1 it takes it back to 0 and wakes. So there is one wake for each sleep.
//!
//! Both sides store one thing and then load the other: one of the two must see
//! the other's store, which takes a full barrier between store and load on both
//! sides. Two ways, chosen by the sleeper and readable in its `barrier` word:
//! - 0: every sender has a fence after publishing (some 20 cycles each time);
//! - 1: the sleeper makes the kernel run the barrier on all processors that run
//!   processes of the job (membarrier, global expedited), and senders need only
//!   keep the order of their instructions. For jobs that spin and seldom sleep.

#![allow(unsafe_code)]

use crate::segment::Control;
use crate::sync::{AtomicU32, Ordering, fence};

const REGISTER: libc::c_int = 1 << 2; // MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
const BARRIER: libc::c_int = 1 << 1; // MEMBARRIER_CMD_GLOBAL_EXPEDITED

/// Makes this process subject to others' barriers; false where the kernel can't.
pub(crate) fn register() -> bool {
    membarrier(REGISTER)
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Says that this rank is about to sleep; afterwards it must look once more.
pub(crate) fn announce(own: &Control) {
    own.sleeping.store(1, Ordering::SeqCst);
    if own.barrier.load(Ordering::Relaxed) == 1 && membarrier(BARRIER) {
        return;
    }
    fence(Ordering::SeqCst);
}

/// Says that this rank is awake.
#[inline]
pub(crate) fn awake(own: &Control) {
    if own.sleeping.load(Ordering::Relaxed) != 0 {
        own.sleeping.store(0, Ordering::Relaxed);
    }
}

/// Wakes a rank that sleeps, after something was published for it.
#[inline]
pub(crate) fn ring_doorbell(theirs: &Control, registered: bool) {
    if registered && theirs.barrier.load(Ordering::Relaxed) == 1 {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
    if theirs.sleeping.load(Ordering::Relaxed) != 0 {
        wake(&theirs.sleeping);
    }
}

#[cold]
fn wake(word: &AtomicU32) {
    if word.swap(0, Ordering::SeqCst) != 0 {
        // SAFETY: FUTEX_WAKE reads nothing through the address.
        unsafe { libc::syscall(libc::SYS_futex, std::ptr::from_ref(word), libc::FUTEX_WAKE, 1) };
    }
}
