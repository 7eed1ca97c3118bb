//! The receiving end of a connection: takes packets in order, places data, and answers.
//!
//! A write may be placed late and in any order of its parts (`place`); it is acknowledged when all
//! of it is in memory, or before (`early`). A send waits for the writes before it, unless
//! `overtake` is set and writes are acknowledged when they are placed: nothing overtakes a write
//! that its requester believes in place. Reads and atomics always wait.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use verbs_transport::ibv::layout::{ATOMIC_GLOBAL, access, event, wc_status};

use crate::engine::{Engine, Placement};
use crate::memory;
use crate::packet::{FIRST, Kind, LAST, PAYLOAD, Packet, refusal};
use crate::qp::Qp;

/// Results of atomics that are kept for requests that come again.
const RESULTS: usize = 64;
const LOC_LEN_ERR: u32 = 1;

/// Handles a request of the peer.
pub(crate) fn on_request(engine: &mut Engine, qp: &mut Qp, packet: &Packet, now: Instant) {
    if packet.start != qp.attr.rq_psn {
        return;
    }
    if packet.psn > qp.rx.expected {
        if !std::mem::replace(&mut qp.rx.has_refused, true) {
            refuse(engine, qp, refusal::SEQUENCE, now);
        }
        return;
    }
    let is_repeated = packet.psn < qp.rx.expected;
    let done = match packet.kind {
        Kind::Send | Kind::Write if is_repeated => Ok(true),
        Kind::Send => on_send(engine, qp, packet, now),
        Kind::Write => on_write(engine, qp, packet, now),
        Kind::Read => on_read(engine, qp, packet, now),
        _ => on_atomic(engine, qp, packet, is_repeated, now),
    };
    match done {
        Ok(true) if is_repeated => qp.rx.ack_due = true,
        Ok(true) => {
            qp.rx.expected += 1;
            (qp.rx.has_refused, qp.rx.ack_due) = (false, true);
        }
        // It comes again, and what follows it too.
        Ok(false) => {
            qp.rx.has_refused = true;
            refuse(engine, qp, refusal::NOT_READY, now);
        }
        Err(why) => {
            refuse(engine, qp, why, now);
            let what =
                if why == refusal::ACCESS { event::QP_ACCESS_ERR } else { event::QP_REQ_ERR };
            // The program has no object for the end of a dynamic connection.
            if qp.serves().is_none() {
                engine.report_qp(qp, what);
            }
            engine.flush(qp, now);
        }
    }
}

/// Sends that have found no receive, without those that [`Options::rnr`](crate::options::Options)
/// refuses.
static MISSED: AtomicI32 = AtomicI32::new(0);

/// Returns how often a send has found no receive.
pub(crate) fn missed_receives() -> i32 {
    MISSED.load(Ordering::Relaxed)
}

fn on_send(engine: &mut Engine, qp: &mut Qp, packet: &Packet, now: Instant) -> Result<bool, u32> {
    if packet.flags & FIRST != 0 {
        if engine.chance(engine.options.rnr) {
            return Ok(false);
        }
        let Some(receive) = engine.take_receive(qp) else {
            MISSED.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        };
        qp.rx.current = Some((receive, 0));
    }
    let Some((receive, at)) = qp.rx.current else { return Err(refusal::INVALID) };
    let fits = at + packet.payload.len() <= receive.sge.length as usize;
    if !fits || !engine.regions.scatter(qp.pd, receive.sge, at, &packet.payload) {
        qp.rx.current = None;
        engine.complete_receive(qp, receive, LOC_LEN_ERR, 0, now);
        return Err(refusal::INVALID);
    }
    qp.rx.current = Some((receive, at + packet.payload.len()));
    if packet.flags & LAST != 0 {
        if !engine.options.overtake || engine.options.early {
            engine.place(|placement| placement.qpn == qp.number);
        }
        qp.rx.current = None;
        engine.complete_receive(qp, receive, wc_status::SUCCESS, packet.length, now);
    }
    Ok(true)
}

