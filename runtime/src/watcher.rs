//! Sleeping on two things at once: a word that peers of this host wake, and a
//! descriptor that becomes readable when a device has something.
//!
//! The kernel has no wait for both. So the sleeper sleeps on the word, and a thread that
//! exists only in such processes polls the descriptor and wakes the word for it.
//!
//! States of [`ASKED`]: 0, the watcher sleeps; 1, it polls, or is about to. It goes
//! back to 0 before the word is woken, and the sleeper sets its word before it asks: one
//! that finds the watcher polling for an earlier sleep is woken by that. Waking for
//! nothing is all that can go wrong.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use crate::bed::{futex_wait, futex_wake};

static ASKED: AtomicU32 = AtomicU32::new(0);
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static FD: AtomicI32 = AtomicI32::new(-1);

/// From now on, until it has happened once, `word` goes to 0 and its sleepers wake when `fd`
/// is readable. A process asks for one word and one descriptor all its life.
pub(crate) fn watch(word: *const AtomicU32, fd: RawFd) {
    static STARTED: Once = Once::new();
    WORD.store(word.cast_mut(), Ordering::Relaxed);
    FD.store(fd, Ordering::Relaxed);
    STARTED.call_once(start);
    // SeqCst with the watcher's: either it sees that we ask, or we are woken.
    if ASKED.swap(1, Ordering::SeqCst) == 0 {
        futex_wake(&ASKED, libc::FUTEX_PRIVATE_FLAG);
    }
}

/// Starts the thread with all signals blocked: they are the program's.
fn start() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that the call reads; the call writes the other.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = std::thread::Builder::new().name("verbena-watch".into()).stack_size(64 << 10);
    // Without it a sleeper still wakes whenever it looks for its launcher.
    let _ = thread.spawn(run);
    // SAFETY: as the first call has left it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
}

fn run() {
    const LONG: Duration = Duration::from_secs(3600);
    loop {
        while ASKED.load(Ordering::SeqCst) == 0 {
            futex_wait(&ASKED, 0, libc::FUTEX_PRIVATE_FLAG, LONG);
        }
        let mut polled =
            libc::pollfd { fd: FD.load(Ordering::Relaxed), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid `pollfd`, for the length of the call.
        if unsafe { libc::poll(&raw mut polled, 1, -1) } <= 0 {
            continue;
        }
        ASKED.store(0, Ordering::SeqCst);
        let word = WORD.load(Ordering::Relaxed);
        // SAFETY: a word in a mapping that lives as long as the process, see `Bed`.
        unsafe { &*word }.swap(0, Ordering::SeqCst);
        futex_wake(word, 0);
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
            watch(&SLEEPING, event);
            let ring = std::thread::spawn(move || {
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                // SAFETY: takes no pointers.
                unsafe { libc::eventfd_write(event, 1) };
            });
            let mut late = false;
            while SLEEPING.load(Ordering::SeqCst) == 1 {
                late |= futex_wait(&SLEEPING, 1, 0, nap);
            }
            ring.join().unwrap();
            assert!(!late, "round {round}");
            let mut rings = 0;
            // SAFETY: a valid number to write to.
            unsafe { libc::eventfd_read(event, &mut rings) };
        }
    }
}
