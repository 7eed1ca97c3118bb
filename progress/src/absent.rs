//! Absent owners: threads that own the time slice but are outside MPI, since they compute or sleep.
//!
//! A thread is *absence-prone* once the standby has found it outside in several of its slices. A
//! single time proves nothing: any thread may meet others at a barrier of the application's. From
//! then on
//! - an absence-prone thread that was away for long is released as soon as its predicate is true,
//!   although another thread owns the slice. Its states are [`AbsenceState::Away`], then
//!   [`AbsenceState::ReturnedLate`];
//! - one that returned soon, as a thread that communicates a while before it computes, gets slices
//!   like the others. But others end their slices for it, and its own are watched closely
//!   ([`AbsenceState::ReturnedSoon`]).
//!
//! A thread that communicates until its slice ends is no longer absence-prone.
//!
//! No clock is read for that: rounds of progress, which other threads make meanwhile, distinguish
//! soon from late.

use crate::thread::ThreadId;

/// A thread that returns within so many rounds was not away: some 100 us of a thread that
/// communicates.
const SOON_ROUNDS: u32 = 512;
/// A thread that makes fewer rounds in a slice is outside for most of it: a communicating thread
/// makes one in 1 us.
const MIN_SLICE_ROUNDS: u32 = 2000;
/// How often a thread may be found outside before it is absence-prone.
const MAX_SIGHTINGS: u32 = 3;
/// Rounds between two checks for satisfied absence-prone threads.
const CHECK_INTERVAL: u32 = 1024;

/// Where an absence-prone thread is, or one that may become absence-prone.
#[derive(Clone, Copy, PartialEq)]
enum AbsenceState {
    /// Not absence-prone yet; it was found outside so often.
    Sighted(u32),
    /// Outside; it left at this round.
    Away(u32),
    /// It waits, and was away for long.
    ReturnedLate,
    /// It was back soon.
    ReturnedSoon,
}

impl AbsenceState {
    fn is_absence_prone(self) -> bool {
        !matches!(self, AbsenceState::Sighted(_))
    }
}

/// The absence-prone threads of this process. `rounds`, in all methods: the rounds of progress so
/// far; wraps.
pub(crate) struct AbsentOwners {
    threads: Vec<(ThreadId, AbsenceState)>,
    /// Rounds when the slice was given; `None`: it was taken later.
    slice_start: Option<u32>,
    /// Rounds at the last check.
    last_check: u32,
}

impl AbsentOwners {
    pub(crate) const fn new() -> AbsentOwners {
        AbsentOwners { threads: Vec::new(), slice_start: None, last_check: 0 }
    }

    /// Returns true if the thread is absence-prone.
    pub(crate) fn contains(&self, thread: ThreadId) -> bool {
        self.state(thread).is_some_and(AbsenceState::is_absence_prone)
    }

    pub(crate) fn returned_late(&self, thread: ThreadId) -> bool {
        self.state(thread) == Some(AbsenceState::ReturnedLate)
    }

    pub(crate) fn returned_soon(&self, thread: ThreadId) -> bool {
        self.state(thread) == Some(AbsenceState::ReturnedSoon)
    }

    /// Returns true if a thread is away, most likely computing.
    pub(crate) fn any_away(&self) -> bool {
        self.threads.iter().any(|it| matches!(it.1, AbsenceState::Away(_)))
    }

    /// Records that the thread was found outside with the slice.
    pub(crate) fn sighted_outside(&mut self, thread: ThreadId, rounds: u32) {
        match self.state(thread) {
            None => self.set(thread, Some(AbsenceState::Sighted(1))),
            Some(AbsenceState::Sighted(times)) if times < MAX_SIGHTINGS => {
                self.set(thread, Some(AbsenceState::Sighted(times + 1)))
            }
            Some(_) => self.left(thread, rounds),
        }
    }

    /// Records that the thread is outside, or about to be, most likely for long.
    pub(crate) fn left(&mut self, thread: ThreadId, rounds: u32) {
        self.set(thread, Some(AbsenceState::Away(rounds)));
    }

