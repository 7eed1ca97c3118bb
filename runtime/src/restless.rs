//! Threads that leave MPI with the turn and stay away, for they compute or sleep (see `waiters`).
//!
//! A thread is restless once the deputy has found it outside in some of its turns; once is nothing, for any
//! thread may meet others at a barrier of theirs. From then on
//! - who has been away for long is let go as soon as it is answered, beside who has the turn ([`Stay::Away`],
//!   then [`Stay::Passing`]);
//! - who was back soon, as one that talks a while before it computes, has turns as others have; but others end
//!   theirs for it, and in its own it is watched closely ([`Stay::Back`]).
//!
//! One that has talked to the end of a turn is restless no more.
//!
//! Nobody reads a clock for that: rounds of progress, which somebody else makes meanwhile, tell soon from late.

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(test))]
use crate::process::rounds;
use crate::thread::Thread;
#[cfg(test)]
use tests::rounds;

/// Who is back within so many rounds was not away: some 100 us of a thread that talks.
const SOON: u32 = 512;
/// Who makes fewer in a turn is outside for most of it, as those who talk make one in 1 us.
const FEW: u32 = 2000;
/// How often a thread is found outside that is not restless yet.
const SELDOM: u32 = 3;
/// How many rounds are between two looks for the answers of threads that are restless.
const BETWEEN: u32 = 1024;

/// Where a restless thread is, or one that may become one.
#[derive(Clone, Copy, PartialEq)]
enum Stay {
    /// Anywhere; so often it was found outside.
    Seen(u32),
    /// Outside; it left when there were so many rounds.
    Away(u32),
    /// It waits, and was away for long.
    Passing,
    /// It was back soon.
    Back,
}

/// Those of this process.
pub(crate) struct Restless {
    threads: Vec<(Thread, Stay)>,
    /// Rounds when the turn was given; `None`: it was taken later.
    begun: Option<u32>,
    /// Rounds when somebody looked for their answers.
    looked: u32,
}

/// One of them is away: a hint, without the gate.
static SOMEBODY: AtomicBool = AtomicBool::new(false);

/// True if a thread of this process computes, as far as is known.
pub(crate) fn somebody_computes() -> bool {
    SOMEBODY.load(Ordering::Relaxed)
}

impl Stay {
    fn is_restless(self) -> bool {
        !matches!(self, Stay::Seen(_))
    }
}

impl Restless {
    pub(crate) const fn new() -> Restless {
        Restless { threads: Vec::new(), begun: None, looked: 0 }
    }

    pub(crate) fn has(&self, thread: Thread) -> bool {
        self.stay(thread).is_some_and(Stay::is_restless)
    }

    pub(crate) fn is_passing(&self, thread: Thread) -> bool {
        self.stay(thread) == Some(Stay::Passing)
    }

    pub(crate) fn is_back(&self, thread: Thread) -> bool {
        self.stay(thread) == Some(Stay::Back)
    }

    /// It was found outside, with the turn.
    pub(crate) fn found(&mut self, thread: Thread) {
        match self.stay(thread) {
            None => self.note(thread, Some(Stay::Seen(1))),
            Some(Stay::Seen(times)) if times < SELDOM => {
                self.note(thread, Some(Stay::Seen(times + 1)))
            }
            Some(_) => self.leaves(thread),
        }
    }

    /// It is outside, or about to be, most likely for long.
    pub(crate) fn leaves(&mut self, thread: Thread) {
        self.note(thread, Some(Stay::Away(rounds())));
    }

    /// It waits again.
    pub(crate) fn comes(&mut self, thread: Thread) {
        if let Some(Stay::Away(left)) = self.stay(thread) {
            let is_soon = rounds().wrapping_sub(left) < SOON;
            self.note(thread, Some(if is_soon { Stay::Back } else { Stay::Passing }));
        }
    }

    /// It is no more.
    pub(crate) fn ends(&mut self, thread: Thread) {
        self.note(thread, None);
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.looked = rounds();
        self.begun = Some(self.looked);
    }

    /// Another thread takes it.
    pub(crate) fn take(&mut self) {
        self.begun = None;
    }

    /// It has used its turn to the end.
    pub(crate) fn used(&mut self, thread: Thread) {
        // Who waits for its one message makes rounds, too.
        if let Some(begun) = self.begun.filter(|_| !self.is_passing(thread)) {
            let is_little = rounds().wrapping_sub(begun) < FEW;
            self.note(thread, is_little.then_some(Stay::Back));
        }
    }

    /// It gives its turn to one that is restless, and is not so itself.
    pub(crate) fn makes_way(&mut self, thread: Thread) {
        if self.is_back(thread) {
            self.note(thread, None);
        }
    }

