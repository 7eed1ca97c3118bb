//! Counting: the arrivals of a round are counted in one word. For members that share processors: a
//! member needs the processor once in a round, and the last to arrive does the work for all. Three
//! slot sets serve the rounds in turn, each with an [`ArrivalCount`] of its own.
//!
//! Invariants:
//! - A member is in one round at a time. It begins round k when round k - 2 is complete. Then all
//!   members have arrived there, and therefore left round k - 3, which used the same slot set.
//! - A member writes its slot and its signature between the beginning of a round and its own
//!   arrival. Three kinds of readers exist: the last member to arrive, before it completes the
//!   round; a member that saw the writer arrive, before its own arrival; and any member in a round
//!   that is complete, before it leaves. Therefore no member reads a slot that may be written.
//! - The last member to arrive writes the result and a mismatch of signatures before it completes
//!   the round. They are read by members that have not left the round, and none of these arrives at
//!   the next round of the set.

use std::ops::Range;

use fabric::coll_segment::{SLOT_BYTES, long_slots_bytes, slots_bytes};

use super::signatures::{Signatures, Signed};
use super::{Counting, LINE, SyncKind};
use crate::sync::{AtomicU64, Ordering};

const SETS: usize = 3;

/// The words in which the members of one slot set count, on a line of its own: members that wait
/// look at another line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct ArrivalCount {
    arrived: AtomicU64,
    /// 1 if signatures differ, otherwise 0.
    mismatch: AtomicU64,
}

const _: () = assert!(cfg!(loom) || size_of::<ArrivalCount>() as u64 == LINE);

/// One member's view of the words of a segment.
#[derive(Debug)]
pub(crate) struct Counter {
    completed: &'static AtomicU64,
    arrival_counts: [&'static ArrivalCount; SETS],
    signatures: Signatures<SETS>,
}

impl Counter {
    /// Makes a member's view of a segment. `completed` is the number of completed rounds, in the
    /// segment's header; `arrival_counts` and `signatures` have one entry for each slot set.
    pub(crate) fn new(
        completed: &'static AtomicU64,
        arrival_counts: [&'static ArrivalCount; SETS],
        signatures: Signatures<SETS>,
    ) -> Counter {
        Counter { completed, arrival_counts, signatures }
    }

    #[inline]
    fn arrival_count(&self, round: u64) -> &'static ArrivalCount {
        self.arrival_counts[round as usize % SETS]
    }
}

impl Counting for Counter {
    const KIND: SyncKind = SyncKind::Counter;
    const SETS: usize = SETS;

    #[inline]
    fn is_free(&self, round: u64) -> bool {
        // Acquire: all members have arrived at the round before the last one, after they had read
        // the slots that this member is about to write.
        self.completed.load(Ordering::Acquire) + 1 >= round
    }

    #[inline]
    fn arrive(&self, round: u64, signature: u64) -> Option<u64> {
        self.signatures.publish(round, signature);
        // Release: the last member sees this one's slot and signature, and that it has read the
        // others' slots. Acquire: this may be the last member.
        let before = self.arrival_count(round).arrived.fetch_add(1, Ordering::AcqRel);
        Some(u64::from(self.signatures.members()) - before - 1)
    }

    #[inline]
    fn signatures(&self) -> &impl Signed {
        &self.signatures
    }

    #[inline]
    fn complete(&self, round: u64) {
        let first = self.signatures.all(round).next();
        let differs = self.signatures.all(round).any(|word| Some(word) != first);
        let arrival_count = self.arrival_count(round);
        // Relaxed: ordered by the arrivals before and the store to `completed` below.
        arrival_count.mismatch.store(u64::from(differs), Ordering::Relaxed);
        arrival_count.arrived.store(0, Ordering::Relaxed);
        // Release: a member that sees the round complete sees the result and the tally.
        self.completed.store(round + 1, Ordering::Release);
    }

    #[inline]
    fn is_complete(&self, round: u64) -> bool {
        // Acquire: the result is written.
        self.completed.load(Ordering::Acquire) > round
    }

    #[inline]
    fn mismatch(&self, round: u64, signature: u64) -> Option<u32> {
        // Relaxed: the round is complete.
        match self.arrival_count(round).mismatch.load(Ordering::Relaxed) {
            0 => None,
            _ => self.signatures.find_mismatch(round, self.signatures.word(round, signature)),
        }
    }

    fn reset(&self) {
        // Relaxed: no other process looks until the owner's next message announces the segment.
        let zero = |word: &AtomicU64| word.store(0, Ordering::Relaxed);
        zero(self.completed);
        self.arrival_counts
            .iter()
            .flat_map(|arrival_count| [&arrival_count.arrived, &arrival_count.mismatch])
            .for_each(zero);
        self.signatures.reset();
    }
}

/// Where the tally of a set lies.
pub(crate) fn arrival_count_at(set: u64) -> u64 {
    LINE + set * LINE
}

/// Where a member's signature lies, on a host of `size` ranks.
pub(crate) fn signature_at(size: u32, set: u64, member: u64) -> u64 {
    arrival_count_at(SETS as u64) + (set * u64::from(size) + member) * 8
}

/// Where the signatures end, on a host of `size` ranks.
pub(crate) fn signatures_end(size: u32) -> u64 {
    signature_at(size, SETS as u64, 0).next_multiple_of(LINE)
}

/// Bytes of a slot set: the result, and the slots of all members.
pub(crate) fn set_bytes(size: u32) -> u64 {
    SLOT_BYTES.end() + long_slots_bytes(size)
}

/// The part of a slot set that only long slots use.
pub(crate) fn long_part(size: u32) -> Range<u64> {
    SLOT_BYTES.end() + slots_bytes(size)..set_bytes(size)
}
