//! The signatures of a round: a word of each member in each slot set, with the member's call and
//! round.
//!
//! ```text
//! bit 63 .. 56   55 .. 48                                47 .. 0
//!     round      digest of the calls before              call
//! ```
//!
//! A member that waits for no other one in a round, as the root of a broadcast, does not compare
//! calls in it. The digest shows all members in the next round what they would have found. It is
//! that of the member's signature in the round before, and one that the member may add of calls
//! that took no round.
//!
//! Invariants: a member stores its own word only, once a round. A word is never 0 after its first
//! store; therefore zeroed memory holds no signature. A member never loads its own word: the line
//! is with the members that poll it, and would have to cross back. It has a copy.

use fabric::coll_segment::{DIGEST_BITS, SIGNATURE_BITS};

use crate::sync::{AtomicU64, Ordering};

/// Bits of a word below the stamp of the round.
const STAMP_AT: u32 = SIGNATURE_BITS + DIGEST_BITS;
/// Spreads a signature over the upper bits of a word: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Stamps that differ. A member is never so many rounds of one set ahead of another one.
const STAMPS: u64 = 255;

/// Signatures without the number of slot sets.
pub(crate) trait Signed {
    /// See [`fabric::CollSegment::agrees`].
    fn agrees(&self, round: u64, member: u32, signature: u64) -> Option<bool>;
    /// A member's signature; `None` until it is published, and when it has gone on.
    fn of(&self, round: u64, member: u32) -> Option<u64>;
    /// This member.
    fn me(&self) -> u32;
}

impl<const SETS: usize> Signed for Signatures<SETS> {
    #[inline]
    fn agrees(&self, round: u64, member: u32, signature: u64) -> Option<bool> {
        let word = self.load(round, member as usize);
        (word >> STAMP_AT == Self::stamp(round)).then(|| word == self.word(round, signature))
    }

    fn of(&self, round: u64, member: u32) -> Option<u64> {
        let word = self.load(round, member as usize);
        (word >> STAMP_AT == Self::stamp(round)).then(|| signature_in(word))
    }

    fn me(&self) -> u32 {
        self.me as u32
    }
}

/// The signature in a word.
pub(crate) fn signature_in(word: u64) -> u64 {
    word & ((1 << SIGNATURE_BITS) - 1)
}

/// The words of all members in each of `SETS` slot sets.
#[derive(Debug)]
pub(crate) struct Signatures<const SETS: usize> {
    /// Of each member, set after set.
    words: Vec<&'static AtomicU64>,
    /// This member's own words of each set. Only one thread at a time changes them.
    own: [AtomicU64; SETS],
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
        let own = std::array::from_fn(|_| AtomicU64::new(0));
        Signatures { words, own, members: members as usize, me: me as usize }
    }

    /// Members of the segment.
    #[inline]
    pub(crate) fn members(&self) -> u32 {
        self.members as u32
    }

    /// The words of all members in a round's set.
    #[inline]
    fn of_set(&self, round: u64) -> &[&'static AtomicU64] {
        let first = round as usize % SETS * self.members;
        &self.words[first..first + self.members]
    }

    /// Loads a member's word in a round's set.
    #[inline]
    fn load(&self, round: u64, member: usize) -> u64 {
        match member == self.me {
            // Relaxed: this member's own.
            true => self.own[round as usize % SETS].load(Ordering::Relaxed),
            // Acquire: the member's slot is written, and it has read all that it needs of the
            // rounds before.
            false => self.of_set(round)[member].load(Ordering::Acquire),
        }
    }

    /// Loads the words of all members in a round's set, one after the other.
    #[inline]
    pub(crate) fn all(&self, round: u64) -> impl Iterator<Item = u64> {
        (0..self.members).map(move |member| self.load(round, member))
    }

    /// Publishes this member's signature.
    #[inline]
    pub(crate) fn publish(&self, round: u64, signature: u64) {
        debug_assert!(signature >> STAMP_AT == 0, "a signature leaves room for the stamp");
        let word = self.word(round, signature);
        self.own[round as usize % SETS].store(word, Ordering::Relaxed);
        // Release: a member that sees the word sees this member's slot, and that this member has
        // read all that it needs of the rounds before.
        self.of_set(round)[self.me].store(word, Ordering::Release);
    }

    /// The word that this member publishes with a signature, and that members that agree have.
    #[inline]
    pub(crate) fn word(&self, round: u64, signature: u64) -> u64 {
        // Before round 0 there is none, and the digest is zero.
        let before = round.checked_sub(1).map_or(0, |before| self.load(before, self.me));
        let spread = (before << (u64::BITS - SIGNATURE_BITS)).wrapping_mul(SPREAD);
        let digest = spread >> (u64::BITS - DIGEST_BITS);
        Self::stamp(round) << STAMP_AT | digest << SIGNATURE_BITS ^ signature
    }

    /// A member whose word differs from this one's, which has `signature`: one with another
    /// signature if there is one.
    #[inline]
    pub(crate) fn mismatch(&self, round: u64, signature: u64) -> Option<u32> {
        let mine = self.word(round, signature);
        let differs = self.all(round).any(|word| word != mine);
        if differs { self.find_mismatch(round, mine) } else { None }
    }

    /// A member whose word differs from `mine`, as [`Signatures::mismatch`] does.
    #[cold]
    pub(crate) fn find_mismatch(&self, round: u64, mine: u64) -> Option<u32> {
        let other_call = self.all(round).position(|word| signature_in(word) != signature_in(mine));
        let other_word = || self.all(round).position(|word| word != mine);
        other_call.or_else(other_word).map(|member| member as u32)
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
        word >> STAMP_AT
    }
}
