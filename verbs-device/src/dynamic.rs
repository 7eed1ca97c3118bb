//! Dynamic connections: an initiator connects to the target that a request names, when everything
//! before it has ended, and disconnects as it likes when it has nothing to do.
//!
//! The first packet of a connection makes a *servant* at the target: a queue pair that the program
//! does not see, which answers as the target. It stays until the same initiator connects again. A
//! request belongs to its connection from the moment it is posted; therefore what goes again goes
//! to the same servant.

use std::time::Instant;

use verbs_transport::ibv::layout::{AhAttr, GlobalRoute, QpAttr, qp_state as state};

use crate::engine::Engine;
use crate::packet::{GLOBAL, Packet};
use crate::port;
use crate::qp::{Qp, Receiving, Sending, Service, Session};
use crate::responder;

/// Of a million requests that find the initiator idle, those for which it connects anew although it
/// was connected to their target.
const RECONNECTS: u32 = 250_000;

/// Returns the connection of a request that is being posted: to `address` and the target of this
/// number and key.
pub(crate) fn session(
    engine: &mut Engine,
    qp: &mut Qp,
    (address, target, key): (AhAttr, u32, u64),
) -> Option<Session> {
    let (is_idle, next) = (qp.tx.queue.is_empty(), qp.tx.next);
    let Service::Initiator(last) = &mut qp.service else { return None };
    let wanted = Session { address, target, key, start: next };
    let again = is_idle && engine.chance(RECONNECTS);
    let session = last.filter(|last| !again && last.is_to(&wanted)).unwrap_or(wanted);
    *last = Some(session);
    Some(session)
}

/// Returns whether a request may go now: not before all of the last connection have ended.
pub(crate) fn may_send(qp: &Qp, index: usize) -> bool {
    index == 0 || qp.tx.queue[index].session.is_none_or(|session| session.start == qp.attr.sq_psn)
}

/// Connects an initiator for the request that goes next.
pub(crate) fn connect(qp: &mut Qp, index: usize) {
    if let Some(session) = qp.tx.queue[index].session {
        (qp.attr.ah_attr, qp.attr.dest_qp_num) = (session.address, session.target);
        qp.attr.sq_psn = session.start;
    }
}

/// Handles a packet to a target.
pub(crate) fn on_packet(engine: &mut Engine, packet: &Packet, now: Instant) {
    let number = packet.target;
    let servant = engine.with_qp(number, |engine, qp| servant(engine, qp, packet)).flatten();
    let Some(servant) = servant else { return };
    engine.with_qp(servant, |engine, qp| {
        if qp.can_receive() {
            responder::on_request(engine, qp, packet, now);
        }
    });
}

/// Returns the servant of a packet, made by the first one of a connection; `None` if the packet is
/// of an earlier one, or its key is not the target's.
fn servant(engine: &mut Engine, qp: &mut Qp, packet: &Packet) -> Option<u32> {
    let Service::Target(key, servants) = &mut qp.service else { return None };
    if packet.access != *key || !matches!(qp.state, state::RTR) {
        return None;
    }
    let address = answer_to(packet, &qp.attr);
    let from = (port::node_of(&address)?, packet.source);
    match servants.get(&from) {
        Some(&(start, servant)) if start == packet.start => return Some(servant),
        Some(&(start, _)) if start > packet.start => return None,
        // What it has written may still be on its way to memory.
        Some((_, old)) => _ = engine.qps.remove(old),
        None => {}
    }
    let servant = engine.qp_number()?;
    servants.insert(from, (packet.start, servant));
    let attr = QpAttr {
        ah_attr: address,
        dest_qp_num: packet.source,
        rq_psn: packet.start,
        max_dest_rd_atomic: engine.options.reads,
        ..qp.attr
    };
    let rx = Receiving { expected: packet.start, ..Receiving::default() };
    engine.qps.insert(
        servant,
        Box::new(Qp {
            number: servant,
            service: Service::Servant(qp.number),
            state: state::RTR,
            pd: qp.pd,
            send_cq: qp.send_cq,
            recv_cq: qp.recv_cq,
            srq: None,
            max_send: 0,
            max_recv: 0,
            inline: 0,
            attr,
            tx: Sending::default(),
            rx,
            object: 0,
            unacked: 0,
        }),
    );
    Some(servant)
}

/// Returns the address of the sender of a packet.
fn answer_to(packet: &Packet, own: &QpAttr) -> AhAttr {
    let grh = GlobalRoute {
        dgid: verbs_transport::ibv::Gid { raw: packet.source_gid },
        sgid_index: own.ah_attr.grh.sgid_index,
        ..GlobalRoute::default()
    };
    let is_global = u8::from(packet.flags & GLOBAL != 0);
    AhAttr { grh, dlid: packet.source_lid, is_global, port_num: own.port_num, ..AhAttr::default() }
}
