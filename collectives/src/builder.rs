//! The builder, with which algorithms write schedules, one round after the other.
//!
//! A message that is added after a local step opens the next round by itself; a message that must
//! wait for other messages needs [`Builder::round`].

use std::sync::Arc;

use fabric::coll_segment::slots_bytes;

use crate::schedule::{Awaited, Direction, Local, Member, Message, Round, Schedule, SegSync};
use crate::shape::{Extent, Shape, Space, Span, Strided, Ty, joined};

/// Writes a schedule.
#[derive(Debug, Default)]
pub struct Builder {
    /// The strand that is being written.
    strand: Strand,
    /// The other one.
    other: Strand,
    temp: u64,
    window: Option<u32>,
    /// See [`Builder::announce_above`].
    announce_above: Option<u64>,
    announces: bool,
    keep_empty: bool,
    slot_bytes: u64,
    needs_long_slots: bool,
    /// The rank of each number that messages are written with; `None`: the number itself.
    among: Option<Arc<[u32]>>,
}

/// Rounds that follow each other.
#[derive(Debug, Default)]
struct Strand {
    messages: Vec<Message>,
    locals: Vec<Local>,
    rounds: Vec<Round>,
    /// Of the round that is being written; see [`Round::early`].
    early: u32,
    /// Of the round that is being written.
    sync: SegSync,
    /// Bytes that this rank sends and receives in the round that is being written.
    exchanged: [u64; 2],
    /// Of the next round: it waits for so many of the other strand.
    after: u32,
}

/// What the strand beside the main one has done at some point; see [`Builder::beside`].
#[derive(Clone, Copy, Debug)]
pub struct Mark(u32);

impl Builder {
    /// An empty schedule.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Makes empty messages of extents without bytes from now on, instead of none.
    pub fn keep_empty(&mut self, keep: bool) {
        self.keep_empty = keep;
    }

    /// Lets `write` write a stage among some of the ranks, whose numbers there are their indices in
    /// `ranks`. The stage is rounds of its own. Within a stage, `ranks` are numbers of that stage.
    pub fn among(&mut self, ranks: &Arc<[u32]>, write: impl FnOnce(&mut Builder)) {
        self.round();
        let inner = match &self.among {
            Some(outer) => ranks.iter().map(|&rank| outer[rank as usize]).collect(),
            None => ranks.clone(),
        };
        let outer = self.among.replace(inner);
        write(self);
        self.round();
        self.among = outer;
    }

    /// Lets `write` write rounds of the strand beside the main one. They begin after all that has
    /// been written to the main strand, and run at the same time as what is written to it next.
    pub fn beside(&mut self, write: impl FnOnce(&mut Builder)) -> Mark {
        self.round();
        self.other.after = self.strand.rounds.len() as u32;
        std::mem::swap(&mut self.strand, &mut self.other);
        write(self);
        self.round();
        std::mem::swap(&mut self.strand, &mut self.other);
        Mark(self.other.rounds.len() as u32)
    }

    /// What comes next in the main strand waits for what the strand beside it had at a mark.
    pub fn wait_for(&mut self, mark: Mark) {
        self.round();
        self.strand.after = mark.0;
    }

    /// Begins a stage in the collective segment: its next round, if the schedule has had one.
    pub fn segment_stage(&mut self) {
        self.round();
        if self.strand.rounds.iter().any(|round| round.sync != SegSync::None) {
            self.sync(SegSync::Next);
        }
    }

    /// Sends an extent; nothing if it has no bytes, unless empty messages are kept.
    pub fn send(&mut self, to: impl Into<Member>, data: Extent) {
        if data.bytes() == 0 && self.keep_empty {
            self.signal(to);
        } else if data.bytes() > 0 {
            self.message(to, Direction::Send, data.span());
            self.strand.exchanged[0] += data.bytes();
        }
    }

    /// Receives an extent; nothing if it has no bytes, unless empty messages are kept.
    pub fn recv(&mut self, from: impl Into<Member>, data: Extent) {
        if data.bytes() == 0 && self.keep_empty {
            self.await_signal(from);
        } else if data.bytes() > 0 {
            self.message(from, Direction::Recv, data.span());
            self.strand.exchanged[1] += data.bytes();
        }
    }

