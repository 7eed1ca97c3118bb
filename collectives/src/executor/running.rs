//! One running collective: its messages, its local steps, its synchronisation. Where its schedule
//! has two strands, they take turns: one runs, the other one is put aside ([`Strand`]).
//!
//! States ([`State`]): *messages* of the current round are posted and waited for, or the round
//! waits for the segment or for the other strand. Then its *local* steps run. A strand is *done*
//! before the other one. A user's reduction is *away* in a [`UserCall`]. After a fault the
//! collective is *failing* until the messages under way have ended. It is *over* until its result
//! is taken. What a failed one has left to do in its segment is an entry of its own, which is
//! *leaving*.

use fabric::coll_segment::Wakes;
use fabric::{Collective, HybridGet, Peer};
use objects::scratch::Scratch;
use objects::{Buffer, Op};
use pt2pt::{Engine, Fault, Mode, Notice, RequestId};

use super::collective_id::CollectiveId;
use super::cursor::{Cursor, Interrupt, SyncResult};
use super::failure;
use super::user_call::UserCall;
use crate::plan::{Plan, Reduction};
use crate::schedule::{Direction, Member, Message, Round, Schedule, SegSync};
use crate::shape::{Span, Strided};
use crate::signature;

/// The most members that a blocked collective asks at once.
const MAX_MISSING: usize = 32;
/// The least bytes of a message that is announced where the schedule does so.
const ANNOUNCED_MIN: u64 = 16 << 10;

/// A collective from its start until its result is taken.
pub(super) struct Running {
    pub(super) plan: Plan,
    pub(super) sequence: i32,
    pub(super) state: State,
    pub(super) cursor: Cursor,
    /// The next message to post, of all.
    next_message: usize,
    /// One past the last round of the strand that runs.
    end: usize,
    /// Messages under way.
    open: Vec<RequestId>,
    /// The other strand, if the schedule has two. Between steps it is the main one that runs, until
    /// it is done.
    aside: Option<Strand>,
    pub(super) scratch: Option<Scratch>,
    /// The result will not be taken.
    pub(super) detached: bool,
    /// The digest of the call before; see [`Collective::before`].
    pub(super) before: u8,
    /// What the end reports although this collective has done its work.
    late: Option<Box<Fault>>,
    /// It has not done its work.
    pub(super) has_failed: bool,
    /// A failed collective has arrived in its round of the segment.
    has_arrived: bool,
}

/// A strand that does not run: what [`Running`] has of the one that does.
struct Strand {
    state: State,
    round: usize,
    next_local: usize,
    copied: u64,
    next_message: usize,
    end: usize,
    open: Vec<RequestId>,
}

/// The lists of requests of both strands, for their memory.
pub(super) type OpenLists = [Vec<RequestId>; 2];

/// See the module.
pub(super) enum State {
    /// Posts and awaits the messages of the round, or waits for the segment.
    Messages,
    /// Runs the local steps of the round.
    Locals,
    /// This strand has come to its end, the other one has not.
    Done,
    /// A user's function has been handed out.
    Away,
    /// Waits for the messages under way to end.
    Failing(Box<Fault>),
    /// Goes through what is left of the rounds of its segment.
    Leaving,
    /// Has gone through them.
    Left,
    /// The result.
    Over(std::result::Result<(), Box<Fault>>),
}

/// How far one collective came without waiting.
pub(super) enum Step {
    Blocked,
    /// A failed one has begun so many rounds of its segment after those of later collectives, which
    /// must move on by as many.
    Repeated(u64),
    Over,
    User(UserCall),
    /// A get was refused: all members begin anew.
    Refused,
}

impl Running {
    /// A collective whose `cursor` may have advanced.
    #[inline]
    pub(super) fn new(
        plan: Plan,
        sequence: i32,
        cursor: Cursor,
        [open, other]: OpenLists,
        scratch: Option<Scratch>,
    ) -> Running {
        let schedule = plan.schedule();
        let end = schedule.main_rounds();
        let aside = schedule.has_two_strands().then(|| {
            let (next_message, next_local) = schedule.start_of(end);
            let (state, round) = (State::Messages, end);
            let end = schedule.rounds().len();
            Strand { state, round, next_local, copied: 0, next_message, end, open: other }
        });
        Running {
            plan,
            sequence,
            state: State::Messages,
            cursor,
            next_message: 0,
            end,
            open,
            aside,
            scratch,
            detached: false,
            before: signature::before(cursor.signature),
            late: None,
            has_failed: false,
            has_arrived: false,
        }
    }

