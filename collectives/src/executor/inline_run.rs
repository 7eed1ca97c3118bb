//! How far a collective has come in its schedule, and visits: collectives that their callers run by themselves while they
//! wait for nothing but their meetings.
//!
//! A visit knows one end, the good one. Whatever else happens is for the executor: it goes on where the visit has stopped, and
//! finds the same once more.

use fabric::Collective;
use objects::scratch::Scratch;
use objects::{Area, Buffer, Datatype, Op, Operands};

use super::Running;
use crate::plan::{Plan, Reduction};
use crate::schedule::{Local, SegSync, Space, Span, Strided};

/// Where bytes and operation stand in what a member says in an arena, above the root.
pub(super) const BYTES_AT: u32 = 40;
pub(super) const KIND_AT: u32 = 32;

/// A collective that its caller runs by itself, outside of all the others, while it waits for nothing but
/// its meeting.
pub struct InlineRun<'a> {
    plan: &'a Plan,
    sequence: i32,
    cursor: Cursor,
}

/// A visit that goes on as a collective like all others.
pub struct Suspended(pub(super) Box<Running>);

/// How far it has come in its schedule.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// Its meeting in the arena of the plan, if that has one.
    pub(super) segment_round: u64,
    /// Of the current round.
    pub(super) round: usize,
    /// The next local step to run, of all.
    pub(super) next_local: usize,
}

/// What a round comes to at the meeting.
pub(super) enum SyncResult {
    /// It is not its turn yet.
    Blocked,
    /// Its steps are due.
    Run,
    /// It has arrived, and others run the steps if there are any.
    Skip,
    /// This member has called something else.
    Mismatch(u32),
}

impl<'a> InlineRun<'a> {
    /// The `sequence`th collective of its communicator; see [`Plan::is_segment_only`].
    #[inline]
    pub fn new(plan: &'a Plan, sequence: i32) -> InlineRun<'a> {
        debug_assert!(plan.is_segment_only());
        InlineRun { plan, sequence, cursor: Cursor::first(plan) }
    }

    /// Goes as far as it gets. True when it is over, and has ended well.
    #[inline]
    pub fn go(&mut self) -> bool {
        let InlineRun { plan, cursor, .. } = self;
        while let Some(round) = plan.schedule().rounds().get(cursor.round) {
            match cursor.sync_result(plan, round.sync) {
                // What is wrong is not for a visit to say.
                SyncResult::Blocked | SyncResult::Mismatch(_) => return false,
                SyncResult::Skip => cursor.pass(plan),
                SyncResult::Run => {
                    let users = cursor.work(plan, round.locals as usize, None);
                    debug_assert!(users.is_none(), "a visit calls no function of the user's");
                    cursor.next_round(plan, round.sync);
                }
            }
        }
        cursor.leave(plan);
        true
    }

    /// One that is not over.
    #[cold]
    pub fn suspend(self) -> Suspended {
        Suspended(Box::new(Running::new(
            self.plan.clone(),
            self.sequence,
            self.cursor,
            Vec::new(),
            None,
        )))
    }
}

impl Cursor {
    #[inline]
    pub(super) fn first(plan: &Plan) -> Cursor {
        Cursor {
            segment_round: plan.segment().map_or(0, |segment| segment.next_round()),
            round: 0,
            next_local: 0,
        }
    }

    /// It has met.
    #[inline]
    pub(super) fn leave(&self, plan: &Plan) {
        if let Some(segment) = plan.segment() {
            segment.leave(self.segment_round);
        }
    }

    /// True when a round of steps waits for nothing that belongs to the meeting.
    #[inline]
    pub(super) fn has_segment_work(&self, plan: &Plan, sync: SegSync) -> bool {
        let Some(segment) = plan.segment() else { return sync == SegSync::None };
        match sync {
            SegSync::None => true,
            SegSync::Acquire => segment.is_ready(self.segment_round),
            SegSync::WaitFor(from) => {
                segment.is_ready(self.segment_round)
                    && segment.signature_of(self.segment_round, from).is_some()
            }
            SegSync::Arrive | SegSync::SignalEarly => true,
            SegSync::WaitAll => segment.is_complete(self.segment_round),
        }
    }

