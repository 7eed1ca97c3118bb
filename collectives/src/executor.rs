//! The executor: runs schedules over the point-to-point engine, any number of
//! collectives at once, each a step further whenever something has completed.
//!
//! States of a collective ([`State`]): *messages* of the current round are being
//! posted and awaited; then its *local* steps run; a user's reduction is *away*
//! in a [`UserCall`], which the caller runs without any lock; after a fault the
//! collective is *failing* until the messages that are under way have ended, and
//! its other members hear of it; it is *over* until its result is taken.
//!
//! Blocking, nonblocking and persistent collectives are the same here. Nothing
//! happens but inside [`Active::start`] and [`Active::advance`], and for a collective that
//! its caller runs outside of the list inside [`InlineRun::go`] (see [`inline_run`]).

mod inline_run;

use std::sync::Arc;

use fabric::{Collective, CollectiveKind, Peer, Transport};
use objects::op::UserOp;
use objects::scratch::{Pool, Scratch};
use objects::{Buffer, Class, Datatype, Error, Op, Operands, Result};
use pt2pt::{CollectiveCall, Engine, Envelope, Fault, Mode, Pattern, RequestId};

use self::inline_run::{BYTES_AT, Cursor, KIND_AT, SyncResult, call};
pub use self::inline_run::{InlineRun, Suspended};
use crate::plan::{Plan, Reduction};
use crate::schedule::{Direction, Member, Message, Schedule, SegSync, Span, Strided};

/// Bytes that a user's reduction function is given at a time: what it reads and
/// writes stays in the cache.
const PIECE: u64 = 256 << 10;

/// All running collectives of a process.
#[derive(Default)]
pub struct Active {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// Slots of collectives that are not over, in the order of their start.
    live: Vec<u32>,
    pool: Pool,
}

/// Names a collective from its start until its result is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveId {
    slot: u32,
    generation: u32,
}

/// What a collective waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The operation.
    pub kind: CollectiveKind,
    /// Which collective of its communicator it is.
    pub sequence: i32,
    /// The context id on the wire.
    pub context: u64,
    /// The first whose part is missing.
    pub member: Option<Peer>,
}

/// What [`Active::advance`] came to.
#[must_use]
pub enum Advance {
    /// Nothing could be done.
    Idle,
    /// Something was done; some collectives may be over.
    Moved,
    /// A user's reduction function is to be called: [`UserCall::run`], with no
    /// lock held, then [`Active::resume`].
    User(UserCall),
}

/// A user's reduction, to be called outside of everything.
pub struct UserCall {
    id: CollectiveId,
    op: Arc<UserOp>,
    left: Operands,
    inout: Buffer,
    count: u64,
    datatype: Datatype,
    handle: usize,
}

/// A user's reduction that has been called.
#[must_use]
pub struct UserReturn(CollectiveId);

#[derive(Default)]
struct Slot {
    generation: u32,
    running: Option<Running>,
    /// The list of requests of the last collective here, for its memory.
    open: Vec<RequestId>,
}

/// A collective from its start until its result is taken.
struct Running {
    plan: Plan,
    sequence: i32,
    state: State,
    cursor: Cursor,
    /// The next message to post, of all.
    next_message: usize,
    open: Vec<RequestId>,
    scratch: Option<Scratch>,
    /// Nobody will ask for the result.
    detached: bool,
}

enum State {
    /// Posting and awaiting the messages of the round.
    Messages,
    /// Running the local steps of the round.
    Locals,
    /// A user's function has been handed out.
    Away,
    /// Waits for the messages under way to end.
    Failing(Box<Fault>),
    /// The result.
    Over(std::result::Result<(), Box<Fault>>),
}

/// What one collective came to in one go.
enum Step {
    Blocked,
    Over,
    User(UserCall),
}

impl Active {
    /// None are running.
    pub fn new() -> Active {
        Active::default()
    }