    /// What a failed collective has left to do in its segment, if that needs waiting; and by how
    /// many rounds later ones must move on.
    #[cold]
    pub(super) fn remainder(&mut self) -> (Option<Running>, u64) {
        let mut has_arrived = self.has_arrived || self.cursor.has_arrived(&self.plan);
        let mut pushed = 0;
        let has_left = self.cursor.leave_early(&self.plan, &mut has_arrived, &mut pushed);
        let rest = (!has_left).then(|| {
            let plan = self.plan.clone();
            let rest = Running::new(plan, self.sequence, self.cursor, OpenLists::default(), None);
            Running { state: State::Leaving, aside: None, detached: true, has_arrived, ..rest }
        });
        (rest, pushed)
    }

    /// True when it has failed, and has arrived in all its rounds of the segment.
    pub(super) fn has_arrived_in_all(&self) -> bool {
        matches!(self.state, State::Leaving) && self.has_arrived && self.cursor.is_in_last_round()
    }

    /// Returns true for a collective of its program that is not over.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.state, State::Messages | State::Locals | State::Away)
    }

    /// Returns true while it has two strands.
    pub(super) fn is_divided(&self) -> bool {
        self.aside.is_some()
    }

    /// Does all that needs no waiting; of two strands at most a few local steps each, for messages
    /// must progress between them. A user's function is handed out if `may_call`, otherwise left
    /// where it is.
    pub(super) fn step<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        id: CollectiveId,
        may_call: bool,
        moved: &mut bool,
    ) -> Step {
        match self.aside {
            None => self.run(pt2pt, endpoint, id, may_call, moved),
            Some(_) => self.run_both(pt2pt, endpoint, id, may_call, moved),
        }
    }

    /// Runs both strands, each as far as it gets.
    #[inline(never)]
    fn run_both<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        id: CollectiveId,
        may_call: bool,
        moved: &mut bool,
    ) -> Step {
        for _ in 0..2 {
            match self.run(pt2pt, endpoint, id, may_call, moved) {
                Step::Blocked if self.aside.is_some() && !matches!(self.state, State::Away) => {
                    self.swap();
                }
                step => return step,
            }
        }
        self.prefer_main();
        Step::Blocked
    }

    /// Puts the strand that runs aside, and takes the other one.
    fn swap(&mut self) {
        let Some(aside) = &mut self.aside else { return };
        std::mem::swap(&mut self.state, &mut aside.state);
        std::mem::swap(&mut self.cursor.round, &mut aside.round);
        std::mem::swap(&mut self.cursor.next_local, &mut aside.next_local);
        std::mem::swap(&mut self.cursor.copied, &mut aside.copied);
        std::mem::swap(&mut self.next_message, &mut aside.next_message);
        std::mem::swap(&mut self.end, &mut aside.end);
        std::mem::swap(&mut self.open, &mut aside.open);
    }

    fn is_main(&self) -> bool {
        self.end == self.plan.schedule().main_rounds()
    }

    /// Takes the main strand, or if it is done the other one.
    fn prefer_main(&mut self) {
        if !self.is_main() {
            self.swap();
        }
        if matches!(self.state, State::Done) {
            self.swap();
        }
    }

    /// The lists of requests, those of the main strand first, for their memory.
    pub(super) fn take_lists(&mut self) -> OpenLists {
        let is_main = self.is_main();
        let open = std::mem::take(&mut self.open);
        let other = self.aside.take().map_or(Vec::new(), |aside| aside.open);
        if is_main { [open, other] } else { [other, open] }
    }

    /// Does what the strand that runs can do without waiting.
    fn run<T: HybridGet>(
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
                        None if self.has_locals() => {}
                        None => self.next_round(),
                        Some(call) => return call,
                    }
                    if self.aside.is_some() && !matches!(self.state, State::Over(_)) {
                        // The other strand may go on, and messages may progress.
                        return Step::Blocked;
                    }
                }
                State::Away | State::Done => return Step::Blocked,
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
                State::Leaving => {
                    let (plan, mut pushed) = (&self.plan, 0);
                    if self.cursor.leave_early(plan, &mut self.has_arrived, &mut pushed) {
                        *moved = true;
                        self.state = State::Left;
                    } else if pushed == 0 {
                        return Step::Blocked;
                    }
                    if pushed > 0 {
                        return Step::Repeated(pushed);
                    }
                }
                State::Over(_) | State::Left => return Step::Over,
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
        let rounds = &self.plan.schedule().rounds()[..self.end];
        let Some(round) = rounds.get(self.cursor.round).copied() else {
            self.end();
            return true;
        };
        if round.after > 0 && !self.may_begin(&round) {
            return false;
        }
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
        let early = round.early as usize;
        *moved |= self.cursor.run_early(&self.plan, early, self.scratch.as_ref());
        false
    }

    /// True when the rounds of the other strand that a round waits for are over.
    fn may_begin(&self, round: &Round) -> bool {
        self.aside.as_ref().is_none_or(|aside| aside.round >= round.after as usize)
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
            SyncResult::Mismatch(member) => self.mismatched(pt2pt, endpoint, sync, member),
        }
        *moved = true;
        true
    }

    /// Fails if a member of the segment is in another call. If the member was in another one
    /// before, that is reported at the end.
    #[cold]
    fn mismatched<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        sync: SegSync,
        member: u32,
    ) {
        let Some(segment) = self.plan.segment() else { return };
        let round = self.cursor.segment_round;
        let theirs = segment.signature_of(round, member);
        if theirs == Some(signature::alone(self.cursor.signature)) {
            let before = round.checked_sub(1);
            let is_reported = before.is_some_and(|before| segment.is_reported(before));
            if !is_reported && self.before != Collective::FAILED {
                let fault = failure::earlier(&self.plan, &self.cursor, self.sequence, member);
                self.late.get_or_insert(fault);
                before.into_iter().for_each(|before| segment.mark_reported(before));
            }
            self.state = State::Locals;
            return;
        }
        segment.mark_reported(round);
        if let SegSync::WaitFor(_) = sync {
            // No member waits for data of this one: they may see what it called.
            self.has_arrived = true;
            if segment.arrive(round, self.cursor.signature, Wakes::All) {
                // The other members wait for all to arrive.
                segment.complete(round);
            }
        }
        let fault = failure::mismatch(&self.plan, &self.cursor, self.sequence, member);
        self.fail(pt2pt, endpoint, fault);
    }

    /// The member that the collective waits for; the first one where there are several.
    pub(super) fn missing_member(&self, pt2pt: &Engine) -> Option<Peer> {
        self.missing_members(pt2pt).first().copied()
    }

    /// The first of its rounds of the segment, if it waits in one of them. All members of the same
    /// collective have the same first round, wherever they are in it.
    pub(super) fn first_round(&self) -> Option<u64> {
        let is_there = self.open().next().is_none() && self.plan.segment().is_some();
        is_there.then_some(self.cursor.first_segment_round)
    }

    /// Returns true if a member that waits in the same collective began it in a later `round` of
    /// the segment, of whose number the lower bits are known.
    #[cold]
    pub(super) fn is_behind(&self, round: Option<u64>) -> bool {
        let (Some(theirs), Some(mine)) = (round, self.first_round()) else { return false };
        let behind = theirs.wrapping_sub(mine) & ((1 << Notice::ROUND_BITS) - 1);
        (1..1 << (Notice::ROUND_BITS - 1)).contains(&behind)
    }

    /// Messages under way, of both strands.
    fn open(&self) -> impl Iterator<Item = RequestId> {
        let aside = self.aside.iter().flat_map(|aside| &aside.open);
        self.open.iter().chain(aside).copied()
    }

    /// The members that the collective waits for, at most [`MAX_MISSING`].
    pub(super) fn missing_members(&self, pt2pt: &Engine) -> Vec<Peer> {
        let messages = self.open().filter_map(|request| pt2pt.blocked_on(request));
        let peers = messages.filter_map(|message| {
            message.peer.or_else(|| self.plan.peer(Member::from_wire(message.source?)))
        });
        let mut missing: Vec<Peer> = peers.take(MAX_MISSING).collect();
        missing.dedup();
        if missing.is_empty() {
            missing.extend(self.missing_in_segment());
        }
        missing
    }

    fn missing_in_segment(&self) -> Vec<Peer> {
        let rounds = self.plan.schedule().rounds();
        let (Some(segment), Some(round)) = (self.plan.segment(), rounds.get(self.cursor.round))
        else {
            return Vec::new();
        };
        let has_arrived =
            |member| segment.signature_of(self.cursor.segment_round, member).is_some();
        let missing = self.plan.segment_others().filter(|&(member, _)| match round.sync {
            SegSync::WaitFor(awaited) | SegSync::WaitForArrival(awaited) => {
                awaited.members().contains(&member) && !has_arrived(member)
            }
            _ => !has_arrived(member),
        });
        let mut missing: Vec<_> = missing.collect();
        // A member that arrives last waits for the others itself.
        let before = rounds[..self.cursor.round].iter().rev();
        let mut last = before.filter_map(|round| match round.sync {
            SegSync::ArriveBefore(last) => Some(u32::from(last)),
            _ => None,
        });
        if let Some(last) = last.next().filter(|_| missing.len() > 1) {
            missing.retain(|&(member, _)| member != last);
        }
        let peers = missing.into_iter().filter_map(|(_, rank)| self.plan.peer(Member::local(rank)));
        peers.take(MAX_MISSING).collect()
    }

    /// True when it waits for the segment, and what it waits for has happened; or one of its
    /// strands waits for nothing that a transport reports.
    pub(super) fn is_due(&self) -> bool {
        if let State::Leaving = self.state {
            return self.cursor.is_left(&self.plan, self.has_arrived);
        }
        let is_due = |state: &State, round: Option<&Round>| {
            matches!(state, State::Messages)
                && round.is_some_and(|round| {
                    round.sync != SegSync::None && self.cursor.is_due(&self.plan, round.sync)
                })
        };
        let rounds = self.plan.schedule().rounds();
        let Some(aside) = &self.aside else {
            return is_due(&self.state, rounds.get(self.cursor.round));
        };
        // A round that has begun, or must not begin, waits.
        let may_begin = |at: usize, end: usize, next: usize, other: usize| {
            rounds[..end].get(at).filter(|round| {
                other >= round.after as usize && next == self.plan.schedule().start_of(at).0
            })
        };
        let here = may_begin(self.cursor.round, self.end, self.next_message, aside.round);
        let there = may_begin(aside.round, aside.end, aside.next_message, self.cursor.round);
        [(&self.state, here), (&aside.state, there)].into_iter().any(|(state, round)| {
            matches!(state, State::Locals)
                || is_due(state, round)
                || matches!(state, State::Messages)
                    && round.is_some_and(|round| round.sync == SegSync::None)
        })
    }

    /// Looks for a message of this very collective where its schedule has none: the sender is in
    /// another call or has given up. True if there was one: its receive ends with the fault.
    pub(super) fn receive_mismatched<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
    ) -> bool {
        if !matches!(self.state, State::Messages)
            || self.plan.segment().is_none()
            || !self.plan.schedule().messages().is_empty()
            || !self.open.is_empty()
        {
            return false;
        }
        let pattern = self.plan.pattern(None, self.sequence, self.collective());
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
                let pattern =
                    self.plan.pattern(Some(message.with), self.sequence, self.collective());
                self.open.push(pt2pt.receive(endpoint, pattern, buffer));
                Ok(())
            }
        }
    }

    /// The call, as its messages carry it.
    #[inline]
    fn collective(&self) -> Collective {
        Collective { before: self.before, ..self.plan.collective() }
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
        let envelope = self.plan.envelope(message.with, self.sequence, self.collective());
        if self.plan.schedule().announces() && buffer.len() >= ANNOUNCED_MIN {
            self.open.push(pt2pt.send(endpoint, Mode::Announced, to, envelope, buffer));
            return Ok(());
        }
        match pt2pt.send_now(endpoint, Mode::Standard, to, &envelope, &buffer) {
            Ok(Some(_)) => {}
            Ok(None) => self.open.push(pt2pt.send(endpoint, Mode::Standard, to, envelope, buffer)),
            Err(failed) => return Err(Box::new(Fault::PeerFailed(failed))),
        }
        Ok(())
    }

    /// Takes the messages that have ended off the list; the first fault among them. A fault of an
    /// earlier collective is for the end.
    fn reap(&mut self, pt2pt: &mut Engine, moved: &mut bool) -> Option<Box<Fault>> {
        let (mut first, late) = (None, &mut self.late);
        self.open.retain(|&request| {
            if !pt2pt.is_complete(request) {
                return true;
            }
            *moved = true;
            if let Some(fault) = pt2pt.finish(request).and_then(|completion| completion.fault) {
                let place =
                    if let Fault::Earlier { .. } = *fault { &mut *late } else { &mut first };
                place.get_or_insert(fault);
            }
            false
        });
        first
    }

    /// Cancels the messages under way and notifies the other members.
    #[cold]
    pub(super) fn fail<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        mut fault: Box<Fault>,
    ) -> bool {
        if let Fault::Mismatched { ours: call, .. } | Fault::Sizes { call, .. } = &mut *fault {
            call.bytes = call.bytes.or(self.plan.call().bytes);
        }
        let aside = self.aside.as_ref().map(|aside| (aside.round, aside.end));
        let strands = [Some((self.cursor.round, self.end)), aside];
        if !self.is_main() {
            self.swap();
        }
        if let Some(aside) = &mut self.aside {
            self.open.append(&mut aside.open);
        }
        self.aside = None;
        self.open.iter().for_each(|&request| pt2pt.cancel(endpoint, request));
        self.has_failed = true;
        let is_dead = matches!(*fault, Fault::PeerFailed(_));
        if !(is_dead && pt2pt.all_learn_of_failures()) {
            let strands = strands.into_iter().flatten();
            failure::give_up(&self.plan, strands, self.sequence, !is_dead, pt2pt, endpoint);
        }
        self.state = State::Failing(fault);
        true
    }

    /// Runs the local steps of the round, or some of them; `Some` where one calls a user's
    /// function, or a get was refused.
    fn run_locals(&mut self, id: CollectiveId, may_call: bool) -> Option<Step> {
        let mut end = self.plan.schedule().rounds()[self.cursor.round].locals as usize;
        if self.aside.is_some() {
            end = end.min(self.cursor.next_local + Schedule::LOCALS_AT_ONCE as usize);
        }
        let interrupt = self.cursor.run_locals(&self.plan, end, self.scratch.as_ref())?;
        let Interrupt::User(left, inout) = interrupt else { return Some(Step::Refused) };
        if !may_call {
            // Retried by the next `advance`.
            self.cursor.next_local -= 1;
            return Some(Step::Blocked);
        }
        self.state = State::Away;
        self.user_call(id, &left, &inout).map(Step::User)
    }

    /// True when local steps of the round have not run.
    #[inline]
    fn has_locals(&self) -> bool {
        let round = &self.plan.schedule().rounds()[self.cursor.round];
        self.cursor.next_local < round.locals as usize
    }

    fn user_call(&self, id: CollectiveId, left: &Strided, inout: &Span) -> Option<UserCall> {
        let (Some(Reduction { op: Op::User(op), handle, .. }), Some(datatype)) =
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
        match self.cursor.round == self.end {
            true => self.end(),
            false => self.state = State::Messages,
        }
    }

    /// Ends a strand, and if it is the last one the collective, which has done its work.
    fn end(&mut self) {
        if self.aside.as_ref().is_some_and(|aside| !matches!(aside.state, State::Done)) {
            self.state = State::Done;
            return;
        }
        self.state = State::Over(self.late.take().map_or(Ok(()), Err));
    }

    /// Leaves the segment. A failed collective goes through its rounds first; see
    /// [`Running::remainder`].
    pub(super) fn leave(&self, has_failed: bool) {
        if !has_failed {
            self.cursor.leave(&self.plan);
        }
    }
}
