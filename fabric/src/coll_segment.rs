//! The seam of a place in memory that the members of a communicator share and
//! meet in, for collectives in which each has its turn once.
//!
//! A *meeting* is one collective. Each member has a seat, which it may write before it
//! arrives. Whoever arrives last may read all seats and write the result, and closes the meeting; then
//! everyone may read the result until it leaves. Who has heard a member arrive may read that member's
//! seat until it arrives itself. Meetings are numbered from 0, each member goes to all of them, and to
//! one after the other: it may enter several, but the next begins for it when it has left the one before.
//!
//! There are two kinds. Where members take turns on the processors, who arrives last does the work for all: each
//! needs one turn. Where each has a processor of its own an arena is *flat*: everyone arrives when it has written
//! its seat and reads the seats that it needs, nobody is the last, and a meeting is closed for a member
//! that finds that all have arrived.
//!
//! Where arenas are, and what makes sleepers look again, is the transport's; see `shm-transport/src/arena.rs`
//! and `shm-transport/src/flat.rs`.

use std::ops::RangeInclusive;

use crate::UserBuf;

/// Bytes of a seat that every arena has room for, and that no seat has more of; these are the result's.
pub const SLOT_BYTES: RangeInclusive<u64> = 1 << 10..=32 << 10;
/// Bytes of all seats of a meeting that every arena has room for.
pub const SLOTS_BYTES: u64 = 192 << 10;
/// Seats begin at multiples of this, so that no two share a line.
pub const SLOT_ALIGN: u64 = 64;

/// Members of a flat arena at most.
pub const MAX_FLAGS_RANKS: u32 = 8;
/// From one seat of a flat arena to the next: no power of two, or the seats of all members would share
/// the same few places of each cache.
pub const FLAGS_STRIDE: u64 = (16 << 10) + 3 * 64;
/// Bytes in front of a flat seat that the arena has for itself, in the line in which the seat begins.
pub const FLAGS_HEADER: u64 = 16;
/// Bytes of a flat seat.
pub const FLAGS_SLOT_BYTES: u64 = FLAGS_STRIDE - FLAGS_HEADER;

/// An arena, as one member sees it. Members are ranks of the communicator.
pub trait CollSegment: std::fmt::Debug + Send + Sync {
    /// The number of this member's next meeting.
    fn next_round(&self) -> u64;

    /// True when this member has left all meetings before, and the seats are free.
    fn is_ready(&self, round: u64) -> bool;

    /// The place of a meeting's result, the most bytes of a seat, and behind it its seats, to be divided as the members
    /// agree: [`SLOTS_BYTES`], or the fewest of a seat for each member if these are more. In a flat arena its seats, [`FLAGS_STRIDE`] from one to the next, each behind its
    /// [`FLAGS_HEADER`].
    fn slots(&self, round: u64) -> UserBuf;

    /// This member's seat is written: it arrives and says `signature`, which is not 0. `is_awaited`: others
    /// look for that ([`CollSegment::signature_of`]). True for the last one, who closes the meeting; nobody is in a flat arena.
    fn arrive(&self, round: u64, signature: u64, is_awaited: bool) -> bool;

    /// What a member has said; `None` until it arrives.
    fn signature_of(&self, round: u64, member: u32) -> Option<u64>;

    /// Closes the meeting, and wakes everyone.
    fn complete(&self, round: u64);

    /// True when the meeting was closed.
    fn is_complete(&self, round: u64) -> bool;

    /// The first member that has said something else than `signature`, in a meeting that was
    /// closed and not left yet.
    fn mismatch(&self, round: u64, signature: u64) -> Option<u32>;

    /// This member is done with the meeting.
    fn leave(&self, round: u64);
}
