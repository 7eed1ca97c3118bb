//! The receiving half of the data path: what a message on a connection means.

use fabric::Sink;

use crate::frame::{self, COALESCED_HEADER, LENGTH_BYTES, PREFIX, Prefix, control};
use crate::ibv::Wc;
use crate::transport::VerbsTransport;

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
        let (is_control, is_coalesced) = (frame.is_empty(), frame::is_coalesced(frame));
        if let Err(why) = self.on_ack(at, prefix.acked) {
            return self.protocol_error(at, why);
        }
        self.endpoints[at].used_at = self.polls;
        if is_control {
            return self.on_control(at, prefix.seq, qpn, sink);
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
                // A frame before the next one is a replay.
                let distance = prefix.seq.wrapping_sub(endpoint.flow.rx_seq) as i32;
                let is_ahead = endpoint.failed.is_none() && distance > 0;
                return moved | (is_ahead && self.protocol_error(at, "a frame is missing"));
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

    /// Handles a control message. Returns whether a frame was delivered.
    #[inline]
    fn on_control(&mut self, at: usize, code: u32, qpn: u32, sink: &mut impl Sink) -> bool {
        if code == control::REQUEST_CREDIT {
            self.endpoints[at].flow.credit_due = true;
            self.credit.due.push(at as u32);
        }
        code == control::STOPPED && self.on_stopped(at, qpn, sink)
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
        let (mut seq, mut from) = (first, COALESCED_HEADER);
        while from < len && self.endpoints[at].failed.is_none() {
            let message = self.recv.message(slot, len);
            let Some(frame) = frame::decode_coalesced(&message[from..]) else {
                return moved | self.protocol_error(at, "a coalesced message is malformed");
            };
            let taken = frame.len();
            let endpoint = &mut self.endpoints[at];
            match seq.wrapping_sub(endpoint.flow.rx_seq) as i32 {
                // A replay.
                ..0 => {}
                0 => {
                    if !endpoint.deliver(frame, sink) {
                        return moved | self.protocol_error(at, "a header is malformed");
                    }
                    self.on_delivered(at, taken);
                    moved = true;
                }
                1.. => return moved | self.protocol_error(at, "a frame is missing"),
            }
            seq = seq.wrapping_add(1);
            from += LENGTH_BYTES + taken;
        }
        moved
    }
}
