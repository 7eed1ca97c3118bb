//! Threads that wait, at MPI_THREAD_MULTIPLE.
//!
//! A thread that has to wait leaves its question (`ask`: is it there?) in a list
//! under the gate. Whoever has changed anything asks all of them on the way out
//! of the gate (but see turns); an answered thread returns to its caller without entering again.
//!
//! Of the waiting threads
//! - one is the **driver**: it polls the transport, spins, and in the end sleeps in
//!   the kernel on what the transport names ([`Bed`]). It keeps the role when it
//!   leaves MPI with its answer: it will soon be back ([`Driver::Outside`]).
//! - one is the **deputy**: it sleeps on its own word for a `slice` at most, and
//!   then sees to it that nobody is forgotten. When no round was made meanwhile, it
//!   becomes the driver.
//! - the others are **followers** and sleep on their own words ([`Word`]).
//!
//! Invariants, whenever the gate is open:
//! - While anybody waits, a driver polls or sleeps in the kernel, or there is a
//!   deputy, or somebody is on the way to become it (nudged).
//! - Only the driver arms the transport, and only when nobody is in its bed
//!   (`in_bed`): a wake from outside always finds the right sleeper.
//! - A question is only called, and a word only written to, while it is in the
//!   list or among the deferred, that is before its thread can return.
//! - While anybody is deferred, there is a deputy. While anybody was not asked, there is one, or a driver
//!   that polls, or somebody is on the way to become one.
//!
//! When threads outnumber processors (`is_scarce`), they take **turns**: who drives keeps the
//! processor, for changing threads with each message would cost ten times the message.
//! Whoever is answered is deferred: it sleeps on until it is given the turn, and the role.
//! - So nobody but the driver needs its answer at once, and only the driver is asked. The others are when it has
//!   had nothing to do for some time or has had its turn, and before the turn goes elsewhere (`unasked`).
//! - When the driver has had nothing to do for a while ([`Idle`]), the turn goes to the one
//!   that was answered last: whoever answered it is running, in another process.
//! - When the driver has had its [`TURN`], it goes to the one that has waited longest. One that has left MPI, or only
//!   tests, can't give it away: then the deputy lets all go.
//! - When a thread ends, or has left MPI and nobody has made progress for the deputy's time,
//!   others have the turn. The deputy takes long to see that, so such a thread is remembered: see [`Restless`].
//!
//! Where threads of two processes talk in pairs, one process so follows the other to its
//! next thread. Two that both change, or both follow, would miss each other again and again: the first rank
//! of a host has the shorter turns and the longer patience.
//!
//! Who runs and begins to wait while the driver is outside MPI drives: nobody knows when that one
//! comes back.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use collectives::UserCall;

use crate::bed::{Bed, Slack, futex_wait, futex_wake};
use crate::gate;
use crate::idle::{Idle, Others, leads};
use crate::process::{self, Process, Progress};
use crate::restless::Restless;
use crate::thread::{Thread, is_scarce};
use crate::wait;
use crate::word::Word;

/// How long a deputy sleeps: what a waiting thread loses at most when the driver
/// has left MPI and does not come back.
const SLICE: Duration = Duration::from_micros(200);
/// The same when threads outnumber processors: from the first to the second of these, whenever the kernel is
/// awake anyway. A timer of its own would stop who has the turn for tens of microseconds, in a virtual machine.
const SCARCE_SLICE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(4));
/// The same for its first look at a restless thread; each further one takes twice as long.
const CLOSE_SLICE: Duration = Duration::from_micros(150);
/// How long a turn is, if others are answered: some of what the kernel gives a thread, in microseconds.
const TURN: u32 = 12_000;
/// The same for the first rank of a host: shorter, so that it changes and others follow.
const LEADERS_TURN: u32 = 8_000;
/// A turn that is longer by this can't be given away by who has it.
const OVERDUE: u32 = 4_000;
/// What a waiting thread's word says. Written under the gate alone.
mod word {
    /// It runs, and will look under the gate before it sleeps.
    pub(super) const AWAKE: u32 = 0;
    /// It sleeps on the word, or is about to.
    pub(super) const ASLEEP: u32 = 1;
    /// It is to look under the gate.
    pub(super) const NUDGED: u32 = 2;
    /// It has what it waits for.
    pub(super) const ANSWERED: u32 = 3;
    /// So it has, and sleeps on until it is its turn.
    pub(super) const DEFERRED: u32 = 4;
}

