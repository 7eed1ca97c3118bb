//! One waiting thread of a multithreaded process, from its registration to its return: the loop
//! around the roles of [`leader_followers`](crate::leader_followers).

#![allow(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

use crate::backoff::{Contention, ThreadedBackoff};
use crate::futex::TimerSlack;
use crate::global_lock::ProcessLock;
use crate::guarded::Guarded;
use crate::leader_followers::{Me, Next, Predicate, Rest, Round, is_slice_overdue, state};
use crate::park::ParkTarget;
use crate::parker::Parker;
use crate::sync::{Ordering, now, yield_now};
use crate::thread::{ExitHook, ThreadId};

/// How long a standby sleeps: the most that a waiting thread loses when the leader has left MPI.
const STANDBY_SLEEP: Duration = Duration::from_micros(200);
/// The same interval while oversubscribed: from the first to the second of these, whenever the
/// kernel is awake anyway. A timer of its own would stop the owner of the slice for tens of
/// microseconds in a virtual machine.
const OVERSUBSCRIBED_SLEEP: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(4));
/// The same interval for the first look at an absence-prone owner; each further sleep takes twice
/// as long.
const CLOSE_SLEEP: Duration = Duration::from_micros(150);

/// A sleep up to this long is not reported to [`Guarded::report_blocked`].
pub const REPORT_AFTER: Duration = Duration::from_millis(100);

/// Waits until `predicate` is true.
pub(crate) fn wait<S: Guarded + Send>(
    lock: &'static ProcessLock<S>,
    predicate: &mut Predicate<'_, S>,
) {
    WaitingThread::new(lock, ThreadId::counted(&lock.shared, lock), false).wait(predicate);
}

/// Waits for ever, as the progress thread. It isn't counted, as it does not compete with the
/// others.
pub(crate) fn attend<S: Guarded + Send>(lock: &'static ProcessLock<S>) {
    WaitingThread::new(lock, ThreadId::this(), true).wait(&mut |_| false);
}

/// Sleeps outside the lock, and ends an orphaned process. Each wait that lasts is reported before a
/// sleep, and looked at anew after it: a report says what the predicates have found since.
pub(crate) fn park_and_report<S: Guarded>(lock: &ProcessLock<S>, target: ParkTarget) {
    if S::is_blocked_for_long() {
        let until_next = lock.with_quietly(S::report_blocked);
        let most = until_next.min(lock.shared.max_sleep());
        if target.park(most) && lock.with_quietly(S::is_orphaned) {
            S::exit_orphaned();
        }
    } else if !target.park(REPORT_AFTER) {
        return;
    }
    lock.with_quietly(S::begin_look);
}

impl<S: Guarded + Send> ExitHook for ProcessLock<S> {
    fn thread_ended(&self, thread: ThreadId) {
        // If another thread is inside, the standby notices later: the child of a fork must not wait
        // for the lock here.
        self.try_with_scheduler(|scheduler| scheduler.thread_ended(thread));
    }
}

struct WaitingThread<S: Guarded> {
    me: Me,
    lock: &'static ProcessLock<S>,
    has_spun: Cell<bool>,
}

impl<S: Guarded> Drop for WaitingThread<S> {
    fn drop(&mut self) {
        self.me.parker.recycle();
    }
}

impl<S: Guarded> WaitingThread<S> {
    fn new(
        lock: &'static ProcessLock<S>,
        thread: ThreadId,
        is_progress_thread: bool,
    ) -> WaitingThread<S> {
        let me = Me { parker: Parker::take(state::AWAKE), thread, is_progress_thread };
        WaitingThread { me, lock, has_spun: Cell::new(is_progress_thread) }
    }

    fn wait(&self, predicate: &mut Predicate<'_, S>) {
        // SAFETY: only the lifetime changes. The waiter leaves the list before this function
        // returns: it returns only when the predicate was true at once and never listed, or in the
        // state SATISFIED, which follows its removal.
        let predicate = unsafe {
            std::mem::transmute::<*mut Predicate<'_, S>, *mut Predicate<'static, S>>(predicate)
        };
        let mut next = self.lock.with_scheduler(|waiters| waiters.enlist(&self.me, predicate));
        loop {
            next = match next {
                Next::Return => return self.me.parker.restore_affinity(),
                Next::Lead => self.lead(),
                Next::Follow => self.follow(),
            }
        }
    }

