//! The schedule: what one rank does in one collective, as data.
//!
//! A schedule is a list of rounds. A round has *messages*, which may all be under way at once. Its
//! *local* steps run in order after all messages of the round have completed. The next round starts
//! after them. A schedule holds no pointers; therefore it can be kept, shared, printed and
//! simulated.
//!
//! Where ranks share a collective segment (see [`fabric::coll_segment`]), a round may have a
//! [`SegSync`] in place of messages, and spans may lie in the slots. A schedule may go through
//! several rounds of the segment, with messages in between.
//!
//! The rounds may form two *strands*, which run at the same time: the main one, and one beside it.
//! A round may wait for rounds of the other strand ([`Round::after`]). Messages of one strand are
//! thus under way over several rounds of the other one.
//!
//! Invariants that every algorithm keeps; the tests check them by running all ranks in one process:
//! - the sends from rank a to rank b match the receives of b from a in order, with equal bytes;
//! - no message of a round writes bytes that another message of the round touches;
//! - nothing deadlocks if every send waits for its receive and only [`Schedule::window`] messages
//!   of a round are under way;
//! - messages without bytes are left out at both ends, except signals;
//! - the two strands exchange messages with different ranks, access different bytes unless one
//!   waits for the other, and only the main one uses the segment;
//! - all members of a segment go through equally many rounds of it, and arrive once in each.

use pt2pt::REMOTE_SOURCE;

use crate::shape::{Span, Strided};

/// Another rank: of the own group, or of the remote one of an intercommunicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member(u32);

impl Member {
    /// Rank `rank` of the own group.
    #[inline]
    pub const fn local(rank: u32) -> Member {
        Member(rank)
    }

    /// Rank `rank` of the remote group.
    #[inline]
    pub const fn remote(rank: u32) -> Member {
        Member(rank | REMOTE_SOURCE)
    }

    /// Its rank in its group.
    #[inline]
    pub const fn rank(self) -> u32 {
        self.0 & !REMOTE_SOURCE
    }

    /// True for the remote group.
    #[inline]
    pub const fn is_remote(self) -> bool {
        self.0 & REMOTE_SOURCE != 0
    }

    /// Its number as the source of an envelope: the two groups of an intercommunicator share a
    /// context but not these numbers.
    #[inline]
    pub const fn wire(self) -> u32 {
        self.0
    }

    /// The reverse of [`Member::wire`].
    #[inline]
    pub const fn from_wire(source: u32) -> Member {
        Member(source)
    }
}

/// A number alone is a rank of the own group.
impl From<u32> for Member {
    #[inline]
    fn from(rank: u32) -> Member {
        Member::local(rank)
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From here to the member.
    Send,
    /// From the member to here.
    Recv,
}

/// One message of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The other end.
    pub with: Member,
    /// Its direction.
    pub direction: Direction,
    /// The bytes to send, or the place to receive them.
    pub span: Span,
}

/// One local step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Local {
    /// Copies data from one layout into another.
    Copy {
        /// Read.
        from: Span,
        /// Written.
        to: Span,
    },
    /// `out[i] = left[i] op right[i]` with the call's operation and the last left operand, then
    /// `out[i] = left[i] op out[i]` for each left operand before it, from the last to the first.
    Reduce {
        /// The left operands, read.
        left: Strided,
        /// The right operand, read: the result itself, or memory that does not overlap it.
        right: Span,
        /// The result; gives count and type of all operands.
        out: Span,
    },
    /// Publishes the address of user memory or scratch to the members of the segment.
    Publish(Span),
    /// Reads what a member of the segment has published in this round.
    Get {
        /// The member.
        member: u32,
        /// Bytes from the published address to the first byte.
        at: u64,
        /// Written: packed bytes.
        to: Span,
    },
    /// Publishes whether all gets of this rank were done.
    Confirm,
    /// If a get of one of these members was refused, all begin the call anew, without gets. The
    /// last step of a schedule.
    Check(Awaited),
}

/// Members of a segment that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    first: u16,
    many: u16,
}

impl Awaited {
    /// The members from `first` on, so many of them. A host has fewer than 65536 ranks.
    pub fn range(first: u32, many: u32) -> Awaited {
        debug_assert!(first + many <= u16::MAX.into(), "too many members");
        Awaited { first: first as u16, many: many as u16 }
    }

    /// Their numbers, in order.
    #[inline]
    pub fn members(self) -> std::ops::Range<u32> {
        self.first.into()..u32::from(self.first) + u32::from(self.many)
    }
}

impl From<u32> for Awaited {
    fn from(member: u32) -> Awaited {
        Awaited::range(member, 1)
    }
}