/// A question: true once the asking thread has its answer.
pub(crate) type Ask<'a> = dyn FnMut(&mut Process) -> bool + 'a;

/// Who is in the list.
struct Entry {
    name: Word,
    thread: Thread,
    ask: *mut Ask<'static>,
}

/// Who polls the transport.
enum Driver {
    /// This thread did and has left, most likely for a short time; 0 at first.
    Outside(Thread),
    /// This one is about it.
    Polling(Word),
    /// This one sleeps in the kernel until something happens.
    Asleep(Word, Bed),
}

/// How far the driver has come in its turn.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    /// It has not had an answer yet.
    Begun,
    /// It had the last answer.
    Used,
    /// It had answers, and now another has.
    Passed,
}

/// All that wait. Lives in the gate's mutex.
pub(crate) struct Waiters {
    waiting: Vec<Entry>,
    /// Answered and asleep until it is their turn, in the order of the answers.
    deferred: VecDeque<(Word, Thread)>,
    driver: Driver,
    deputy: Option<Word>,
    /// Something has changed that only who has the turn was asked about.
    unasked: bool,
    turn: Turn,
    restless: Restless,
    /// Somebody is in the bed, perhaps roused already.
    in_bed: bool,
    /// To be woken when the gate is open.
    calls: Calls,
}

// SAFETY: the pointers are used under the gate alone, as the invariants say.
unsafe impl Send for Waiters {}

/// No driver is in MPI: a hint for threads that spin.
static DRIVERLESS: AtomicBool = AtomicBool::new(true);
/// For how many microseconds deputies have found that the driver makes progress, in this turn.
static HELD: AtomicU32 = AtomicU32::new(0);
/// Who has the turn is restless.
static CLOSE: AtomicBool = AtomicBool::new(false);

/// Whom to wake.
#[derive(Default)]
pub(crate) struct Calls {
    words: Vec<Word>,
    /// Who has the turn now, and takes the processor over.
    next: Option<(Word, Thread)>,
    bed: Option<Bed>,
}

impl Calls {
    /// Has a sleeper look under the gate. One that is awake looks by itself before it sleeps.
    fn nudge(&mut self, name: Word) {
        if name.load(Ordering::Relaxed) == word::ASLEEP {
            name.store(word::NUDGED, Ordering::Release);
            self.words.push(name);
        }
    }

    /// Wakes them. To be called outside the gate.
    #[inline]
    pub(crate) fn make(self) {
        for word in self.words {
            futex_wake(&raw const *word, libc::FUTEX_PRIVATE_FLAG);
        }
        if let Some((word, thread)) = self.next {
            thread.wake_here(word);
        }
        if let Some(bed) = self.bed {
            bed.rouse();
        }
    }
}

/// What a waiting thread does next.
enum Next {
    Return,
    Drive,
    Follow,
}

/// What a driver's round came to.
enum Round {
    Over(Next),
    Idle(Others),
    Moved,
    User(Box<UserCall>),
}

/// How a follower goes to sleep.
enum Rest {
    Over(Next),
    /// While its word says this; the deputy for a time, and with the rounds made so far.
    Sleep {
        on: u32,
        deputy: Option<u32>,
    },
}

/// Waits until `ask` is true.
pub(crate) fn wait(ask: &mut Ask<'_>) {
    let me = Me::new(Thread::counted(), false);
    me.wait(ask);
}

/// What the attendant does for ever.
pub(crate) fn attend() {
    // Not counted: it does not compete with the others.
    let me = Me::new(Thread::this(), true);
    me.wait(&mut |_| false);
}

