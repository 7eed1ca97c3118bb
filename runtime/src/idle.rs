//! How long a thread that waits among others looks in vain before it does something else: gives its
//! turn away, or sleeps. See `waiters`.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::gate;
use crate::home;
use crate::thread::is_scarce;
use crate::wait;

/// How long a driver spins when threads outnumber processors.
const SCARCE_SPIN: Duration = Duration::from_micros(200);
/// How many microseconds it then looks in vain before it gives its turn away: longer than its peer
/// is away for an interrupt. Drawn anew each time: two processes whose running
/// threads wait for threads of the other that are asleep must not both change theirs, again and again.
const HAND_OVER: std::ops::Range<u32> = 10..40;
/// The same for the first rank of a host: longer than others take to follow.
const LEADER_HANDS_OVER: Duration = Duration::from_micros(80);

/// For whom a driver could make way.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Others {
    /// Nobody has an answer.
    None,
    /// Some have theirs, and it may have its own soon.
    Answered,
    /// It had answers in this turn, and now others have: its peer has changed its thread, and it follows at once.
    Ahead,
}

/// How long there was nothing to do.
pub(crate) struct Idle {
    /// It is the driver's: others only wait beside it.
    drives: bool,
    since: Option<Instant>,
    polls: u32,
    hand_over: Duration,
    /// Somebody else ran meanwhile.
    shared: bool,
}

impl Idle {
    pub(crate) fn new(drives: bool) -> Idle {
        Idle { drives, since: None, polls: 0, hand_over: hand_over(), shared: false }
    }

    /// There was nothing for some time.
    pub(crate) fn is_long(&self) -> bool {
        self.since.is_some()
    }

    /// Another fruitless look: true if there may be another one right now.
    pub(crate) fn goes_on(&mut self, others: Others) -> bool {
        if gate::is_wanted() {
            std::thread::yield_now();
        }
        wait::breathe();
        self.polls += 1;
        let spin = wait::spin();
        // The clock is read once in 64 polls: a poll of an empty ring costs less.
        if spin.is_zero() || !self.polls.is_multiple_of(64) {
            return !spin.is_zero();
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        // Whom we wait for may wait for this processor.
        if self.drives {
            if home::make_way() && !std::mem::replace(&mut self.shared, true) {
                return true;
            }
        } else {
            std::thread::yield_now();
        }
        let most = match others {
            Others::Ahead if !leads() => Duration::ZERO,
            Others::Ahead | Others::Answered => self.hand_over,
            Others::None if is_scarce() => SCARCE_SPIN,
            Others::None => spin,
        };
        now.duration_since(since) < most.min(spin)
    }
}

/// One of [`HAND_OVER`]; each process draws its own.
fn hand_over() -> Duration {
    if leads() {
        return LEADER_HANDS_OVER;
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

/// Whether this is the first rank of its host.
pub(crate) fn leads() -> bool {
    wait::LOCAL_RANK.load(Ordering::Relaxed) == 0
}