/// How a round of the schedule synchronises with the members of the collective segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SegSync {
    /// Not at all.
    #[default]
    None,
    /// Its steps run when this rank's slot may be written.
    Acquire,
    /// Its steps run when this rank's slot may be written and these members of the segment have
    /// arrived.
    WaitFor(Awaited),
    /// Like `WaitFor`, but calls are compared by a later `WaitAll`: a rank that fails there leaves
    /// a round that is complete. No steps.
    WaitForArrival(Awaited),
    /// This rank arrives and wakes the members that wait for it. No steps.
    SignalEarly,
    /// This rank arrives. The steps are run by the last member to arrive.
    Arrive,
    /// This rank arrives before this member, which the last one of these wakes. No steps.
    ArriveBefore(u16),
    /// Its steps run when the segment's round is complete.
    WaitAll,
    /// This rank leaves the segment's round; later steps belong to the next one. No steps.
    Next,
}

impl SegSync {
    /// Returns whether this rank arrives.
    #[inline]
    pub fn arrives(self) -> bool {
        matches!(self, SegSync::Arrive | SegSync::ArriveBefore(_) | SegSync::SignalEarly)
    }
}

/// Where a round ends in the lists of the schedule; it starts where the one before it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Round {
    /// One past its last message.
    pub messages: u32,
    /// One past the last local step that runs while its messages are under way; no more than
    /// `locals`, and less than the first local step of the round where there is none.
    pub early: u32,
    /// One past its last local step.
    pub locals: u32,
    /// The event that its local steps wait for in place of messages.
    pub sync: SegSync,
    /// It begins after the rounds of the other strand that are before this one in the schedule's
    /// list; 0 where it waits for none.
    pub after: u32,
}

impl Round {
    /// The numbers of the first message and the first local step of a round, or, of the number of
    /// rounds, one past the last ones.
    pub fn start(rounds: &[Round], round: usize) -> (u32, u32) {
        let before = round.checked_sub(1).map(|before| rounds[before]);
        before.map_or((0, 0), |before| (before.messages, before.locals))
    }
}

/// The steps of one rank in one collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) messages: Vec<Message>,
    pub(crate) locals: Vec<Local>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) temp: u64,
    pub(crate) window: u32,
    pub(crate) slot_bytes: u64,
    pub(crate) segment_rounds: u32,
    pub(crate) main_rounds: usize,
    pub(crate) has_gets: bool,
    pub(crate) needs_long_slots: bool,
    pub(crate) announces: bool,
}

impl Schedule {
    /// Alignment of scratch memory in bytes.
    pub const ALIGN: u64 = 64;

    /// Local steps of a strand after which the other one may go on.
    pub const LOCALS_AT_ONCE: u32 = 2;

    /// All messages, round after round.
    #[inline]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// All local steps, round after round.
    #[inline]
    pub fn locals(&self) -> &[Local] {
        &self.locals
    }

    /// Where each round ends: those of the main strand, then those of the strand beside it.
    #[inline]
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// How many rounds are of the main strand: all, where there is no other.
    #[inline]
    pub fn main_rounds(&self) -> usize {
        self.main_rounds
    }

    /// True where there is a strand beside the main one.
    #[inline]
    pub fn has_two_strands(&self) -> bool {
        self.main_rounds < self.rounds.len()
    }

    /// The numbers of the first message and the first local step of a round.
    pub fn start_of(&self, round: usize) -> (usize, usize) {
        let (message, local) = Round::start(&self.rounds, round);
        (message as usize, local as usize)
    }

    /// Bytes of scratch memory, aligned to [`Schedule::ALIGN`].
    #[inline]
    pub fn temp(&self) -> u64 {
        self.temp
    }

    /// How many messages of a round may be under way at once, at least one. The executor posts the
    /// next ones as the first ones complete.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// True when this rank exchanges so much at once that it announces long messages.
    #[inline]
    pub fn announces(&self) -> bool {
        self.announces
    }

    /// Rounds of the collective segment that it goes through; 0 if it needs none.
    #[inline]
    pub fn segment_rounds(&self) -> u32 {
        self.segment_rounds
    }

    /// True when it needs a collective segment.
    pub fn uses_segment(&self) -> bool {
        self.segment_rounds > 0
    }

    /// True when ranks read each other's memory.
    #[inline]
    pub fn has_gets(&self) -> bool {
        self.has_gets
    }

    /// True when the segment must have long slots; the same on all ranks.
    pub fn needs_long_slots(&self) -> bool {
        self.needs_long_slots
    }

    /// Bytes that each rank has in its slot; 0 without a segment.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_members_differ_on_the_wire() {
        assert_ne!(Member::local(3).wire(), Member::remote(3).wire());
        assert_eq!(Member::remote(3).rank(), 3);
        assert!(Member::remote(3).is_remote() && !Member::local(3).is_remote());
    }
}
