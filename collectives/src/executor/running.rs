//! One running collective: its messages, its local steps, its synchronisation.
//!
//! States ([`State`]): *messages* of the current round are posted and waited for, or the round
//! waits for the segment. Then its *local* steps run. A user's reduction is *away* in a
//! [`UserCall`]. After a fault the collective is *failing* until the messages under way have ended.
//! It is *over* until its result is taken.

use fabric::{HybridGet, Peer};
use objects::scratch::Scratch;
use objects::{Buffer, Op};
use pt2pt::{Engine, Fault, Mode, RequestId};

use super::collective_id::CollectiveId;
use super::cursor::{Cursor, SyncResult, signature};
use super::failure;
use super::user_call::UserCall;
use crate::plan::{Plan, Reduction};
use crate::schedule::{Direction, Member, Message, SegSync};
use crate::shape::{Span, Strided};

/// A collective from its start until its result is taken.
pub(super) struct Running {
    pub(super) plan: Plan,
    pub(super) sequence: i32,
    pub(super) state: State,
    cursor: Cursor,
    /// The next message to post, of all.
    next_message: usize,
    /// Messages under way.
    pub(super) open: Vec<RequestId>,
    pub(super) scratch: Option<Scratch>,
    /// The result will not be taken.
    pub(super) detached: bool,
}

/// See the module.
pub(super) enum State {
    /// Posts and awaits the messages of the round, or waits for the segment.
    Messages,
    /// Runs the local steps of the round.
    Locals,
    /// A user's function has been handed out.
    Away,
    /// Waits for the messages under way to end.
    Failing(Box<Fault>),
    /// The result.
    Over(std::result::Result<(), Box<Fault>>),
}

/// How far one collective came without waiting.
pub(super) enum Step {
    Blocked,
    Over,
    User(UserCall),
}

impl Running {
    /// A collective whose `cursor` may have advanced.
    #[inline]
    pub(super) fn new(
        plan: Plan,
        sequence: i32,
        cursor: Cursor,
        open: Vec<RequestId>,
        scratch: Option<Scratch>,
    ) -> Running {
        let (state, detached) = (State::Messages, false);
        Running { plan, sequence, state, cursor, next_message: 0, open, scratch, detached }
    }

    /// Does all that needs no waiting. A user's function is handed out if `may_call`, otherwise
    /// left where it is.
    pub(super) fn step<T: HybridGet>(
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
                    match self.run_locals(id, may_call) {
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
    fn exchange<T: HybridGet>(
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

    /// Synchronises with the segment before the local steps of a round; true when the state has
    /// changed.
    #[inline(never)]
    fn sync<T: HybridGet>(
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
        match self.cursor.sync(&self.plan, sync) {
            SyncResult::Blocked => return false,
            SyncResult::Run => self.state = State::Locals,
            SyncResult::Skip => {
                self.cursor.skip(&self.plan);
                self.enter_round();
            }
            SyncResult::Mismatch(member) => {
                if let (SegSync::WaitFor(_), Some(segment)) = (sync, self.plan.segment())
                    && segment.arrive(self.cursor.segment_round, signature(&self.plan), false)
                {
                    // The other members wait for all to arrive.
                    segment.complete(self.cursor.segment_round);
                }
                let fault = failure::mismatch(&self.plan, &self.cursor, self.sequence, member);
                return self.fail(pt2pt, endpoint, fault);
            }
        }
        *moved = true;
        true
    }

    /// The member that the collective waits for; the first one where there are several.
    pub(super) fn missing_member(&self, pt2pt: &Engine) -> Option<Peer> {
        let message = self.open.iter().find_map(|&request| pt2pt.blocked_on(request));
        if let Some(message) = message {
            return message.peer.or_else(|| self.plan.peer(Member::from_wire(message.source?)));
        }
        let segment = self.plan.segment()?;
        let round = self.cursor.segment_round;
        let mut missing = self
            .plan
            .segment_others()
            .filter(|&(member, _)| segment.signature_of(round, member).is_none());
        let (_, rank) = match self.plan.schedule().rounds().get(self.cursor.round)?.sync {
            SegSync::WaitFor(from) => missing.find(|&(member, _)| member == from),
            _ => missing.next(),
        }?;
        self.plan.peer(Member::local(rank))
    }

    /// True when it waits for the segment, and what it waits for has happened.
    pub(super) fn is_due(&self) -> bool {
        let round = self.plan.schedule().rounds().get(self.cursor.round);
        matches!(self.state, State::Messages)
            && round.is_some_and(|round| {
                round.sync != SegSync::None && self.cursor.is_due(&self.plan, round.sync)
            })
    }

    /// Looks for a message of this very collective where its schedule has none: the sender is in
    /// another call or has given up. True if there was one: its receive ends with the fault.
    pub(super) fn receive_mismatched<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
    ) -> bool {
        if self.plan.segment().is_none()
            || !self.plan.schedule().messages().is_empty()
            || !self.open.is_empty()
        {
            return false;
        }
        let pattern = self.plan.pattern(None, self.sequence);
        let is_there = pt2pt.probe(&pattern).is_some();
        if is_there {
            self.open.push(pt2pt.receive(endpoint, pattern, Buffer::EMPTY));
        }
        is_there
    }

    fn post<T: HybridGet>(
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
                let pattern = self.plan.pattern(Some(message.with), self.sequence);
                self.open.push(pt2pt.receive(endpoint, pattern, buffer));
                Ok(())
            }
        }
    }

    #[inline]
    fn send<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        to: Peer,
        message: &Message,
        buffer: Buffer,
    ) -> std::result::Result<(), Box<Fault>> {
        let envelope = self.plan.envelope(message.with, self.sequence, self.plan.collective());
        match pt2pt.send_now(endpoint, Mode::Standard, to, &envelope, &buffer) {
            Ok(Some(_)) => {}
            Ok(None) => self.open.push(pt2pt.send(endpoint, Mode::Standard, to, envelope, buffer)),
            Err(failed) => return Err(Box::new(Fault::PeerFailed(failed))),
        }
        Ok(())
    }

    /// Takes the messages that have ended off the list; the first fault among them.
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

    /// Cancels the messages under way and notifies the other members.
    #[cold]
    fn fail<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        fault: Box<Fault>,
    ) -> bool {
        self.open.iter().for_each(|&request| pt2pt.cancel(endpoint, request));
        failure::give_up(&self.plan, &self.cursor, self.sequence, pt2pt, endpoint);
        self.state = State::Failing(fault);
        true
    }

    /// Runs the local steps of the round; `Some` where one calls a user's function.
    fn run_locals(&mut self, id: CollectiveId, may_call: bool) -> Option<Step> {
        let end = self.plan.schedule().rounds()[self.cursor.round].locals as usize;
        let (left, inout) = self.cursor.run_locals(&self.plan, end, self.scratch.as_ref())?;
        if !may_call {
            // Retried by the next `advance`.
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

    /// Ends a round whose local steps are done.
    fn next_round(&mut self) {
        let sync = self.plan.schedule().rounds()[self.cursor.round].sync;
        self.cursor.next_round(&self.plan, sync);
        self.enter_round();
    }

    fn enter_round(&mut self) {
        let is_over = self.cursor.round == self.plan.schedule().rounds().len();
        self.state = if is_over { State::Over(Ok(())) } else { State::Messages };
    }

    /// Leaves the segment.
    pub(super) fn leave(&self) {
        self.cursor.leave(&self.plan);
    }
}
