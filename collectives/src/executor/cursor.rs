//! How far a collective has come in its schedule, and what runs without messages: local steps and
//! the synchronisation with the other members of a collective segment.

use fabric::UserBuf;
use fabric::coll_segment::{LONG_COPY, Wakes};
use objects::scratch::Scratch;
use objects::{Area, Buffer, Datatype, Op, Operands, RunOp};

use crate::latest_call;
use crate::plan::{Plan, Reduction};
use crate::schedule::{Local, SegSync};
use crate::shape::{Space, Span, Strided};
use crate::signature;

/// The least bytes of a piece of an early copy, and the most pieces.
const EARLY_PIECE: u64 = 64 << 10;
const EARLY_PIECES: u64 = 16;

/// The most bytes of slots that are prefetched at a time. More lines would often be taken from
/// their writer before it has written them all.
const PREFETCH_BYTES: u64 = 512;

/// How far a collective has come in its schedule.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The first round of the plan's segment, if it has one.
    pub(super) first_segment_round: u64,
    /// The current one.
    pub(super) segment_round: u64,
    /// One past the last one that has been begun.
    segment_end: u64,
    /// The current round of the schedule.
    pub(super) round: usize,
    /// The next local step to run, of all.
    pub(super) next_local: usize,
    /// Bytes of the next local step that are copied already, see [`Cursor::run_early`].
    pub(super) copied: u64,
    /// The call as members of the segment compare it.
    pub(super) signature: u64,
    /// A get was refused.
    is_refused: bool,
}

/// What local steps leave to the caller.
pub(super) enum Interrupt {
    /// A user's function with these operands.
    User(Strided, Span),
    /// A get of some member was refused: the call begins anew, without gets.
    Refused,
}

/// The result of synchronising a schedule's round.
pub(super) enum SyncResult {
    /// The members that it waits for have not arrived.
    Blocked,
    /// The local steps of the round are due.
    Run,
    /// The round is done; its local steps, if any, are another member's.
    Skip,
    /// This member of the segment has called something else.
    Mismatch(u32),
}

impl Cursor {
    /// At the beginning of a schedule, as the latest call of its communicator. Begins all rounds of
    /// the segment that the schedule needs; of a segment of all ranks the first one. There only a
    /// blocking call has more of them, and begins each when it comes to it. If it fails in one, no
    /// member has begun the next, however many it would have needed.
    #[inline]
    pub(super) fn first(plan: &Plan, sequence: i32) -> Cursor {
        let (mut segment_round, mut segment_end) = (0, 0);
        let mut signature = signature::numbered(plan.signature(), sequence);
        if let Some(segment) = plan.segment() {
            segment_round = segment.next_round();
            segment_end = segment_round + 1;
            if plan.has_host_segment() {
                for _ in 1..plan.schedule().segment_rounds() {
                    segment_end = segment.next_round() + 1;
                }
            }
        }
        let before = if plan.is_in_comm_segment() {
            latest_call::begin_in_segment(plan.latest(), signature)
        } else if sequence >= 0 && plan.is_compared_by_messages() {
            let digest = latest_call::digest_of(plan.call(), sequence);
            latest_call::begin_by_messages(plan.latest(), digest)
        } else {
            0
        };
        signature = signature::after(signature, before);
        let first_segment_round = segment_round;
        Cursor {
            first_segment_round,
            segment_round,
            segment_end,
            round: 0,
            next_local: 0,
            copied: 0,
            signature,
            is_refused: false,
        }
    }

    /// Leaves the segment.
    #[inline]
    pub(super) fn leave(&self, plan: &Plan) {
        if let Some(segment) = plan.segment() {
            segment.leave(self.segment_end - 1);
        }
    }

    /// True when a round of the schedule does not wait for other members of the segment.
    #[inline]
    pub(super) fn is_due(&self, plan: &Plan, sync: SegSync) -> bool {
        let Some(segment) = plan.segment() else { return sync == SegSync::None };
        match sync {
            SegSync::None | SegSync::Next => true,
            SegSync::Arrive | SegSync::ArriveBefore(_) | SegSync::SignalEarly => true,
            SegSync::Acquire => segment.is_ready(self.segment_round),
            SegSync::WaitFor(awaited) | SegSync::WaitForArrival(awaited) => {
                let has_arrived =
                    |from| segment.agrees(self.segment_round, from, self.signature).is_some();
                segment.is_ready(self.segment_round) && awaited.members().all(has_arrived)
            }
            SegSync::WaitAll => segment.is_complete(self.segment_round),
        }
    }

