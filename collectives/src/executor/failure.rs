//! Notifies members of a failed collective, and describes a mismatch in a segment.

use fabric::{Collective, CollectiveKind, HybridGet};
use objects::Buffer;
use pt2pt::{CollectiveCall, Engine, Fault, Mode, Notice};

use super::cursor::Cursor;
use crate::plan::Plan;
use crate::schedule::{Direction, Member};
use crate::signature;

/// Notifies all members that would get more of this collective that it failed here: they would wait
/// for ever. With `tells_all`, members that this rank gets data from are notified as well; not
/// where a process has failed, which they find out by themselves. A member that already has its
/// part of this round ignores the notice. Members of the segment that are not in this collective
/// yet ask once they wait in it. `strands`: the running round of each, and one past its last one.
pub(super) fn give_up<T: HybridGet>(
    plan: &Plan,
    strands: impl Iterator<Item = (usize, usize)>,
    sequence: i32,
    tells_all: bool,
    pt2pt: &mut Engine,
    endpoint: &mut T,
) {
    let schedule = plan.schedule();
    let rest =
        |(round, end)| &schedule.messages()[schedule.start_of(round).0..schedule.start_of(end).0];
    for message in strands.flat_map(rest) {
        let Some(to) = plan.peer(message.with) else { continue };
        if message.direction == Direction::Recv {
            if tells_all {
                pt2pt.notify(endpoint, to, &answer(plan, sequence, message.with));
            }
            continue;
        }
        let envelope = plan.envelope(message.with, sequence, plan.collective().given_up());
        if let Ok(None) = pt2pt.send_now(endpoint, Mode::Standard, to, &envelope, &Buffer::EMPTY) {
            let request = pt2pt.send(endpoint, Mode::Standard, to, envelope, Buffer::EMPTY);
            pt2pt.detach(request);
        }
    }
    for (_, rank) in plan.segment_others() {
        let member = Member::local(rank);
        if let Some(to) = plan.peer(member) {
            pt2pt.notify(endpoint, to, &answer(plan, sequence, member));
        }
    }
}

/// The notice that a collective has failed here.
fn answer(plan: &Plan, sequence: i32, to: Member) -> Notice {
    Notice {
        context: plan.context(),
        source: plan.source_for(to),
        sequence,
        call: plan.call(),
        is_answer: true,
        round: None,
    }
}

/// The fault of a member of the segment that is in another call, or in the same call with more or
/// less data, or has given it up.
#[cold]
pub(super) fn mismatch(plan: &Plan, cursor: &Cursor, sequence: i32, member: u32) -> Box<Fault> {
    let (source, context) = (plan.segment_rank(member), plan.context());
    let own = plan.signature();
    let ours = signature::call(own);
    let seen = plan.segment().and_then(|s| s.signature_of(cursor.segment_round, member));
    let theirs = seen.map_or(ours, signature::call);
    let is_other = (theirs.kind, theirs.root) != (ours.kind, ours.root);
    Box::new(if is_other && theirs.kind != CollectiveKind::GaveUp as u8 {
        Fault::Mismatched { ours, theirs, source, sequence, context }
    } else if seen.is_some_and(signature::has_failed) {
        Fault::GaveUp { call: ours, source, sequence, context }
    } else if theirs == ours && seen.is_none_or(|seen| signature::are_same_size(seen, own)) {
        // Out of step since an earlier error.
        Fault::Earlier { ours: None, theirs: None, source, sequence, context }
    } else {
        let expected = ours.bytes.or(plan.call().bytes).unwrap_or(0);
        Fault::Sizes { call: ours, source, sequence, context, sent: theirs.bytes, expected }
    })
}

/// The fault of a member whose call in the round of the segment before this one was another one, or
/// a call before that went by messages.
#[cold]
pub(super) fn earlier(plan: &Plan, cursor: &Cursor, sequence: i32, member: u32) -> Box<Fault> {
    let (source, context) = (plan.segment_rank(member), plan.context());
    let call = |of: Option<u64>| of.map(signature::call);
    let before = cursor.segment_round.wrapping_sub(1);
    let theirs = plan.segment().and_then(|s| call(s.signature_of(before, member)));
    let me = plan.segment_member();
    let ours = plan.segment().and_then(|s| call(s.signature_of(before, me?)));
    let ours = ours.filter(|call| call.kind != CollectiveKind::GaveUp as u8);
    let has_failed = || {
        let failed = signature::after(signature::alone(cursor.signature), Collective::FAILED);
        plan.segment()?.agrees(cursor.segment_round, member, failed)
    };
    let is_by_messages = theirs.is_none() && signature::before(cursor.signature) != 0;
    let (ours, theirs) = match ours == theirs || is_by_messages {
        false => (ours, theirs),
        // After that round they called something by messages: the executor finds out.
        true => (None, has_failed().unwrap_or(false).then_some(CollectiveCall::GAVE_UP)),
    };
    Box::new(Fault::Earlier { ours, theirs, source, sequence, context })
}
