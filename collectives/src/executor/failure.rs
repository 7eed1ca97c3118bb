//! Notifies members of a failed collective, and describes a mismatch in a segment.

use fabric::{Collective, CollectiveKind, HybridGet};
use objects::Buffer;
use pt2pt::{CollectiveCall, Engine, Fault, Mode};

use super::cursor::{BYTES_AT, Cursor, KIND_AT, signature};
use crate::plan::Plan;
use crate::schedule::{Direction, Member};

/// Notifies all members that would get more of this collective that it failed here: they would wait
/// for ever. A member that already has its part of this round ignores the notice.
pub(super) fn give_up<T: HybridGet>(
    plan: &Plan,
    cursor: &Cursor,
    sequence: i32,
    pt2pt: &mut Engine,
    endpoint: &mut T,
) {
    let schedule = plan.schedule();
    let before = cursor.round.checked_sub(1);
    let first = before.map_or(0, |before| schedule.rounds()[before].messages as usize);
    let sends = schedule.messages()[first..]
        .iter()
        .filter(|message| message.direction == Direction::Send)
        .map(|message| message.with);
    // In a round of the segment that is complete every member finds out by itself.
    let notifies_segment =
        plan.segment().is_some_and(|segment| !segment.is_complete(cursor.segment_round));
    let members = plan.segment_others().filter(|_| notifies_segment);
    let gave_up = Collective { kind: CollectiveKind::GaveUp, root: u32::MAX };
    for with in sends.chain(members.map(|(_, rank)| Member::local(rank))) {
        let Some(to) = plan.peer(with) else { continue };
        let envelope = plan.envelope(with, sequence, gave_up);
        if let Ok(None) = pt2pt.send_now(endpoint, Mode::Standard, to, &envelope, &Buffer::EMPTY) {
            let request = pt2pt.send(endpoint, Mode::Standard, to, envelope, Buffer::EMPTY);
            pt2pt.detach(request);
        }
    }
}

/// The fault of a member of the segment that is in another call, or in the same call with more or
/// less data.
#[cold]
pub(super) fn mismatch(plan: &Plan, cursor: &Cursor, sequence: i32, member: u32) -> Box<Fault> {
    let (source, context) = (plan.segment_rank(member), plan.context());
    let call = |word: u64| CollectiveCall { kind: (word >> KIND_AT) as u8, root: word as u32 };
    let mine = signature(plan);
    let theirs =
        plan.segment().and_then(|segment| segment.signature_of(cursor.segment_round, member));
    let (ours, capacity) = (call(mine), mine >> BYTES_AT);
    let (theirs, sent) = theirs.map_or((ours, 0), |word| (call(word), word >> BYTES_AT));
    Box::new(if theirs != ours {
        Fault::Mismatched { ours, theirs, source, sequence, context }
    } else if sent == 0 {
        Fault::Empty { call: ours, source, sequence, context, capacity }
    } else {
        let (sent, capacity) = (sent.max(capacity), sent.min(capacity));
        Fault::Truncated { source, tag: sequence, context, sent, capacity }
    })
}