/// How far this turn is beyond its length, in microseconds; `None`: not over.
fn overtime() -> Option<u32> {
    HELD.load(Ordering::Relaxed).checked_sub(if leads() { LEADERS_TURN } else { TURN })
}

/// Nobody who could give the turn away waits: its thread only tests, or always finds its answer at once.
fn is_overdue() -> bool {
    overtime().is_some_and(|beyond| beyond >= OVERDUE)
}

impl Waiters {
    pub(crate) const fn new() -> Waiters {
        Waiters {
            waiting: Vec::new(),
            deferred: VecDeque::new(),
            driver: Driver::Outside(Thread::NONE),
            deputy: None,
            unasked: false,
            turn: Turn::Begun,
            restless: Restless::new(),
            in_bed: false,
            calls: Calls { words: Vec::new(), next: None, bed: None },
        }
    }

    /// Asks every question, after something may have changed, and takes out those
    /// that are answered; later, where others than who has the turn would sleep on.
    #[inline]
    pub(crate) fn settle(&mut self, process: &mut Process) {
        if self.waiting.is_empty() {
            return;
        }
        if matches!(self.driver, Driver::Outside(_)) && self.deputy.is_some() && is_scarce() {
            self.unasked = true;
        } else {
            self.ask_all(process);
        }
    }

    /// The same, after a driver's round: others need to know when it is to give its turn away.
    fn settle_turn(&mut self, me: &Me, process: &mut Process) {
        let mine = self.waiting.iter().position(|entry| entry.name == me.word);
        match mine.filter(|_| self.deputy.is_some() && is_scarce()) {
            Some(at) => {
                self.unasked = true;
                self.ask(at, process);
            }
            None => self.ask_all(process),
        }
    }

    /// Asks those who were not asked, before others may run.
    fn catch_up(&mut self, process: &mut Process) {
        if self.unasked {
            self.ask_all(process);
        }
    }

    /// Whom to wake once the gate is open.
    #[inline]
    pub(crate) fn calls(&mut self) -> Calls {
        let driverless = matches!(self.driver, Driver::Outside(_));
        // Stored when it changes, for a store takes the line from those who spin on it.
        if DRIVERLESS.load(Ordering::Relaxed) != driverless {
            DRIVERLESS.store(driverless, Ordering::Relaxed);
        }
        std::mem::take(&mut self.calls)
    }

    fn ask_all(&mut self, process: &mut Process) {
        self.unasked = false;
        let mut at = 0;
        while at < self.waiting.len() {
            at += usize::from(!self.ask(at, process));
        }
        // The driver does not know of what was started since it went to sleep: room
        // that nobody has asked the peer for, a collective's next step.
        if let Driver::Asleep(name, _) = self.driver
            && process.has_more_to_do()
        {
            self.rouse(process);
            self.driver = Driver::Polling(name);
        }
    }

    /// Asks one question; an entry that is answered leaves its place to the last one.
    fn ask(&mut self, at: usize, process: &mut Process) -> bool {
        // SAFETY: its thread is inside `wait` while the entry is in the list, and
        // does not touch what the question captured; we hold the gate.
        let is_answered = unsafe { (*self.waiting[at].ask)(process) };
        if is_answered {
            let entry = self.waiting.swap_remove(at);
            self.answered(&entry, process);
        }
        is_answered
    }

    fn answered(&mut self, entry: &Entry, process: &mut Process) {
        let name = entry.name;
        if self.driver.is(name) {
            if let Driver::Asleep(..) = self.driver {
                self.rouse(process);
            }
            self.driver = Driver::Outside(entry.thread);
            self.turn = Turn::Used;
        } else if self.turn == Turn::Used && matches!(self.driver, Driver::Polling(_)) {
            self.turn = Turn::Passed;
        }
        let somebody_looks = self.deputy.is_some() && !matches!(self.driver, Driver::Asleep(..));
        let says = name.load(Ordering::Relaxed);
        let passes = self.restless.is_passing(entry.thread);
        if passes {
            self.restless.leaves(entry.thread);
        }
        // One that is awake is about to lie down, unless it was called to do something.
        if somebody_looks
            && says != word::NUDGED
            && !passes
            && !self.has_turn(entry.thread)
            && is_scarce()
        {
            name.store(word::DEFERRED, Ordering::Relaxed);
            self.deferred.push_back((name, entry.thread));
        } else {
            self.let_go(name, says == word::ASLEEP);
        }
        self.appoint();
    }

