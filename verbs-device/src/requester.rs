//! The sending end of a connection: packets go in order, are acknowledged by number, and from the
//! oldest one that is not acknowledged they go again when time is up or the responder refuses.
//!
//! A request ends when all before it have ended and its own packets are acknowledged or answered.

use std::time::{Duration, Instant};

use verbs_transport::ibv::layout::{access, opcode, qp_state as state, wc_status};

use crate::dynamic;
use crate::engine::Engine;
use crate::links::Sent;
use crate::packet::{FIRST, Kind, LAST, PAYLOAD, Packet, refusal};
use crate::qp::{Data, Qp, Wqe};

/// Most packets of a connection under way.
const WINDOW: u32 = 64;
/// Time after which a socket that was full is tried again.
const SOCKET_RETRY: Duration = Duration::from_micros(100);
/// Processes wait for processors, adapters do not: their timeouts are so much longer here.
const SLACK: u32 = 16;

/// Status codes that only this file needs.
const LOC_PROT_ERR: u32 = 4;
const REM_INV_REQ_ERR: u32 = 9;
const REM_ACCESS_ERR: u32 = 10;
const RNR_RETRY_EXC_ERR: u32 = 13;

/// Sends what may be sent now.
pub(crate) fn transmit(engine: &mut Engine, qp: &mut Qp, now: Instant) {
    if qp.state != state::RTS || !qp.is_reliable() || qp.tx.pause.is_some_and(|until| now < until) {
        return;
    }
    qp.tx.pause = None;
    while let Some(index) = next_request(qp) {
        dynamic::connect(qp, index);
        let wqe = &qp.tx.queue[index];
        let is_first = wqe.first == qp.tx.transmit;
        if is_first && engine.chance(engine.options.broken) {
            return engine.break_qp(qp, now);
        }
        let Some(packet) = build(engine, qp, wqe) else {
            return fail_at(engine, qp, index, LOC_PROT_ERR, now);
        };
        match engine.send(qp, packet) {
            Sent::Later => {
                engine.wake_at(now + SOCKET_RETRY);
                break;
            }
            sent => qp.tx.is_gone = sent == Sent::Gone,
        }
        qp.tx.transmit += 1;
        if qp.tx.timer.is_none() {
            set_timer(qp, now);
        }
    }
}

/// Returns the request of the next packet, if that may go.
fn next_request(qp: &Qp) -> Option<usize> {
    let tx = &qp.tx;
    if tx.transmit == tx.next || tx.transmit - tx.acked.min(tx.transmit) >= WINDOW {
        return None;
    }
    let index = tx.queue.iter().position(|wqe| tx.transmit < wqe.first + wqe.packets)?;
    let reads = tx.queue.range(..index).filter(|wqe| wqe.is_answered()).count();
    let must_wait = tx.queue[index].is_answered() && reads >= usize::from(qp.attr.max_rd_atomic);
    (!must_wait && dynamic::may_send(qp, index)).then_some(index)
}

/// Returns the next packet of a request; `None` if its memory is not covered.
fn build(engine: &Engine, qp: &Qp, wqe: &Wqe) -> Option<Packet> {
    let at = (qp.tx.transmit - wqe.first) as usize * PAYLOAD;
    let kind = match wqe.opcode {
        opcode::SEND => Kind::Send,
        opcode::RDMA_WRITE => Kind::Write,
        opcode::RDMA_READ => Kind::Read,
        opcode::ATOMIC_FETCH_AND_ADD => Kind::Add,
        _ => Kind::Swap,
    };
    let mut packet = Packet::new(kind);
    (packet.source, packet.target) = (qp.number, qp.attr.dest_qp_num);
    (packet.start, packet.psn) = (qp.attr.sq_psn, qp.tx.transmit);
    packet.access = wqe.session.map_or(0, |session| session.key);
    (packet.key, packet.operands, packet.length) = (wqe.key, wqe.operands, wqe.len() as u32);
    packet.addr = wqe.addr.wrapping_add(at as u64);
    if wqe.is_answered() {
        let Data::Memory(sge) = wqe.data else { return None };
        let range = (sge.addr, sge.length.into());
        // The responder compares it with its own number.
        packet.flags = FIRST | LAST;
        packet.payload = vec![qp.attr.max_rd_atomic];
        return engine
            .regions
            .covers(qp.pd, sge.lkey, range, access::LOCAL_WRITE)
            .then_some(packet);
    }
    let len = PAYLOAD.min(wqe.len() - at);
    packet.payload = match &wqe.data {
        Data::Inline(bytes) => bytes[at..at + len].to_owned(),
        Data::Memory(sge) => engine.regions.gather(qp.pd, *sge, at, len)?,
    };
    packet.flags = if at == 0 { FIRST } else { 0 };
    packet.flags |= if at + len == wqe.len() { LAST } else { 0 };
    Some(packet)
}

fn set_timer(qp: &mut Qp, now: Instant) {
    let timeout = Duration::from_nanos(4096) * (1 << qp.attr.timeout.min(31));
    qp.tx.timer = Some(now + if qp.tx.is_gone { timeout } else { timeout * SLACK });
}

