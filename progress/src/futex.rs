//! Futexes, and how late a thread's timers may fire.
//!
//! Under loom a futex is a mutex and a condition variable. A short wait times out at any time; a
//! long one never does, so that a lost wake-up is a deadlock.

#![allow(unsafe_code)]

use std::time::Duration;

/// Which threads share a futex word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of this process.
    Private,
    /// Those of all processes that map it.
    Shared,
}

#[cfg(loom)]
pub(crate) use model::{futex_wait, futex_wake};
#[cfg(not(loom))]
pub(crate) use real::{futex_wait, futex_wake};

#[cfg(not(loom))]
mod real {
    use super::Scope;
    use crate::sync::{AtomicU32, now};
    use std::time::Duration;

    impl Scope {
        fn flag(self) -> i32 {
            match self {
                Scope::Private => libc::FUTEX_PRIVATE_FLAG,
                Scope::Shared => 0,
            }
        }
    }

    /// Sleeps while `word` holds `value`, at most so long; returns true if the time is up. May
    /// return early, but not for a signal.
    pub(crate) fn futex_wait(word: &AtomicU32, value: u32, scope: Scope, most: Duration) -> bool {
        let begun = now();
        loop {
            let left = most.saturating_sub(begun.elapsed());
            match wait_once(word, value, scope, left) {
                Some(libc::EINTR) => {}
                error => return error == Some(libc::ETIMEDOUT),
            }
        }
    }

    /// Makes one call; returns the number of its error.
    fn wait_once(word: &AtomicU32, value: u32, scope: Scope, most: Duration) -> Option<i32> {
        let timeout = libc::timespec {
            tv_sec: most.as_secs() as libc::time_t,
            tv_nsec: most.subsec_nanos().into(),
        };
        // SAFETY: `word` and `timeout` outlive the call; the kernel compares the word and sleeps.
        let slept = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT | scope.flag(),
                value,
                &raw const timeout,
            )
        };
        match slept {
            0 => None,
            _ => std::io::Error::last_os_error().raw_os_error(),
        }
    }

    /// Wakes all that sleep on `word`.
    pub(crate) fn futex_wake(word: &AtomicU32, scope: Scope) {
        // SAFETY: FUTEX_WAKE reads nothing through the address.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | scope.flag(), i32::MAX)
        };
    }
}

#[cfg(loom)]
mod model {
    use std::collections::HashMap;
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use super::Scope;
    use crate::sync::{AtomicU32, Ordering};

    loom::lazy_static! {
        /// How often each word was woken.
        static ref WAKES: (Mutex<HashMap<usize, u32>>, Condvar) =
            (Mutex::new(HashMap::new()), Condvar::new());
    }

    fn key(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }

    /// Longest wait that may time out.
    const MAX_TIMED_SLEEP: Duration = Duration::from_millis(10);

    pub(crate) fn futex_wait(word: &AtomicU32, value: u32, _: Scope, most: Duration) -> bool {
        if most < MAX_TIMED_SLEEP {
            loom::thread::yield_now();
            return word.load(Ordering::Acquire) == value;
        }
        let mut wakes = WAKES.0.lock().unwrap();
        let before = wakes.get(&key(word)).copied().unwrap_or(0);
        if word.load(Ordering::SeqCst) == value {
            while wakes.get(&key(word)).copied().unwrap_or(0) == before {
                wakes = WAKES.1.wait(wakes).unwrap();
            }
        }
        false
    }

    pub(crate) fn futex_wake(word: &AtomicU32, _: Scope) {
        *WAKES.0.lock().unwrap().entry(key(word)).or_insert(0) += 1;
        WAKES.1.notify_all();
    }
}

/// How much later than requested this thread may wake from a timed sleep. The kernel then serves it
/// with a timer that it has set for itself, and interrupts no other thread.
pub(crate) struct TimerSlack {
    /// Nanoseconds before; `None`: unchanged.
    before: Option<libc::c_ulong>,
}

impl TimerSlack {
    /// Allows `most` until the result is dropped.
    pub(crate) fn of(most: Duration) -> TimerSlack {
        if most.is_zero() {
            return TimerSlack { before: None };
        }
        // SAFETY: takes no pointers.
        let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        TimerSlack::set(most.as_nanos() as libc::c_ulong);
        TimerSlack { before: libc::c_ulong::try_from(before).ok() }
    }

    fn set(nanos: libc::c_ulong) {
        // SAFETY: takes no pointers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos, 0, 0, 0) };
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        self.before.into_iter().for_each(TimerSlack::set);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU32, now};

    #[test]
    fn signals_do_not_end_a_sleep() {
        extern "C" fn ignore(_: libc::c_int) {}
        let most = Duration::from_millis(100);
        // SAFETY: all zeros are valid for the structures, and the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        }
        let (sleeper, word) = (ThreadOfTest::this(), AtomicU32::new(0));
        let signals = std::thread::spawn(move || {
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(3));
                sleeper.signal();
            }
        });
        let begun = now();
        assert!(futex_wait(&word, 0, Scope::Private, most), "the time is up");
        assert!(begun.elapsed() >= most);
        signals.join().unwrap();
    }

    struct ThreadOfTest(libc::pthread_t);

    impl ThreadOfTest {
        fn this() -> ThreadOfTest {
            // SAFETY: takes no pointers.
            ThreadOfTest(unsafe { libc::pthread_self() })
        }

        fn signal(&self) {
            // SAFETY: the thread lives until it has joined the caller.
            unsafe { libc::pthread_kill(self.0, libc::SIGUSR1) };
        }
    }
}
