//! Inquiries: a collective that has waited for some time asks the members that it waits for about
//! their calls. A member answers if its call differs or has failed. So no rank waits for one that
//! has left the collective with an error, or that was never in it.
//!
//! A member knows its calls from three sources: the collectives that are under way, the latest ones
//! of the executor ([`Calls`]), and the signatures of the latest rounds of a segment, for those
//! that ran outside of the executor. A member that has not come to the collective yet does not
//! answer; the waiting rank asks again.
//!
//! If one rank took a message where others took the segment, its rounds are behind theirs. A rank
//! that learns of it from an inquiry fails, and catches up when it leaves its segment
//! ([`Cursor::leave_early`](super::cursor::Cursor::leave_early)).

use std::sync::Arc;

use fabric::coll_segment::Wakes;
use fabric::{CollSegment, Collective, CollectiveKind, HybridGet, Peer};
use objects::LatestCall;
use pt2pt::{CollectiveCall, Engine, Fault, Notice};

use super::Active;
use super::running::{Running, State};
use crate::latest_call;
use crate::plan::Plan;
use crate::schedule::Member;
use crate::signature;

/// Calls that are kept.
const KEPT: usize = 64;

/// The latest calls that this process has ended.
#[derive(Debug, Default)]
pub(super) struct Calls {
    latest: Vec<PastCall>,
    /// Where the next one is stored.
    next: usize,
}

/// A collective that is over here.
#[derive(Clone, Copy, Debug)]
struct PastCall {
    context: u64,
    sequence: i32,
    /// This process's rank in the communicator.
    rank: u32,
    call: CollectiveCall,
    has_failed: bool,
    /// What the next call has as the digest of this one.
    digest: u8,
}

/// What the communicator of an inquiry knows.
pub struct Passed {
    /// This process's rank in it.
    pub rank: u32,
    /// The number of its next collective.
    pub next: i32,
    /// Its collective segment.
    pub segment: Option<Arc<dyn CollSegment>>,
    /// See [`objects::Comm::latest_call`].
    pub latest: Arc<LatestCall>,
}

impl Calls {
    /// Keeps a call that is over.
    pub(super) fn keep(&mut self, plan: &Plan, sequence: i32, has_failed: bool) {
        if plan.is_alone() {
            return;
        }
        let (context, rank, call) = (plan.context(), plan.rank(), plan.call());
        let digest = match plan.is_in_comm_segment() {
            true => {
                let signature = signature::numbered(plan.signature(), sequence);
                latest_call::digest_of_signature(signature)
            }
            false => latest_call::digest_of(call, sequence),
        };
        self.store(PastCall { context, sequence, rank, call, has_failed, digest });
    }

    /// Names both calls in the fault of a collective whose messages show that a member's call
    /// before was another one: this rank's is one of the latest, and data of the member's may have
    /// arrived that no receive here is for, or the segment has its signature.
    #[cold]
    pub(super) fn name_earlier(&self, running: &mut Running, pt2pt: &mut Engine) {
        let Running { plan, before, sequence: later, state, .. } = running;
        let State::Over(Err(fault)) = state else { return };
        let Fault::Earlier { ours: ours @ None, theirs: theirs @ None, source, context, .. } =
            &mut **fault
        else {
            return;
        };
        let is_it = |past: &PastCall| {
            past.context == *context && past.sequence < *later && past.digest == *before
        };
        let Some(past) = self.latest_first().find(|past| is_it(past)) else {
            if let Some(calls) = calls_in_segment(plan, *before, *source) {
                (*ours, *theirs) = calls;
            }
            return;
        };
        let any = Collective::new(CollectiveKind::Internal, None, None);
        let pattern = plan.pattern(Some(Member::from_wire(*source)), past.sequence, any);
        let arrived = pt2pt.probe_call(&pattern);
        *theirs = arrived.filter(|theirs| !theirs.agrees(&past.call));
        if theirs.is_none() {
            *theirs = calls_in_segment(plan, *before, *source).and_then(|(_, theirs)| theirs);
        }
        *ours = Some(past.call);
    }

    fn store(&mut self, call: PastCall) {
        match self.latest.get_mut(self.next) {
            Some(place) => *place = call,
            None => self.latest.push(call),
        }
        self.next = (self.next + 1) % KEPT;
    }

    fn find(&self, context: u64, sequence: i32) -> Option<&PastCall> {
        self.latest_first().find(|c| c.context == context && c.sequence == sequence)
    }

