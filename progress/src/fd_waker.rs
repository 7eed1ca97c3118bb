//! The fd waker: a thread that wakes a futex word when a descriptor is ready.
//!
//! The kernel has no wait for both a futex and a descriptor. A sleeper that needs both sleeps on
//! the futex word. This thread, which exists in such processes alone, polls the descriptor and
//! wakes the word for it.
//!
//! States of [`REQUESTED`]: 0, the waker sleeps; 1, it polls, or is about to. It returns to 0
//! before the word is woken, and the sleeper sets its word before its request: a sleeper that finds
//! the waker polling for an earlier sleep is woken by that poll. Spurious wake-ups are possible,
//! lost ones are not.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use crate::futex::{Scope, futex_wait, futex_wake};
use crate::signals::with_signals_blocked;

static REQUESTED: AtomicU32 = AtomicU32::new(0);
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static FD: AtomicI32 = AtomicI32::new(-1);

/// Requests one wake: once `fd` is readable, `word` becomes 0 and its sleepers wake. A process uses
/// one word and one descriptor all its life. Returns false if there is no thread for that.
pub(crate) fn wake_when_readable(word: &'static AtomicU32, fd: RawFd) -> bool {
    static STARTED: OnceLock<bool> = OnceLock::new();
    WORD.store(std::ptr::from_ref(word).cast_mut(), Ordering::Relaxed);
    FD.store(fd, Ordering::Relaxed);
    if !*STARTED.get_or_init(start) {
        return false;
    }
    // SeqCst with the waker's accesses: either it sees this request, or it is woken.
    if REQUESTED.swap(1, Ordering::SeqCst) == 0 {
        futex_wake(&REQUESTED, Scope::Private);
    }
    true
}

/// Starts the thread; returns false if the system has none.
fn start() -> bool {
    let thread = std::thread::Builder::new().name("verbena-watch".into()).stack_size(64 << 10);
    with_signals_blocked(|| thread.spawn(run)).is_ok()
}

fn run() {
    /// Longest sleep without an event.
    const MAX_SLEEP: Duration = Duration::from_secs(3600);
    loop {
        while REQUESTED.load(Ordering::SeqCst) == 0 {
            futex_wait(&REQUESTED, 0, Scope::Private, MAX_SLEEP);
        }
        let mut polled =
            libc::pollfd { fd: FD.load(Ordering::Relaxed), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid `pollfd`, for the length of the call.
        if unsafe { libc::poll(&raw mut polled, 1, -1) } <= 0 {
            continue;
        }
        REQUESTED.store(0, Ordering::SeqCst);
        // SAFETY: stored by `wake_when_readable` before the request that was seen above, from a
        // `&'static`.
        let word = unsafe { &*WORD.load(Ordering::Relaxed) };
        word.swap(0, Ordering::SeqCst);
        futex_wake(word, Scope::Shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readable_descriptor_wakes_the_word_each_time() {
        static SLEEPING: AtomicU32 = AtomicU32::new(0);
        // SAFETY: takes no pointers.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let nap = Duration::from_secs(5);
        for round in 0..200 {
            SLEEPING.store(1, Ordering::SeqCst);
            assert!(wake_when_readable(&SLEEPING, event));
            let writer = std::thread::spawn(move || {
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                // SAFETY: takes no pointers.
                unsafe { libc::eventfd_write(event, 1) };
            });
            let mut late = false;
            while SLEEPING.load(Ordering::SeqCst) == 1 {
                late |= futex_wait(&SLEEPING, 1, Scope::Shared, nap);
            }
            writer.join().unwrap();
            assert!(!late, "round {round}");
            let mut count = 0;
            // SAFETY: a valid number to write to.
            unsafe { libc::eventfd_read(event, &mut count) };
        }
    }
}
