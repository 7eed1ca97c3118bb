//! The application's threads: their names, how many there are, and how one that is about
//! to sleep has another go on in its place.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bed::futex_wake;
use crate::gate;
use crate::wait;
use crate::word::Word;

/// A thread by the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread(libc::pid_t);

/// Threads that have waited and still live.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Counts its thread while it lives.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        // Else others will notice, later: a child of a fork must not wait for the gate here.
        gate::try_with_waiters(|_, waiters| waiters.ended(Thread::this()));
    }
}

/// True when this process's threads, and as many of each other rank, are more
/// than the processors.
pub(crate) fn is_scarce() -> bool {
    wait::LOCAL_RANKS.load(Ordering::Relaxed).saturating_mul(COUNT.load(Ordering::Relaxed))
        > wait::PROCESSORS.load(Ordering::Relaxed)
}

impl Thread {
    /// No thread.
    pub(crate) const NONE: Thread = Thread(0);

    /// The one that asks.
    pub(crate) fn this() -> Thread {
        thread_local! { static THIS: Cell<Thread> = const { Cell::new(Thread::NONE) } }
        THIS.with(|this| {
            if this.get() == Thread::NONE {
                // SAFETY: takes no pointers.
                this.set(Thread(unsafe { libc::gettid() }));
            }
            this.get()
        })
    }

    /// The same, counted from now on.
    pub(crate) fn counted() -> Thread {
        thread_local! {
            static COUNTED: Counted = {
                COUNT.fetch_add(1, Ordering::Relaxed);
                Counted
            };
        }
        // A thread that is ending is not counted any more.
        let _ = COUNTED.try_with(|_| ());
        Thread::this()
    }

    /// Wakes it from its `word`, on the processor that the caller is about to leave.
    ///
    /// The kernel by itself would put it where it was last. There the running thread of
    /// another process may be, and this processor would be idle. Where nobody may choose, it does.
    pub(crate) fn wake_here(self, word: Word) {
        let before = self.move_here();
        futex_wake(&raw const *word, libc::FUTEX_PRIVATE_FLAG);
        if let Some(before) = before {
            // SAFETY: a set of that size. Failing does no more harm than not to have moved it.
            unsafe { libc::sched_setaffinity(self.0, size_of::<libc::cpu_set_t>(), &raw const before) };
        }
    }

    /// Allows it no other processor than this one; gives those it had, if they were more.
    fn move_here(self) -> Option<libc::cpu_set_t> {
        const SIZE: usize = size_of::<libc::cpu_set_t>();
        let mut before = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: a set of that size, which is valid as it is and which the call fills; then no pointers.
        let (known, before, here) = unsafe {
            let known = libc::sched_getaffinity(self.0, SIZE, before.as_mut_ptr()) == 0;
            (known, before.assume_init(), usize::try_from(libc::sched_getcpu()).ok()?)
        };
        // SAFETY: an empty set is all zeroes. `here` is within the set: the kernel would have refused
        // to fill one that is too small for its processors.
        unsafe {
            if !known || libc::CPU_COUNT(&before) < 2 || !libc::CPU_ISSET(here, &before) {
                return None;
            }
            let mut only: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
            libc::CPU_SET(here, &mut only);
            (libc::sched_setaffinity(self.0, SIZE, &raw const only) == 0).then_some(before)
        }
    }
}