    /// Sends an empty message.
    pub fn signal(&mut self, to: impl Into<Member>) {
        self.message(to, Direction::Send, Span::NOTHING);
    }

    /// Receives an empty message.
    pub fn await_signal(&mut self, from: impl Into<Member>) {
        self.message(from, Direction::Recv, Span::NOTHING);
    }

    /// Copies an extent, as bytes where that is the same; nothing if it has no bytes or is there
    /// already.
    pub fn copy(&mut self, from: Extent, to: Extent) {
        debug_assert!(from.bytes() <= to.bytes(), "a copy must fit");
        let as_bytes = from.as_bytes().zip(to.as_bytes());
        let (from, to) = as_bytes.unwrap_or((from, to));
        if from.bytes() > 0 && from.span() != to.span() {
            self.strand.locals.push(Local::Copy { from: from.span(), to: to.span() });
        }
    }

    /// Copies as [`Builder::copy`] does, while the messages of the round are under way: they must
    /// neither bring what is copied nor move what is overwritten. Comes before other local steps.
    pub fn copy_meanwhile(&mut self, from: Extent, to: Extent) {
        let begun =
            self.strand.rounds.last().map_or(0, |round| round.locals).max(self.strand.early);
        debug_assert_eq!(begun, self.strand.locals.len() as u32, "early steps come first");
        self.copy(from, to);
        self.strand.early = self.strand.locals.len() as u32;
    }

    /// Reduces: `inout[i] = left[i] op inout[i]`; nothing without bytes.
    pub fn reduce(&mut self, left: Extent, inout: Extent) {
        self.reduce_strided(left, 1, 0, inout);
    }

    /// Reduces `many` left operands into `inout`, from the last to the first. `left` is the first;
    /// each begins `distance` bytes after the one before.
    pub fn reduce_strided(&mut self, left: Extent, many: u32, distance: i64, inout: Extent) {
        self.reduce_into(left, many, distance, inout, inout);
    }

    /// Reduces `many` left operands and `right` into `out`, which is `right` or overlaps no
    /// operand: `out[i] = left[i] op right[i]` with the last left operand, then
    /// `out[i] = left[i] op out[i]` with those before. Nothing without left operands.
    pub fn reduce_into(
        &mut self,
        left: Extent,
        many: u32,
        distance: i64,
        right: Extent,
        out: Extent,
    ) {
        debug_assert!(left.count == out.count && right.count == out.count, "equal counts");
        debug_assert!(many > 0 || right.span() == out.span(), "nothing would be written");
        if out.bytes() > 0 && many > 0 {
            let left = Strided { first: left.span(), many, distance };
            self.strand.locals.push(Local::Reduce { left, right: right.span(), out: out.span() });
        }
    }

    /// Publishes the address of packed bytes to the members of the segment.
    pub fn publish(&mut self, memory: Extent) {
        self.strand.locals.push(Local::Publish(memory.span()));
    }

    /// Reads packed bytes of a member, from `at` bytes after the address that it has published on;
    /// nothing without bytes.
    pub fn get(&mut self, member: u32, at: u64, to: Extent) {
        if to.bytes() > 0 {
            self.strand.locals.push(Local::Get { member, at, to: to.span() });
        }
    }

    /// Publishes whether all gets of this rank were done.
    pub fn confirm(&mut self) {
        self.strand.locals.push(Local::Confirm);
    }

    /// Ends the call if all gets of these members were done.
    pub fn check(&mut self, members: Awaited) {
        self.strand.locals.push(Local::Check(members));
    }

    /// Ends the round: what comes next waits for what came before.
    pub fn round(&mut self) {
        let (messages, locals) =
            (self.strand.messages.len() as u32, self.strand.locals.len() as u32);
        let start =
            self.strand.rounds.last().map_or((0, 0), |round| (round.messages, round.locals));
        let sync = std::mem::take(&mut self.strand.sync);
        let exchanged = std::mem::take(&mut self.strand.exchanged);
        let is_large = |limit| exchanged.iter().all(|&bytes| bytes > limit);
        self.announces |= self.announce_above.is_some_and(is_large);
        debug_assert!(
            sync == SegSync::None || messages == start.0,
            "a round has messages or synchronises with the segment"
        );
        if (messages, locals) != start || sync != SegSync::None {
            let (early, after) = (self.strand.early, std::mem::take(&mut self.strand.after));
            self.strand.rounds.push(Round { messages, early, locals, sync, after });
        }
    }