    /// Starts a collective, the `sequence`th on its communicator, and does what
    /// can be done at once. MPI_ERR_NO_MEM when there is no scratch memory.
    pub fn start<T: Transport>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        plan: Plan,
        sequence: i32,
    ) -> Result<CollectiveId> {
        let scratch = match plan.schedule().temp() {
            0 => None,
            bytes => Some(self.pool.take(bytes).ok_or_else(|| no_memory(bytes))?),
        };
        let slot = self.vacancy();
        let entry = &mut self.slots[slot as usize];
        let id = CollectiveId { slot, generation: entry.generation };
        let open = std::mem::take(&mut entry.open);
        let running = entry.running.insert({
            let cursor = Cursor::first(&plan);
            Running::new(plan, sequence, cursor, open, scratch)
        });
        let mut moved = false;
        // A user's function that is due already waits for `advance`.
        match running.step(pt2pt, endpoint, id, false, &mut moved) {
            Step::Over => self.retire(slot),
            Step::Blocked | Step::User(_) => self.live.push(slot),
        }
        Ok(id)
    }

    /// Goes on with a visit as with all the others.
    pub fn resume_as_active(&mut self, Suspended(running): Suspended) -> CollectiveId {
        let slot = self.vacancy();
        let entry = &mut self.slots[slot as usize];
        let id = CollectiveId { slot, generation: entry.generation };
        entry.running = Some(*running);
        self.live.push(slot);
        id
    }

    /// Takes every collective as far as it gets without waiting. To be called
    /// after the engine has progressed.
    pub fn advance<T: Transport>(&mut self, pt2pt: &mut Engine, endpoint: &mut T) -> Advance {
        let mut moved = false;
        let mut at = 0;
        if !pt2pt.lost().is_empty() {
            self.give_up_on_lost(pt2pt);
        }
        while let Some(&slot) = self.live.get(at) {
            let entry = &mut self.slots[slot as usize];
            let id = CollectiveId { slot, generation: entry.generation };
            let Some(running) = &mut entry.running else {
                self.live.remove(at);
                continue;
            };
            match running.step(pt2pt, endpoint, id, true, &mut moved) {
                Step::Blocked => at += 1,
                Step::User(call) => return Advance::User(call),
                Step::Over => {
                    self.live.remove(at);
                    self.retire(slot);
                }
            }
        }
        if moved { Advance::Moved } else { Advance::Idle }
    }

    /// Goes on after a user's reduction.
    pub fn resume(&mut self, done: UserReturn) {
        if let Some(running) = self.find_mut(done.0)
            && matches!(running.state, State::Away)
        {
            running.state = State::Locals;
        }
    }

    /// True when the result is there.
    #[inline]
    pub fn is_complete(&self, id: CollectiveId) -> bool {
        self.find(id).is_none_or(|running| matches!(running.state, State::Over(_)))
    }

    /// Takes the result; the id is over then. `None` while it is running.
    #[inline]
    pub fn finish(&mut self, id: CollectiveId) -> Option<std::result::Result<(), Box<Fault>>> {
        match &self.find(id)?.state {
            State::Over(_) => {}
            _ => return None,
        }
        let running = self.vacate(id.slot)?;
        match running.state {
            State::Over(result) => Some(result),
            _ => None,
        }
    }

    /// What a collective that is not over waits for, for reports.
    pub fn awaited(&self, id: CollectiveId, pt2pt: &Engine) -> Option<Awaited> {
        self.find(id).map(|running| Awaited {
            kind: running.plan.collective().kind,
            sequence: running.sequence,
            context: running.plan.context(),
            member: running.awaited_member(pt2pt),
        })
    }

    /// Lets it end by itself; nobody asks for its result (MPI_Request_free).
    pub fn detach(&mut self, id: CollectiveId) {
        let Some(running) = self.find_mut(id) else { return };
        running.detached = true;
        if matches!(running.state, State::Over(_)) {
            self.vacate(id.slot);
        }
    }

    /// True when `advance` would find something in an arena, of which no transport tells. To be asked
    /// before a thread sleeps.
    pub fn has_segment_work<T: Transport>(&mut self, pt2pt: &mut Engine, endpoint: &mut T) -> bool {
        let Active { live, slots, .. } = self;
        let mut running = live.iter().filter_map(|&slot| slots[slot as usize].running.as_ref());
        if running.any(Running::has_been_called) {
            return true;
        }
        live.iter().fold(false, |has_segment_work, &slot| {
            slots[slot as usize]
                .running
                .as_mut()
                .is_some_and(|running| running.look_for_strays(pt2pt, endpoint))
                | has_segment_work
        })
    }

    /// True when none is running: `advance` has nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Ends the receives that wait for processes that are gone: the engine knows
    /// ranks, we know which process each of them is.
    #[cold]
    fn give_up_on_lost(&self, pt2pt: &mut Engine) {
        let lost = pt2pt.lost().to_vec();
        let running =
            || self.live.iter().filter_map(|&slot| self.slots[slot as usize].running.as_ref());
        pt2pt.fail_receives(|context, source| {
            let plan = &running().find(|running| running.plan.context() == context)?.plan;
            let peer = plan.peer(Member::from_wire(source?))?;
            lost.iter().find(|lost| lost.peer == peer).cloned()
        });
    }

    fn vacancy(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        })
    }

    fn find(&self, id: CollectiveId) -> Option<&Running> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.running.as_ref().filter(|_| slot.generation == id.generation)
    }

    fn find_mut(&mut self, id: CollectiveId) -> Option<&mut Running> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.running.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Takes back what a collective that is over needs no more.
    fn retire(&mut self, slot: u32) {
        let Some(running) = &mut self.slots[slot as usize].running else { return };
        let detached = running.detached;
        running.cursor.leave(&running.plan);
        if let Some(scratch) = running.scratch.take() {
            self.pool.give(scratch);
        }
        if detached {
            self.vacate(slot);
        }
    }

    fn vacate(&mut self, slot: u32) -> Option<Running> {
        let entry = &mut self.slots[slot as usize];
        let mut running = entry.running.take()?;
        entry.open = std::mem::take(&mut running.open);
        entry.generation = entry.generation.wrapping_add(1);
        self.vacant.push(slot);
        Some(running)
    }
}

