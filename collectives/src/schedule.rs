//! The schedule: what one rank does in one collective, as data.
//!
//! A schedule is a list of rounds. A round has *messages*, which may all be
//! under way at once, and *local* steps, which run in order when every message
//! of the round has completed. The next round starts after them. There are no
//! pointers inside, so a schedule can be kept, shared, printed and simulated.
//!
//! Invariants that every algorithm keeps (the tests check them by running all
//! ranks in one process):
//! - the sends from rank a to rank b meet the receives of b from a in the order
//!   in which both stand, with equal bytes;
//! - no message of a round writes bytes that another one of the round touches;
//! - nothing deadlocks when every send waits for its receive and only
//!   [`Schedule::window`] messages of a round are under way;
//! - messages without bytes are left out at both ends, but for signals.
//!
//! Where the ranks share an arena (see [`fabric::coll_segment`]), a round may have a [`SegSync`] in place of
//! messages, and spans may lie in the seats.

use crate::shape::{Extent, Shape, Ty};

/// One of the three buffers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The user's send buffer; never written.
    Send,
    /// The user's receive buffer.
    Recv,
    /// Scratch memory of the call, [`Schedule::temp`] bytes.
    Temp,
    /// The seats of the meeting in the arena.
    CollSegment,
}

/// A place in one of the call's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// In which buffer.
    pub space: Space,
    /// Of which type.
    pub ty: Ty,
    /// Bytes from the buffer's address to the first element.
    pub disp: i64,
    /// How many elements.
    pub count: u64,
}

/// Equal places at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The first.
    pub first: Span,
    /// How many there are.
    pub many: u32,
    /// Bytes from one to the next.
    pub distance: i64,
}

/// Another rank: of the own group, or of the remote one of an intercommunicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member(u32);

impl Member {
    const REMOTE: u32 = 1 << 31;

    /// Rank `rank` of the own group.
    #[inline]
    pub const fn local(rank: u32) -> Member {
        Member(rank)
    }

    /// Rank `rank` of the remote group.
    #[inline]
    pub const fn remote(rank: u32) -> Member {
        Member(rank | Member::REMOTE)
    }

    /// Its rank in its group.
    #[inline]
    pub const fn rank(self) -> u32 {
        self.0 & !Member::REMOTE
    }

    /// True for the remote group.
    #[inline]
    pub const fn is_remote(self) -> bool {
        self.0 & Member::REMOTE != 0
    }

    /// As it stands in an envelope's source: the two groups of an
    /// intercommunicator share a context but not these numbers.
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

/// Which way a message goes.
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
    /// Who is at the other end.
    pub with: Member,
    /// Which way it goes.
    pub direction: Direction,
    /// What is sent, or where it is put.
    pub span: Span,
}

/// One local step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Copies data from one layout into another.
    Copy {
        /// Read.
        from: Span,
        /// Written.
        to: Span,
    },
    /// `inout[i] = left[i] op inout[i]` with the call's operation, for each left operand from the last to the first.
    Reduce {
        /// The left operands, read.
        left: Strided,
        /// The right operand, and the result. Says count and type for all.
        inout: Span,
    },
}

/// How a round stands to the meeting in the arena. A schedule has one or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegSync {
    /// Not at all.
    #[default]
    None,
    /// Its steps run when the seats are free.
    Acquire,
    /// Its steps run when the seats are free and this rank has arrived.
    WaitFor(u32),
    /// This rank arrives, whom others hear. No steps.
    SignalEarly,
    /// This rank arrives. Its steps are run by who arrives last.
    Arrive,
    /// Its steps run when the meeting was closed.
    WaitAll,
}

/// Where a round ends in the lists of the schedule; it starts where the one
/// before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// One past its last message.
    pub messages: u32,
    /// One past its last local step.
    pub locals: u32,
    /// What its local steps wait for beside the messages.
    pub sync: SegSync,
}