    /// Records that the thread waits again.
    pub(crate) fn returned(&mut self, thread: ThreadId, rounds: u32) {
        if let Some(AbsenceState::Away(left)) = self.state(thread) {
            let is_soon = rounds.wrapping_sub(left) < SOON_ROUNDS;
            let state =
                if is_soon { AbsenceState::ReturnedSoon } else { AbsenceState::ReturnedLate };
            self.set(thread, Some(state));
        }
    }

    /// Forgets a thread that has ended.
    pub(crate) fn ended(&mut self, thread: ThreadId) {
        self.set(thread, None);
    }

    /// Begins a slice.
    pub(crate) fn begin_slice(&mut self, rounds: u32) {
        self.last_check = rounds;
        self.slice_start = Some(rounds);
    }

    /// Records that another thread has taken the slice over at an unknown time.
    pub(crate) fn slice_taken(&mut self) {
        self.slice_start = None;
    }

    /// Records that the thread has used its slice to the end.
    pub(crate) fn slice_used_up(&mut self, thread: ThreadId, rounds: u32) {
        // A thread that returned late makes rounds too, while it waits for its one message.
        if let Some(start) = self.slice_start.filter(|_| !self.returned_late(thread)) {
            let is_little = rounds.wrapping_sub(start) < MIN_SLICE_ROUNDS;
            self.set(thread, is_little.then_some(AbsenceState::ReturnedSoon));
        }
    }

    /// Records that the thread ends its slice for an absence-prone one, and is therefore not
    /// absence-prone itself.
    pub(crate) fn ended_slice_early(&mut self, thread: ThreadId) {
        if self.returned_soon(thread) {
            self.set(thread, None);
        }
    }

    /// Returns whether to check for satisfied absence-prone threads; at most once in
    /// [`CHECK_INTERVAL`] rounds.
    pub(crate) fn is_check_due(&mut self, rounds: u32) -> bool {
        let is_due = rounds.wrapping_sub(self.last_check) >= CHECK_INTERVAL
            && self.threads.iter().any(|it| it.1.is_absence_prone());
        if is_due {
            self.last_check = rounds;
        }
        is_due
    }

    fn state(&self, thread: ThreadId) -> Option<AbsenceState> {
        self.threads.iter().find(|it| it.0 == thread).map(|it| it.1)
    }