    /// Whether this thread had the turn last, and is outside.
    fn has_turn(&self, thread: Thread) -> bool {
        matches!(self.driver, Driver::Outside(driver) if driver == thread)
    }

    /// Has an answered thread return. One that was the deputy can't be it any longer.
    fn let_go(&mut self, name: Word, asleep: bool) {
        if asleep && self.deputy == Some(name) {
            self.deputy = None;
        }
        // Release: it reads its answer without the gate.
        name.store(word::ANSWERED, Ordering::Release);
        if asleep {
            self.calls.words.push(name);
        }
    }

    fn let_all_go(&mut self) {
        while let Some((name, _)) = self.deferred.pop_front() {
            self.let_go(name, true);
        }
    }

    /// The turn goes from `me`, who waits, to another.
    fn hand_over(&mut self, me: &Me, next: (Word, Thread)) -> Next {
        self.give_turn(next);
        // It is awake, and about to lie down.
        self.deputy.get_or_insert(me.word);
        Next::Follow
    }

    fn give_turn(&mut self, (name, thread): (Word, Thread)) {
        if self.deputy == Some(name) {
            self.deputy = None;
        }
        name.store(word::ANSWERED, Ordering::Release);
        self.call_next(name, thread);
        self.driver = Driver::Outside(thread);
        self.turn = Turn::Begun;
        self.begin();
        self.watch(thread);
    }

    fn begin(&mut self) {
        HELD.store(0, Ordering::Relaxed);
        self.restless.begin();
    }

    /// This thread has the turn from now on. The deputy would look late else, at one that is restless.
    fn watch(&mut self, thread: Thread) {
        let is_close = self.restless.has(thread);
        CLOSE.store(is_close, Ordering::Relaxed);
        if is_close {
            self.calls.words.extend(self.deputy);
        }
    }

    /// Wakes it where the caller is about to leave.
    fn call_next(&mut self, name: Word, thread: Thread) {
        name.stay().ask();
        self.calls.next = Some((name, thread));
    }

    /// Gets the driver out of its bed.
    fn rouse(&mut self, process: &mut Process) {
        if let Driver::Asleep(_, bed) = self.driver {
            if let Some(stack) = process.stack() {
                stack.disarm();
            }
            bed.unmake();
            self.calls.bed = Some(bed);
        }
    }

    /// Makes somebody the deputy if one is needed.
    fn appoint(&mut self) {
        if self.deputy.is_some() {
            return;
        }
        self.let_all_go();
        if let (Driver::Outside(_), Some(entry)) = (&self.driver, self.waiting.first()) {
            self.calls.nudge(entry.name);
        }
    }

    /// A thread has ended: others need not wait for it to come back.
    pub(crate) fn ended(&mut self, thread: Thread, process: &mut Process) {
        self.restless.ends(thread);
        if !self.has_turn(thread) {
            return;
        }
        self.catch_up(process);
        self.driver = Driver::Outside(Thread::NONE);
        if let Some(next) = self.deferred.pop_front() {
            self.give_turn(next);
            self.appoint();
        } else if let Some(entry) = self.waiting.first()
            && entry.name.load(Ordering::Relaxed) == word::ASLEEP
        {
            entry.name.store(word::NUDGED, Ordering::Relaxed);
            let (name, thread) = (entry.name, entry.thread);
            self.call_next(name, thread);
        }
    }

    /// Whoever else waits is to drive, as the attendant may not do what comes next.
    fn leave_to_others(&mut self) {
        self.driver = Driver::Outside(Thread::NONE);
        for entry in &self.waiting {
            self.calls.nudge(entry.name);
        }
    }

