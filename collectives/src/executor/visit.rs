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
use crate::schedule::{Local, Meet, Row, Space, Span};

/// Where bytes and operation stand in what a member says in an arena, above the root.
pub(super) const BYTES_AT: u32 = 40;
pub(super) const KIND_AT: u32 = 32;

/// A collective that its caller runs by itself, outside of all the others, while it waits for nothing but
/// its meeting.
pub struct Visit<'a> {
    plan: &'a Plan,
    sequence: i32,
    place: Place,
}

/// A visit that goes on as a collective like all others.
pub struct Paused(pub(super) Box<Running>);

/// How far it has come in its schedule.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its meeting in the arena of the plan, if that has one.
    pub(super) meeting: u64,
    /// Of the current round.
    pub(super) round: usize,
    /// The next local step to run, of all.
    pub(super) next_local: usize,
}

/// What a round comes to at the meeting.
pub(super) enum Turn {
    /// It is not its turn yet.
    Waits,
    /// Its steps are due.
    Works,
    /// It has arrived, and others run the steps if there are any.
    Passes,
    /// This member has called something else.
    Dissents(u32),
}

impl<'a> Visit<'a> {
    /// The `sequence`th collective of its communicator; see [`Plan::only_meets`].
    #[inline]
    pub fn new(plan: &'a Plan, sequence: i32) -> Visit<'a> {
        debug_assert!(plan.only_meets());
        Visit { plan, sequence, place: Place::first(plan) }
    }

    /// Goes as far as it gets. True when it is over, and has ended well.
    #[inline]
    pub fn go(&mut self) -> bool {
        let Visit { plan, place, .. } = self;
        while let Some(round) = plan.schedule().rounds().get(place.round) {
            match place.turn(plan, round.meet) {
                // What is wrong is not for a visit to say.
                Turn::Waits | Turn::Dissents(_) => return false,
                Turn::Passes => place.pass(plan),
                Turn::Works => {
                    let users = place.work(plan, round.locals as usize, None);
                    debug_assert!(users.is_none(), "a visit calls no function of the user's");
                    place.next_round(plan, round.meet);
                }
            }
        }
        place.leave(plan);
        true
    }

    /// One that is not over.
    #[cold]
    pub fn pause(self) -> Paused {
        Paused(Box::new(Running::new(
            self.plan.clone(),
            self.sequence,
            self.place,
            Vec::new(),
            None,
        )))
    }
}

impl Place {
    #[inline]
    pub(super) fn first(plan: &Plan) -> Place {
        Place { meeting: plan.arena().map_or(0, |arena| arena.enter()), round: 0, next_local: 0 }
    }

    /// It has met.
    #[inline]
    pub(super) fn leave(&self, plan: &Plan) {
        if let Some(arena) = plan.arena() {
            arena.leave(self.meeting);
        }
    }

    /// True when a round of steps waits for nothing that belongs to the meeting.
    #[inline]
    pub(super) fn is_called(&self, plan: &Plan, meet: Meet) -> bool {
        let Some(arena) = plan.arena() else { return meet == Meet::Nobody };
        match meet {
            Meet::Nobody => true,
            Meet::Begin => arena.has_begun(self.meeting),
            Meet::Hear(from) => {
                arena.has_begun(self.meeting) && arena.call_of(self.meeting, from).is_some()
            }
            Meet::Arrive | Meet::Speak => true,
            Meet::Close => arena.is_closed(self.meeting),
        }
    }

    /// Does what a round has to do with the meeting before its steps.
    #[inline]
    pub(super) fn turn(&self, plan: &Plan, meet: Meet) -> Turn {
        if !self.is_called(plan, meet) {
            return Turn::Waits;
        }
        let Some(arena) = plan.arena() else { return Turn::Works };
        match meet {
            Meet::Hear(from) if arena.call_of(self.meeting, from) != Some(call(plan)) => {
                Turn::Dissents(from)
            }
            Meet::Close => {
                arena.dissenter(self.meeting, call(plan)).map_or(Turn::Works, Turn::Dissents)
            }
            Meet::Arrive | Meet::Speak
                if !arena.arrive(self.meeting, call(plan), meet == Meet::Speak) =>
            {
                Turn::Passes
            }
            _ => Turn::Works,
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
    ) -> Option<(Row, Span)> {
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
    pub(super) fn next_round(&mut self, plan: &Plan, meet: Meet) {
        if let Some(arena) = plan.arena()
            && let Meet::Arrive | Meet::Speak = meet
        {
            arena.close(self.meeting);
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
        row: &Row,
        datatype: &Datatype,
        scratch: Option<&Scratch>,
    ) -> Operands {
        let Row { first, many, distance } = *row;
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
            Space::CollSegment => {
                plan.arena().map_or(Area::EMPTY, |arena| arena.seats(self.meeting).into())
            }
        }
    }
}

/// What a member says in a meeting: bytes, operation and root.
#[inline]
pub(super) fn call(plan: &Plan) -> u64 {
    let Collective { kind, root } = plan.collective();
    plan.schedule().seat_bytes() << BYTES_AT | u64::from(kind as u8) << KIND_AT | u64::from(root)
}