    /// Makes progress for all waiting threads, until this one is satisfied or gives up the lead.
    fn lead(&self) -> Next {
        let fresh = || ThreadedBackoff::new(true, &self.lock.shared);
        let mut backoff = fresh();
        loop {
            let is_long = backoff.is_long();
            match self.lock.with_scheduler(|waiters| waiters.lead_round(&self.me, is_long)) {
                Round::Over(next) => return next,
                Round::Moved => backoff = fresh(),
                Round::Call(call) => {
                    let done = S::run(call);
                    self.lock.with(|state| state.resume(done));
                    return Next::Follow;
                }
                Round::Idle(contention)
                    if !self.me.is_progress_thread
                        && backoff.snooze(contention, &self.lock.shared) => {}
                Round::Idle(_) => {
                    match self.lock.with_scheduler(|waiters| waiters.prepare_park(&self.me)) {
                        Err(next) => return next,
                        Ok(None) => yield_now(),
                        Ok(Some(target)) => {
                            if let Some(next) = self.park_as_leader(target) {
                                return next;
                            }
                        }
                    }
                    backoff = fresh();
                }
            }
        }
    }

    fn park_as_leader(&self, target: ParkTarget) -> Option<Next> {
        park_and_report(self.lock, target);
        self.lock.with_scheduler(|waiters| waiters.leader_woke(&self.me))
    }

    fn follow(&self) -> Next {
        // Once in a wait: after that spin there was nothing for long.
        if !self.has_spun.replace(true) && !self.lock.shared.oversubscribed() {
            self.spin();
        }
        match self.lock.with_scheduler(|waiters| waiters.prepare_follow(&self.me)) {
            Rest::Over(next) => next,
            Rest::Park { on, standby: None } => {
                self.me.parker.park(on, self.lock.shared.max_sleep());
                if self.me.is_satisfied() { Next::Return } else { Next::Follow }
            }
            Rest::Park { on, standby: Some(rounds) } => {
                let (timed_out, rounds) = self.stand_by(on, rounds);
                self.lock
                    .with_scheduler(|waiters| waiters.standby_woke(&self.me, timed_out, rounds))
            }
        }
    }

    /// Sleeps as the standby while rounds are made. Measures the slice without the lock, where it
    /// would be in the way. Returns whether the time is up, and the rounds at the start of the last
    /// sleep.
    fn stand_by(&self, on: u32, mut rounds: u32) -> (bool, u32) {
        let shared = &self.lock.shared;
        let mut close = CLOSE_SLEEP;
        let mut looked = now();
        loop {
            let is_close =
                shared.watch_closely.load(Ordering::Relaxed) && close < OVERSUBSCRIBED_SLEEP.1;
            let (least, most) = match shared.oversubscribed() {
                true if is_close => (close, close),
                true => OVERSUBSCRIBED_SLEEP,
                false => (STANDBY_SLEEP, STANDBY_SLEEP),
            };
            let timed_out = self.park_about(on, least, most);
            let before = std::mem::replace(&mut rounds, shared.rounds());
            // A leader that polls and makes no rounds waits for its processor; a short such wait is
            // no absence.
            let is_stalled =
                before == rounds && (!is_close || shared.leaderless.load(Ordering::Relaxed));
            if !timed_out || is_stalled {
                return (timed_out, before);
            }
            let last = std::mem::replace(&mut looked, now());
            shared.slice_micros.fetch_add((looked - last).as_micros() as u32, Ordering::Relaxed);
            if is_slice_overdue(shared) {
                return (true, before);
            }
            if is_close {
                close *= 2;
            }
        }
    }

    /// Parks for `least`, and up to `most` while the kernel has no other reason to wake up.
    fn park_about(&self, on: u32, least: Duration, most: Duration) -> bool {
        let _slack = TimerSlack::of(most - least);
        self.me.parker.park(on, least)
    }

    /// Waits for a while without sleeping.
    fn spin(&self) {
        let shared = &self.lock.shared;
        let mut backoff = ThreadedBackoff::new(false, shared);
        while self.me.parker.load(Ordering::Relaxed) == state::AWAKE
            && !shared.leaderless.load(Ordering::Relaxed)
            && backoff.snooze(Contention::None, shared)
        {}
    }
}