    /// If it is the deputy, it is none any more: it leaves, or has another role.
    fn resign(&mut self, me: &Me) {
        if self.deputy == Some(me.word) {
            self.deputy = None;
            self.appoint();
        }
    }

    fn enlist(&mut self, me: &Me, ask: *mut Ask<'static>, process: &mut Process) -> Next {
        // SAFETY: our caller's question, and we hold the gate.
        if unsafe { (*ask)(process) } {
            return Next::Return;
        }
        self.restless.comes(me.thread);
        self.waiting.push(Entry { name: me.word, thread: me.thread, ask });
        if me.attends {
            return Next::Follow;
        }
        match self.driver {
            // We are awake: no need to be woken from outside for every message.
            Driver::Asleep(..) => self.rouse(process),
            // Whose turn it was may be away for long, and we are here.
            Driver::Outside(thread) if thread != me.thread => {
                self.restless.take();
                self.watch(me.thread);
            }
            Driver::Outside(_) => {}
            Driver::Polling(_) => return Next::Follow,
        }
        self.driver = Driver::Outside(me.thread);
        self.role(me)
    }

    /// What a thread that is awake does: drives if nobody does.
    fn role(&mut self, me: &Me) -> Next {
        match self.driver {
            // It drives when nobody did for a while: see `tick`.
            _ if me.attends => Next::Follow,
            Driver::Outside(thread)
                if thread == me.thread || thread == Thread::NONE || !is_scarce() =>
            {
                self.driver = Driver::Polling(me.word);
                self.resign(me);
                Next::Drive
            }
            _ => Next::Follow,
        }
    }

    /// `long`: it is not the first one without anything to do.
    fn round(&mut self, me: &Me, process: &mut Process, long: bool) -> Round {
        if let Some(next) = self.demoted(me) {
            return Round::Over(next);
        }
        let is_over = overtime().is_some();
        let is_due = self.restless.is_due();
        if long || is_over || is_due {
            self.catch_up(process);
        }
        if is_over && let Some(next) = self.deferred.pop_front() {
            self.restless.used(me.thread);
            return Round::Over(self.hand_over(me, next));
        }
        if is_due && let Some(next) = self.next_restless() {
            self.restless.makes_way(me.thread);
            return Round::Over(self.hand_over(me, next));
        }
        match process.round() {
            Progress::Idle => Round::Idle(self.others()),
            Progress::Moved => {
                self.settle_turn(me, process);
                self.demoted(me).map_or(Round::Moved, Round::Over)
            }
            Progress::User(call) if me.attends => {
                if let Ok(core) = process.core() {
                    core.postponed = Some(call);
                }
                self.leave_to_others();
                Round::Over(Next::Follow)
            }
            Progress::User(call) => {
                self.driver = Driver::Outside(me.thread);
                self.appoint();
                Round::User(call)
            }
        }
    }

    /// One that others end their turns for.
    fn next_restless(&mut self) -> Option<(Word, Thread)> {
        let at = self.deferred.iter().position(|&(_, thread)| self.restless.is_back(thread))?;
        self.deferred.remove(at)
    }

    fn others(&self) -> Others {
        match self.turn {
            _ if self.deferred.is_empty() => Others::None,
            Turn::Passed => Others::Ahead,
            Turn::Begun | Turn::Used => Others::Answered,
        }
    }

    /// What a driver does that is none any more.
    fn demoted(&self, me: &Me) -> Option<Next> {
        match self.driver {
            _ if me.is_answered() => Some(Next::Return),
            Driver::Polling(name) if name == me.word => None,
            _ => Some(Next::Follow),
        }
    }

