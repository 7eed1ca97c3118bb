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
pub const SEAT_BYTES: RangeInclusive<u64> = 1 << 10..=32 << 10;
/// Bytes of all seats of a meeting that every arena has room for.
pub const SEATS_BYTES: u64 = 192 << 10;
/// Seats begin at multiples of this, so that no two share a line.
pub const SEAT_ALIGN: u64 = 64;

/// Members of a flat arena at most.
pub const FEW: u32 = 8;
/// From one seat of a flat arena to the next: no power of two, or the seats of all members would share
/// the same few places of each cache.
pub const FLAT_STRIDE: u64 = (16 << 10) + 3 * 64;
/// Bytes in front of a flat seat that the arena has for itself, in the line in which the seat begins.
pub const FLAT_HEAD: u64 = 16;
/// Bytes of a flat seat.
pub const FLAT_BYTES: u64 = FLAT_STRIDE - FLAT_HEAD;

/// An arena, as one member sees it. Members are ranks of the communicator.
pub trait CollSegment: std::fmt::Debug + Send + Sync {
    /// The number of this member's next meeting.
    fn enter(&self) -> u64;

    /// True when this member has left all meetings before, and the seats are free.
    fn has_begun(&self, meeting: u64) -> bool;

    /// The place of a meeting's result, the most bytes of a seat, and behind it its seats, to be divided as the members
    /// agree: [`SEATS_BYTES`], or the fewest of a seat for each member if these are more. In a flat arena its seats, [`FLAT_STRIDE`] from one to the next, each behind its
    /// [`FLAT_HEAD`].
    fn seats(&self, meeting: u64) -> UserBuf;

    /// This member's seat is written: it arrives and says `call`, which is not 0. `is_awaited`: others
    /// look for that ([`CollSegment::call_of`]). True for the last one, who closes the meeting; nobody is in a flat arena.
    fn arrive(&self, meeting: u64, call: u64, is_awaited: bool) -> bool;

    /// What a member has said; `None` until it arrives.
    fn call_of(&self, meeting: u64, member: u32) -> Option<u64>;

    /// Closes the meeting, and wakes everyone.
    fn close(&self, meeting: u64);

    /// True when the meeting was closed.
    fn is_closed(&self, meeting: u64) -> bool;

    /// The first member that has said something else than `call`, in a meeting that was
    /// closed and not left yet.
    fn dissenter(&self, meeting: u64, call: u64) -> Option<u32>;

    /// This member is done with the meeting.
    fn leave(&self, meeting: u64);
}