/// What one rank does in one collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    messages: Vec<Message>,
    locals: Vec<Local>,
    rounds: Vec<Round>,
    temp: u64,
    window: u32,
    slot_bytes: u64,
}

impl Schedule {
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

    /// Where each round ends.
    #[inline]
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Bytes of scratch memory, aligned to [`Schedule::ALIGN`].
    #[inline]
    pub fn temp(&self) -> u64 {
        self.temp
    }

    /// How many messages of a round may be under way at once, at least one:
    /// the executor posts the next ones as the first ones complete.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// True when it needs an arena.
    pub fn uses_segment(&self) -> bool {
        self.rounds.iter().any(|round| round.sync != SegSync::None)
    }

    /// Bytes that each rank has in its seat; 0 where there are none, and without an arena.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Alignment of scratch memory in bytes.
    pub const ALIGN: u64 = 64;
}

/// Writes a schedule, one round after the other.
///
/// A message that is added after a local step opens the next round by itself;
/// a message that must wait for other messages needs [`Builder::round`].
#[derive(Debug, Default)]
pub struct Builder {
    messages: Vec<Message>,
    locals: Vec<Local>,
    rounds: Vec<Round>,
    temp: u64,
    window: Option<u32>,
    keep_empty: bool,
    /// Of the round that is being written.
    sync: SegSync,
    slot_bytes: u64,
}

impl Builder {
    /// An empty schedule.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Runs without bytes become empty messages from now on, instead of none.
    pub fn keep_empty(&mut self, keep: bool) {
        self.keep_empty = keep;
    }

    /// Sends a run; nothing if it has no bytes, unless these are kept.
    pub fn send(&mut self, to: impl Into<Member>, run: Extent) {
        if run.bytes() == 0 && self.keep_empty {
            self.signal(to);
        } else if run.bytes() > 0 {
            self.message(Message { with: to.into(), direction: Direction::Send, span: run.span() });
        }
    }

    /// Receives a run; nothing if it has no bytes, unless these are kept.
    pub fn recv(&mut self, from: impl Into<Member>, run: Extent) {
        if run.bytes() == 0 && self.keep_empty {
            self.await_signal(from);
        } else if run.bytes() > 0 {
            self.message(Message {
                with: from.into(),
                direction: Direction::Recv,
                span: run.span(),
            });
        }
    }

    /// Sends an empty message.
    pub fn signal(&mut self, to: impl Into<Member>) {
        self.message(Message { with: to.into(), direction: Direction::Send, span: Span::NOTHING });
    }

    /// Receives an empty message.
    pub fn await_signal(&mut self, from: impl Into<Member>) {
        self.message(Message {
            with: from.into(),
            direction: Direction::Recv,
            span: Span::NOTHING,
        });
    }

    /// Copies a run, as bytes where that is the same; nothing if it has no bytes or lies there already.
    pub fn copy(&mut self, from: Extent, to: Extent) {
        debug_assert!(from.bytes() <= to.bytes(), "a copy has room");
        let as_bytes = from.as_bytes().zip(to.as_bytes());
        let (from, to) = as_bytes.unwrap_or((from, to));
        if from.bytes() > 0 && from.span() != to.span() {
            self.locals.push(Local::Copy { from: from.span(), to: to.span() });
        }
    }

    /// `inout[i] = left[i] op inout[i]`; nothing without bytes.
    pub fn reduce(&mut self, left: Extent, inout: Extent) {
        self.reduce_strided(left, 1, 0, inout);
    }

    /// The same with `many` left operands, of which `left` is the first and each lies `distance` bytes behind the one
    /// before, from the last to the first.
    pub fn reduce_strided(&mut self, left: Extent, many: u32, distance: i64, inout: Extent) {
        debug_assert_eq!(left.count, inout.count, "both operands have as many elements");
        if inout.bytes() > 0 && many > 0 {
            let left = Strided { first: left.span(), many, distance };
            self.locals.push(Local::Reduce { left, inout: inout.span() });
        }
    }

