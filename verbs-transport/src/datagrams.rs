//! The datagram path: messages of peers without a connection go over the UD queue pair.
//!
//! An endpoint whose address is known has a link. While it has no connection, its messages are cut
//! into packets (`datagram::sender`), and are kept as unacknowledged until the peer has delivered
//! them, like those on a connection. A connection that becomes ready takes all of them over, and
//! gives those that are left back when it ends. Late packets of the other path repeat frames, which
//! the receiver skips by their numbers.

use fabric::{Peer, Sink};

use crate::datagram::link::{AckState, Link};
use crate::datagram::packet::{self, ADDRESS, HEADER, Packet, SenderAddress, flags};
use crate::datagram::queue::MAX_HELD;
use crate::datagram::receiver::{Joined, Verdict};
use crate::datagram::sender::{Backlog, Part};
use crate::device::mtu_bytes;
use crate::frame::max_message;
use crate::ibv::Wc;
use crate::notice::NoticeMsg;
use crate::recv::Message;
use crate::transport::VerbsTransport;
use crate::wireup_msg::{Kind, WireupMsg};

/// Most frames that wait for an acknowledgement on the datagram path.
const FRAMES: u32 = 16;
/// Timeouts in a row after which the peer's address is looked up again.
const LOOK_UP_AFTER: u8 = 4;

impl VerbsTransport {
    /// Lets the messages of endpoint `at`, whose address is known and which has no connection, go
    /// by datagrams.
    #[cold]
    pub(crate) fn use_datagrams(&mut self, at: usize) {
        let endpoint = &self.endpoints[at];
        let is_possible = endpoint.failed.is_none()
            && endpoint.conn.addr.is_some_and(|addr| addr.takes_datagrams);
        // With a window the messages have a connection or go by datagrams already.
        if !is_possible || endpoint.flow.window > 0 {
            return;
        }
        self.make_link(at);
        let window = FRAMES.min(self.config.settings.credits);
        let endpoint = &mut self.endpoints[at];
        endpoint.flow.window = window;
        let Some(link) = &mut endpoint.link else { return };
        link.messages = 0;
        let messages = &endpoint.flow.unacked;
        link.tx.restart(Backlog { messages, count: messages.len() }, endpoint.flow.tx_seq);
        self.pump(at);
    }

    fn make_link(&mut self, at: usize) {
        if self.endpoints[at].link.is_none() {
            let token = self.token(at);
            let mtu = self.wireup.ud.mtu(&self.adapter.port);
            let mut link = Link::new(token, self.datagrams.now());
            link.mtu = mtu_bytes(link.peer_mtu.min(mtu));
            self.endpoints[at].link = Some(Box::new(link));
        }
    }

    /// Returns the token of the packets between this process and the peer of endpoint `at`.
    fn token(&self, at: usize) -> u64 {
        packet::token(&self.wireup.secret, self.endpoints.me().0, self.endpoints[at].peer.0)
    }

    /// Sends the message that was posted last by datagrams, as far as the windows permit.
    #[cold]
    pub(crate) fn send_by_datagrams(&mut self, at: usize) {
        if let Some(link) = &mut self.endpoints[at].link {
            link.messages = link.messages.saturating_add(1);
        }
        self.pump(at);
        self.consider_connection(at);
    }

    /// Sends what the windows of endpoint `at` permit.
    pub(crate) fn pump(&mut self, at: usize) {
        if self.endpoints[at].is_ready() {
            return;
        }
        let now = self.datagrams.now();
        loop {
            let is_open = self.coalescer.is_open(at);
            let Self { endpoints, wireup, datagrams, .. } = self;
            let endpoint = &mut endpoints[at];
            let Some(link) = &mut endpoint.link else { return };
            if !wireup.ud.has_space() {
                if !std::mem::replace(&mut link.is_stalled, true) {
                    datagrams.stalled.push(at as u32);
                }
                break;
            }
            let flow = &endpoint.flow;
            let count = flow.unacked.len() - usize::from(is_open);
            let backlog = Backlog { messages: &flow.unacked, count };
            let payload = usize::from(link.mtu) - HEADER - ADDRESS;
            let Some(part) = link.tx.next(now, backlog, payload, !flow.has_credit()) else { break };
            self.send_packet(at, Some(part), 0);
        }
        let Self { endpoints, datagrams, .. } = self;
        if let Some(link) = &mut endpoints[at].link {
            datagrams.set_timer(at, link);
        }
    }