    /// Whether it is time to look for their answers; not more than once in [`BETWEEN`] rounds.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = rounds();
        let is_due = now.wrapping_sub(self.looked) >= BETWEEN
            && self.threads.iter().any(|it| it.1.is_restless());
        if is_due {
            self.looked = now;
        }
        is_due
    }

    fn stay(&self, thread: Thread) -> Option<Stay> {
        self.threads.iter().find(|it| it.0 == thread).map(|it| it.1)
    }

    /// Keeps `stay` of this thread, or forgets it.
    fn note(&mut self, thread: Thread, stay: Option<Stay>) {
        self.threads.retain(|it| it.0 != thread);
        self.threads.extend(stay.map(|stay| (thread, stay)));
        SOMEBODY.store(self.is_anybody_away(), Ordering::Relaxed);
    }

    fn is_anybody_away(&self) -> bool {
        self.threads.iter().any(|it| matches!(it.1, Stay::Away(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! { static ROUNDS: Cell<u32> = const { Cell::new(u32::MAX - 100) } }

    /// Of this test alone, and soon to wrap.
    pub(super) fn rounds() -> u32 {
        ROUNDS.get()
    }

    fn pass(rounds: u32) {
        ROUNDS.set(ROUNDS.get().wrapping_add(rounds));
    }

    /// One that is away, since now.
    fn away() -> (Restless, Thread) {
        let (mut restless, thread) = (Restless::new(), Thread::numbered(7));
        (0..=SELDOM).for_each(|_| restless.found(thread));
        (restless, thread)
    }

    /// One that was back soon.
    fn back() -> (Restless, Thread) {
        let (mut restless, thread) = away();
        restless.comes(thread);
        assert!(restless.is_back(thread));
        (restless, thread)
    }

    #[test]
    fn a_thread_is_restless_once_it_was_found_outside_often() {
        let (mut restless, [one, other]) = (Restless::new(), [7, 8].map(Thread::numbered));
        for _ in 0..SELDOM {
            restless.found(one);
            restless.found(other);
            assert!(!restless.has(one) && !restless.has(other));
        }
        // Who waits without having been away is as before.
        restless.comes(other);
        restless.found(one);
        assert!(restless.has(one) && !restless.has(other));
        assert!(!restless.is_passing(one) && !restless.is_back(one), "it is away");
    }

    #[test]
    fn who_comes_soon_is_back_and_who_comes_late_passes() {
        for (rounds, is_soon) in [(0, true), (SOON - 1, true), (SOON, false), (u32::MAX / 2, false)]
        {
            let (mut restless, thread) = away();
            pass(rounds);
            restless.comes(thread);
            assert_eq!(
                (restless.is_back(thread), restless.is_passing(thread)),
                (is_soon, !is_soon),
                "{rounds}"
            );
            // It waits already: coming once more tells nothing.
            pass(SOON);
            restless.comes(thread);
            assert_eq!(restless.is_back(thread), is_soon, "{rounds}");
            // Each leave counts by itself.
            restless.leaves(thread);
            restless.comes(thread);
            assert!(restless.is_back(thread), "{rounds}");
        }
    }

    #[test]
    fn who_talks_to_the_end_of_a_turn_is_restless_no_more() {
        let (mut restless, thread) = back();
        restless.begin();
        pass(FEW - 1);
        restless.used(thread);
        assert!(restless.is_back(thread), "it was outside for most of the turn");
        restless.begin();
        pass(FEW);
        restless.used(thread);
        assert!(!restless.has(thread));
        // One of which nothing was known becomes restless by a turn with few rounds, too.
        restless.begin();
        restless.used(thread);
        assert!(restless.is_back(thread));
    }

    #[test]
    fn turns_that_were_taken_and_waits_of_those_who_pass_prove_nothing() {
        let (mut restless, thread) = back();
        restless.begin();
        restless.take();
        pass(FEW);
        restless.used(thread);
        assert!(restless.is_back(thread), "who knows when the turn was taken");
        restless.leaves(thread);
        pass(SOON);
        restless.comes(thread);
        restless.begin();
        pass(FEW);
        restless.used(thread);
        assert!(restless.is_passing(thread));
    }

    #[test]
    fn who_makes_way_for_another_is_restless_no_more_unless_it_passes() {
        let (mut restless, thread) = back();
        restless.makes_way(thread);
        assert!(!restless.has(thread));
        let (mut restless, thread) = away();
        pass(SOON);
        restless.comes(thread);
        restless.makes_way(thread);
        assert!(restless.is_passing(thread));
    }

    #[test]
    fn answers_are_looked_for_now_and_then_while_somebody_is_restless() {
        let mut nobody = Restless::new();
        nobody.begin();
        nobody.found(Thread::numbered(7));
        pass(BETWEEN);
        assert!(!nobody.is_due(), "found once is not restless");
        let (mut restless, thread) = away();
        restless.begin();
        pass(BETWEEN - 1);
        assert!(!restless.is_due());
        pass(1);
        assert!(restless.is_due() && !restless.is_due(), "once in so many rounds");
        pass(BETWEEN);
        restless.ends(thread);
        assert!(!restless.is_due());
    }

    /// Not by [`somebody_computes`], which is of the whole process and so of all tests at once.
    #[test]
    fn somebody_is_away_until_all_have_come_or_ended() {
        let (mut restless, [one, other]) = (Restless::new(), [7, 8].map(Thread::numbered));
        restless.leaves(one);
        restless.leaves(other);
        restless.comes(one);
        assert!(restless.is_anybody_away());
        restless.ends(other);
        assert!(!restless.is_anybody_away());
    }
}
