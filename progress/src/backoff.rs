//! Back-off of threads that find nothing to do: they spin, let others run, and in the end park.
//!
//! [`Backoff`] is for the one thread in MPI; [`ThreadedBackoff`] for a thread that waits among
//! others of its process. Both read the clock once in [`CLOCK_POLLS`] polls: a poll of an empty
//! ring costs less than a clock reading.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::affinity::{timed_yield, yield_and_migrate};
use crate::shared::{POLLS_PER_KERNEL_YIELD, Shared};
use crate::sync::{Ordering::Relaxed, now, spin_loop, yield_now};

/// Polls between two readings of the clock.
const CLOCK_POLLS: u32 = 64;
/// Polls between two yields of a rank that spins.
const YIELD_POLLS: u32 = 1 << 10;
/// Yields of a rank before it parks, where ranks share processors: a rank that yields needs no
/// wake-up.
const MAX_YIELDS: u32 = 16;
/// A yield this long means that another rank computes; the scheduler runs a woken sleeper before a
/// yielder.
const LONG_YIELD: Duration = Duration::from_millis(1);
/// Waits that park at once after two long yields in a row. A single long yield is a disturbance,
/// and parking is expensive among ranks that yield to each other.
const SLEEP_STREAK: u32 = 100;
/// How long a leader spins while threads outnumber processors.
const OVERSUBSCRIBED_SPIN: Duration = Duration::from_micros(200);
/// Microseconds that a leader then polls idly before it hands over: longer than an interrupt keeps
/// its peer. Randomised: two processes whose active threads wait for each other's parked threads
/// must not switch in lockstep.
const HAND_OVER: std::ops::Range<u32> = 10..40;
/// The same bound for local rank 0: longer than the others take to follow.
const FIRST_RANK_HAND_OVER: Duration = Duration::from_micros(80);

/// Pauses between two polls, unless a device is polled.
#[inline]
pub(crate) fn cpu_relax(shared: &Shared) {
    if !shared.device_polled() {
        spin_loop();
    }
}

/// How long the only thread in MPI has waited.
pub(crate) enum Backoff {
    /// The last poll found something.
    Fresh,
    /// It polls.
    Spinning {
        /// When that began.
        since: Instant,
        /// Polls since then.
        polls: u32,
    },
}

impl Backoff {
    /// Backs off after another idle round; `None`: it is time to park.
    pub(crate) fn snooze(self, shared: &Shared, multithreaded: bool) -> Option<Backoff> {
        let (since, polls) = match self {
            Backoff::Fresh => (now(), 1),
            Backoff::Spinning { since, polls } => (since, polls + 1),
        };
        let spin = shared.spin();
        if !spin.is_zero() && (polls % CLOCK_POLLS != 0 || since.elapsed() < spin) {
            cpu_relax(shared);
            let each = if shared.kernel_works() { POLLS_PER_KERNEL_YIELD } else { YIELD_POLLS };
            if polls.is_multiple_of(each) {
                yield_and_migrate(shared);
            }
            return Some(Backoff::Spinning { since, polls });
        }
        let yields = polls <= MAX_YIELDS && shared.ranks_share_processors() && !multithreaded;
        (yields && yield_slice(shared)).then_some(Backoff::Spinning { since, polls })
    }
}

/// Lets other ranks run; returns false when parking is better.
pub(crate) fn yield_slice(shared: &Shared) -> bool {
    let streak = shared.sleep_streak.load(Relaxed);
    if streak > 0 {
        shared.sleep_streak.store(streak - 1, Relaxed);
        return false;
    }
    let is_long = timed_yield() > LONG_YIELD;
    if shared.yield_was_long.swap(is_long, Relaxed) && is_long {
        shared.sleep_streak.store(SLEEP_STREAK, Relaxed);
    }
    true
}

/// Which other threads of the process could use the leader's time slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Contention {
    /// None: no other thread is ready.
    None,
    /// Some threads are ready, and the leader may soon be satisfied itself.
    Ready,
    /// The leader was satisfied in this slice, and now other threads are: its peer has switched
    /// threads, and the leader follows at once.
    Overtaken,
}

/// How long a thread that waits among others has found nothing to do.
pub(crate) struct ThreadedBackoff {
    /// It is the leader's; a follower only spins while its leader polls.
    leads: bool,
    since: Option<Instant>,
    polls: u32,
    hand_over: Duration,
    /// Another process ran meanwhile.
    yielded: bool,
}

impl ThreadedBackoff {
    pub(crate) fn new(leads: bool, shared: &Shared) -> ThreadedBackoff {
        let hand_over = hand_over(shared);
        ThreadedBackoff { leads, since: None, polls: 0, hand_over, yielded: false }
    }

    /// Returns true if several polls in a row were idle.
    pub(crate) fn is_long(&self) -> bool {
        self.since.is_some()
    }

    /// Backs off after another idle poll; returns false when it is time to hand over or to park.
    pub(crate) fn snooze(&mut self, contention: Contention, shared: &Shared) -> bool {
        if shared.contenders.load(Relaxed) > 0 {
            yield_now();
        }
        cpu_relax(shared);
        self.polls += 1;
        let spin = shared.spin();
        if spin.is_zero() || !self.polls.is_multiple_of(CLOCK_POLLS) {
            return !spin.is_zero();
        }
        let now = now();
        let since = *self.since.get_or_insert(now);
        // The peer may wait for this processor.
        if !self.leads {
            yield_now();
        } else if yield_and_migrate(shared) && !std::mem::replace(&mut self.yielded, true) {
            return true;
        }
        let most = match contention {
            Contention::Overtaken if !shared.is_first_local_rank() => Duration::ZERO,
            Contention::Overtaken | Contention::Ready => self.hand_over,
            Contention::None if shared.oversubscribed() => OVERSUBSCRIBED_SPIN,
            Contention::None => spin,
        };
        now.duration_since(since) < most.min(spin)
    }
}

/// Draws from [`HAND_OVER`] by xorshift; each process has its own sequence.
fn hand_over(shared: &Shared) -> Duration {
    if shared.is_first_local_rank() {
        return FIRST_RANK_HAND_OVER;
    }
    thread_local! { static DRAWN: Cell<u32> = const { Cell::new(0) } }
    DRAWN.with(|drawn| {
        let mut next = drawn.get();
        if next == 0 {
            next = std::process::id().wrapping_mul(0x9e37_79b9) | 1;
        }
        next ^= next << 13;
        next ^= next >> 17;
        next ^= next << 5;
        drawn.set(next);
        Duration::from_micros((HAND_OVER.start + next % (HAND_OVER.end - HAND_OVER.start)).into())
    })
}
