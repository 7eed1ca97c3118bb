//! Leader/Followers (POSA2, Schmidt et al. 2000) with a standby: what the threads that wait in one
//! process do.
//!
//! A thread that must wait registers its wait predicate under the process lock. A thread that has
//! changed the state runs all predicates on its way out of the lock. A satisfied waiter returns to
//! its caller without entering the lock again.
//!
//! - The **leader** polls the transport, spins, and in the end parks in the kernel on the
//!   transport's target. It keeps the role when it returns satisfied, since it is likely to wait
//!   again soon ([`Leader::Outside`]).
//! - The **standby** is a follower that sleeps on its parker for a limited time. If no round was
//!   made meanwhile, it becomes the leader.
//! - The other **followers** sleep on their parkers.
//!
//! Invariants, whenever the lock is free:
//! - While a thread waits, a leader polls or is parked, or there is a standby, or a thread was
//!   appointed standby.
//! - Only the leader arms the transport, and only while no thread is parked on its target: a
//!   wake-up from outside always finds the right sleeper.
//! - A predicate is called, and a parker written to, only while its waiter is listed or in the
//!   ready queue. Its thread cannot return before that ends.
//! - While the ready queue is not empty, there is a standby. While predicates are stale, there is a
//!   standby, or a leader that polls, or a thread was appointed to either role.
//!
//! While threads outnumber processors (*oversubscribed*), the leader keeps the processor for a
//! **time slice**: a thread switch for each message would cost ten times the message. Satisfied
//! followers are then kept parked in the ready queue until they get the slice, and the leader's
//! role with it.
//! - Only the leader's predicate runs every round. The others run when the leader goes idle, when
//!   its slice ends, and before ownership moves (`predicates_stale`).
//! - A leader that goes idle hands over to the follower that was satisfied last: its peer is
//!   active, in another process.
//! - A leader whose slice has ended hands over to the head of the ready queue. An owner outside MPI
//!   can't hand over; the standby then releases all ready threads.
//! - When a thread ends, or its absence has kept all others waiting for a standby's sleep, others
//!   get the slice. The standby notices that late; therefore absence-prone threads are remembered:
//!   see [`AbsentOwners`].
//!
//! Where threads of two processes communicate in pairs, one process thus follows the other to its
//! next pair. To avoid livelock one side must lead: local rank 0 uses shorter slices and waits
//! longer before switching threads.
//!
//! A thread that begins to wait while the leader is outside takes the lead.

#![allow(unsafe_code)]

use std::collections::VecDeque;

use crate::absent::AbsentOwners;
use crate::backoff::Contention;
use crate::guarded::{Guarded, Progress};
use crate::park::ParkTarget;
use crate::parker::Parker;
use crate::shared::Shared;
use crate::sync::Ordering;
use crate::thread::ThreadId;
use crate::wakes::Wakes;

/// Microseconds of a time slice while other threads are ready: a part of what the kernel gives a
/// thread.
const SLICE_MICROS: u32 = 12_000;
/// The same limit for local rank 0: shorter, so that it switches and others follow.
const FIRST_RANK_SLICE_MICROS: u32 = 8_000;
/// Microseconds beyond its slice after which an owner is taken for unable to hand over.
const OVERDUE_MICROS: u32 = 4_000;

/// States of a waiting thread's parker. Written under the lock alone.
pub(crate) mod state {
    /// The thread runs, and will look under the lock before it sleeps.
    pub(crate) const AWAKE: u32 = 0;
    /// It sleeps on the parker, or is about to.
    pub(crate) const PARKED: u32 = 1;
    /// It is to look under the lock.
    pub(crate) const NOTIFIED: u32 = 2;
    /// Its predicate was true: it returns.
    pub(crate) const SATISFIED: u32 = 3;
    /// Its predicate was true, and it is kept parked until it gets the time slice.
    pub(crate) const READY: u32 = 4;
}

/// A wait predicate: true once its thread can return.
pub(crate) type Predicate<'a, S> = dyn FnMut(&mut S) -> bool + 'a;

/// A registered waiter.
struct Waiter<S> {
    parker: Parker,
    thread: ThreadId,
    predicate: *mut Predicate<'static, S>,
}