    fn latest_first(&self) -> impl Iterator<Item = &PastCall> {
        let (new, old) = self.latest.split_at(self.next.min(self.latest.len()));
        new.iter().rev().chain(old.iter().rev())
    }
}

/// The calls of this rank and of `member` in the latest round of the communicator's segment, if
/// this rank's has the digest `before`.
fn calls_in_segment(
    plan: &Plan,
    before: u8,
    member: u32,
) -> Option<(Option<CollectiveCall>, Option<CollectiveCall>)> {
    let segment = plan.comm_segment()?;
    let ours = segment.own_signature(0)?;
    let is_it = |signature| latest_call::digest_of_signature(signature) == before;
    if !is_it(ours) {
        return None;
    }
    let theirs = segment.signature_of(segment.begun().checked_sub(1)?, member);
    let theirs = theirs.filter(|theirs| *theirs != ours).map(signature::call);
    Some((Some(signature::call(ours)), theirs))
}

impl Active {
    /// Asks the members that blocked collectives wait for.
    #[cold]
    pub fn inquire<T: HybridGet>(&mut self, pt2pt: &mut Engine, endpoint: &mut T) {
        for &slot in &self.live {
            let Some(running) = &self.entries[slot as usize].running else { continue };
            if !running.is_under_way() {
                continue;
            }
            let round = running.first_round();
            for peer in running.missing_members(pt2pt) {
                if let Some(member) = running.plan.member_of(peer) {
                    let inquiry = Notice {
                        context: running.plan.context(),
                        source: running.plan.source_for(member),
                        sequence: running.sequence,
                        call: running.plan.call(),
                        is_answer: false,
                        round,
                    };
                    pt2pt.notify(endpoint, peer, &inquiry);
                }
            }
        }
    }

    /// Handles the notices that have arrived. `passed` tells of a communicator by the context id of
    /// its collectives. True if collectives have failed.
    #[cold]
    pub fn handle_notices<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        passed: impl Fn(u64) -> Option<Passed>,
    ) -> bool {
        let mut has_failed = false;
        for (from, notice) in pt2pt.take_notices() {
            has_failed |= self.handle_notice(pt2pt, endpoint, from, &notice, &passed);
        }
        has_failed
    }

    /// Keeps that the `sequence`th call on a communicator, where this process has rank `rank`, was
    /// refused here before it started: members that wait for it in that collective learn so when
    /// they ask, others in the next one. `context`: that of its collectives on the wire.
    #[cold]
    pub fn mark_refused(&mut self, context: u64, sequence: i32, rank: u32, latest: &LatestCall) {
        let call = CollectiveCall::GAVE_UP;
        let digest = Collective::FAILED;
        self.past.store(PastCall { context, sequence, rank, call, has_failed: true, digest });
        if sequence >= 0 {
            latest_call::fail(latest);
        }
    }

    fn handle_notice<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        from: Peer,
        notice: &Notice,
        passed: &impl Fn(u64) -> Option<Passed>,
    ) -> bool {
        if let Some(running) = self.find_under_way(notice) {
            let call = running.plan.call();
            let is_behind = !notice.is_answer && running.is_behind(notice.round);
            if !notice.is_answer && !is_behind && call.agrees(&notice.call) {
                return false;
            }
            if !notice.is_answer {
                pt2pt.notify(endpoint, from, &answer(notice, call, running.plan.rank()));
            }
            running.fail(pt2pt, endpoint, fault(call, notice));
            return true;
        }
        if !notice.is_answer
            && let Some(answer) = self.answer_from_past(notice, passed)
        {
            pt2pt.notify(endpoint, from, &answer);
        }
        false
    }

    fn find_under_way(&mut self, notice: &Notice) -> Option<&mut Running> {
        let is_it = |running: &Running| {
            running.is_under_way()
                && running.sequence == notice.sequence
                && running.plan.context() == notice.context
        };
        let Active { live, entries, .. } = self;
        let slot = live
            .iter()
            .copied()
            .find(|&slot| entries[slot as usize].running.as_ref().is_some_and(is_it))?;
        entries[slot as usize].running.as_mut()
    }

    /// Returns true if this process waits in a round of the segment, of whose number the lower bits
    /// are known, in a collective after the `sequence`th. It is in the first one alone; later ones
    /// have only begun their rounds.
    fn waits_in(&self, context: u64, sequence: i32, round: u64) -> bool {
        let mut running =
            self.live.iter().filter_map(|&slot| self.entries[slot as usize].running.as_ref());
        let first = running.find(|running| {
            running.is_under_way()
                && running.plan.context() == context
                && running.sequence > sequence
        });
        let first_round = first.and_then(Running::first_round);
        first_round.is_some_and(|first| (first ^ round).is_multiple_of(1 << Notice::ROUND_BITS))
    }

    /// The answer to an inquiry about a collective that this process has ended, if the asking
    /// member waits in vain for it.
    fn answer_from_past(
        &self,
        notice: &Notice,
        passed: &impl Fn(u64) -> Option<Passed>,
    ) -> Option<Notice> {
        let Notice { context, sequence, .. } = *notice;
        let past = self.past.find(context, sequence);
        if let Some(past) = past.filter(|past| past.has_failed || !past.call.agrees(&notice.call)) {
            return Some(answer(notice, past.call, past.rank));
        }
        let Passed { rank, next, segment, latest } = passed(context)?;
        if !(0..next).contains(&sequence) {
            return None;
        }
        if let Some(theirs) = notice.round {
            // The rounds show which members have been there, unless they are out of step: then one
            // may wait for the other in the same round.
            if self.waits_in(context, sequence, theirs) {
                return Some(answer(notice, notice.call, rank));
            }
            let is_behind = catch_up(&*segment?, theirs, sequence);
            if is_behind {
                latest_call::forget(&latest);
            }
            return is_behind.then(|| answer(notice, notice.call, rank));
        }
        if past.is_some() {
            return None;
        }
        let later = sequence + 1..next;
        if later.len() >= KEPT {
            return None;
        }
        let ran_outside = later.filter(|later| self.past.find(context, *later).is_none());
        let signature = segment?.own_signature(ran_outside.count() as u64);
        let unknown = CollectiveCall { kind: 0, root: Collective::NO_ROOT, bytes: None };
        let call = signature.map_or(unknown, signature::call);
        if signature.is_some_and(signature::has_failed) || !call.agrees(&notice.call) {
            return Some(answer(notice, call, rank));
        }
        // This process took the segment, and the other one waits for a message. The amounts differ,
        // although the signature has only a digest of its own.
        let is_long = call.bytes.is_none();
        is_long.then(|| Notice { round: Some(0), ..answer(notice, call, rank) })
    }
}