    /// Does what a round has to do with the meeting before its steps.
    #[inline]
    pub(super) fn sync_result(&self, plan: &Plan, sync: SegSync) -> SyncResult {
        if !self.has_segment_work(plan, sync) {
            return SyncResult::Blocked;
        }
        let Some(segment) = plan.segment() else { return SyncResult::Run };
        match sync {
            SegSync::WaitFor(from)
                if segment.signature_of(self.segment_round, from) != Some(call(plan)) =>
            {
                SyncResult::Mismatch(from)
            }
            SegSync::WaitAll => segment
                .mismatch(self.segment_round, call(plan))
                .map_or(SyncResult::Run, SyncResult::Mismatch),
            SegSync::Arrive | SegSync::SignalEarly
                if !segment.arrive(
                    self.segment_round,
                    call(plan),
                    sync == SegSync::SignalEarly,
                ) =>
            {
                SyncResult::Skip
            }
            _ => SyncResult::Run,
        }
    }

    /// Leaves the steps of a round to others.
    #[inline]
    pub(super) fn pass(&mut self, plan: &Plan) {
        self.next_local = plan.schedule().rounds()[self.round].locals as usize;
        self.round += 1;
    }

    /// Runs the steps up to `end`. Where one is a user's function, its operands.
    #[inline]
    pub(super) fn work(
        &mut self,
        plan: &Plan,
        end: usize,
        scratch: Option<&Scratch>,
    ) -> Option<(Strided, Span)> {
        while self.next_local < end {
            let step = plan.schedule().locals()[self.next_local];
            self.next_local += 1;
            match step {
                Local::Copy { from, to } => {
                    self.buffer(plan, &to, scratch).copy_from(&self.buffer(plan, &from, scratch));
                }
                Local::Reduce { left, inout } => {
                    match (plan.reduction(), plan.datatype(inout.ty)) {
                        (Some(Reduction { op: Op::Builtin(op), .. }), Some(datatype)) => {
                            let left = self.operands(plan, &left, datatype, scratch);
                            op.reduce(&left, &self.buffer(plan, &inout, scratch), datatype);
                        }
                        _ => return Some((left, inout)),
                    }
                }
            }
        }
        None
    }

    /// The local steps of a round are done.
    #[inline]
    pub(super) fn next_round(&mut self, plan: &Plan, sync: SegSync) {
        if let Some(segment) = plan.segment()
            && let SegSync::Arrive | SegSync::SignalEarly = sync
        {
            segment.complete(self.segment_round);
        }
        self.round += 1;
    }

    #[inline]
    pub(super) fn buffer(&self, plan: &Plan, span: &Span, scratch: Option<&Scratch>) -> Buffer {
        let area = self.area(plan, span.space, scratch);
        match plan.datatype(span.ty) {
            Some(datatype) => area.buffer(span.disp, span.count, datatype),
            None => area.bytes(span.disp, span.count),
        }
    }

    #[inline]
    pub(super) fn operands(
        &self,
        plan: &Plan,
        row: &Strided,
        datatype: &Datatype,
        scratch: Option<&Scratch>,
    ) -> Operands {
        let Strided { first, many, distance } = *row;
        self.area(plan, first.space, scratch).operands(
            first.disp,
            first.count,
            datatype,
            many,
            distance,
        )
    }

    /// The memory of a space.
    #[inline]
    fn area(&self, plan: &Plan, space: Space, scratch: Option<&Scratch>) -> Area {
        match space {
            Space::Send => plan.send(),
            Space::Recv => plan.recv(),
            Space::Temp => scratch.map_or(Area::EMPTY, Scratch::area),
            Space::CollSegment => plan
                .segment()
                .map_or(Area::EMPTY, |segment| segment.slots(self.segment_round).into()),
        }
    }
}

/// What a member says in a meeting: bytes, operation and root.
#[inline]
pub(super) fn call(plan: &Plan) -> u64 {
    let Collective { kind, root } = plan.collective();
    plan.schedule().slot_bytes() << BYTES_AT | u64::from(kind as u8) << KIND_AT | u64::from(root)
}