    /// Reserves so many bytes in the slot of each rank; the most of all stages.
    pub fn reserve_slot(&mut self, bytes: u64) {
        self.slot_bytes = self.slot_bytes.max(bytes);
    }

    /// Reserves so many bytes of the slots of `members` members that count in one word; the most of
    /// all stages.
    pub fn reserve_slots(&mut self, bytes: u64, members: u32) {
        self.needs_long_slots |= bytes > slots_bytes(members);
    }

    /// Opens a round of local steps that synchronises with the segment.
    pub fn sync(&mut self, sync: SegSync) {
        self.round();
        self.strand.sync = sync;
    }

    /// Scratch memory for packed bytes.
    pub fn packed(&mut self, bytes: u64) -> Extent {
        let disp = self.reserve_scratch(0, bytes as i64);
        Extent { disp, ..Extent::new(Space::Temp, Ty::BYTES, bytes, Shape::BYTE) }
    }

    /// The bytes of an extent: where it lies, or scratch memory for them if it has gaps. The caller
    /// copies in or out, which is nothing where they are the same.
    pub fn bytes_of(&mut self, data: Extent) -> Extent {
        data.as_bytes().unwrap_or_else(|| self.packed(data.bytes()))
    }

    /// Blocks as one run of bytes: as they lie, or copied into scratch memory.
    pub fn as_run(&mut self, blocks: &[Extent]) -> Extent {
        joined(blocks).unwrap_or_else(|| {
            let run = self.packed(blocks.iter().map(Extent::bytes).sum());
            let mut at = 0;
            for block in blocks {
                self.copy(*block, run.part(at, block.bytes()));
                at += block.bytes();
            }
            run
        })
    }

    /// Scratch memory laid out like `count` elements of an extent's type.
    pub fn like(&mut self, extent: Extent, count: u64) -> Extent {
        let (low, high) = extent.shape.reach(count);
        let disp = self.reserve_scratch(low, high);
        Extent { space: Space::Temp, disp, count, ..extent }
    }

    /// Bounds the messages of a round that may be under way at once.
    pub fn limit(&mut self, window: u32) {
        self.window = Some(window.max(1));
    }

    /// Has this rank announce its long messages if it sends and receives more than so many bytes in
    /// a round.
    pub fn announce_above(&mut self, bytes: Option<u64>) {
        self.announce_above = bytes;
    }

    /// The schedule.
    pub fn finish(mut self) -> Schedule {
        self.round();
        let Strand { mut messages, mut locals, mut rounds, .. } = self.strand;
        let syncs = || rounds.iter().map(|round| round.sync);
        let uses_segment = syncs().any(|sync| sync != SegSync::None);
        let next = syncs().filter(|sync| *sync == SegSync::Next).count() as u32;
        let segment_rounds = if uses_segment { next + 1 } else { 0 };
        let main_rounds = rounds.len();
        // The lists of the strand beside it go to the end of those of the main one.
        let waiting = rounds.iter_mut().filter(|round| round.after > 0);
        waiting.for_each(|round| round.after += main_rounds as u32);
        let (first_message, first_local) = (messages.len() as u32, locals.len() as u32);
        rounds.extend(self.other.rounds.iter().map(|round| Round {
            messages: first_message + round.messages,
            early: first_local + round.early,
            locals: first_local + round.locals,
            ..*round
        }));
        messages.append(&mut self.other.messages);
        locals.append(&mut self.other.locals);
        let has_gets = locals.iter().any(|local| matches!(local, Local::Check(_)));
        Schedule {
            has_gets,
            segment_rounds,
            main_rounds,
            messages,
            locals,
            rounds,
            temp: self.temp,
            window: self.window.unwrap_or(u32::MAX),
            slot_bytes: self.slot_bytes,
            needs_long_slots: self.needs_long_slots,
            announces: self.announces,
        }
    }