/// The thread that polls the transport.
enum Leader {
    /// This thread did and has left, most likely for a short time.
    Outside(ThreadId),
    /// This one polls.
    Polling(Parker),
    /// This one is parked in the kernel until something happens.
    Parked(Parker, ParkTarget),
}

impl Leader {
    fn is(&self, parker: Parker) -> bool {
        matches!(self, Leader::Polling(it) | Leader::Parked(it, _) if *it == parker)
    }
}

/// How far the leader has come in its time slice.
#[derive(Clone, Copy, PartialEq)]
enum Slice {
    /// It was not satisfied yet.
    Fresh,
    /// It was satisfied last.
    Used,
    /// It was satisfied, and another thread was since.
    Overtaken,
}

/// All waiters. Lives in the mutex of the process lock.
pub(crate) struct Waiters<S> {
    waiting: Vec<Waiter<S>>,
    /// Satisfied and parked until they get the time slice, in the order in which they were
    /// satisfied.
    ready_queue: VecDeque<(Parker, ThreadId)>,
    leader: Leader,
    standby: Option<Parker>,
    /// Something has changed since all predicates were run.
    predicates_stale: bool,
    slice: Slice,
    absent: AbsentOwners,
    /// A thread is parked on the transport's target, or was and has not looked under the lock
    /// since.
    is_target_in_use: bool,
    /// To be sent when the lock is left.
    wakes: Wakes,
}

// SAFETY: the predicates' pointers are used under the lock alone, while their threads wait (module
// invariants).
unsafe impl<S> Send for Waiters<S> {}

impl<S> Waiters<S> {
    pub(crate) const fn new() -> Waiters<S> {
        Waiters {
            waiting: Vec::new(),
            ready_queue: VecDeque::new(),
            leader: Leader::Outside(ThreadId::NONE),
            standby: None,
            predicates_stale: false,
            slice: Slice::Fresh,
            absent: AbsentOwners::new(),
            is_target_in_use: false,
            wakes: Wakes::new(),
        }
    }

    /// Whether this thread had the slice last, and is outside.
    fn is_owner_outside(&self, thread: ThreadId) -> bool {
        matches!(self.leader, Leader::Outside(owner) if owner == thread)
    }

    /// Requests a parked thread to look under the lock. An awake thread does so before it parks.
    fn notify(&mut self, parker: Parker) {
        if parker.load(Ordering::Relaxed) == state::PARKED {
            parker.store(state::NOTIFIED, Ordering::Release);
            self.wakes.parkers.push(parker);
        }
    }
}

/// A thread inside [`wait`](crate::waiter).
pub(crate) struct Me {
    pub(crate) parker: Parker,
    pub(crate) thread: ThreadId,
    /// It is the progress thread, and waits for nothing.
    pub(crate) is_progress_thread: bool,
}

impl Me {
    pub(crate) fn is_satisfied(&self) -> bool {
        // Acquire: the result was written before the state.
        self.parker.load(Ordering::Acquire) == state::SATISFIED
    }
}

/// The next step of a waiting thread.
pub(crate) enum Next {
    Return,
    Lead,
    Follow,
}

/// The result of a leader's round.
pub(crate) enum Round<C> {
    /// It leads no longer.
    Over(Next),
    Idle(Contention),
    Moved,
    Call(C),
}

/// How a follower goes to sleep.
pub(crate) enum Rest {
    Over(Next),
    /// While its parker holds `on`; the standby for a time, and with the rounds made so far.
    Park {
        on: u32,
        standby: Option<u32>,
    },
}

/// Returns by how many microseconds the slice has ended; `None`: it has not.
fn slice_overrun(shared: &Shared) -> Option<u32> {
    let first = shared.is_first_local_rank();
    let slice = if first { FIRST_RANK_SLICE_MICROS } else { SLICE_MICROS };
    shared.slice_micros.load(Ordering::Relaxed).checked_sub(slice)
}

/// Returns true if the owner does not hand over: it only tests, or finds itself satisfied at once,
/// each time.
pub(crate) fn is_slice_overdue(shared: &Shared) -> bool {
    slice_overrun(shared).is_some_and(|overrun| overrun >= OVERDUE_MICROS)
}

