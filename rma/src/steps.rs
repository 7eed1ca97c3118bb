//! Steps of post / start / complete / wait that ranks count for each other: exposure epochs begun
//! (MPI_Win_post) and access epochs ended (MPI_Win_complete).
//!
//! A step reaches its reader by one of two paths, and counts the same:
//! - *memory*: the writer stores how many steps it has made this way into its word of the reader's
//!   [`StepRow`]. Only ranks of one host have rows, and operations that travel in frames exclude
//!   this path: the end of an access epoch must not overtake them.
//! - *message*: frames are in order, therefore this step arrives after the operations before it.
//!
//! For each pair of ranks and each kind the reader knows two numbers:
//!
//! | number | written by | changes |
//! |---|---|---|
//! | made | the writer, in the row; the reader, for messages | post, complete |
//! | taken | the reader, in its own memory | start (posts), wait (completes) |
//!
//! While both are equal, the reader waits. Start and wait take from all ranks of their group or
//! from none. Numbers are never set back; they wrap around at 2^32. Epochs with other groups touch
//! other words, and a step that is made early stays until it is taken. With MPI_MODE_NOCHECK post
//! makes no step and start takes none (MPI-5.0 §12.5.2: both have the assertion, or neither).
//!
//! Sleep: a writer stores, then wakes the reader. A reader announces its sleep, then looks at its
//! row again ([`Steps::awaited`]). A rank that has died makes no step; the waiting call finds it
//! among the failed peers and names it.
//!
//! Invariant: a word has one writer, which never reads it.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use fabric::UserBuf;
use rustc_hash::FxHashMap;

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// MPI_Win_post.
    Post = 0,
    /// MPI_Win_complete.
    Complete = 1,
}

/// The words that count the steps of all ranks of a host for one of them.
#[derive(Clone, Copy, Debug)]
pub struct StepRow {
    memory: UserBuf,
    /// The index of the reader among the ranks of the host.
    index: u32,
}

/// Bytes of the two words of a writer.
const PAIR: usize = 8;

impl StepRow {
    /// Returns the bytes of a row for so many ranks of a host: whole cache lines.
    pub const fn bytes(ranks: usize) -> usize {
        (ranks * PAIR).next_multiple_of(64)
    }

    /// Returns the row of the rank with this index among those of the host, in `memory`, which is
    /// zero at first and shared by all of them. Panics if it is not aligned to 8 bytes.
    pub fn new(memory: UserBuf, index: u32) -> StepRow {
        assert!(memory.addr().is_multiple_of(PAIR as u64));
        StepRow { memory, index }
    }

    fn word(&self, writer: &StepRow, kind: StepKind) -> &AtomicU32 {
        let pair = self.memory.slice(PAIR * writer.index as usize, PAIR);
        // SAFETY: inside the row, aligned, and valid while the window lives by the promise of the
        // memory's maker. All ranks access it atomically.
        unsafe { AtomicU32::from_ptr(pair.as_ptr().add(4 * kind as usize).cast()) }
    }
}

/// Numbers of one kind of step between this rank and another.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// Stored in the other rank's row.
    stored: u32,
    /// Received in messages.
    arrived: u32,
    /// Taken by epochs of this rank.
    taken: u32,
}

/// The steps of one window at one rank.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    own: Option<StepRow>,
    numbers: FxHashMap<u32, [Numbers; 2]>,
    /// Kinds that a call of this process waits for.
    awaited: [bool; 2],
}

impl Steps {
    /// Returns the steps of a rank with this row.
    pub(crate) fn new(own: Option<StepRow>) -> Steps {
        Steps { own, ..Steps::default() }
    }

    /// Makes a step in the row of a rank; false if there is none.
    #[inline]
    pub(crate) fn store(&mut self, rank: u32, row: Option<&StepRow>, kind: StepKind) -> bool {
        let (Some(own), Some(row)) = (&self.own, row) else { return false };
        let numbers = &mut self.numbers.entry(rank).or_default()[kind as usize];
        numbers.stored = numbers.stored.wrapping_add(1);
        // Release: the reader sees what this rank has done before, loads and stores alike.
        row.word(own, kind).store(numbers.stored, Ordering::Release);
        true
    }

    /// Counts a step that has arrived in a message.
    pub(crate) fn arrived(&mut self, rank: u32, kind: StepKind) {
        let numbers = &mut self.numbers.entry(rank).or_default()[kind as usize];
        numbers.arrived = numbers.arrived.wrapping_add(1);
    }

    /// Returns whether a rank, with this row, has made a step that is not taken.
    #[inline]
    pub(crate) fn has(&self, rank: u32, row: Option<&StepRow>, kind: StepKind) -> bool {
        let numbers = self.numbers.get(&rank).map_or(Numbers::default(), |all| all[kind as usize]);
        let stored = match (&self.own, row) {
            // Acquire: what the writer has done before is visible.
            (Some(own), Some(row)) => own.word(row, kind).load(Ordering::Acquire),
            _ => 0,
        };
        numbers.arrived.wrapping_add(stored) != numbers.taken
    }