    /// A driver has nothing to do: others may run, or it sleeps. `Ok(None)`: it goes on.
    fn go_to_bed(&mut self, me: &Me, process: &mut Process) -> Result<Option<Bed>, Next> {
        process.report_late_ready();
        self.catch_up(process);
        if let Some(next) = self.demoted(me) {
            return Err(next);
        }
        if let Some(next) = self.deferred.pop_back() {
            return Err(self.hand_over(me, next));
        }
        if self.in_bed {
            return Ok(None);
        }
        let bed = process.arm();
        if let Some(bed) = bed {
            self.in_bed = true;
            self.driver = Driver::Asleep(me.word, bed);
        }
        Ok(bed)
    }

    fn get_up(&mut self, me: &Me, process: &mut Process) -> Option<Next> {
        self.in_bed = false;
        if let Driver::Asleep(name, _) = self.driver
            && name == me.word
        {
            if let Some(stack) = process.stack() {
                stack.disarm();
            }
            self.driver = Driver::Polling(name);
        }
        self.demoted(me)
    }

    fn lie_down(&mut self, me: &Me) -> Rest {
        if me.is_answered() {
            self.resign(me);
            return Rest::Over(Next::Return);
        }
        let mut on = word::DEFERRED;
        if me.word.load(Ordering::Relaxed) != on {
            on = word::ASLEEP;
            me.word.store(word::AWAKE, Ordering::Relaxed);
            if let Next::Drive = self.role(me) {
                return Rest::Over(Next::Drive);
            }
            me.word.store(on, Ordering::Relaxed);
        }
        if let Driver::Asleep(..) = self.driver {
            self.resign(me);
            return Rest::Sleep { on, deputy: None };
        }
        let is_deputy = *self.deputy.get_or_insert(me.word) == me.word;
        Rest::Sleep { on, deputy: is_deputy.then(process::rounds) }
    }

    /// Somebody who was the deputy when it lay down is awake again; `rounds` were made then.
    fn tick(&mut self, me: &Me, process: &mut Process, timed_out: bool, rounds: u32) -> Next {
        let is_time =
            timed_out && self.deputy == Some(me.word) && !matches!(self.driver, Driver::Asleep(..));
        let is_alone = is_time && process::rounds() == rounds;
        if is_alone
            && is_scarce()
            && let Driver::Outside(thread) = self.driver
        {
            self.restless.found(thread);
        }
        if is_alone || is_overdue() {
            self.begin();
            self.catch_up(process);
            self.let_all_go();
        }
        if me.is_answered() {
            self.resign(me);
            self.appoint(); // It may have been the deputy until it was let go.
            return Next::Return;
        }
        if is_alone {
            me.word.store(word::AWAKE, Ordering::Relaxed);
            self.driver = Driver::Polling(me.word);
            self.resign(me);
            return Next::Drive;
        }
        Next::Follow
    }
}

impl Driver {
    fn is(&self, name: Word) -> bool {
        matches!(self, Driver::Polling(it) | Driver::Asleep(it, _) if *it == name)
    }
}

/// A waiting thread.
struct Me {
    word: Word,
    thread: Thread,
    /// It is the attendant, and waits for nothing.
    attends: bool,
    has_spun: Cell<bool>,
}

impl Drop for Me {
    fn drop(&mut self) {
        self.word.give_back();
    }
}

impl Me {
    fn new(thread: Thread, attends: bool) -> Me {
        Me { word: Word::take(word::AWAKE), thread, attends, has_spun: Cell::new(attends) }
    }

    fn wait(&self, ask: &mut Ask<'_>) {
        // SAFETY: only the lifetime changes. The entry leaves the list before `wait`
        // returns: each way out of it is by the word ANSWERED, which is said when
        // the entry is taken out.
        let ask = unsafe { std::mem::transmute::<*mut Ask<'_>, *mut Ask<'static>>(ask) };
        let mut next = gate::with_waiters(|process, waiters| waiters.enlist(self, ask, process));
        loop {
            next = match next {
                Next::Return => return self.word.stay().end(),
                Next::Drive => self.drive(),
                Next::Follow => self.follow(),
            }
        }
    }

    fn is_answered(&self) -> bool {
        // Acquire: the answer was written before the word.
        self.word.load(Ordering::Acquire) == word::ANSWERED
    }