    /// Synchronises as a round of the schedule requires before its local steps.
    #[inline]
    pub(super) fn sync(&mut self, plan: &Plan, sync: SegSync) -> SyncResult {
        let Some(segment) = plan.segment() else {
            return if sync == SegSync::None { SyncResult::Run } else { SyncResult::Blocked };
        };
        let (round, signature) = (self.segment_round, self.signature);
        match sync {
            SegSync::None => SyncResult::Run,
            SegSync::Acquire | SegSync::WaitFor(_) if !segment.is_ready(round) => {
                SyncResult::Blocked
            }
            SegSync::Acquire => SyncResult::Run,
            SegSync::WaitFor(awaited) => {
                for from in awaited.members() {
                    match segment.agrees(round, from, signature) {
                        None => return SyncResult::Blocked,
                        Some(true) => {}
                        Some(false) => return SyncResult::Mismatch(from),
                    }
                }
                SyncResult::Run
            }
            SegSync::WaitForArrival(_) => match self.is_due(plan, sync) {
                true => SyncResult::Run,
                false => SyncResult::Blocked,
            },
            SegSync::WaitAll if !segment.is_complete(round) => SyncResult::Blocked,
            SegSync::WaitAll => {
                segment.mismatch(round, signature).map_or(SyncResult::Run, SyncResult::Mismatch)
            }
            SegSync::Arrive | SegSync::ArriveBefore(_) | SegSync::SignalEarly => {
                let wakes = match sync {
                    SegSync::ArriveBefore(last) => Wakes::Last(last.into()),
                    SegSync::SignalEarly => Wakes::All,
                    _ => Wakes::None,
                };
                match segment.arrive(round, signature, wakes) {
                    true => SyncResult::Run,
                    false => SyncResult::Skip,
                }
            }
            SegSync::Next => {
                segment.leave(round);
                if self.is_in_last_round() {
                    debug_assert_eq!(segment.begun(), self.segment_end, "another call has begun");
                    self.segment_end = segment.next_round() + 1;
                }
                self.segment_round += 1;
                self.signature = signature::in_later_round(signature);
                SyncResult::Skip
            }
        }
    }

    /// Returns true if this rank has arrived in the current round of the segment.
    pub(super) fn has_arrived(&self, plan: &Plan) -> bool {
        let before = plan.schedule().rounds()[..self.round].iter().rev();
        before
            .map(|round| round.sync)
            .take_while(|sync| *sync != SegSync::Next)
            .any(SegSync::arrives)
    }

    /// Takes a failed collective through what it has left of its rounds of the segment, so that all
    /// members are in step after it: arrives where it has not (`has_arrived`: in the current
    /// round), waits for all members, and leaves. Goes through a round once more if a member was in
    /// an earlier one of its own; counts in `pushed` if later collectives must move on for that.
    /// True when it has left all of them.
    #[cold]
    pub(super) fn leave_early(
        &mut self,
        plan: &Plan,
        has_arrived: &mut bool,
        pushed: &mut u64,
    ) -> bool {
        let Some(segment) = plan.segment() else { return true };
        while self.segment_round < self.segment_end {
            if !self.is_left(plan, *has_arrived) {
                return false;
            }
            let round = self.segment_round;
            if !*has_arrived {
                *has_arrived = true;
                if segment.arrive(round, signature::failed(self.signature), Wakes::All) {
                    segment.complete(round);
                }
                continue;
            }
            let theirs = |(member, _)| segment.signature_of(round, member);
            let mut theirs = plan.segment_others().filter_map(theirs);
            let is_ahead = theirs.any(|theirs| signature::is_earlier(theirs, self.signature));
            if !(is_ahead && self.repeat(plan, pushed)) {
                self.signature = signature::in_later_round(self.signature);
            }
            segment.leave(round);
            (self.segment_round, *has_arrived) = (round + 1, false);
        }
        true
    }

    /// True when [`Cursor::leave_early`] can go on.
    #[cold]
    pub(super) fn is_left(&self, plan: &Plan, has_arrived: bool) -> bool {
        plan.segment().is_none_or(|segment| match has_arrived {
            true => segment.is_complete(self.segment_round),
            false => segment.is_ready(self.segment_round),
        })
    }