    /// Sends a packet with a part of a message, or an acknowledgement alone, with these [`flags`]
    /// too. One that cannot be sent counts as lost on the way.
    pub(crate) fn send_packet(&mut self, at: usize, part: Option<Part>, more: u8) {
        let me = self.endpoints.me();
        let Self { endpoints, wireup, send, adapter, config, datagrams, .. } = self;
        let endpoint = &mut endpoints[at];
        let (Some(link), Some(addr)) = (&mut endpoint.link, endpoint.conn.addr) else { return };
        let conn = &mut endpoint.conn;
        let idle = if conn.is_idle() { flags::NO_CONNECTION } else { 0 };
        let epoch = conn.handshake.epoch;
        let ranks = [me, endpoint.peer];
        let Some(ah) = conn.address_handle(adapter, &config.settings, ranks) else { return };
        let address = SenderAddress {
            port: adapter.port.address,
            mtu: wireup.ud.mtu(&adapter.port),
            frame: config.caps.frame as u32,
        };
        let packet = Packet {
            from: me.0,
            token: link.token,
            flags: part.map_or(0, |part| part.flags) | idle | more,
            epoch,
            stream: link.tx.stream,
            number: part.map_or(0, |part| part.number),
            ack: link.rx.ack(),
            delivered: endpoint.flow.rx_seq,
            address: link.is_unknown.then_some(address),
        };
        let payload = part.map_or([].as_slice(), |part| {
            &send.message(&part.message)[part.offset as usize..][..part.len as usize]
        });
        let header = packet.header_bytes();
        let sent = wireup.ud.send(ah, addr.ud_qpn, header + payload.len(), |bytes| {
            packet.encode(bytes);
            bytes[header..].copy_from_slice(payload);
        });
        if matches!(sent, Ok(true)) {
            link.acknowledged();
            endpoint.flow.advertised = endpoint.flow.rx_seq;
            datagrams.sent += 1;
        }
    }

    /// Lets the peer of endpoint `at` hear soon what has arrived.
    pub(crate) fn acknowledge_soon(&mut self, at: usize) {
        let Self { endpoints, datagrams, .. } = self;
        if let Some(link) = &mut endpoints[at].link {
            link.ack = AckState::Due;
            datagrams.list(at, link);
        }
    }

    /// Sends the acknowledgements that are due.
    #[cold]
    pub(crate) fn send_acknowledgements(&mut self) {
        for at in std::mem::take(&mut self.datagrams.due) {
            let index = at as usize;
            let Some(link) = &mut self.endpoints[index].link else { continue };
            link.is_listed = false;
            if link.ack != AckState::Due {
                continue;
            }
            if self.wireup.ud.has_space() && self.endpoints[index].conn.addr.is_some() {
                self.send_packet(index, None, 0);
                continue;
            }
            // Later: after the next completion, or when the address is there.
            let now = self.datagrams.now();
            self.endpoints[index].conn.addr.is_none().then(|| self.reach(index));
            let Self { endpoints, datagrams, .. } = self;
            if let Some(link) = &mut endpoints[index].link {
                link.delay_acknowledgement(now);
                datagrams.set_timer(index, link);
            }
        }
    }

    /// Looks after the links whose timers have run out.
    #[cold]
    pub(crate) fn progress_links(&mut self) {
        self.wireup.ud.repost_waiting();
        let now = self.datagrams.now();
        while let Some((at, time)) = self.datagrams.next_due(now) {
            let Self { endpoints, datagrams, .. } = self;
            let Some(link) = &mut endpoints[at].link else { continue };
            if link.timer != Some(time) {
                continue;
            }
            link.timer = None;
            link.is_ack_due(now);
            datagrams.list(at, link);
            if link.tx.on_time(now) {
                // What was acknowledged last may have been sent before the port was given another
                // address, and the peer's answers go to the old one.
                link.is_unknown = true;
                let timeouts = link.tx.timeouts;
                self.on_silence(at, timeouts);
                self.on_datagram_lost(at);
            }
            self.pump(at);
            let Self { endpoints, datagrams, .. } = self;
            if let Some(link) = &mut endpoints[at].link {
                datagrams.set_timer(at, link);
            }
        }
        self.send_acknowledgements();
    }

