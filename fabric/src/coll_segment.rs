//! The collective segment: memory that the members of a communicator share, and the protocol by
//! which they use it.
//!
//! A *round* is one synchronisation of all members. Each member has a slot, which it may write
//! before it arrives. Rounds are numbered from 0. Each member goes through all of them in order,
//! and may begin the next one after it has left the previous one.
//!
//! There are two kinds of counting the members that have arrived. Where members share processors,
//! the last member to arrive reads all slots, writes the result and completes the round. Where each
//! member has a processor, no member is the last: each raises a flag and reads the slots that it
//! needs, and a round is complete for a member that has seen all flags.
//!
//! With flags, members that agree in a round may also write parts of each other's slots after they
//! have seen all flags, each part one member. The slot's member reads the part in the next round of
//! the same call, after it has seen all flags of that one.
//!
//! Members may also read each other's own memory, where the system lets all of them: a member
//! *publishes* an address before it arrives, the others *get* from there after it has arrived, and
//! a later round tells it that they have.
//!
//! The transport provides the memory and wakes sleepers: `shm-transport/src/coll_segment.rs`.

use std::ops::RangeInclusive;

use crate::UserBuf;

/// Bytes of an operand where members count in one word: least that every segment has a slot for,
/// most that is combined. The most is also the size of the result.
pub const SLOT_BYTES: RangeInclusive<u64> = 1 << 10..=32 << 10;
/// Bytes of all slots of a round that every such segment offers.
pub const SLOTS_BYTES: u64 = 512 << 10;
/// Bytes of all slots of a round that such a segment may have
/// ([`CollSegment::take_long_slots`]).
pub const LONG_SLOTS_BYTES: u64 = 4 << 20;

/// Returns the bytes of all slots of a round where members count in one word, by their number.
pub fn slots_bytes(members: u32) -> u64 {
    SLOTS_BYTES.max(u64::from(members) * SLOT_BYTES.start())
}

/// Returns the bytes of all slots of a round where members have long slots, by their number.
pub fn long_slots_bytes(members: u32) -> u64 {
    LONG_SLOTS_BYTES.max(slots_bytes(members))
}

/// Bytes from which on copies to slots are long ([`CollSegment::write`]).
pub const LONG_COPY: u64 = 3 << 10;

/// Alignment of slots in bytes: no two share a cache line.
pub const SLOT_ALIGN: u64 = 64;

/// The most members of a segment with flags.
pub const MAX_FLAGS_RANKS: u32 = 128;
/// The most members whose slots have the greater size.
pub const FEW_FLAGS_RANKS: u32 = 8;
/// Bytes in front of a slot that hold its flag, in the line in which the slot begins.
pub const FLAGS_HEADER: u64 = 16;

/// Returns the bytes from one slot with a flag to the next, by the number of members. No power of
/// two, or the slots of all members would compete for the same sets of each cache.
pub const fn flags_stride(members: u32) -> u64 {
    (if members <= FEW_FLAGS_RANKS { 16 << 10 } else { 4 << 10 }) + 3 * 64
}

/// Returns the bytes of a slot with a flag, by the number of members.
pub const fn flags_slot_bytes(members: u32) -> u64 {
    flags_stride(members) - FLAGS_HEADER
}

/// Bits of a signature.
pub const SIGNATURE_BITS: u32 = 48;
/// Bits that a member may add above its signature: they are compared with it, but cannot be read.
pub const DIGEST_BITS: u32 = 8;

/// The members that an arrival wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// None of them.
    None,
    /// All that sleep.
    All,
    /// This one, if all others have arrived now. With flags, where that is not known: all.
    Last(u32),
}

/// A collective segment as one member sees it. Members are named by their rank in the communicator.
pub trait CollSegment: std::fmt::Debug + Send + Sync {
    /// Begins this member's next round; its number.
    fn next_round(&self) -> u64;

    /// Rounds that this member has begun.
    fn begun(&self) -> u64;

    /// True when this member has left all rounds before and its slot may be written.
    fn is_ready(&self, round: u64) -> bool;

    /// Returns the memory of a round.
    ///
    /// Where members count in one word: a result of `*SLOT_BYTES.end()` bytes, then
    /// [`long_slots_bytes`] of slots, which the members divide as they agree; beyond
    /// [`slots_bytes`] they may be accessed if the segment has long ones. With flags: for each
    /// member [`FLAGS_HEADER`] bytes and its slot, [`flags_stride`] bytes from one to the next.
    fn slots(&self, round: u64) -> UserBuf;

    /// Takes memory for long slots, unless a member has. Returns whether the segment has them, from
    /// now on: the same for all members. With flags there are none.
    fn take_long_slots(&self) -> bool;

    /// Copies data, at least [`LONG_COPY`] bytes of it, into slots of a round, in the way that is
    /// the fastest with the caches of the other members.
    fn write(&self, round: u64, to: UserBuf, from: UserBuf);

    /// Arrives: this member's slot is written. `signature` is what the member called, at most
    /// [`SIGNATURE_BITS`], and above it a digest of at most [`DIGEST_BITS`] of what it called
    /// without the segment before; `wakes` are members that wait for this one
    /// ([`CollSegment::agrees`]).
    /// Returns true for the last member to arrive, which must complete the round; never with flags.
    fn arrive(&self, round: u64, signature: u64, wakes: Wakes) -> bool;

    /// Returns whether a member has this signature and digest, and had this member's signature
    /// in the round before;
    /// `None` until it arrives. After that the member's slot may be read, with one word until this
    /// member arrives itself.
    fn agrees(&self, round: u64, member: u32, signature: u64) -> Option<bool>;

    /// Returns a member's signature, without a digest; `None` until it arrives, and when it has
    /// gone on.
    fn signature_of(&self, round: u64, member: u32) -> Option<u64>;

    /// Returns this member's own signature, `back` rounds before the one that it began last; `None`
    /// when it is no longer known.
    fn own_signature(&self, back: u64) -> Option<u64>;

    /// Records that this member has reported what it found in this round: it does not look at this
    /// round again when it is in the next one.
    fn mark_reported(&self, round: u64);

    /// Returns true if this member has reported what it found in this round.
    fn is_reported(&self, round: u64) -> bool;

    /// Completes the round and wakes all members. Called by the last member to arrive.
    fn complete(&self, round: u64);

    /// True when the round is complete: the result may be read until this member leaves.
    fn is_complete(&self, round: u64) -> bool;

    /// Returns a member whose signature differs, otherwise one whose digest or signature of the
    /// round before differed; in a complete round that this member has not left.
    fn mismatch(&self, round: u64, signature: u64) -> Option<u32>;

    /// Leaves a round: this member no longer reads it.
    fn leave(&self, round: u64);

    /// Stores a word of this member for a round, before it arrives there: an address, or what the
    /// members agree on.
    fn publish(&self, round: u64, word: u64);

    /// Returns the word of a member that has arrived in a round, and has published one.
    fn published(&self, round: u64, member: u32) -> u64;

    /// Returns whether members may read each other's memory: the settings allow it, and no get was
    /// refused ([`CollSegment::refuse_gets`]). The same for all members between two rounds.
    fn has_get(&self) -> bool;

    /// Reads so many bytes from an address of a member, which does not use them. Returns false if
    /// the system refuses it.
    fn get(&self, member: u32, address: u64, into: UserBuf) -> bool;

    /// Records that a get of some member was refused. All members do so after the same round.
    fn refuse_gets(&self);
}
