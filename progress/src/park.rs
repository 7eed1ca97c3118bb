//! Where a thread sleeps in the kernel until its transport has something to do, and how another
//! thread of the process wakes it.
//!
//! To wake a parked thread, first disarm the transport and [`invalidate`](ParkTarget::invalidate)
//! the target, under the lock; then [`wake`](ParkTarget::wake) it. After the first step a futex no
//! longer holds the expected value, and an eventfd is readable until it is read. A thread that is
//! about to park therefore misses no wake-up.

#![allow(unsafe_code)]

use std::io::ErrorKind;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::time::Duration;

use crate::futex::{Scope, futex_wait, futex_wake};
use crate::sync::{AtomicU32, Ordering, now};

/// The longest sleep where something that should end it cannot.
const MAX_BLIND_SLEEP: Duration = Duration::from_millis(5);

/// The word or descriptors to sleep on.
#[derive(Clone, Copy, Debug)]
pub struct ParkTarget(Target);

#[derive(Clone, Copy, Debug)]
enum Target {
    /// A word shared with peers, and what it holds while nothing has happened.
    Futex(&'static AtomicU32, u32),
    /// A descriptor that becomes readable.
    Fd(RawFd),
    /// Both; see [`fd_waker`](crate::fd_waker).
    Either(&'static AtomicU32, u32, RawFd),
    /// No peer can wake the sleeper, only other threads: while [`internal_word`] holds this.
    Internal(u32),
}

/// Returns the word that a thread sleeps on when only this process can wake it.
fn internal_word() -> &'static AtomicU32 {
    #[cfg(not(loom))]
    static WORD: AtomicU32 = AtomicU32::new(0);
    #[cfg(loom)]
    loom::lazy_static! { static ref WORD: AtomicU32 = AtomicU32::new(0); }
    &WORD
}

impl ParkTarget {
    /// Returns a target that ends its park when `word`, shared with other processes, no longer
    /// holds `value` and is woken.
    ///
    /// # Safety
    /// The memory of `word` is mapped until the process ends.
    pub unsafe fn futex(word: &AtomicU32, value: u32) -> ParkTarget {
        // SAFETY: the caller's promise.
        ParkTarget(Target::Futex(unsafe { &*std::ptr::from_ref(word) }, value))
    }

    /// Returns a target that ends its park when `fd` is readable.
    pub fn fd(fd: RawFd) -> ParkTarget {
        ParkTarget(Target::Fd(fd))
    }

    /// Returns a target that ends its park on either event; `word` becomes 0 when `fd` is readable.
    ///
    /// # Safety
    /// The memory of `word` is mapped until the process ends.
    pub unsafe fn either(word: &AtomicU32, value: u32, fd: RawFd) -> ParkTarget {
        // SAFETY: the caller's promise.
        ParkTarget(Target::Either(unsafe { &*std::ptr::from_ref(word) }, value, fd))
    }

    /// Returns a target that only threads of this process end the park of. Under the lock.
    pub fn internal() -> ParkTarget {
        ParkTarget(Target::Internal(internal_word().load(Ordering::Relaxed)))
    }

    /// Sleeps until something happens, at most so long; returns true if the time is up. May return
    /// early.
    pub(crate) fn park(self, most: Duration) -> bool {
        match self.0 {
            Target::Futex(word, value) => futex_wait(word, value, Scope::Shared, most),
            Target::Fd(fd) => poll_fd(fd, most),
            #[cfg(not(loom))]
            Target::Either(word, value, fd) => {
                let is_woken = crate::fd_waker::wake_when_readable(word, fd);
                let most = if is_woken { most } else { MAX_BLIND_SLEEP.min(most) };
                futex_wait(word, value, Scope::Shared, most)
            }
            #[cfg(loom)]
            Target::Either(..) => unreachable!("loom has no descriptors"),
            Target::Internal(value) => futex_wait(internal_word(), value, Scope::Shared, most),
        }
    }

    /// Makes a park that has not begun yet return at once. Under the lock; the transport is
    /// disarmed too.
    pub(crate) fn invalidate(self) {
        if let Target::Internal(_) = self.0 {
            internal_word().fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Wakes the thread that is parked here, after [`invalidate`](ParkTarget::invalidate).
    pub(crate) fn wake(self) {
        match self.0 {
            Target::Futex(word, _) | Target::Either(word, ..) => futex_wake(word, Scope::Shared),
            Target::Fd(_) => wake_poll(),
            Target::Internal(_) => futex_wake(internal_word(), Scope::Shared),
        }
    }
}

/// Returns the eventfd that is polled together with the transport's descriptor, or -1, which `poll`
/// ignores.
fn wake_fd() -> RawFd {
    static EVENT: OnceLock<RawFd> = OnceLock::new();
    // SAFETY: takes no pointers.
    *EVENT.get_or_init(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

fn wake_poll() {
    // SAFETY: takes no pointers. The counter of an eventfd holds up to 2^64 - 2.
    unsafe { libc::eventfd_write(wake_fd(), 1) };
}

fn poll_fd(fd: RawFd, most: Duration) -> bool {
    // Without an eventfd other threads can't wake this one: poll often.
    let most = if wake_fd() < 0 { MAX_BLIND_SLEEP.min(most) } else { most };
    let mut polled =
        [fd, wake_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let begun = now();
    let ready = loop {
        let left = most.saturating_sub(begun.elapsed()).as_millis() as libc::c_int;
        // SAFETY: an array of that length, for the length of the call.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, left) };
        if ready >= 0 || std::io::Error::last_os_error().kind() != ErrorKind::Interrupted {
            break ready;
        }
    };
    if polled[1].revents != 0 {
        let mut count = 0;
        // SAFETY: a valid number to write to.
        unsafe { libc::eventfd_read(wake_fd(), &mut count) };
    }
    ready == 0
}