    /// Handles packets that remain without an answer: the peer computes, or its port has another
    /// address now, or the device is gone.
    fn on_silence(&mut self, at: usize, timeouts: u8) {
        let since = self.endpoints[at].link.as_ref().map_or(0, |link| link.since);
        self.warn_unanswered(at, self.datagrams.instant(since));
        if timeouts < LOOK_UP_AFTER {
            return;
        }
        let endpoint = &mut self.endpoints[at];
        if let Ok(Some(published)) = self.wireup.look_up_again(endpoint.peer) {
            endpoint.conn.found(&published);
        }
        if timeouts.is_multiple_of(2 * LOOK_UP_AFTER) {
            self.check_device();
        }
    }

    /// Sends what waits for the queue of the UD queue pair.
    #[cold]
    pub(crate) fn pump_stalled(&mut self) {
        for at in std::mem::take(&mut self.datagrams.stalled) {
            if let Some(link) = &mut self.endpoints[at as usize].link {
                link.is_stalled = false;
            }
            self.pump(at as usize);
        }
    }

    /// Handles a datagram. Returns whether a frame was delivered.
    pub(crate) fn on_datagram(&mut self, completion: &Wc, sink: &mut impl Sink) -> bool {
        if std::mem::take(&mut self.wireup.has_ended) {
            // It polls again: another session.
            let _ = self.publish();
        }
        let Some((slot, len)) = self.wireup.ud.received(completion) else { return false };
        let bytes = self.wireup.ud.datagram(slot, len);
        let mut moved = false;
        if let Some((packet, payload)) = Packet::decode(bytes) {
            let message = Message::Datagram { slot, from: len - payload.len(), len };
            moved = self.on_packet(&packet, message, completion.src_qp, sink);
        } else if let Some(message) = WireupMsg::decode(bytes, &self.wireup.secret) {
            self.on_msg(&message, completion.src_qp);
        } else if let Some(notice) = NoticeMsg::decode(bytes, &self.wireup.secret) {
            self.on_notice(&notice);
        }
        self.wireup.ud.put(slot);
        moved
    }

    /// Handles a packet from UD queue pair `ud_qpn`.
    fn on_packet(
        &mut self,
        packet: &Packet,
        payload: Message<'_>,
        ud_qpn: u32,
        sink: &mut impl Sink,
    ) -> bool {
        let Ok(at) = self.endpoints.get_or_create(Peer(packet.from)) else { return false };
        if self.endpoints[at].failed.is_some() {
            if self.token(at) == packet.token {
                let address = packet.address.as_ref().map(|address| address.of(ud_qpn));
                address.into_iter().for_each(|it| self.endpoints[at].conn.set_addr(it));
                self.answer_failed(at);
            }
            return false;
        }
        self.make_link(at);
        let now = self.datagrams.now();
        let endpoint = &mut self.endpoints[at];
        let Some(link) = endpoint.link.as_mut().filter(|link| link.token == packet.token) else {
            return false;
        };
        let has_arrived = link.tx.on_ack(now, packet.ack);
        if has_arrived {
            // It has acknowledged packets, which have this process's address. They may have an
            // earlier one; then silence follows.
            link.is_unknown = false;
        }
        link.oldest.was_heard = true;
        endpoint.conn.warned = true;
        if has_arrived {
            self.on_datagrams_arrived(at);
        }
        if let Some(address) = &packet.address
            && !self.on_address(at, address, ud_qpn)
        {
            return false;
        }
        if let Err(why) = self.on_ack(at, packet.delivered) {
            return self.protocol_error(at, why);
        }
        self.endpoints[at].used_at = self.polls;
        self.follow_peer(at, packet);
        let moved = packet.has_data() && self.on_data(at, packet, payload, now, sink);
        if !packet.has_data() && packet.flags & flags::ACK_NOW != 0 {
            self.acknowledge_soon(at);
        }
        self.pump(at);
        moved
    }

    /// Ends a connection that the peer has left, or an attempt that it has ended: its Disconnect or
    /// its Decline was lost.
    fn follow_peer(&mut self, at: usize, packet: &Packet) {
        let conn = &mut self.endpoints[at].conn;
        let is_idle = packet.flags & flags::NO_CONNECTION != 0;
        if is_idle {
            conn.peer_is_idle(packet.epoch);
        }
        let is_over = is_idle && conn.handshake.epoch == packet.epoch;
        if is_over && conn.is_connecting() {
            self.give_up_connecting(at);
        } else if conn.handshake.is_left_for(packet.epoch) || (is_over && !conn.is_idle()) {
            self.leave(at);
            self.send_msg(at, Kind::Closed);
        }
    }

