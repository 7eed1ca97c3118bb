//! What happens by itself: packets arrive, late parts of writes are placed, timeouts end,
//! acknowledgements go, completions become visible, and events are made.

use std::time::{Duration, Instant};

use verbs_transport::ibv::layout::qp_state as state;

use crate::completion::Cq;
use crate::engine::{AsyncEvent, Engine};
use crate::links::Sent;
use crate::packet::{Kind, MTU_SHIFT, Packet};
use crate::qp::Service;
use crate::{datagram, dynamic, port, requester, responder};

/// Longest sleep of a context.
const IDLE: Duration = Duration::from_secs(1);

impl Engine {
    /// Does everything that is due.
    pub(crate) fn step(&mut self, now: Instant) {
        self.deadline = now + IDLE;
        let mut packets = Vec::new();
        self.links.receive(&mut packets);
        for packet in packets {
            self.on_packet(&packet, now);
        }
        self.place(|placement| placement.due <= now);
        for number in std::mem::take(&mut self.active) {
            self.with_qp(number, |engine, qp| requester::tick(engine, qp, now));
        }
        for number in std::mem::take(&mut self.acks) {
            self.with_qp(number, |engine, qp| responder::acknowledge(engine, qp, now));
        }
        self.send_replies(now);
        self.show_completions(now);
        self.report_due(now);
        let due = self.placements.iter().map(|placement| placement.due);
        let due = due.chain(self.later.iter().map(|(due, _)| *due));
        let due = due.chain(self.cqs.values().filter_map(Cq::next_due)).min();
        due.into_iter().for_each(|due| self.wake_at(due));
    }

    fn show_completions(&mut self, now: Instant) {
        for cq in self.cqs.values_mut() {
            if cq.update(now)
                && let Some(channel) = cq.channel.and_then(|at| self.channels.get_mut(&at))
            {
                channel.push(cq.object);
            }
        }
    }

    fn report_due(&mut self, now: Instant) {
        let (due, later) = self.later.drain(..).partition(|(due, _)| *due <= now);
        self.later = later;
        let due: Vec<(Instant, AsyncEvent)> = due;
        due.into_iter().for_each(|(_, event)| self.events.push(event));
    }

    fn on_packet(&mut self, packet: &Packet, now: Instant) {
        if self.is_removed {
            return;
        }
        let Some(qp) = self.qps.get(&packet.target) else { return };
        let Some(port) = self.port_of(qp) else { return };
        let key = port.pkeys.get(usize::from(qp.attr.pkey_index)).copied().unwrap_or(0);
        if !port.is_up || !port.is_target_of(packet) || !port::keys_fit(key, packet.pkey) {
            return;
        }
        if let Service::Target(..) = qp.service {
            return dynamic::on_packet(self, packet, now);
        }
        let from_peer = qp.attr.dest_qp_num == packet.source;
        if packet.kind == Kind::Datagram {
            self.with_qp(packet.target, |engine, qp| datagram::receive(engine, qp, packet, now));
            return;
        }
        if !qp.is_reliable() || !from_peer || !qp.can_receive() {
            return;
        }
        let is_connected = matches!(qp.service, Service::Connected);
        if is_connected && u32::from(packet.flags >> MTU_SHIFT) != qp.attr.path_mtu {
            // An adapter takes the first packet of a message for an invalid one.
            eprintln!(
                "verbs-device: the two ends of a connection have packets of different length"
            );
            std::process::abort();
        }
        self.with_qp(packet.target, |engine, qp| match packet.kind {
            Kind::Ack | Kind::Nak | Kind::Response | Kind::OldValue
                if packet.start != qp.attr.sq_psn || qp.state != state::RTS => {}
            Kind::Ack => requester::acknowledge(engine, qp, packet.psn, now),
            Kind::Nak => requester::refused(engine, qp, packet, now),
            Kind::Response | Kind::OldValue => requester::answered(engine, qp, packet, now),
            _ => responder::on_request(engine, qp, packet, now),
        });
    }

    fn send_replies(&mut self, now: Instant) {
        const RETRY: Duration = Duration::from_micros(100);
        while let Some((target, packet)) = self.replies.pop_front() {
            if self.links.send(target, &packet) == Sent::Later {
                self.replies.push_front((target, packet));
                break;
            }
        }
        if self.links.flush() || !self.replies.is_empty() {
            self.wake_at(now + RETRY);
        }
    }
}