    fn drive(&self) -> Next {
        let mut idle = Idle::new(true);
        loop {
            match gate::with_waiters(|process, waiters| {
                waiters.round(self, process, idle.is_long())
            }) {
                Round::Over(next) => return next,
                Round::Moved => idle = Idle::new(true),
                Round::User(call) => {
                    let done = call.run();
                    gate::with(|p| p.resume(done));
                    return Next::Follow;
                }
                Round::Idle(others) if !self.attends && idle.goes_on(others) => {}
                Round::Idle(_) => {
                    match gate::with_waiters(|process, waiters| waiters.go_to_bed(self, process)) {
                        Err(next) => return next,
                        Ok(None) => std::thread::yield_now(),
                        Ok(Some(bed)) => {
                            if let Some(next) = self.sleep(bed) {
                                return next;
                            }
                        }
                    }
                    idle = Idle::new(true);
                }
            }
        }
    }

    fn sleep(&self, bed: Bed) -> Option<Next> {
        wait::sleep_on(bed);
        gate::with_waiters(|process, waiters| waiters.get_up(self, process))
    }

    fn follow(&self) -> Next {
        // Once: afterwards there was nothing for long.
        if !self.has_spun.replace(true) && !is_scarce() {
            self.spin();
        }
        match gate::with_waiters(|_, waiters| waiters.lie_down(self)) {
            Rest::Over(next) => next,
            Rest::Sleep { on, deputy: None } => {
                self.doze(on, wait::ORPHAN);
                if self.is_answered() { Next::Return } else { Next::Follow }
            }
            Rest::Sleep { on, deputy: Some(rounds) } => {
                let (timed_out, rounds) = self.watch(on, rounds);
                gate::with_waiters(|process, waiters| {
                    waiters.tick(self, process, timed_out, rounds)
                })
            }
        }
    }

    /// What the deputy does: sleeps as long as rounds are made. Counts the turn's length, and
    /// does not enter the gate for that, where it would be in the way.
    fn watch(&self, on: u32, mut rounds: u32) -> (bool, u32) {
        let mut close = CLOSE_SLICE;
        let mut looked = Instant::now();
        loop {
            let is_close = CLOSE.load(Ordering::Relaxed) && close < SCARCE_SLICE.1;
            let (least, most) = match is_scarce() {
                true if is_close => (close, close),
                true => SCARCE_SLICE,
                false => (SLICE, SLICE),
            };
            let timed_out = self.doze_about(on, least, most);
            let before = std::mem::replace(&mut rounds, process::rounds());
            // One that polls and makes no rounds waits for its processor: for a moment, that is not ours.
            let is_still = before == rounds && (!is_close || DRIVERLESS.load(Ordering::Relaxed));
            if !timed_out || is_still {
                return (timed_out, before);
            }
            let last = std::mem::replace(&mut looked, Instant::now());
            HELD.fetch_add((looked - last).as_micros() as u32, Ordering::Relaxed);
            if is_overdue() {
                return (true, before);
            }
            if is_close {
                close *= 2;
            }
        }
    }

    /// As [`doze`](Me::doze), and up to `most` when the kernel is awake anyway.
    fn doze_about(&self, on: u32, least: Duration, most: Duration) -> bool {
        let _slack = Slack::of(most - least);
        self.doze(on, least)
    }

    /// Sleeps on its word while that says `on`; true when the time is over.
    fn doze(&self, on: u32, most: Duration) -> bool {
        let timed_out = futex_wait(&raw const *self.word, on, libc::FUTEX_PRIVATE_FLAG, most);
        self.word.stay().end();
        timed_out
    }

    /// Waits for the answer without sleeping, for a while.
    fn spin(&self) {
        let mut idle = Idle::new(false);
        while self.word.load(Ordering::Relaxed) == word::AWAKE
            && !DRIVERLESS.load(Ordering::Relaxed)
            && idle.goes_on(Others::None)
        {}
    }
}