    /// Keeps `state` for this thread, or forgets the thread.
    fn set(&mut self, thread: ThreadId, state: Option<AbsenceState>) {
        self.threads.retain(|it| it.0 != thread);
        self.threads.extend(state.map(|state| (thread, state)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds, soon to wrap.
    const START: u32 = u32::MAX - 100;

    fn after(rounds: u32) -> u32 {
        START.wrapping_add(rounds)
    }

    /// A thread that is away since [`START`].
    fn away() -> (AbsentOwners, ThreadId) {
        let (mut absent, thread) = (AbsentOwners::new(), ThreadId(7));
        (0..=MAX_SIGHTINGS).for_each(|_| absent.sighted_outside(thread, START));
        (absent, thread)
    }

    /// A thread that was back soon.
    fn back_soon() -> (AbsentOwners, ThreadId) {
        let (mut absent, thread) = away();
        absent.returned(thread, START);
        assert!(absent.returned_soon(thread));
        (absent, thread)
    }

    #[test]
    fn a_thread_is_absence_prone_once_it_was_found_outside_often() {
        let (mut absent, [one, other]) = (AbsentOwners::new(), [7, 8].map(ThreadId));
        for _ in 0..MAX_SIGHTINGS {
            absent.sighted_outside(one, START);
            absent.sighted_outside(other, START);
            assert!(!absent.contains(one) && !absent.contains(other));
        }
        // A thread that waits without having been away is as before.
        absent.returned(other, START);
        absent.sighted_outside(one, START);
        assert!(absent.contains(one) && !absent.contains(other));
        assert!(!absent.returned_late(one) && !absent.returned_soon(one), "it is away");
    }

    #[test]
    fn rounds_distinguish_a_soon_return_from_a_late_one() {
        for (rounds, is_soon) in
            [(0, true), (SOON_ROUNDS - 1, true), (SOON_ROUNDS, false), (u32::MAX / 2, false)]
        {
            let (mut absent, thread) = away();
            let now = after(rounds);
            absent.returned(thread, now);
            assert_eq!(
                (absent.returned_soon(thread), absent.returned_late(thread)),
                (is_soon, !is_soon),
                "{rounds}"
            );
            // It waits already: a second return proves nothing.
            let now = now.wrapping_add(SOON_ROUNDS);
            absent.returned(thread, now);
            assert_eq!(absent.returned_soon(thread), is_soon, "{rounds}");
            // Each absence counts by itself.
            absent.left(thread, now);
            absent.returned(thread, now);
            assert!(absent.returned_soon(thread), "{rounds}");
        }
    }

    #[test]
    fn a_thread_that_communicates_to_the_end_of_its_slice_is_no_longer_absence_prone() {
        let (mut absent, thread) = back_soon();
        absent.begin_slice(START);
        absent.slice_used_up(thread, after(MIN_SLICE_ROUNDS - 1));
        assert!(absent.returned_soon(thread), "it was outside for most of the slice");
        absent.begin_slice(START);
        absent.slice_used_up(thread, after(MIN_SLICE_ROUNDS));
        assert!(!absent.contains(thread));
        // An unknown thread becomes absence-prone by a slice with few rounds, too.
        absent.begin_slice(START);
        absent.slice_used_up(thread, START);
        assert!(absent.returned_soon(thread));
    }

    #[test]
    fn slices_that_were_taken_and_waits_of_late_threads_prove_nothing() {
        let (mut absent, thread) = back_soon();
        absent.begin_slice(START);
        absent.slice_taken();
        absent.slice_used_up(thread, after(MIN_SLICE_ROUNDS));
        assert!(absent.returned_soon(thread), "its slice began at an unknown time");
        absent.left(thread, START);
        absent.returned(thread, after(SOON_ROUNDS));
        absent.begin_slice(START);
        absent.slice_used_up(thread, after(MIN_SLICE_ROUNDS));
        assert!(absent.returned_late(thread));
    }

    #[test]
    fn a_thread_that_ends_its_slice_early_is_no_longer_absence_prone_unless_it_was_late() {
        let (mut absent, thread) = back_soon();
        absent.ended_slice_early(thread);
        assert!(!absent.contains(thread));
        let (mut absent, thread) = away();
        absent.returned(thread, after(SOON_ROUNDS));
        absent.ended_slice_early(thread);
        assert!(absent.returned_late(thread));
    }

    #[test]
    fn checks_are_due_at_intervals_while_a_thread_is_absence_prone() {
        let mut none = AbsentOwners::new();
        none.begin_slice(START);
        none.sighted_outside(ThreadId(7), START);
        assert!(!none.is_check_due(after(CHECK_INTERVAL)), "one sighting proves nothing");
        let (mut absent, thread) = away();
        absent.begin_slice(START);
        assert!(!absent.is_check_due(after(CHECK_INTERVAL - 1)));
        let now = after(CHECK_INTERVAL);
        assert!(absent.is_check_due(now) && !absent.is_check_due(now), "once in an interval");
        absent.ended(thread);
        assert!(!absent.is_check_due(after(2 * CHECK_INTERVAL)));
    }

    #[test]
    fn a_thread_is_away_until_all_have_returned_or_ended() {
        let (mut absent, [one, other]) = (AbsentOwners::new(), [7, 8].map(ThreadId));
        absent.left(one, START);
        absent.left(other, START);
        absent.returned(one, START);
        assert!(absent.any_away());
        absent.ended(other);
        assert!(!absent.any_away());
    }
}