/// Goes through the rounds of a segment up to that of a member that waits in a collective that this
/// process has passed. Returns true if this process is behind. Rounds whose slots are not free yet
/// are left to the next inquiry.
fn catch_up(segment: &dyn CollSegment, theirs: u64, sequence: i32) -> bool {
    let (begun, span) = (segment.begun(), 1 << Notice::ROUND_BITS);
    let behind = theirs.wrapping_sub(begun) % span + 1;
    if behind > span / 2 {
        return false;
    }
    for round in (begun..begun + behind).take_while(|round| segment.is_ready(*round)) {
        segment.next_round();
        if segment.arrive(round, signature::gave_up(sequence), Wakes::All) {
            segment.complete(round);
        }
        segment.leave(round);
    }
    true
}

/// The answer to an inquiry.
fn answer(inquiry: &Notice, call: CollectiveCall, rank: u32) -> Notice {
    let is_remote = Member::from_wire(inquiry.source).is_remote();
    let source = if is_remote { Member::remote(rank) } else { Member::local(rank) }.wire();
    Notice { source, call, is_answer: true, round: None, ..*inquiry }
}

/// What a notice means for this process's `call`.
fn fault(call: CollectiveCall, notice: &Notice) -> Box<Fault> {
    let Notice { context, sequence, call: theirs, .. } = *notice;
    let source = Member::from_wire(notice.source).rank();
    let gave_up = theirs.kind == CollectiveKind::GaveUp as u8;
    let differs_in_amount = notice.is_answer && notice.round.is_some();
    Box::new(match gave_up || call.agrees(&theirs) && !differs_in_amount {
        true => Fault::GaveUp { call, source, sequence, context },
        false if (call.kind, call.root) == (theirs.kind, theirs.root) => {
            let sent = theirs.bytes.or(if differs_in_amount { None } else { Some(0) });
            let expected = call.bytes.unwrap_or(0);
            Fault::Sizes { call, source, sequence, context, sent, expected }
        }
        false => Fault::Mismatched { ours: call, theirs, source, sequence, context },
    })
}
