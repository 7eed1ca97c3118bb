//! The receiving half of the data path: what a message on a connection means.

use fabric::Sink;

use crate::frame::{self, COALESCED_HEADER, LENGTH_BYTES, PREFIX, Prefix, control};
use crate::ibv::Wc;
use crate::recv_queue::ReceiveQueue;
use crate::transport::VerbsTransport;
use crate::ud::UdEndpoint;

/// Where the bytes of a message are.
#[derive(Clone, Copy)]
pub(crate) enum Message<'a> {
    /// In a receive.
    InSlot { slot: u32, len: usize },
    /// In the receive of a datagram, from a byte on.
    Datagram { slot: u32, from: usize, len: usize },
    /// In memory of this process.
    Kept(&'a [u8]),
}

impl<'a> Message<'a> {
    /// Returns the bytes.
    pub(crate) fn bytes(self, recv: &'a ReceiveQueue, ud: &'a UdEndpoint) -> &'a [u8] {
        match self {
            Message::InSlot { slot, len } => recv.message(slot, len),
            Message::Datagram { slot, from, len } => &ud.datagram(slot, len)[from..],
            Message::Kept(bytes) => bytes,
        }
    }
}

impl VerbsTransport {
    /// Handles a message on a connection. Returns whether a frame was delivered.
    #[inline]
    pub(crate) fn on_message(&mut self, completion: &Wc, slot: u32, sink: &mut impl Sink) -> bool {
        let (qpn, len) = (completion.qp_num, completion.byte_len as usize);
        let Some(at) = self.endpoints.by_qp(qpn) else { return false };
        if self.endpoints[at].conn.is_connecting() {
            self.on_first_data(at, qpn);
        }
        let Some((prefix, frame)) = Prefix::decode(self.recv.message(slot, len)) else {
            return self.protocol_error(at, "a message is too short");
        };
        let (operand, is_coalesced) = (frame::control_operand(frame), frame::is_coalesced(frame));
        if let Err(why) = self.on_ack(at, prefix.acked) {
            return self.protocol_error(at, why);
        }
        self.endpoints[at].used_at = self.polls;
        if let Some(operand) = operand {
            return self.on_control(at, (prefix.seq, operand), qpn, sink);
        }
        if is_coalesced {
            return self.take_coalesced(at, slot, len, prefix.seq, sink);
        }
        let mut moved = false;
        if prefix.seq != self.endpoints[at].flow.rx_seq {
            // Frames written before it have arrived by now.
            moved = self.take_written(at, sink);
            let endpoint = &self.endpoints[at];
            if prefix.seq != endpoint.flow.rx_seq {
                let distance = prefix.seq.wrapping_sub(endpoint.flow.rx_seq) as i32;
                if distance < 0 {
                    self.on_replay(at);
                    return moved;
                }
                let is_ahead = endpoint.failed.is_none();
                return moved | (is_ahead && self.on_overtaking(at, slot, len, prefix.seq));
            }
        }
        let (endpoint, recv) = (&mut self.endpoints[at], &self.recv);
        let frame = &recv.message(slot, len)[PREFIX..];
        if !endpoint.deliver(frame, sink) {
            return moved | self.protocol_error(at, "a header is malformed");
        }
        self.on_delivered(at, len - PREFIX);
        true
    }

    /// Handles a message that came by datagrams. Returns whether a frame was delivered.
    pub(crate) fn on_unconnected(
        &mut self,
        at: usize,
        message: Message<'_>,
        sink: &mut impl Sink,
    ) -> bool {
        let bytes = message.bytes(&self.recv, &self.wireup.ud);
        let Some((prefix, frame)) = Prefix::decode(bytes) else {
            return self.protocol_error(at, "a message is too short");
        };
        let (is_coalesced, len) = (frame::is_coalesced(frame), frame.len());
        let mut moved = false;
        if prefix.seq != self.endpoints[at].flow.rx_seq {
            // Frames written before it may have arrived by now.
            moved = self.take_written(at, sink);
        }
        let endpoint = &self.endpoints[at];
        let distance = prefix.seq.wrapping_sub(endpoint.flow.rx_seq) as i32;
        if endpoint.failed.is_some() || (distance < 0 && !is_coalesced) {
            return moved;
        }
        if distance > 0 {
            return moved | self.protocol_error(at, "a frame is missing");
        }
        if is_coalesced {
            return moved | self.take_frames(at, message, prefix.seq, sink);
        }
        let Self { endpoints, recv, wireup, .. } = self;
        let frame = &message.bytes(recv, &wireup.ud)[PREFIX..];
        if !endpoints[at].deliver(frame, sink) {
            return moved | self.protocol_error(at, "a header is malformed");
        }
        self.on_delivered(at, len);
        true
    }