fn on_write(engine: &mut Engine, qp: &Qp, packet: &Packet, now: Instant) -> Result<bool, u32> {
    let range = (packet.addr, packet.payload.len() as u64);
    let may = qp.attr.qp_access_flags as i32 & access::REMOTE_WRITE != 0;
    if !may || !engine.regions.covers(qp.pd, packet.key, range, access::REMOTE_WRITE) {
        return if packet.length == 0 { Ok(true) } else { Err(refusal::ACCESS) };
    }
    if engine.options.place.is_zero() {
        return if memory::write(packet.addr, &packet.payload) {
            Ok(true)
        } else {
            Err(refusal::ACCESS)
        };
    }
    // Cache lines of short writes, eighths of long ones.
    let part = (packet.payload.len() / 8).next_multiple_of(64).max(64);
    let mut parts: Vec<_> = packet.payload.chunks(part).enumerate().collect();
    engine.rng.shuffle(&mut parts);
    for (index, bytes) in parts {
        let addr = packet.addr + (index * part) as u64;
        let due = now + engine.delay(engine.options.place);
        let (qpn, psn, key, pd) = (qp.number, packet.psn, packet.key, qp.pd);
        let (serves, bytes) = (qp.serves(), bytes.to_owned());
        engine.place_later(Placement { due, qpn, serves, psn, key, pd, addr, bytes });
    }
    Ok(true)
}

fn on_read(engine: &mut Engine, qp: &Qp, packet: &Packet, now: Instant) -> Result<bool, u32> {
    place_before_answer(engine, qp);
    let range = (packet.addr, u64::from(packet.length));
    let may = qp.attr.qp_access_flags as i32 & access::REMOTE_READ != 0;
    if !may || !engine.regions.covers(qp.pd, packet.key, range, access::REMOTE_READ) {
        return Err(refusal::ACCESS);
    }
    if packet.payload.first().is_none_or(|&reads| reads > qp.attr.max_dest_rd_atomic) {
        return Err(refusal::INVALID);
    }
    let length = packet.length as usize;
    for at in (0..length).step_by(PAYLOAD) {
        let bytes = memory::read(packet.addr + at as u64, PAYLOAD.min(length - at));
        let mut answer = Packet::new(Kind::Response);
        (answer.psn, answer.addr) = (packet.psn, at as u64);
        answer.payload = bytes.ok_or(refusal::ACCESS)?;
        if !engine.chance(engine.options.unanswered) {
            engine.reply(qp, answer, now);
        }
    }
    Ok(true)
}

/// Places what was written before the request that is answered next: through the same queue pair,
/// or through the same target. The answer is read from memory, and a read does not pass writes of
/// the device on its bus.
fn place_before_answer(engine: &mut Engine, qp: &Qp) {
    let serves = qp.serves();
    engine.place(|placement| {
        placement.qpn == qp.number || (serves.is_some() && placement.serves == serves)
    });
}

fn on_atomic(
    engine: &mut Engine,
    qp: &mut Qp,
    packet: &Packet,
    is_repeated: bool,
    now: Instant,
) -> Result<bool, u32> {
    place_before_answer(engine, qp);
    let known = qp.rx.results.iter().find(|(psn, _)| *psn == packet.psn).map(|&(_, old)| old);
    let old = match known {
        Some(old) => old,
        None if is_repeated => return Err(refusal::INVALID),
        None => {
            let rights = access::REMOTE_ATOMIC;
            let may = qp.attr.qp_access_flags as i32 & rights != 0;
            if !may || !engine.regions.covers(qp.pd, packet.key, (packet.addr, 8), rights) {
                return Err(refusal::ACCESS);
            }
            let [first, second] = packet.operands;
            let is_global = engine.options.atomics == ATOMIC_GLOBAL;
            let changed = match packet.kind {
                Kind::Add => memory::atomic(packet.addr, None, first, is_global),
                _ => memory::atomic(packet.addr, Some(first), second, is_global),
            };
            changed.ok_or(refusal::INVALID)?
        }
    };
    if known.is_none() {
        qp.rx.results.push_back((packet.psn, old));
        if qp.rx.results.len() > RESULTS {
            qp.rx.results.pop_front();
        }
    }
    let mut answer = Packet::new(Kind::OldValue);
    (answer.psn, answer.operands[0]) = (packet.psn, old);
    engine.reply(qp, answer, now);
    Ok(true)
}

fn refuse(engine: &mut Engine, qp: &mut Qp, why: u32, now: Instant) {
    engine.place(|placement| placement.qpn == qp.number);
    let mut answer = Packet::new(Kind::Nak);
    (answer.psn, answer.key) = (qp.rx.expected, why);
    qp.rx.ack_due = false;
    engine.reply(qp, answer, now);
}

/// Acknowledges what is in memory.
pub(crate) fn acknowledge(engine: &mut Engine, qp: &mut Qp, now: Instant) {
    if !std::mem::take(&mut qp.rx.ack_due) {
        return;
    }
    let mut answer = Packet::new(Kind::Ack);
    let unplaced = engine.first_unplaced(qp.number).filter(|_| !engine.options.early);
    answer.psn = unplaced.unwrap_or(qp.rx.expected);
    engine.reply(qp, answer, now);
}