    fn message(&mut self, with: impl Into<Member>, direction: Direction, span: Span) {
        let closed = self.strand.rounds.last().map_or(0, |round| round.locals as usize);
        if self.strand.locals.len() > closed || self.strand.sync != SegSync::None {
            self.round();
        }
        let mut with = with.into();
        if let Some(ranks) = self.among.as_ref().filter(|_| !with.is_remote()) {
            with = Member::local(ranks[with.rank() as usize]);
        }
        self.strand.messages.push(Message { with, direction, span });
    }

    /// Reserves `low .. high` relative to an aligned address, which is returned; where the type
    /// begins far behind its address, or before it, the address itself is outside.
    fn reserve_scratch(&mut self, low: i64, high: i64) -> i64 {
        let align = Schedule::ALIGN as i64;
        let disp = self.temp as i64 - low.div_euclid(align) * align;
        self.temp = ((disp + high) as u64).next_multiple_of(Schedule::ALIGN);
        disp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_after_a_local_step_opens_a_round() {
        let data = Extent::new(Space::Send, Ty::of(0), 2, Shape::gapless(4));
        let mut b = Builder::new();
        let temp = b.like(data, 2);
        b.recv(1, temp);
        b.send(1, data);
        b.reduce(data, temp);
        b.send(2, temp);
        b.round();
        b.round();
        let schedule = b.finish();
        let round = |messages, locals| Round { messages, locals, ..Round::default() };
        assert_eq!(schedule.rounds(), [round(2, 1), round(3, 1)]);
        assert_eq!((schedule.temp(), schedule.segment_rounds()), (64, 0));
    }

    #[test]
    fn rounds_of_the_segment_are_counted_and_have_no_messages() {
        let mut b = Builder::new();
        b.sync(SegSync::Acquire);
        b.sync(SegSync::Arrive);
        b.sync(SegSync::WaitAll);
        b.signal(1);
        b.sync(SegSync::Next);
        b.sync(SegSync::WaitFor(0.into()));
        b.sync(SegSync::Arrive);
        let schedule = b.finish();
        assert_eq!(schedule.segment_rounds(), 2);
        let messages: Vec<u32> = schedule.rounds().iter().map(|round| round.messages).collect();
        assert_eq!(messages, [0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn the_strand_beside_comes_after_what_was_there_and_is_waited_for() {
        let data = Extent::new(Space::Recv, Ty::of(0), 2, Shape::gapless(4));
        let mut b = Builder::new();
        b.sync(SegSync::Acquire);
        let mark = b.beside(|b| {
            b.recv(1, data);
            b.round();
            b.send(2, data);
        });
        b.sync(SegSync::SignalEarly);
        b.beside(|b| b.send(3, data));
        b.wait_for(mark);
        b.sync(SegSync::WaitAll);
        let schedule = b.finish();
        assert!(schedule.main_rounds() == 3 && schedule.has_two_strands());
        // A round of the main strand waits for the first two of the other one, rounds 3 and 4.
        let after: Vec<u32> = schedule.rounds().iter().map(|round| round.after).collect();
        assert_eq!(after, [0, 0, 5, 1, 0, 2]);
        let messages: Vec<u32> = schedule.rounds().iter().map(|round| round.messages).collect();
        assert_eq!(messages, [0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn scratch_is_as_large_as_the_data_wherever_the_address_is() {
        for (extent, true_lb) in [(-8, -100), (8, 0), (8, 12), (-8, 1 << 47), (8, -1 << 47)] {
            let shape = Shape { size: 4, extent, true_lb, true_ub: true_lb + 4, gapless: false };
            let mut b = Builder::new();
            b.packed(8);
            let data = b.like(Extent::new(Space::Send, Ty::of(0), 3, shape), 3);
            let (low, high) = shape.reach(3);
            let temp = b.finish().temp();
            assert!(data.disp + low >= 8 && (data.disp + high) as u64 <= temp);
            assert!(data.disp % Schedule::ALIGN as i64 == 0 && temp <= 256);
        }
    }
}