    /// Begins one more round of the segment. Later collectives that have begun theirs must move on;
    /// false if they can not.
    fn repeat(&mut self, plan: &Plan, pushed: &mut u64) -> bool {
        let Some(segment) = plan.segment() else { return false };
        let is_last = segment.begun() == self.segment_end;
        if !is_last && !plan.has_host_segment() {
            return false;
        }
        segment.next_round();
        self.segment_end += 1;
        *pushed += u64::from(!is_last);
        true
    }

    /// Moves on by so many rounds of the segment if it has begun those from `end` on, which are
    /// another collective's now.
    #[cold]
    pub(super) fn move_on(&mut self, end: u64, by: u64) {
        if self.segment_round >= end {
            self.first_segment_round += by;
            self.segment_round += by;
            self.segment_end += by;
        }
    }

    /// True in the last round of the segment that has been begun.
    pub(super) fn is_in_last_round(&self) -> bool {
        self.segment_round + 1 == self.segment_end
    }

    /// One past the last round of the segment.
    pub(super) fn segment_end(&self) -> u64 {
        self.segment_end
    }

    /// Leaves the local steps of a round to another member.
    #[inline]
    pub(super) fn skip(&mut self, plan: &Plan) {
        self.next_local = plan.schedule().rounds()[self.round].locals as usize;
        self.round += 1;
    }

    /// Copies a piece of the next local step before `end`, while messages are under way. Between
    /// pieces they progress. Returns false if there is no such step.
    pub(super) fn run_early(&mut self, plan: &Plan, end: usize, scratch: Option<&Scratch>) -> bool {
        let next = plan.schedule().locals()[..end].get(self.next_local);
        let Some(Local::Copy { from, to }) = next else {
            debug_assert!(next.is_none(), "early steps are copies");
            return false;
        };
        let [from, to] = [from, to].map(|span| self.buffer(plan, span, scratch));
        let len = from.len().min(to.len());
        let piece = EARLY_PIECE.max(len / EARLY_PIECES).min(len - self.copied);
        let [from_part, to_part] = [&from, &to].map(|buffer| buffer.part(self.copied, piece));
        match from_part.zip(to_part) {
            Some((from, to)) => self.copied += to.copy_from(&from),
            // An element with gaps is not cut.
            None => self.copied = to.copy_from(&from),
        }
        if self.copied == len {
            (self.next_local, self.copied) = (self.next_local + 1, 0);
        }
        true
    }

    /// Runs the local steps up to `end`, or to the first one that needs the caller.
    #[inline]
    pub(super) fn run_locals(
        &mut self,
        plan: &Plan,
        end: usize,
        scratch: Option<&Scratch>,
    ) -> Option<Interrupt> {
        while self.copied > 0 {
            self.run_early(plan, end, scratch);
        }
        while self.next_local < end {
            let step = &plan.schedule().locals()[self.next_local];
            self.next_local += 1;
            match step {
                Local::Copy { from, to } => {
                    let source = self.buffer(plan, from, scratch);
                    let target = self.buffer(plan, to, scratch);
                    match to.space {
                        Space::CollSegment => self.write_slot(plan, &target, &source),
                        _ => _ = target.copy_from(&source),
                    }
                }
                Local::Reduce { left, right, out } => {
                    let buffer = |span| self.buffer(plan, span, scratch);
                    match (plan.reduction(), plan.datatype(out.ty)) {
                        (Some(Reduction { on_runs: Some(op), .. }), _) => {
                            self.reduce_runs(plan, *op, (left, right, out), scratch);
                        }
                        (Some(Reduction { op: Op::Builtin(op), .. }), Some(datatype)) => {
                            let left = self.operands(plan, left, datatype, scratch);
                            op.reduce_into(&left, &buffer(right), &buffer(out), datatype);
                        }
                        _ => {
                            // A user's function overwrites its right operand.
                            if right != out {
                                buffer(out).copy_from(&buffer(right));
                            }
                            return Some(Interrupt::User(*left, *out));
                        }
                    }
                }
                _ if !self.run_get(plan, step, scratch) => {
                    // It is found again.
                    self.next_local -= 1;
                    return Some(Interrupt::Refused);
                }
                _ => {}
            }
        }
        None
    }

    /// Reduces elements without gaps.
    #[inline]
    fn reduce_runs(
        &self,
        plan: &Plan,
        op: RunOp,
        (left, right, out): (&Strided, &Span, &Span),
        scratch: Option<&Scratch>,
    ) {
        let bytes = op.bytes(out.count);
        let memory = |span: &Span| self.area(plan, span.space, scratch).memory(span.disp, bytes);
        let (mut right, result) = (memory(right), memory(out));
        let operands = self.area(plan, left.first.space, scratch);
        for index in (0..i64::from(left.many)).rev() {
            let disp = left.first.disp + index * left.distance;
            op.reduce(operands.memory(disp, bytes), right, result, out.count);
            right = result;
        }
    }