    /// Handles a frame that was delivered already. The peer has missed the acknowledgement: the
    /// frame may have been delivered late, after this process's last wire-up message. A window
    /// full of such frames would never open.
    #[cold]
    fn on_replay(&mut self, at: usize) {
        self.credit.owe(&mut self.endpoints, at, control::CREDIT);
    }

    /// Handles a message beyond the next frame: written frames are missing, or it is an error.
    #[cold]
    fn on_overtaking(&mut self, at: usize, slot: u32, len: usize, first: u32) -> bool {
        let message: Box<[u8]> = self.recv.message(slot, len).into();
        if !self.keep_overtaking(at, first, &message) {
            self.protocol_error(at, "a frame is missing");
        }
        false
    }

    /// Delivers a message that had overtaken others, and whose first frame, `first`, is now next.
    /// Returns whether a frame was delivered.
    #[cold]
    pub(crate) fn take_kept(
        &mut self,
        at: usize,
        first: u32,
        message: &[u8],
        sink: &mut impl Sink,
    ) -> bool {
        let Some((_, frame)) = Prefix::decode(message) else { return false };
        if frame::is_coalesced(frame) {
            return self.take_frames(at, Message::Kept(message), first, sink);
        }
        if !self.endpoints[at].deliver(frame, sink) {
            return self.protocol_error(at, "a header is malformed");
        }
        self.on_delivered(at, frame.len());
        true
    }

    /// Handles a control message, code and operand. Returns whether a frame was delivered.
    #[inline]
    fn on_control(
        &mut self,
        at: usize,
        (code, operand): (u32, u32),
        qpn: u32,
        sink: &mut impl Sink,
    ) -> bool {
        match code {
            control::REQUEST_CREDIT => self.credit.owe(&mut self.endpoints, at, control::CREDIT),
            control::STOPPED => return self.on_stopped(at, qpn, operand, sink),
            control::WINDOW => self.on_window(at, qpn, operand),
            control::LOWERED => {
                // What was written before needs no receive, but is acknowledged.
                let moved = self.take_written(at, sink);
                self.on_lowered(at, qpn, operand);
                return moved;
            }
            _ => {}
        }
        false
    }

    /// Handles a coalesced message whose first frame has number `first`. Returns whether a frame
    /// was delivered.
    #[cold]
    fn take_coalesced(
        &mut self,
        at: usize,
        slot: u32,
        len: usize,
        first: u32,
        sink: &mut impl Sink,
    ) -> bool {
        let mut moved = false;
        if first != self.endpoints[at].flow.rx_seq {
            // Frames written before it have arrived by now.
            moved = self.take_written(at, sink);
        }
        let endpoint = &self.endpoints[at];
        let is_ahead = first.wrapping_sub(endpoint.flow.rx_seq) as i32 > 0;
        if endpoint.failed.is_none() && is_ahead {
            return moved | self.on_overtaking(at, slot, len, first);
        }
        moved | self.take_frames(at, Message::InSlot { slot, len }, first, sink)
    }

    /// Delivers the frames of a coalesced message, of which `first` is not beyond the next one.
    /// Returns whether any was delivered.
    fn take_frames(
        &mut self,
        at: usize,
        message: Message<'_>,
        first: u32,
        sink: &mut impl Sink,
    ) -> bool {
        let (mut moved, mut seq, mut from) = (false, first, COALESCED_HEADER);
        loop {
            let Self { endpoints, recv, wireup, .. } = self;
            let endpoint = &mut endpoints[at];
            let rest = &message.bytes(recv, &wireup.ud)[from..];
            if rest.is_empty() || endpoint.failed.is_some() {
                return moved;
            }
            let Some(frame) = frame::decode_coalesced(rest) else {
                return moved | self.protocol_error(at, "a coalesced message is malformed");
            };
            let taken = frame.len();
            if seq != endpoint.flow.rx_seq {
                self.on_replay(at);
            } else {
                if !endpoint.deliver(frame, sink) {
                    return moved | self.protocol_error(at, "a header is malformed");
                }
                self.on_delivered(at, taken);
                moved = true;
            }
            seq = seq.wrapping_add(1);
            from += LENGTH_BYTES + taken;
        }
    }
}
