//! How a thread waits for something: progress, a short spin, then sleep.
//!
//! The sleep happens outside the gate. With several threads in MPI any of them
//! may be the one that is woken; it then wakes the others, which look for their
//! own completion and go back to sleep.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bootstrap::Waiting;
use fabric::WaitOn;

use crate::abort;
use crate::gate;
use crate::process::{Process, Progress};
use crate::recorder;

/// Progresses everything until `ready` has an answer.
#[inline]
pub fn block_on<R>(ready: impl FnMut(&mut Process) -> Option<R>) -> R {
    block_on_saying(ready, || None)
}

/// As [`block_on`]; `awaited` says what for, for the launcher's reports. It is
/// asked only by a wait that is long enough to sleep.
#[inline]
pub(crate) fn block_on_saying<R>(
    mut ready: impl FnMut(&mut Process) -> Option<R>,
    awaited: impl Fn() -> Option<Waiting>,
) -> R {
    let mut patience = Patience::Fresh;
    loop {
        let (answer, progress) = gate::with(|p| {
            let progress = p.progress();
            (ready(p), progress)
        });
        if let Some(answer) = answer {
            finish(progress);
            return answer;
        }
        if finish(progress) {
            patience = Patience::Fresh;
        } else {
            patience = patience.endure(&awaited);
        }
    }
}

/// One round of progress, for calls that test and return.
#[inline]
pub fn progress_once() {
    let progress = gate::with(Process::progress);
    finish(progress);
}

/// Does what progress left to be done outside the gate; true if it moved.
#[inline]
fn finish(progress: Progress) -> bool {
    match progress {
        Progress::Idle => false,
        Progress::Moved => {
            wake_others();
            true
        }
        Progress::User(call) => {
            let done = call.run();
            gate::with(|p| p.resume(done));
            wake_others();
            true
        }
    }
}

/// How long this wait has lasted.
enum Patience {
    Fresh,
    Spinning { since: Instant, polls: u32 },
}

impl Patience {
    /// Another fruitless round: spins on, or sleeps until something happens.
    #[cold]
    fn endure(self, awaited: impl Fn() -> Option<Waiting>) -> Patience {
        if gate::is_shared() && gate::is_wanted() {
            std::thread::yield_now();
        }
        let (since, polls) = match self {
            Patience::Fresh => (Instant::now(), 1),
            Patience::Spinning { since, polls } => (since, polls + 1),
        };
        // The clock is read once in 64 polls: a poll of an empty ring costs less.
        let spin = SPIN_MICROS.load(Ordering::Relaxed);
        if spin > 0 && (polls % 64 != 0 || since.elapsed() < Duration::from_micros(spin.into())) {
            std::hint::spin_loop();
            return Patience::Spinning { since, polls };
        }
        let awaited = awaited();
        if let Some(awaited) = &awaited {
            recorder::entry().wait_for(awaited);
        }
        sleep();
        if awaited.is_some() {
            recorder::entry().wait_is_over();
        }
        Patience::Fresh
    }
}

/// Microseconds to spin before sleeping; 0 when ranks share cores.
static SPIN_MICROS: AtomicU32 = AtomicU32::new(0);
/// Threads that sleep or are about to.
static SLEEPERS: AtomicU32 = AtomicU32::new(0);
/// The word they sleep on.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) fn set_spin(spin: Duration) {
    SPIN_MICROS.store(spin.as_micros().min(u32::MAX.into()) as u32, Ordering::Relaxed);
}

/// What to sleep on, freed from the borrow of the gate.
enum Bed {
    Futex(*const AtomicU32, u32),
    Fd(i32),
    Nothing,
}

fn sleep() {
    SLEEPERS.fetch_add(1, Ordering::SeqCst);
    let bed = gate::with(|p| {
        p.report_late_ready();
        Some(match p.engine()?.arm()? {
            WaitOn::Futex { word, value } => Bed::Futex(word, value),
            WaitOn::Fd(fd) => Bed::Fd(fd),
            WaitOn::Nothing => Bed::Nothing,
        })
    });
    match bed {
        None => {}
        Some(Bed::Futex(word, value)) => futex_wait(word, value),
        Some(Bed::Fd(fd)) => poll_fd(fd),
        // Nobody outside can help: another thread of ours, or nobody (a program
        // that waits for itself). Look again now and then, at no cost to speak of.
        Some(Bed::Nothing) => std::thread::sleep(Duration::from_millis(1)),
    }
    gate::with(|p| {
        if let Some(engine) = p.engine() {
            engine.disarm();
        }
    });
    SLEEPERS.fetch_sub(1, Ordering::SeqCst);
    wake_others();
}

/// Wakes the other threads of this process, if any sleeps.
#[inline]
fn wake_others() {
    if gate::is_shared() && SLEEPERS.load(Ordering::SeqCst) > 0 {
        wake_all();
    }
}

#[cold]
fn wake_all() {
    let word = WORD.load(Ordering::Relaxed);
    if !word.is_null() {
        // SAFETY: FUTEX_WAKE reads nothing through the address; `word` came from
        // a transport whose mappings live as long as the process.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }
}

fn futex_wait(word: *const AtomicU32, value: u32) {
    WORD.store(word.cast_mut(), Ordering::Relaxed);
    // With several threads a wake between arming and sleeping may have been
    // meant for another one; then the sleep is bounded instead of exact.
    let (tv_sec, tv_nsec) = if gate::is_shared() { (0, 5_000_000) } else { (ORPHAN_SECONDS, 0) };
    let timeout = libc::timespec { tv_sec, tv_nsec };
    // SAFETY: the word lies in a mapping that lives as long as the process; the
    // kernel only compares it and sleeps. `timeout` outlives the call.
    let slept = unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, &raw const timeout) };
    if slept != 0 && !gate::is_shared() && gate::with(|p| p.core().is_ok_and(|core| core.job.is_orphaned())) {
        abort::orphaned();
    }
}

/// How often a sleeper looks whether the launcher still lives. It normally dies
/// with it; one that was started through a wrapper has to look.
const ORPHAN_SECONDS: i64 = 2;

fn poll_fd(fd: i32) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid `pollfd`, for the length of the call.
    unsafe { libc::poll(&mut poll, 1, if gate::is_shared() { 5 } else { -1 }) };
}