/// The waiters, and the state that their predicates are about, of a thread that holds the lock.
pub(crate) struct Scheduler<'a, S> {
    pub(crate) state: &'a mut S,
    pub(crate) waiters: &'a mut Waiters<S>,
    pub(crate) shared: &'a Shared,
}

impl<S: Guarded> Scheduler<'_, S> {
    /// Runs the predicates after something may have changed, and releases the satisfied waiters.
    /// While only the owner of the slice would go on, marks the predicates stale instead.
    #[inline]
    pub(crate) fn run_predicates(&mut self) {
        let waiters = &mut *self.waiters;
        if waiters.waiting.is_empty() {
            return;
        }
        let is_owner_outside = matches!(waiters.leader, Leader::Outside(_));
        if is_owner_outside && waiters.standby.is_some() && self.shared.oversubscribed() {
            waiters.predicates_stale = true;
        } else {
            self.run_all();
        }
    }

    /// Runs the predicates after the leader's round; only its own if the others would still be
    /// parked.
    fn run_predicates_after_round(&mut self, me: &Me) {
        let mine = self.waiters.waiting.iter().position(|waiter| waiter.parker == me.parker);
        match mine.filter(|_| self.waiters.standby.is_some() && self.shared.oversubscribed()) {
            Some(at) => {
                self.waiters.predicates_stale = true;
                self.run_one(at);
            }
            None => self.run_all(),
        }
    }

    /// Runs stale predicates, before other threads may go on.
    fn run_pending(&mut self) {
        if self.waiters.predicates_stale {
            self.run_all();
        }
    }

    /// Takes the wake-ups to send once the lock is left, and publishes the hints.
    #[inline]
    pub(crate) fn take_wakes(&mut self) -> Wakes {
        let leaderless = matches!(self.waiters.leader, Leader::Outside(_));
        let is_away = self.waiters.absent.any_away();
        // Stored on a change alone, since a store takes the line from the threads that spin on it.
        for (hint, value) in
            [(&self.shared.leaderless, leaderless), (&self.shared.owner_is_away, is_away)]
        {
            if hint.load(Ordering::Relaxed) != value {
                hint.store(value, Ordering::Relaxed);
            }
        }
        std::mem::take(&mut self.waiters.wakes)
    }

    fn run_all(&mut self) {
        self.waiters.predicates_stale = false;
        let mut at = 0;
        while at < self.waiters.waiting.len() {
            at += usize::from(!self.run_one(at));
        }
        // A parked leader does not know what was started since: a send that its peer did not
        // request, a collective's next step.
        if let Leader::Parked(parker, _) = self.waiters.leader
            && self.state.has_more_to_do()
        {
            self.unpark_leader();
            self.waiters.leader = Leader::Polling(parker);
        }
    }

    /// Runs one predicate; a satisfied waiter leaves its place to the last one.
    fn run_one(&mut self, at: usize) -> bool {
        // SAFETY: the waiter is listed, therefore its thread is inside `wait` and does not touch
        // what the predicate captured; this thread holds the lock.
        let is_satisfied = unsafe { (*self.waiters.waiting[at].predicate)(self.state) };
        if is_satisfied {
            let waiter = self.waiters.waiting.swap_remove(at);
            self.satisfied(waiter.parker, waiter.thread);
        }
        is_satisfied
    }

    fn satisfied(&mut self, parker: Parker, thread: ThreadId) {
        if self.waiters.leader.is(parker) {
            self.unpark_leader();
            self.waiters.leader = Leader::Outside(thread);
            self.waiters.slice = Slice::Used;
        } else if self.waiters.slice == Slice::Used
            && matches!(self.waiters.leader, Leader::Polling(_))
        {
            self.waiters.slice = Slice::Overtaken;
        }
        let is_parked = matches!(self.waiters.leader, Leader::Parked(..));
        let is_watched = self.waiters.standby.is_some() && !is_parked;
        let was = parker.load(Ordering::Relaxed);
        let is_late = self.waiters.absent.returned_late(thread);
        if is_late {
            self.waiters.absent.left(thread, self.shared.rounds());
        }
        // An awake thread is about to park, unless it was appointed to a role.
        if is_watched
            && was != state::NOTIFIED
            && !is_late
            && !self.waiters.is_owner_outside(thread)
            && self.shared.oversubscribed()
        {
            parker.store(state::READY, Ordering::Relaxed);
            self.waiters.ready_queue.push_back((parker, thread));
        } else {
            self.release(parker, was == state::PARKED);
        }
        self.ensure_standby();
    }

    /// Lets a satisfied thread return. It is no longer the standby.
    fn release(&mut self, parker: Parker, parked: bool) {
        if parked && self.waiters.standby == Some(parker) {
            self.waiters.standby = None;
        }
        // Release: the thread reads its result without the lock.
        parker.store(state::SATISFIED, Ordering::Release);
        if parked {
            self.waiters.wakes.parkers.push(parker);
        }
    }

    fn release_all(&mut self) {
        while let Some((parker, _)) = self.waiters.ready_queue.pop_front() {
            self.release(parker, true);
        }
    }

    /// Moves the slice from `me`, which waits, to another thread.
    fn hand_over(&mut self, me: &Me, next: (Parker, ThreadId)) -> Next {
        self.give_slice(next);
        // This thread is awake, and about to park.
        self.waiters.standby.get_or_insert(me.parker);
        Next::Follow
    }

    fn give_slice(&mut self, (parker, thread): (Parker, ThreadId)) {
        if self.waiters.standby == Some(parker) {
            self.waiters.standby = None;
        }
        parker.store(state::SATISFIED, Ordering::Release);
        self.wake_next_owner(parker, thread);
        self.waiters.leader = Leader::Outside(thread);
        self.waiters.slice = Slice::Fresh;
        self.begin_slice();
        self.watch_owner(thread);
    }

    fn begin_slice(&mut self) {
        self.shared.slice_micros.store(0, Ordering::Relaxed);
        self.waiters.absent.begin_slice(self.shared.rounds());
    }

    /// Has the standby watch a new owner closely if it is absence-prone.
    fn watch_owner(&mut self, thread: ThreadId) {
        let closely = self.waiters.absent.contains(thread);
        self.shared.watch_closely.store(closely, Ordering::Relaxed);
        if closely {
            self.waiters.wakes.parkers.extend(self.waiters.standby);
        }
    }

    /// Wakes a thread where the caller is about to leave.
    fn wake_next_owner(&mut self, parker: Parker, thread: ThreadId) {
        parker.request_unpark_here();
        self.waiters.wakes.next_owner = Some((parker, thread));
    }

    /// Wakes a parked leader.
    fn unpark_leader(&mut self) {
        if let Leader::Parked(_, target) = self.waiters.leader {
            self.state.disarm();
            target.invalidate();
            self.waiters.wakes.leader = Some(target);
        }
    }

    /// Has a thread become the standby if one is needed.
    fn ensure_standby(&mut self) {
        if self.waiters.standby.is_some() {
            return;
        }
        self.release_all();
        // The owner is listed too while it runs a call.
        if let Leader::Outside(owner) = self.waiters.leader
            && let Some(waiter) = self.waiters.waiting.iter().find(|it| it.thread != owner)
        {
            let parker = waiter.parker;
            self.waiters.notify(parker);
        }
    }

    /// Gives the slice of a thread that has ended to others.
    pub(crate) fn thread_ended(&mut self, thread: ThreadId) {
        self.waiters.absent.ended(thread);
        if !self.waiters.is_owner_outside(thread) {
            return;
        }
        self.run_pending();
        self.waiters.leader = Leader::Outside(ThreadId::NONE);
        if let Some(next) = self.waiters.ready_queue.pop_front() {
            self.give_slice(next);
            self.ensure_standby();
        } else if let Some(waiter) = self.waiters.waiting.first()
            && waiter.parker.load(Ordering::Relaxed) == state::PARKED
        {
            let (parker, thread) = (waiter.parker, waiter.thread);
            parker.store(state::NOTIFIED, Ordering::Relaxed);
            self.wake_next_owner(parker, thread);
        }
    }

    /// Has another waiter lead, as the progress thread must not make the next call.
    fn step_down(&mut self) {
        self.waiters.leader = Leader::Outside(ThreadId::NONE);
        for at in 0..self.waiters.waiting.len() {
            let parker = self.waiters.waiting[at].parker;
            self.waiters.notify(parker);
        }
    }

    /// Ends the standby's role, if `me` has it: it leaves, or has another role.
    fn resign_standby(&mut self, me: &Me) {
        if self.waiters.standby == Some(me.parker) {
            self.waiters.standby = None;
            self.ensure_standby();
        }
    }

    /// Registers a waiter, unless its predicate is true already.
    pub(crate) fn enlist(&mut self, me: &Me, predicate: *mut Predicate<'static, S>) -> Next {
        // SAFETY: the caller's own predicate, which it does not touch meanwhile; this thread holds
        // the lock.
        if unsafe { (*predicate)(self.state) } {
            return Next::Return;
        }
        self.state.begin_wait();
        self.waiters.absent.returned(me.thread, self.shared.rounds());
        let waiter = Waiter { parker: me.parker, thread: me.thread, predicate };
        self.waiters.waiting.push(waiter);
        if me.is_progress_thread {
            return Next::Follow;
        }
        match self.waiters.leader {
            // This thread is awake: messages wake no other thread.
            Leader::Parked(..) => self.unpark_leader(),
            // The owner may be away for long, and this thread is here.
            Leader::Outside(thread) if thread != me.thread => {
                self.waiters.absent.slice_taken();
                self.watch_owner(me.thread);
            }
            Leader::Outside(_) => {}
            Leader::Polling(_) => return Next::Follow,
        }
        self.waiters.leader = Leader::Outside(me.thread);
        self.take_role(me)
    }

    /// Chooses the role of a thread that is awake: it leads if no other thread does.
    fn take_role(&mut self, me: &Me) -> Next {
        match self.waiters.leader {
            // It leads when no other thread did for a while: see `standby_woke`.
            _ if me.is_progress_thread => Next::Follow,
            Leader::Outside(thread)
                if thread == me.thread
                    || thread == ThreadId::NONE
                    || !self.shared.oversubscribed() =>
            {
                self.waiters.leader = Leader::Polling(me.parker);
                self.resign_standby(me);
                Next::Lead
            }
            _ => Next::Follow,
        }
    }

    /// Makes one round of progress as the leader. `is_long`: the rounds before it were idle.
    pub(crate) fn lead_round(&mut self, me: &Me, is_long: bool) -> Round<S::Call> {
        if let Some(next) = self.demoted(me) {
            return Round::Over(next);
        }
        let has_ended = slice_overrun(self.shared).is_some();
        let is_due = self.waiters.absent.is_check_due(self.shared.rounds());
        if is_long || has_ended || is_due {
            self.run_pending();
        }
        if has_ended && let Some(next) = self.waiters.ready_queue.pop_front() {
            self.waiters.absent.slice_used_up(me.thread, self.shared.rounds());
            return Round::Over(self.hand_over(me, next));
        }
        if is_due && let Some(next) = self.next_absence_prone() {
            self.waiters.absent.ended_slice_early(me.thread);
            return Round::Over(self.hand_over(me, next));
        }
        match self.progress() {
            Progress::Idle => Round::Idle(self.contention()),
            Progress::Moved => {
                self.run_predicates_after_round(me);
                self.demoted(me).map_or(Round::Moved, Round::Over)
            }
            Progress::Call(call) if me.is_progress_thread && S::is_of_application(&call) => {
                self.state.postpone(call);
                self.step_down();
                Round::Over(Next::Follow)
            }
            Progress::Call(call) => {
                self.waiters.leader = Leader::Outside(me.thread);
                self.ensure_standby();
                Round::Call(call)
            }
        }
    }

    /// Out of line: the lone thread's way has a copy of its own.
    #[inline(never)]
    fn progress(&mut self) -> Progress<S::Call> {
        self.shared.count_round();
        self.state.progress()
    }

    /// Takes a ready thread that others end their slices for.
    fn next_absence_prone(&mut self) -> Option<(Parker, ThreadId)> {
        let Waiters { ready_queue, absent, .. } = &mut *self.waiters;
        let at = ready_queue.iter().position(|&(_, thread)| absent.returned_soon(thread))?;
        ready_queue.remove(at)
    }

    fn contention(&self) -> Contention {
        match self.waiters.slice {
            _ if self.waiters.ready_queue.is_empty() => Contention::None,
            Slice::Overtaken => Contention::Overtaken,
            Slice::Fresh | Slice::Used => Contention::Ready,
        }
    }

    /// The next step of a thread that gave up the lead.
    fn demoted(&self, me: &Me) -> Option<Next> {
        match self.waiters.leader {
            _ if me.is_satisfied() => Some(Next::Return),
            Leader::Polling(parker) if parker == me.parker => None,
            _ => Some(Next::Follow),
        }
    }

    /// Hands an idle leader's slice over, or arms the transport. `Ok(None)`: it polls on.
    pub(crate) fn prepare_park(&mut self, me: &Me) -> Result<Option<ParkTarget>, Next> {
        self.state.report_before_sleep();
        self.run_pending();
        if let Some(next) = self.demoted(me) {
            return Err(next);
        }
        if let Some(next) = self.waiters.ready_queue.pop_back() {
            return Err(self.hand_over(me, next));
        }
        if self.waiters.is_target_in_use {
            return Ok(None);
        }
        let target = self.state.arm();
        if let Some(target) = target {
            self.waiters.is_target_in_use = true;
            self.waiters.leader = Leader::Parked(me.parker, target);
        }
        Ok(target)
    }

    /// Takes a leader back that was parked. `None`: it still leads.
    pub(crate) fn leader_woke(&mut self, me: &Me) -> Option<Next> {
        self.waiters.is_target_in_use = false;
        if let Leader::Parked(parker, _) = self.waiters.leader
            && parker == me.parker
        {
            self.state.disarm();
            self.waiters.leader = Leader::Polling(parker);
            // The next report says what the predicates miss from now on.
            self.waiters.predicates_stale |= S::is_blocked_for_long();
        }
        self.demoted(me)
    }

    /// Prepares a follower for sleep; makes it the standby if there is none.
    pub(crate) fn prepare_follow(&mut self, me: &Me) -> Rest {
        if me.is_satisfied() {
            self.resign_standby(me);
            return Rest::Over(Next::Return);
        }
        let mut on = state::READY;
        if me.parker.load(Ordering::Relaxed) != on {
            on = state::PARKED;
            me.parker.store(state::AWAKE, Ordering::Relaxed);
            if let Next::Lead = self.take_role(me) {
                return Rest::Over(Next::Lead);
            }
            me.parker.store(on, Ordering::Relaxed);
        }
        if let Leader::Parked(..) = self.waiters.leader {
            self.resign_standby(me);
            return Rest::Park { on, standby: None };
        }
        let is_standby = *self.waiters.standby.get_or_insert(me.parker) == me.parker;
        Rest::Park { on, standby: is_standby.then(|| self.shared.rounds()) }
    }

    /// Chooses the next step of a thread that was the standby when it parked; `rounds` were made
    /// then.
    pub(crate) fn standby_woke(&mut self, me: &Me, timed_out: bool, rounds: u32) -> Next {
        let is_parked = matches!(self.waiters.leader, Leader::Parked(..));
        let is_time = timed_out && self.waiters.standby == Some(me.parker) && !is_parked;
        let is_stalled = is_time && self.shared.rounds() == rounds;
        if is_stalled
            && self.shared.oversubscribed()
            && let Leader::Outside(thread) = self.waiters.leader
        {
            self.waiters.absent.sighted_outside(thread, rounds);
        }
        if is_stalled || is_slice_overdue(self.shared) {
            self.begin_slice();
            self.run_pending();
            self.release_all();
        }
        if me.is_satisfied() {
            self.resign_standby(me);
            self.ensure_standby(); // It may have been the standby until it was released.
            return Next::Return;
        }
        if is_stalled {
            me.parker.store(state::AWAKE, Ordering::Relaxed);
            self.waiters.leader = Leader::Polling(me.parker);
            self.resign_standby(me);
            return Next::Lead;
        }
        Next::Follow
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