    /// Copies data into a slot of the segment, whose first line has the flag that others poll.
    #[inline]
    fn write_slot(&self, plan: &Plan, target: &Buffer, source: &Buffer) {
        match (target.memory(), source.memory()) {
            (Some(to), Some(from)) if to.len() == from.len() => {
                match plan.segment().filter(|_| from.len() as u64 >= LONG_COPY) {
                    Some(segment) => segment.write(self.segment_round, to, from),
                    None => to.copy_from_first_line_last(from),
                }
            }
            _ => _ = target.copy_from(source),
        }
    }

    /// Prefetches what the local steps up to `end` will read in the slots of others, for which this
    /// rank waits. Their lines then cross together with those of the flags.
    #[inline]
    pub(super) fn prefetch(&self, plan: &Plan, end: usize) {
        let steps = &plan.schedule().locals()[self.next_local..end];
        let Some(segment) = plan.segment().filter(|_| !steps.is_empty()) else { return };
        let slots = segment.slots(self.segment_round);
        let mut budget = PREFETCH_BYTES;
        for step in steps {
            let read = match step {
                Local::Copy { from, .. } => from,
                Local::Reduce { left, .. } => &left.first,
                _ => return,
            };
            let size = plan.datatype(read.ty).map_or(1, Datatype::size);
            let bytes = read.count.saturating_mul(size);
            if read.space == Space::CollSegment && bytes <= budget {
                slots.prefetch(read.disp as usize, bytes as usize);
                budget -= bytes;
            }
        }
    }

    /// Runs a step by which members read each other's memory. Returns false if one was refused.
    #[inline(never)]
    fn run_get(&mut self, plan: &Plan, step: &Local, scratch: Option<&Scratch>) -> bool {
        let Some(segment) = plan.segment() else { return true };
        let round = self.segment_round;
        let memory = |span| self.buffer(plan, span, scratch).memory().unwrap_or(UserBuf::EMPTY);
        match step {
            Local::Publish(span) => segment.publish(round, memory(span).addr()),
            Local::Get { member, at, to } => {
                let address = segment.published(round, *member).wrapping_add(*at);
                self.is_refused |= !segment.get(*member, address, memory(to));
            }
            Local::Confirm => segment.publish(round, self.is_refused.into()),
            Local::Check(members) => {
                return members.members().all(|member| segment.published(round, member) == 0);
            }
            Local::Copy { .. } | Local::Reduce { .. } => {}
        }
        true
    }

    /// Ends a round whose local steps are done.
    #[inline]
    pub(super) fn next_round(&mut self, plan: &Plan, sync: SegSync) {
        if let Some(segment) = plan.segment()
            && sync.arrives()
        {
            segment.complete(self.segment_round);
        }
        self.round += 1;
    }

    /// The memory of a span.
    #[inline]
    pub(super) fn buffer(&self, plan: &Plan, span: &Span, scratch: Option<&Scratch>) -> Buffer {
        let area = self.area(plan, span.space, scratch);
        match plan.datatype(span.ty) {
            Some(datatype) => area.buffer(span.disp, span.count, datatype),
            None => area.bytes(span.disp, span.count),
        }
    }

    /// The memory of strided operands.
    #[inline]
    pub(super) fn operands(
        &self,
        plan: &Plan,
        strided: &Strided,
        datatype: &Datatype,
        scratch: Option<&Scratch>,
    ) -> Operands {
        let Strided { first, many, distance } = *strided;
        self.area(plan, first.space, scratch).operands(
            first.disp,
            first.count,
            datatype,
            many,
            distance,
        )
    }

    #[inline]
    fn area(&self, plan: &Plan, space: Space, scratch: Option<&Scratch>) -> Area {
        match space {
            Space::Send => plan.send(),
            Space::Recv => plan.recv(),
            Space::Temp => scratch.map_or(Area::EMPTY, Scratch::area),
            Space::CollSegment => slots_of(plan, self.segment_round),
            Space::PreviousSlots => slots_of(plan, self.segment_round - 1),
        }
    }
}

/// The slots of a round of the plan's segment.
#[inline]
fn slots_of(plan: &Plan, round: u64) -> Area {
    plan.segment().map_or(Area::EMPTY, |segment| segment.slots(round).into())
}
