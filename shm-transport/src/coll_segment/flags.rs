//! Counting by a flag of each member, in the first line of its slot: for few members that have a
//! processor each. No line has two writers, and a flag and a few bytes of data cross together.
//!
//! Invariants:
//! - A member is in one round at a time. It writes its slot, then its flag, once. It reads another
//!   member's slot after it has seen that member's flag. If all members agree, it may write a part
//!   of that slot from then until it arrives at k + 1, and that member reads this part after k + 1
//!   is complete.
//! - A slot used in round k is written again for round k + [`SETS`], after every member has arrived
//!   at k + 1. A member still in round k therefore sees k or older in that slot.
//! - `all_arrived` rounds have seen every member arrive, as far as this member has looked.
//!
//! No member is the last: a round is complete for a member that has seen all flags.

use fabric::coll_segment::{FEW_FLAGS_RANKS, MAX_FLAGS_RANKS, flags_stride};

use super::signatures::{Signatures, Signed};
use super::{Counting, SyncKind};
use crate::sync::{AtomicU64, Ordering};

/// Slot sets: a member that waits for no other may be so many rounds ahead.
pub(crate) const SETS: usize = 4;

/// One member's view of the flags of a segment, which are its signatures.
#[derive(Debug)]
pub(crate) struct Flags {
    signatures: Signatures<SETS>,
    /// Rounds that all members have arrived at. Only one thread at a time changes it.
    all_arrived: AtomicU64,
}

impl Flags {
    /// A view from the signatures of a segment.
    pub(crate) fn new(signatures: Signatures<SETS>) -> Flags {
        Flags { signatures, all_arrived: AtomicU64::new(0) }
    }

    /// Looks whether all members have arrived at the round after the last one of this set.
    fn has_become_free(&self, round: u64) -> bool {
        let Some(after) = (round + 1).checked_sub(SETS as u64) else { return true };
        let stamps = [after, after + SETS as u64].map(Signatures::<SETS>::stamp);
        // A member that has arrived there has read the slot that is about to be written.
        let mut flags = self.signatures.all(after);
        let is_free = flags.all(|flag| stamps.contains(&Signatures::<SETS>::stamp_of(flag)));
        if is_free {
            self.all_arrived.store(after + 1, Ordering::Relaxed);
        }
        is_free
    }
}

impl Counting for Flags {
    const KIND: SyncKind = SyncKind::Flags;
    const SETS: usize = SETS;

    #[inline]
    fn is_free(&self, round: u64) -> bool {
        round + 2 <= self.all_arrived.load(Ordering::Relaxed) + SETS as u64
            || self.has_become_free(round)
    }

    /// Never true: no member is the last.
    #[inline]
    fn arrive(&self, round: u64, signature: u64) -> Option<u64> {
        self.signatures.publish(round, signature);
        None
    }

    #[inline]
    fn signatures(&self) -> &impl Signed {
        &self.signatures
    }

    fn complete(&self, _: u64) {
        debug_assert!(false, "no member is the last");
    }

    #[inline]
    fn is_complete(&self, round: u64) -> bool {
        let stamp = Signatures::<SETS>::stamp(round);
        let mut flags = self.signatures.all(round);
        let is_complete = flags.all(|flag| Signatures::<SETS>::stamp_of(flag) == stamp);
        if is_complete {
            self.all_arrived.store(round + 1, Ordering::Relaxed);
        }
        is_complete
    }

    #[inline]
    fn mismatch(&self, round: u64, signature: u64) -> Option<u32> {
        self.signatures.mismatch(round, signature)
    }

    fn reset(&self) {
        self.signatures.reset();
    }
}

/// Where a member's flag lies in a set, of so many members; its slot follows it.
pub(crate) fn flag_at(members: u32, member: u64) -> u64 {
    member * flags_stride(members)
}

/// The most members of each size of slots, on a host of `size` ranks.
pub(crate) fn most_members(size: u32) -> [u32; 2] {
    [FEW_FLAGS_RANKS, MAX_FLAGS_RANKS].map(|most| most.min(size))
}

/// Bytes of a slot set on a host of `size` ranks.
pub(crate) fn set_bytes(size: u32) -> u64 {
    let [few, many] = most_members(size).map(|members| u64::from(members) * flags_stride(members));
    few.max(many)
}