    /// Takes over the address of a peer. Returns false if the two processes cannot communicate.
    fn on_address(&mut self, at: usize, address: &SenderAddress, ud_qpn: u32) -> bool {
        let addr = address.of(ud_qpn);
        let is_new = self.endpoints[at].conn.addr.is_none();
        self.endpoints[at].conn.heard(addr);
        if address.frame as usize != self.config.caps.frame {
            self.acknowledge_soon(at);
            self.send_acknowledgements();
            self.on_frame_size_mismatch(at, address.frame as usize);
            return false;
        }
        if let Some(link) = &mut self.endpoints[at].link {
            link.peer_mtu = address.mtu.clamp(1, 5);
        }
        self.limit_packets(at);
        if is_new {
            self.reach(at);
        }
        true
    }

    /// Lets packets to endpoint `at` have as many bytes as both ends and the path take. Longer ones
    /// under way are cut anew.
    pub(crate) fn limit_packets(&mut self, at: usize) {
        let mtu = self.wireup.ud.mtu(&self.adapter.port);
        let endpoint = &mut self.endpoints[at];
        let Some(link) = &mut endpoint.link else { return };
        let mtu = mtu_bytes(mtu.min(link.peer_mtu).min(endpoint.conn.path_mtu));
        let is_less = mtu < std::mem::replace(&mut link.mtu, mtu);
        if is_less && !endpoint.conn.is_ready() {
            let messages = &endpoint.flow.unacked;
            link.tx.restart(Backlog { messages, count: messages.len() }, endpoint.flow.tx_seq);
            self.pump(at);
        }
    }

    /// Handles a packet with data. It is held while something that the peer wrote before it may be
    /// on its way to memory. Returns whether a frame was delivered.
    fn on_data(
        &mut self,
        at: usize,
        packet: &Packet,
        payload: Message<'_>,
        now: u64,
        sink: &mut impl Sink,
    ) -> bool {
        let must_wait = self.endpoints.holds_writes(at);
        let Self { endpoints, datagrams, recv, wireup, .. } = self;
        let Some(link) = &mut endpoints[at].link else { return false };
        let before = link.rx.held();
        let verdict = link.rx.judge(packet.stream, packet.number);
        // A new stream drops what was held of the last one.
        datagrams.held -= before - link.rx.held();
        let mut moved = false;
        match verdict {
            Verdict::Next if !must_wait => {
                moved = self.on_part(at, packet.flags, payload, sink);
                moved |= self.deliver_held(at, sink);
            }
            Verdict::Next | Verdict::Early if datagrams.held < MAX_HELD => {
                let bytes = payload.bytes(recv, &wireup.ud);
                let is_held = link.rx.hold(packet.number, packet.flags, bytes);
                datagrams.held += usize::from(is_held);
            }
            Verdict::Next | Verdict::Early | Verdict::Repeated => {}
            Verdict::Stale => return false,
        }
        let Self { endpoints, datagrams, .. } = self;
        let Some(link) = &mut endpoints[at].link else { return moved };
        let is_urgent = packet.flags & flags::ACK_NOW != 0 || verdict != Verdict::Next;
        link.received(now, is_urgent);
        datagrams.list(at, link);
        datagrams.set_timer(at, link);
        moved
    }

    /// Delivers the packets that are held and are next. Returns whether a frame was delivered.
    fn deliver_held(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        while let Some(link) = &mut self.endpoints[at].link
            && let Some((flags, part)) = link.rx.next_held()
        {
            self.datagrams.held -= 1;
            moved |= self.on_part(at, flags, Message::Kept(&part), sink);
        }
        moved
    }

    /// Delivers what has waited for a queue pair of endpoint `at` that is destroyed now: what was
    /// written through it is in memory. Returns whether a frame was delivered.
    pub(crate) fn on_drained(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        let moved = !self.endpoints.holds_writes(at) && self.deliver_held(at, sink);
        if moved {
            self.acknowledge_soon(at);
        }
        moved
    }

    /// Handles the next part of a message. Returns whether a frame was delivered.
    fn on_part(&mut self, at: usize, flags: u8, part: Message<'_>, sink: &mut impl Sink) -> bool {
        let longest = max_message(self.config.caps.frame);
        let Self { endpoints, recv, wireup, .. } = self;
        let Some(link) = &mut endpoints[at].link else { return false };
        match link.rx.take(flags, part.bytes(recv, &wireup.ud), longest) {
            Joined::Whole => self.on_unconnected(at, part, sink),
            Joined::Message(message) => self.on_unconnected(at, Message::Kept(&message), sink),
            Joined::Part => false,
            Joined::Invalid => self.protocol_error(at, "a datagram belongs to no message"),
        }
    }
}
