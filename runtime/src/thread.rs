//! The application's threads: their names, how many there are, and how one that is about
//! to sleep has another go on in its place.

#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bed::futex_wake;
use crate::gate;
use crate::home::{self, Processors};
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
        gate::try_with_waiters(|process, waiters| waiters.ended(Thread::this(), process));
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

    /// One that need not be there.
    #[cfg(test)]
    pub(crate) fn numbered(number: libc::pid_t) -> Thread {
        Thread(number)
    }

    /// Wakes it from its `word`, on the processor that the caller is about to leave. It was [asked](Stay::ask) to.
    ///
    /// The kernel by itself would put it where it was last. There the running thread of
    /// another process may be, and this processor would be idle. Where nobody may choose, it does.
    pub(crate) fn wake_here(self, word: Word) {
        word.stay().begin(self.move_here());
        futex_wake(&raw const *word, libc::FUTEX_PRIVATE_FLAG);
    }

    /// Allows it no other processor than this one; gives those it had, if they were more.
    fn move_here(self) -> Option<Processors> {
        let before = home::allowed(self.0)?;
        let here = home::this()?;
        (home::are_several(&before, here) && home::allow(self.0, &home::only(here)))
            .then_some(before)
    }
}

/// A sleeper's stay on the one processor where it was woken: it has the others back before it goes on, so that
/// neither the application nor a thread that it starts ever finds fewer.
///
/// `NONE`, then `ASKED` under the gate, then `HERE` or, if the thread could not be moved, `REFUSED`;
/// the sleeper makes `NONE` of these, and waits for them if something else has woken it meanwhile.
pub(crate) struct Stay {
    state: AtomicU32,
    /// Its processors before; written while `ASKED` by who wakes, read while `HERE` by who slept.
    before: UnsafeCell<MaybeUninit<Processors>>,
}

// SAFETY: `state` says which of two threads may touch `before`.
unsafe impl Sync for Stay {}

impl Stay {
    const NONE: u32 = 0;
    const ASKED: u32 = 1;
    const HERE: u32 = 2;
    const REFUSED: u32 = 3;

    pub(crate) const fn new() -> Stay {
        Stay { state: AtomicU32::new(Stay::NONE), before: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// It is going to be moved. Under the gate.
    pub(crate) fn ask(&self) {
        self.state.store(Stay::ASKED, Ordering::Relaxed);
    }

    fn begin(&self, before: Option<Processors>) {
        let state = before.map_or(Stay::REFUSED, |before| {
            // SAFETY: the sleeper does not look before the state says so.
            unsafe { (*self.before.get()).write(before) };
            Stay::HERE
        });
        // Release: who sees the state finds the processors.
        self.state.store(state, Ordering::Release);
    }

    /// The thread whose stay it is goes on.
    pub(crate) fn end(&self) {
        loop {
            match self.state.load(Ordering::Acquire) {
                Stay::NONE => return,
                Stay::ASKED => std::thread::yield_now(),
                Stay::HERE => {
                    // SAFETY: written before the state.
                    home::allow(0, unsafe { (*self.before.get()).assume_init_ref() });
                    break;
                }
                _ => break,
            }
        }
        self.state.store(Stay::NONE, Ordering::Relaxed);
    }
}
