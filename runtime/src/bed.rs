//! Where a thread sleeps in the kernel until its transport has something to do,
//! and how another thread of the process gets it out of there.
//!
//! Whoever rouses a sleeper disarms the transport and unmakes the bed first, under
//! the gate. A futex then does not hold the awaited value any more, and an event is kept until it
//! is read: so a sleeper that is on its way to bed does not miss it.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fabric::WaitOn;

/// What to sleep on, freed from the borrow of the gate.
#[derive(Clone, Copy)]
pub(crate) enum Bed {
    /// A word shared with peers, and what it holds while nothing has happened.
    Futex(*const AtomicU32, u32),
    /// A descriptor that becomes readable.
    Fd(RawFd),
    /// Both; see [`watcher`](crate::watcher).
    Either(*const AtomicU32, u32, RawFd),
    /// Nobody outside can help, only other threads: while [`NOBODY`] holds this.
    Nothing(u32),
}

// SAFETY: the pointer is to a mapping that lives as long as the process, and is
// only given to the kernel.
unsafe impl Send for Bed {}

/// What a thread sleeps on that has nobody outside to wake it.
static NOBODY: AtomicU32 = AtomicU32::new(0);

impl From<WaitOn<'_>> for Bed {
    fn from(on: WaitOn<'_>) -> Bed {
        match on {
            WaitOn::Futex { word, value } => Bed::Futex(word, value),
            WaitOn::Fd(fd) => Bed::Fd(fd),
            WaitOn::Either { word, value, fd } => Bed::Either(word, value, fd),
            WaitOn::Nothing => Bed::Nothing(NOBODY.load(Ordering::Relaxed)),
        }
    }
}

impl Bed {
    /// Sleeps until something happens, at most so long. It may also wake for nothing.
    /// True if the time is up.
    pub(crate) fn sleep(self, most: Duration) -> bool {
        match self {
            Bed::Futex(word, value) => futex_wait(word, value, 0, most),
            Bed::Fd(fd) => poll_fd(fd, most),
            Bed::Either(word, value, fd) => {
                crate::watcher::watch(word, fd);
                futex_wait(word, value, 0, most)
            }
            Bed::Nothing(value) => futex_wait(&NOBODY, value, 0, most),
        }
    }

    /// Makes sure that nobody lies down here any more. Under the gate; the transport
    /// is disarmed too.
    pub(crate) fn unmake(self) {
        if let Bed::Nothing(_) = self {
            NOBODY.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Wakes who sleeps here, after that.
    pub(crate) fn rouse(self) {
        match self {
            Bed::Futex(word, _) | Bed::Either(word, ..) => futex_wake(word, 0),
            Bed::Fd(_) => ring(),
            Bed::Nothing(_) => futex_wake(&NOBODY, 0),
        }
    }
}

/// Sleeps while `word` holds `value`; true if the time is up. `private`: 0, or
/// `FUTEX_PRIVATE_FLAG` for a word that no other process waits for.
pub(crate) fn futex_wait(word: *const AtomicU32, value: u32, private: i32, most: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos().into(),
    };
    // SAFETY: the caller's word outlives the call; the kernel only compares it and
    // sleeps. `timeout` outlives the call.
    let slept = unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT | private, value, &raw const timeout)
    };
    slept != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
}

/// How much later than asked for this thread may wake, while it sleeps by the clock: a timer that has time is served
/// with one that the kernel has set for itself, and interrupts nobody.
pub(crate) struct Slack {
    /// Nanoseconds before; `None`: they have not changed.
    before: Option<libc::c_ulong>,
}

impl Slack {
    pub(crate) fn of(most: Duration) -> Slack {
        if most.is_zero() {
            return Slack { before: None };
        }
        // SAFETY: takes no pointers.
        let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        Slack::set(most.as_nanos() as libc::c_ulong);
        Slack { before: libc::c_ulong::try_from(before).ok() }
    }

    fn set(nanos: libc::c_ulong) {
        // SAFETY: takes no pointers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos, 0, 0, 0) };
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        self.before.into_iter().for_each(Slack::set);
    }
}

/// Wakes who sleeps on the word.
pub(crate) fn futex_wake(word: *const AtomicU32, private: i32) {
    // SAFETY: FUTEX_WAKE reads nothing through the address.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | private, i32::MAX) };
}

/// The descriptor that is polled beside the transport's.
fn bell() -> RawFd {
    static BELL: OnceLock<RawFd> = OnceLock::new();
    // SAFETY: takes no pointers. Where there is none, -1 is ignored by poll.
    *BELL.get_or_init(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

fn ring() {
    // SAFETY: takes no pointers. The counter of an eventfd has room for 2^64 - 2 rings.
    unsafe { libc::eventfd_write(bell(), 1) };
}

fn poll_fd(fd: RawFd, most: Duration) -> bool {
    // Without a bell other threads can't wake us: look often.
    let milliseconds = if bell() < 0 { 5 } else { most.as_millis() as libc::c_int };
    let mut polled = [fd, bell()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: an array of that length, for the length of the call.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, milliseconds) };
    if polled[1].revents != 0 {
        let mut rings = 0;
        // SAFETY: a valid number to write to.
        unsafe { libc::eventfd_read(bell(), &mut rings) };
    }
    ready == 0
}