    /// Takes a step of a rank; there is one.
    #[inline]
    pub(crate) fn take(&mut self, rank: u32, kind: StepKind) {
        let numbers = &mut self.numbers.entry(rank).or_default()[kind as usize];
        numbers.taken = numbers.taken.wrapping_add(1);
    }

    /// Sets whether a call waits for a kind of step; returns whether that is a change.
    pub(crate) fn set_awaited(&mut self, kind: StepKind, is_awaited: bool) -> bool {
        std::mem::replace(&mut self.awaited[kind as usize], is_awaited) != is_awaited
    }

    /// Returns the kinds that a call of this process waits for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = StepKind> + '_ {
        let is_awaited = |kind: &StepKind| self.awaited[*kind as usize];
        [StepKind::Post, StepKind::Complete].into_iter().filter(is_awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: usize = 3;

    /// Passes the steps of all ranks of a host, and their rows.
    fn with_steps(test: impl FnOnce(&mut [Steps], &[StepRow])) {
        let mut memory = [0_u64; RANKS * StepRow::bytes(RANKS) / 8];
        // SAFETY: the array outlives the rows, which the test does not keep.
        let memory = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), 8 * memory.len()) };
        let row = |rank: usize| {
            let bytes = StepRow::bytes(RANKS);
            StepRow::new(memory.slice(rank * bytes, bytes), rank as u32)
        };
        let rows: Vec<_> = (0..RANKS).map(row).collect();
        let mut steps: Vec<_> = rows.iter().map(|&row| Steps::new(Some(row))).collect();
        test(&mut steps, &rows);
    }

    #[test]
    fn each_pair_and_kind_counts_for_itself() {
        use StepKind::{Complete, Post};
        with_steps(|steps, rows| {
            assert!(steps[0].store(1, Some(&rows[1]), Post));
            assert!(steps[0].store(1, Some(&rows[1]), Post));
            assert!(steps[2].store(1, Some(&rows[1]), Complete));
            let all = |steps: &Steps| {
                let has = |rank: usize| {
                    [Post, Complete].map(|kind| steps.has(rank as u32, Some(&rows[rank]), kind))
                };
                [has(0), has(1), has(2)]
            };
            assert_eq!(all(&steps[1]), [[true, false], [false, false], [false, true]]);
            assert_eq!(all(&steps[0]), [[false; 2]; 3]);
            steps[1].take(0, Post);
            assert!(steps[1].has(0, Some(&rows[0]), Post), "two were made");
            steps[1].take(0, Post);
            steps[1].take(2, Complete);
            assert_eq!(all(&steps[1]), [[false; 2]; 3]);
        });
    }

    #[test]
    fn messages_and_words_add_up() {
        with_steps(|steps, rows| {
            let (kind, row) = (StepKind::Complete, Some(&rows[0]));
            for round in 0..6 {
                match round % 3 {
                    0 => steps[1].arrived(0, kind),
                    _ => assert!(steps[0].store(1, Some(&rows[1]), kind)),
                }
                assert!(steps[1].has(0, row, kind));
                steps[1].take(0, kind);
                assert!(!steps[1].has(0, row, kind));
            }
            let mut alone = Steps::default();
            assert!(!alone.store(1, Some(&rows[1]), kind) && !alone.has(0, row, kind));
            alone.arrived(0, kind);
            assert!(alone.has(0, None, kind));
        });
    }

    #[test]
    fn numbers_wrap_around() {
        with_steps(|steps, rows| {
            let (kind, row) = (StepKind::Post, Some(&rows[0]));
            steps[0].numbers.entry(1).or_default()[0].stored = u32::MAX;
            steps[1].numbers.entry(0).or_default()[0].taken = u32::MAX;
            assert!(steps[0].store(1, Some(&rows[1]), kind) && steps[1].has(0, row, kind));
            steps[1].take(0, kind);
            assert!(!steps[1].has(0, row, kind));
        });
    }

    #[test]
    fn a_step_shows_what_its_writer_did_before() {
        with_steps(|steps, rows| {
            let mut cell = 0_u64;
            let cell = &raw mut cell as usize;
            let [one, other, _] = steps else { unreachable!() };
            const ROUNDS: u64 = 2000;
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        // SAFETY: the other thread has read it before this one's turn.
                        unsafe { (cell as *mut u64).write(round) };
                        one.store(1, Some(&rows[1]), StepKind::Complete);
                        while !one.has(1, Some(&rows[1]), StepKind::Post) {
                            std::thread::yield_now();
                        }
                        one.take(1, StepKind::Post);
                    }
                });
                for round in 1..=ROUNDS {
                    while !other.has(0, Some(&rows[0]), StepKind::Complete) {
                        std::thread::yield_now();
                    }
                    other.take(0, StepKind::Complete);
                    // SAFETY: written before the step, and not again before the next one.
                    assert_eq!(unsafe { (cell as *const u64).read() }, round);
                    other.store(0, Some(&rows[0]), StepKind::Post);
                }
            });
        });
    }
}