impl Running {
    #[inline]
    fn new(
        plan: Plan,
        sequence: i32,
        cursor: Cursor,
        open: Vec<RequestId>,
        scratch: Option<Scratch>,
    ) -> Running {
        let (state, detached) = (State::Messages, false);
        Running { plan, sequence, state, cursor, next_message: 0, open, scratch, detached }
    }

    /// Does everything that needs no waiting. A user's function is handed out if
    /// `may_call`, else left where it is.
    fn step<T: Transport>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        id: CollectiveId,
        may_call: bool,
        moved: &mut bool,
    ) -> Step {
        loop {
            match &self.state {
                State::Messages => {
                    if !self.exchange(pt2pt, endpoint, moved) {
                        return Step::Blocked;
                    }
                }
                State::Locals => {
                    *moved = true;
                    match self.work(id, may_call) {
                        None => self.next_round(),
                        Some(call) => return call,
                    }
                }
                State::Away => return Step::Blocked,
                State::Failing(_) => {
                    self.reap(pt2pt, moved);
                    if !self.open.is_empty() {
                        return Step::Blocked;
                    }
                    let State::Failing(fault) = std::mem::replace(&mut self.state, State::Away)
                    else {
                        continue;
                    };
                    self.state = State::Over(Err(fault));
                }
                State::Over(_) => return Step::Over,
            }
        }
    }

    /// Posts and awaits messages; true when the state has changed.
    fn exchange<T: Transport>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        moved: &mut bool,
    ) -> bool {
        let Some(round) = self.plan.schedule().rounds().get(self.cursor.round).copied() else {
            self.state = State::Over(Ok(()));
            return true;
        };
        if round.sync != SegSync::None {
            return self.sync(pt2pt, endpoint, round.sync, moved);
        }
        let (end, window) = (round.messages as usize, self.plan.schedule().window() as usize);
        loop {
            if let Some(fault) = self.reap(pt2pt, moved) {
                return self.fail(pt2pt, endpoint, fault);
            }
            if self.next_message == end || self.open.len() >= window {
                break;
            }
            while self.next_message < end && self.open.len() < window {
                *moved = true;
                let message = self.plan.schedule().messages()[self.next_message];
                self.next_message += 1;
                if let Err(fault) = self.post(pt2pt, endpoint, &message) {
                    return self.fail(pt2pt, endpoint, fault);
                }
            }
        }
        if self.next_message == end && self.open.is_empty() {
            self.state = State::Locals;
            return true;
        }
        false
    }

    /// Does what a round has to do with the meeting before its steps; true when the state has
    /// changed.
    #[inline(never)]
    fn sync<T: Transport>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        sync: SegSync,
        moved: &mut bool,
    ) -> bool {
        if !self.open.is_empty()
            && let Some(fault) = self.reap(pt2pt, moved)
        {
            return self.fail(pt2pt, endpoint, fault);
        }
        match self.cursor.sync_result(&self.plan, sync) {
            SyncResult::Blocked => return false,
            SyncResult::Run => self.state = State::Locals,
            SyncResult::Skip => {
                self.cursor.pass(&self.plan);
                self.go_on();
            }
            SyncResult::Mismatch(member) => {
                if let (SegSync::WaitFor(_), Some(segment)) = (sync, self.plan.segment())
                    && segment.arrive(self.cursor.segment_round, call(&self.plan), false)
                {
                    // The others count on everyone.
                    segment.complete(self.cursor.segment_round);
                }
                return self.fail(pt2pt, endpoint, self.dissent(member));
            }
        }
        *moved = true;
        true
    }

    fn awaited_member(&self, pt2pt: &Engine) -> Option<Peer> {
        let message = self.open.iter().find_map(|&request| pt2pt.awaited(request));
        if let Some(message) = message {
            return message.peer.or_else(|| self.plan.peer(Member::from_wire(message.source?)));
        }
        let segment = self.plan.segment()?;
        let is_missing = |member: &Member| {
            segment.signature_of(self.cursor.segment_round, member.rank()).is_none()
        };
        let mut others = self.plan.others().filter(is_missing);
        let heard = match self.plan.schedule().rounds().get(self.cursor.round)?.sync {
            SegSync::WaitFor(from) => others.find(|member| member.rank() == from),
            _ => others.next(),
        };
        self.plan.peer(heard?)
    }

    /// True when the meeting has come to what it waits for.
    fn has_been_called(&self) -> bool {
        let round = self
            .plan
            .schedule()
            .rounds()
            .get(self.cursor.round)
            .filter(|round| round.sync != SegSync::None);
        let has_segment_work = |sync| self.cursor.has_segment_work(&self.plan, sync);
        matches!(self.state, State::Messages)
            && round.is_some_and(|round| has_segment_work(round.sync))
    }

    /// A message of this very collective comes from a member that is in another one, or
    /// has given up. True if there was one: its receive ends with the fault.
    fn look_for_strays<T: Transport>(&mut self, pt2pt: &mut Engine, endpoint: &mut T) -> bool {
        let stray = Pattern {
            context: self.plan.context(),
            source: None,
            tag: Some(self.sequence),
            collective: Some(self.plan.collective()),
        };
        let has_come =
            self.plan.segment().is_some() && self.open.is_empty() && pt2pt.probe(&stray).is_some();
        if has_come {
            self.open.push(pt2pt.receive(endpoint, stray, Buffer::EMPTY));
        }
        has_come
    }

    /// Another member is in another call, or in the same with more or less data.
    #[cold]
    fn dissent(&self, source: u32) -> Box<Fault> {
        let (sequence, context) = (self.sequence, self.plan.context());
        let said = |call: u64| CollectiveCall { kind: (call >> KIND_AT) as u8, root: call as u32 };
        let (mine, theirs) = (
            call(&self.plan),
            self.plan
                .segment()
                .and_then(|segment| segment.signature_of(self.cursor.segment_round, source)),
        );
        let (ours, room) = (said(mine), mine >> BYTES_AT);
        let (theirs, sent) = theirs.map_or((ours, 0), |call| (said(call), call >> BYTES_AT));
        Box::new(if theirs != ours {
            Fault::Mismatched { ours, theirs, source, sequence, context }
        } else if sent == 0 {
            Fault::Empty { call: ours, source, sequence, context, room }
        } else {
            Fault::Truncated {
                source,
                tag: sequence,
                context,
                sent: sent.max(room),
                room: sent.min(room),
            }
        })
    }

    fn post<T: Transport>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        message: &Message,
    ) -> std::result::Result<(), Box<Fault>> {
        let Some(peer) = self.plan.peer(message.with) else {
            debug_assert!(false, "a schedule names a rank that the group does not have");
            return Ok(());
        };
        let buffer = self.cursor.buffer(&self.plan, &message.span, self.scratch.as_ref());
        match message.direction {
            Direction::Send => self.send(pt2pt, endpoint, peer, message, buffer),
            Direction::Recv => {
                let pattern = Pattern {
                    context: self.plan.context(),
                    source: Some(message.with.wire()),
                    tag: Some(self.sequence),
                    collective: Some(self.plan.collective()),
                };
                self.open.push(pt2pt.receive(endpoint, pattern, buffer));
                Ok(())
            }
        }
    }

    #[inline]
    fn send<T: Transport>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        to: Peer,
        message: &Message,
        buffer: Buffer,
    ) -> std::result::Result<(), Box<Fault>> {
        let envelope = self.envelope(message.with, self.plan.collective());
        match pt2pt.send_now(endpoint, Mode::Standard, to, &envelope, &buffer) {
            Ok(Some(_)) => {}
            Ok(None) => self.open.push(pt2pt.send(endpoint, Mode::Standard, to, envelope, buffer)),
            Err(lost) => return Err(Box::new(Fault::PeerFailed(lost))),
        }
        Ok(())
    }

    #[inline]
    fn envelope(&self, to: Member, collective: Collective) -> Envelope {
        let source = self.plan.source_for(to);
        Envelope {
            context: self.plan.context(),
            source,
            tag: self.sequence,
            collective: Some(collective),
        }
    }

    /// Takes the messages that have ended off the list; the first fault of them.
    fn reap(&mut self, pt2pt: &mut Engine, moved: &mut bool) -> Option<Box<Fault>> {
        let mut first = None;
        self.open.retain(|&request| {
            if !pt2pt.is_complete(request) {
                return true;
            }
            *moved = true;
            if let Some(fault) = pt2pt.finish(request).and_then(|completion| completion.fault) {
                first.get_or_insert(fault);
            }
            false
        });
        first
    }

    /// No more messages; those under way are called back.
    #[cold]
    fn fail<T: Transport>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        fault: Box<Fault>,
    ) -> bool {
        self.open.iter().for_each(|&request| pt2pt.cancel(endpoint, request));
        self.give_up(pt2pt, endpoint);
        self.state = State::Failing(fault);
        true
    }

    /// Says so to all who would get more of this collective, or they would wait for ever. Of this round
    /// some have got theirs: nobody receives what they get now.
    fn give_up<T: Transport>(&self, pt2pt: &mut Engine, endpoint: &mut T) {
        let schedule = self.plan.schedule();
        let first = self
            .cursor
            .round
            .checked_sub(1)
            .map_or(0, |before| schedule.rounds()[before].messages as usize);
        let sends = schedule.messages()[first..]
            .iter()
            .filter(|message| message.direction == Direction::Send);
        // In a meeting that was closed everyone has found out.
        let uses_segment = self
            .plan
            .segment()
            .is_some_and(|segment| !segment.is_complete(self.cursor.segment_round));
        let members = self.plan.others().filter(|_| uses_segment);
        let gave_up = Collective { kind: CollectiveKind::GaveUp, root: u32::MAX };
        for with in sends.map(|message| message.with).chain(members) {
            let Some(to) = self.plan.peer(with) else { continue };
            let envelope = self.envelope(with, gave_up);
            if let Ok(None) =
                pt2pt.send_now(endpoint, Mode::Standard, to, &envelope, &Buffer::EMPTY)
            {
                let request = pt2pt.send(endpoint, Mode::Standard, to, envelope, Buffer::EMPTY);
                pt2pt.detach(request);
            }
        }
    }

    /// Runs local steps; `Some` where a user's function is in the way.
    fn work(&mut self, id: CollectiveId, may_call: bool) -> Option<Step> {
        let (end, scratch) = (
            self.plan.schedule().rounds()[self.cursor.round].locals as usize,
            self.scratch.as_ref(),
        );
        let (left, inout) = self.cursor.work(&self.plan, end, scratch)?;
        if !may_call {
            // It is come to once more.
            self.cursor.next_local -= 1;
            return Some(Step::Blocked);
        }
        self.state = State::Away;
        self.user_call(id, &left, &inout).map(Step::User)
    }

    fn user_call(&self, id: CollectiveId, left: &Strided, inout: &Span) -> Option<UserCall> {
        let (Some(Reduction { op: Op::User(op), handle }), Some(datatype)) =
            (self.plan.reduction(), self.plan.datatype(inout.ty))
        else {
            debug_assert!(false, "a reduction has an operation and a type");
            return None;
        };
        let (op, count, scratch) = (op.clone(), inout.count, self.scratch.as_ref());
        let left = self.cursor.operands(&self.plan, left, datatype, scratch);
        let inout = self.cursor.buffer(&self.plan, inout, scratch);
        Some(UserCall { id, op, left, inout, count, datatype: datatype.clone(), handle: *handle })
    }

    /// The local steps of a round are done.
    fn next_round(&mut self) {
        let sync = self.plan.schedule().rounds()[self.cursor.round].sync;
        self.cursor.next_round(&self.plan, sync);
        self.go_on();
    }

    fn go_on(&mut self) {
        let is_over = self.cursor.round == self.plan.schedule().rounds().len();
        self.state = if is_over { State::Over(Ok(())) } else { State::Messages };
    }
}

impl UserCall {
    /// Calls the user's function, in pieces where the vector is long. No lock
    /// may be held: the function may call MPI.
    pub fn run(self) -> UserReturn {
        let piece = (PIECE / self.datatype.size().max(1)).max(1);
        for left in self.left.backwards() {
            let mut first = 0;
            while first < self.count {
                let count = piece.min(self.count - first);
                let part = |buffer: &Buffer| buffer.elements(first, count, &self.datatype);
                self.op.call(&part(&left), &part(&self.inout), &self.datatype, self.handle);
                first += count;
            }
        }
        UserReturn(self.id)
    }
}

#[cold]
fn no_memory(bytes: u64) -> Error {
    Error::new(
        Class::NoMem,
        format!("no {bytes} bytes of scratch memory for a collective operation"),
    )
}

/// Schedules are shared between threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Schedule>();
    shared::<Plan>();
    const fn sent<T: Send>() {}
    sent::<Active>();
    sent::<UserCall>();
};