    /// What comes next waits for what came before.
    pub fn round(&mut self) {
        let (messages, locals) = (self.messages.len() as u32, self.locals.len() as u32);
        let start = self.rounds.last().map_or((0, 0), |round| (round.messages, round.locals));
        let sync = std::mem::replace(&mut self.sync, SegSync::None);
        if (messages, locals) != start || sync != SegSync::None {
            self.rounds.push(Round { messages, locals, sync });
        }
    }

    /// Each rank has so many bytes in its seat.
    pub fn reserve_slot(&mut self, bytes: u64) {
        self.slot_bytes = bytes;
    }

    /// Opens a round of local steps that stands so to the meeting.
    pub fn sync(&mut self, sync: SegSync) {
        self.round();
        self.sync = sync;
    }

    /// Scratch memory for packed bytes.
    pub fn packed(&mut self, bytes: u64) -> Extent {
        let disp = self.reserve(0, bytes as i64);
        Extent { disp, ..Extent::new(Space::Temp, Ty::BYTES, bytes, Shape::BYTE) }
    }

    /// Scratch memory laid out like `count` elements of `run`'s type.
    pub fn like(&mut self, run: Extent, count: u64) -> Extent {
        let (low, high) = run.shape.reach(count);
        let disp = self.reserve(low, high);
        Extent { space: Space::Temp, disp, count, ..run }
    }

    /// Bounds the messages of a round that may be under way at once.
    pub fn limit(&mut self, window: u32) {
        self.window = Some(window.max(1));
    }

    /// The schedule.
    pub fn finish(mut self) -> Schedule {
        self.round();
        Schedule {
            messages: self.messages,
            locals: self.locals,
            rounds: self.rounds,
            temp: self.temp,
            window: self.window.unwrap_or(u32::MAX),
            slot_bytes: self.slot_bytes,
        }
    }

    fn message(&mut self, message: Message) {
        let closed = self.rounds.last().map_or(0, |round| round.locals as usize);
        if self.locals.len() > closed {
            self.round();
        }
        self.messages.push(message);
    }

    /// Reserves `low .. high` around an aligned address, which is returned.
    fn reserve(&mut self, low: i64, high: i64) -> i64 {
        let up = |n: u64| n.next_multiple_of(Schedule::ALIGN);
        let disp = self.temp + up(low.min(0).unsigned_abs());
        self.temp = up(disp + high.max(0) as u64);
        disp as i64
    }
}

impl Span {
    /// No bytes, nowhere.
    pub const NOTHING: Span = Span { space: Space::Temp, ty: Ty::BYTES, disp: 0, count: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_after_a_local_step_opens_a_round() {
        let run = Extent::new(Space::Send, Ty::of(0), 2, Shape::gapless(4));
        let mut b = Builder::new();
        let temp = b.like(run, 2);
        b.recv(1, temp);
        b.send(1, run);
        b.reduce(run, temp);
        b.send(2, temp);
        b.round();
        b.round();
        let schedule = b.finish();
        let round = |messages, locals| Round { messages, locals, sync: SegSync::None };
        assert_eq!(schedule.rounds(), [round(2, 1), round(3, 1)]);
        assert_eq!(schedule.temp(), 64);
    }

    #[test]
    fn scratch_leaves_room_below_the_address() {
        let shape = Shape { size: 4, extent: -8, true_lb: -100, true_ub: -96, gapless: false };
        let mut b = Builder::new();
        let run = b.like(Extent::new(Space::Send, Ty::of(0), 3, shape), 3);
        let (low, high) = shape.reach(3);
        assert!(run.disp + low >= 0 && (run.disp + high) as u64 <= b.finish().temp());
    }

    #[test]
    fn remote_members_differ_on_the_wire() {
        assert_ne!(Member::local(3).wire(), Member::remote(3).wire());
        assert_eq!(Member::remote(3).rank(), 3);
        assert!(Member::remote(3).is_remote() && !Member::local(3).is_remote());
    }
}
