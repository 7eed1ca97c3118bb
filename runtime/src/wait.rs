//! How a thread waits for something: progress, a short spin (or, where ranks take
//! turns on their processors, some turns for the others), then sleep.
//!
//! Below MPI_THREAD_MULTIPLE the one thread in MPI does all of that here. At that
//! level it tries once here, and then takes its place among the [`waiters`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bootstrap::Job;

use crate::abort;
use crate::bed::Bed;
use crate::blocked_on;
use crate::gate;
use crate::home;
use crate::process::{Process, Progress};
use crate::waiters;

/// Progresses everything until `ready` has an answer. Another thread of the
/// process may be the one that calls `ready`.
#[inline]
pub fn block_on<R>(mut ready: impl FnMut(&mut Process) -> Option<R>) -> R {
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
        } else if gate::is_shared() {
            // A copy, so that the question of the loop above stays in registers.
            let ready = std::hint::black_box(ready);
            return among_others(ready);
        } else {
            patience = patience.endure();
        }
    }
}

/// The rest of [`block_on`] at MPI_THREAD_MULTIPLE.
#[cold]
fn among_others<R>(mut ready: impl FnMut(&mut Process) -> Option<R>) -> R {
    let mut answer = None;
    let mut ask = |p: &mut Process| {
        answer = ready(p);
        answer.is_some()
    };
    waiters::wait(&mut ask);
    answer.unwrap_or_else(|| unreachable!("a waiting thread returned without its answer"))
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
        Progress::Moved => true,
        Progress::User(call) => {
            let done = call.run();
            gate::with(|p| p.resume(done));
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
    /// Another fruitless round: spins on, passes the turn, or sleeps until something happens.
    #[cold]
    fn endure(self) -> Patience {
        let (since, polls) = match self {
            Patience::Fresh => (Instant::now(), 1),
            Patience::Spinning { since, polls } => (since, polls + 1),
        };
        // The clock is read once in 64 polls: a poll of an empty ring costs less.
        let spin = spin();
        if !spin.is_zero() && (polls % 64 != 0 || since.elapsed() < spin) {
            breathe();
            if polls.is_multiple_of(LONG) {
                home::make_way();
            }
            return Patience::Spinning { since, polls };
        }
        if polls <= TURNS && takes_turns() && pass_the_turn() {
            return Patience::Spinning { since, polls };
        }
        sleep();
        Patience::Fresh
    }
}

/// Polls, some 30 us, after which others on the same processor may run.
const LONG: u32 = 1 << 10;
/// How often a waiting rank lets others run before it sleeps, where ranks take turns
/// on their processors: nobody has to wake it then. One that is alone on its host has nobody to
/// make way for.
const TURNS: u32 = 16;
/// Others that run this long do something else than waiting for a message, and a
/// rank that sleeps runs sooner than one that is behind them in the queue.
const LONG_TURN: Duration = Duration::from_millis(1);
/// So many waits sleep at once after two long turns. One alone is a disturbance, and a sleeper among ranks that take turns
/// costs each of them several.
const SLEEPY: u32 = 100;
static SLEEPS_AT_ONCE: AtomicU32 = AtomicU32::new(0);
/// The last turn was long.
static WAS_LONG: AtomicBool = AtomicBool::new(false);

/// Whether this rank takes turns with others on its processor.
#[inline]
fn takes_turns() -> bool {
    !spins() && LOCAL_RANKS.load(Ordering::Relaxed) > 1 && !gate::is_shared()
}

/// Whether a wait begins with a turn for the others that nobody needs to time.
#[inline]
pub(crate) fn begins_with_a_turn() -> bool {
    takes_turns() && !WAS_LONG.load(Ordering::Relaxed)
}

/// Whether a wait spins, and looks by itself.
#[inline]
pub(crate) fn spins_alone() -> bool {
    spins() && !gate::is_shared()
}

/// Lets others run; false where that takes longer than to sleep.
fn pass_the_turn() -> bool {
    let sleepy = SLEEPS_AT_ONCE.load(Ordering::Relaxed);
    if sleepy > 0 {
        SLEEPS_AT_ONCE.store(sleepy - 1, Ordering::Relaxed);
        return false;
    }
    let is_long = home::let_others_run() > LONG_TURN;
    if WAS_LONG.swap(is_long, Ordering::Relaxed) && is_long {
        SLEEPS_AT_ONCE.store(SLEEPY, Ordering::Relaxed);
    }
    true
}

/// Microseconds to spin before sleeping; 0 when ranks share cores.
static SPIN_MICROS: AtomicU32 = AtomicU32::new(0);
/// Which of the ranks of this host.
pub(crate) static LOCAL_RANK: AtomicU32 = AtomicU32::new(0);
/// Ranks of this host.
pub(crate) static LOCAL_RANKS: AtomicU32 = AtomicU32::new(1);
/// Processors for them.
pub(crate) static PROCESSORS: AtomicU32 = AtomicU32::new(1);

/// Whether there is a device to poll.
static DEVICE: AtomicBool = AtomicBool::new(false);

/// Between two polls: lets the processor rest, but not where a device is polled. Its poll is long
/// enough, and in an emulated machine each rest stops the emulation.
#[inline]
pub(crate) fn breathe() {
    if !DEVICE.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Once, when the process learns its place.
pub(crate) fn set_up(job: &Job, spin: Duration, device: bool) {
    DEVICE.store(device, Ordering::Relaxed);
    SPIN_MICROS.store(spin.as_micros().min(u32::MAX.into()) as u32, Ordering::Relaxed);
    LOCAL_RANKS.store(job.local_size, Ordering::Relaxed);
    PROCESSORS.store(job.processors, Ordering::Relaxed);
    LOCAL_RANK.store(job.local_rank, Ordering::Relaxed);
}

#[inline]
fn spins() -> bool {
    SPIN_MICROS.load(Ordering::Relaxed) != 0
}

/// How long to spin before sleeping.
#[inline]
pub(crate) fn spin() -> Duration {
    Duration::from_micros(SPIN_MICROS.load(Ordering::Relaxed).into())
}

fn sleep() {
    let bed = gate::with(|p| {
        p.report_late_ready();
        p.arm()
    });
    if let Some(bed) = bed {
        sleep_on(bed);
    }
    gate::with(|p| {
        if let Some(stack) = p.stack() {
            stack.disarm();
        }
    });
}

/// Sleeps outside the gate; ends a process whose launcher is gone.
pub(crate) fn sleep_on(bed: Bed) {
    if blocked_on::sleep(bed, ORPHAN)
        && gate::with(|p| p.core().is_ok_and(|core| core.job.launcher_exited()))
    {
        abort::orphaned();
    }
}

/// How often a sleeper looks whether the launcher still lives. It normally dies
/// with it; one that was started through a wrapper has to look.
pub(crate) const ORPHAN: Duration = Duration::from_secs(2);