/// Handles an acknowledgement of all packets before `psn`.
pub(crate) fn acknowledge(engine: &mut Engine, qp: &mut Qp, psn: u32, now: Instant) {
    if psn > qp.tx.acked && psn <= qp.tx.next {
        qp.tx.acked = psn;
        qp.tx.transmit = qp.tx.transmit.max(psn);
        progressed(engine, qp, now);
    }
}

/// Ends the requests that are complete, and begins the time of the next.
fn progressed(engine: &mut Engine, qp: &mut Qp, now: Instant) {
    (qp.tx.retries, qp.tx.not_ready) = (qp.attr.retry_cnt, qp.attr.rnr_retry);
    while let Some(wqe) = qp.tx.queue.front() {
        let is_done = match wqe.is_answered() {
            true => wqe.received == wqe.len() && wqe.first < qp.tx.acked,
            false => wqe.first + wqe.packets <= qp.tx.acked,
        };
        if !is_done {
            break;
        }
        if let Some(wqe) = qp.tx.queue.pop_front() {
            engine.complete_send(qp, &wqe, wc_status::SUCCESS, now);
        }
    }
    qp.tx.timer = None;
    if oldest(qp) < qp.tx.transmit {
        set_timer(qp, now);
    }
    transmit(engine, qp, now);
}

/// Returns the packet from which everything goes again.
fn oldest(qp: &Qp) -> u32 {
    match qp.tx.queue.front() {
        Some(wqe) if wqe.is_answered() => wqe.first,
        _ => qp.tx.acked,
    }
}

/// Handles a refusal of packet `psn`.
pub(crate) fn refused(engine: &mut Engine, qp: &mut Qp, packet: &Packet, now: Instant) {
    acknowledge(engine, qp, packet.psn, now);
    let at = qp.tx.queue.iter().position(|wqe| packet.psn < wqe.first + wqe.packets);
    match packet.key {
        refusal::NOT_READY => {
            if qp.attr.rnr_retry < 7 {
                match qp.tx.not_ready.checked_sub(1) {
                    Some(left) => qp.tx.not_ready = left,
                    None => return fail_at(engine, qp, 0, RNR_RETRY_EXC_ERR, now),
                }
            }
            let until = now + Duration::from_micros(640);
            (qp.tx.pause, qp.tx.transmit) = (Some(until), oldest(qp));
            qp.tx.timer = None;
            engine.wake_at(until);
        }
        refusal::SEQUENCE => {
            qp.tx.transmit = oldest(qp);
            transmit(engine, qp, now);
        }
        why => {
            let status = if why == refusal::ACCESS { REM_ACCESS_ERR } else { REM_INV_REQ_ERR };
            if let Some(at) = at {
                fail_at(engine, qp, at, status, now);
            }
        }
    }
}

/// Handles a part of an answer.
pub(crate) fn answered(engine: &mut Engine, qp: &mut Qp, packet: &Packet, now: Instant) {
    let found = qp.tx.queue.iter().position(|wqe| wqe.first == packet.psn && wqe.is_answered());
    let Some(index) = found else { return };
    let pd = qp.pd;
    let wqe = &mut qp.tx.queue[index];
    let old = packet.operands[0].to_ne_bytes();
    let bytes = if packet.kind == Kind::OldValue { &old[..] } else { &packet.payload };
    let Data::Memory(sge) = wqe.data else { return };
    if packet.addr != wqe.received as u64 || wqe.received + bytes.len() > wqe.len() {
        return;
    }
    if !engine.regions.scatter(pd, sge, wqe.received, bytes) {
        return fail_at(engine, qp, index, LOC_PROT_ERR, now);
    }
    wqe.received += bytes.len();
    progressed(engine, qp, now);
}

/// Handles the time: what is not acknowledged goes again, or the connection fails.
pub(crate) fn tick(engine: &mut Engine, qp: &mut Qp, now: Instant) {
    if qp.state != state::RTS || !qp.is_reliable() {
        return;
    }
    if qp.tx.timer.is_some_and(|due| due <= now) {
        let Some(left) = qp.tx.retries.checked_sub(1) else {
            return fail_at(engine, qp, 0, wc_status::RETRY_EXC_ERR, now);
        };
        (qp.tx.retries, qp.tx.timer) = (left, None);
        qp.tx.transmit = oldest(qp);
    }
    transmit(engine, qp, now);
    let next = [qp.tx.timer, qp.tx.pause];
    next.into_iter().flatten().for_each(|due| engine.wake_at(due));
}

/// Fails a request, and the queue pair with it. Requests before it are flushed.
fn fail_at(engine: &mut Engine, qp: &mut Qp, index: usize, status: u32, now: Instant) {
    // An error completes after what was before it; to keep it simple the earlier ones are flushed.
    if let Some(wqe) = qp.tx.queue.remove(index) {
        engine.complete_send(qp, &wqe, status, now);
    }
    engine.flush(qp, now);
}
