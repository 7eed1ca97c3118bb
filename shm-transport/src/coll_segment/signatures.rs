//! The signatures of a round: a word of each member in each slot set, with the member's call and
//! round.
//!
//! Invariants: a member stores its own word only, once a round. A word is never 0 after its first
//! store; therefore zeroed memory holds no signature.

use crate::sync::{AtomicU64, Ordering};

/// Bits of a word that hold the signature; the stamp of the round stands above.
const SIGNATURE_BITS: u32 = 56;
/// Stamps that differ. A member is never so many rounds of one set ahead of another one.
const STAMPS: u64 = 255;

/// The words of all members in each of `SETS` slot sets.
#[derive(Debug)]
pub(crate) struct Signatures<const SETS: usize> {
    /// Of each member, set after set.
    words: Vec<&'static AtomicU64>,
    members: usize,
    me: usize,
}

impl<const SETS: usize> Signatures<SETS> {
    /// Those that member `me` of `members` sees; `word` finds the word of a set and a member.
    pub(crate) fn new(
        members: u32,
        me: u32,
        word: impl Fn(u64, u64) -> &'static AtomicU64,
    ) -> Self {
        assert!(me < members);
        let sets = 0..SETS as u64;
        let words = sets.flat_map(|set| (0..members.into()).map(move |member| (set, member)));
        let words = words.map(|(set, member)| word(set, member)).collect();
        Signatures { words, members: members as usize, me: me as usize }
    }

    /// Members of the segment.
    #[inline]
    pub(crate) fn members(&self) -> u32 {
        self.members as u32
    }

    /// This member.
    #[inline]
    pub(crate) fn me(&self) -> u32 {
        self.me as u32
    }

    /// The words of all members in a round's set.
    #[inline]
    pub(crate) fn of_set(&self, round: u64) -> &[&'static AtomicU64] {
        let first = round as usize % SETS * self.members;
        &self.words[first..first + self.members]
    }

    /// Publishes this member's signature.
    #[inline]
    pub(crate) fn publish(&self, round: u64, signature: u64) {
        debug_assert!(signature >> SIGNATURE_BITS == 0, "a signature leaves room for the stamp");
        let word = Self::stamp(round) << SIGNATURE_BITS | signature;
        // Release: a member that sees the word sees this member's slot, and that this member has
        // read all that it needs of the rounds before.
        self.of_set(round)[self.me].store(word, Ordering::Release);
    }

    /// A member's signature; `None` until it is published.
    #[inline]
    pub(crate) fn of(&self, round: u64, member: u32) -> Option<u64> {
        // Acquire: the member's slot is written.
        let word = self.of_set(round)[member as usize].load(Ordering::Acquire);
        (word >> SIGNATURE_BITS == Self::stamp(round)).then_some(word & ((1 << SIGNATURE_BITS) - 1))
    }

    /// Zeroes all words. Called by the owner between two leases.
    pub(crate) fn reset(&self) {
        // Relaxed: no other process looks until the owner's next message announces the segment.
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Distinguishes a round from the others of its set; never 0.
    #[inline]
    pub(crate) fn stamp(round: u64) -> u64 {
        round / SETS as u64 % STAMPS + 1
    }

    /// The stamp in a word.
    #[inline]
    pub(crate) fn stamp_of(word: u64) -> u64 {
        word >> SIGNATURE_BITS
    }
}
