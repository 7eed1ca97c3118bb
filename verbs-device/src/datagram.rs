//! The unreliable datagrams of UD queue pairs: lost without a word if no receive is posted, the
//! key is wrong, or the port is down (but see the option `unrouted`). A receive begins with 40
//! bytes for the route header. A datagram that is longer than the port's packets stops the send
//! queue; one that is longer than its receive puts the queue pair into error.

use std::time::Instant;

use verbs_transport::ibv::layout::{AhAttr, Wc, access, qp_state as state, wc_flags, wc_status};

use crate::engine::{Engine, RECEIVED};
use crate::packet::{GLOBAL, Kind, Packet};
use crate::port;
use crate::qp::{Data, Qp, Wqe};

/// Bytes in front of a received datagram.
const ROUTE: usize = 40;
const LOC_LEN_ERR: u32 = 1;
const LOC_QP_OP_ERR: u32 = 2;
const LOC_PROT_ERR: u32 = 4;

/// Sends a datagram and completes the request.
pub(crate) fn send(engine: &mut Engine, qp: &mut Qp, wqe: &Wqe, now: Instant) {
    let has_route = engine.port_of(qp).is_some_and(|port| port.is_up);
    if !has_route && engine.options.unrouted > 0 {
        engine.complete_send(qp, wqe, LOC_QP_OP_ERR, now);
        match engine.options.unrouted {
            1 => engine.flush(qp, now),
            _ => qp.state = state::SQE,
        }
        return;
    }
    if wqe.len() > engine.options.mtu as usize {
        engine.complete_send(qp, wqe, LOC_LEN_ERR, now);
        qp.state = state::SQE;
        return;
    }
    let bytes = match &wqe.data {
        Data::Inline(bytes) => Some(bytes.clone()),
        Data::Memory(sge) => engine.regions.gather(qp.pd, *sge, 0, sge.length as usize),
    };
    let (Some(bytes), Some((address, number))) = (bytes, wqe.datagram) else {
        return engine.complete_send(qp, wqe, LOC_PROT_ERR, now);
    };
    let mut packet = Packet::new(Kind::Datagram);
    (packet.source, packet.target, packet.key) = (qp.number, number, wqe.key);
    (packet.length, packet.payload) = (bytes.len() as u32, bytes);
    let _ = engine.send_to(qp, &address, packet);
    engine.complete_send(qp, wqe, wc_status::SUCCESS, now);
}

/// Receives a datagram.
pub(crate) fn receive(engine: &mut Engine, qp: &mut Qp, packet: &Packet, now: Instant) {
    if qp.is_reliable() || packet.key != qp.attr.qkey || !qp.can_receive() {
        return;
    }
    let Some(receive) = qp.rx.posted.pop_front() else { return };
    let len = ROUTE + packet.payload.len();
    let range = (receive.sge.addr, len as u64);
    let covers = engine.regions.covers(qp.pd, receive.sge.lkey, range, access::LOCAL_WRITE);
    let fits = len <= receive.sge.length as usize && covers;
    if !fits || !engine.regions.scatter(qp.pd, receive.sge, ROUTE, &packet.payload) {
        engine.complete_receive(qp, receive, LOC_PROT_ERR, 0, now);
        return engine.break_qp(qp, now);
    }
    let is_global = packet.flags & GLOBAL != 0;
    if is_global {
        let mut route = [0; ROUTE];
        route[8..24].copy_from_slice(&packet.source_gid);
        route[24..].copy_from_slice(&packet.target_gid);
        engine.regions.scatter(qp.pd, receive.sge, 0, &route);
    }
    let wc = Wc {
        wr_id: receive.id,
        opcode: RECEIVED,
        byte_len: len as u32,
        qp_num: qp.number,
        src_qp: packet.source,
        wc_flags: if is_global { wc_flags::GRH } else { 0 },
        slid: packet.source_lid,
        ..Wc::default()
    };
    engine.push(qp.recv_cq, wc, 0, now);
}

/// Checks whether this port can send to an address. The error is the system's.
pub(crate) fn check_address(engine: &Engine, port: u8, address: &AhAttr) -> Result<(), i32> {
    let source = engine.ports.get(usize::from(port).wrapping_sub(1));
    if !source.is_some_and(|port| port.can_reach(address)) {
        return Err(libc::EINVAL);
    }
    let is_unreachable = |node| engine.options.unreachable.contains(&node);
    if port::node_of(address).is_some_and(is_unreachable) { Err(libc::ETIMEDOUT) } else { Ok(()) }
}
