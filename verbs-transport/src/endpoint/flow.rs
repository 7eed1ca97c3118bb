//! Flow control and acknowledgement of an endpoint, both directions.
//!
//! Credit and acknowledgement are one number: the frames that the receiver has delivered.
//! Sequence numbers count the frames of one direction over all connections of the endpoint, from
//! 0, and wrap.
//!
//! The receiver keeps receives for a window of frames. It may *lower* the window of a peer that
//! sends little, to [`LOW_WINDOW`], and give it the whole one again. A window counts as lower only
//! when the peer has confirmed it, and all that was sent in the former one has arrived.
//!
//! Invariant: `unacked` holds the frames `acked .. tx_seq`, in order; its first message may begin
//! before `acked`. During a *replay*, acknowledged messages are kept as well: the peer may have had
//! them by another path, and the device still reads their slots.

use std::collections::VecDeque;

use crate::frame::control;

/// Receives for each peer besides those for its frames: control messages.
pub(crate) const CONTROL_RECVS: u32 = 10;
/// Frames that every connected peer may have unacknowledged.
pub(crate) const LOW_WINDOW: u32 = 4;

/// A message that was sent and not acknowledged to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacked {
    /// Its send slot.
    pub(crate) slot: u32,
    /// Its length.
    pub(crate) bytes: u32,
    /// Sequence number of its first frame.
    pub(crate) seq: u32,
    /// Number of its frames.
    pub(crate) frames: u32,
}

/// Control messages that are due to a peer: a bit for each of the codes of [`control`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due(u8);

impl Due {
    /// Adds the message with this code.
    pub(crate) fn add(&mut self, code: u32) {
        self.0 |= 1 << code;
    }

    /// Removes the message with this code, and returns whether it was due.
    pub(crate) fn take(&mut self, code: u32) -> bool {
        let was_due = self.has(code);
        self.0 &= !(1 << code);
        was_due
    }

    /// Removes all messages but the one with this code.
    pub(crate) fn keep(&mut self, code: u32) {
        self.0 &= 1 << code;
    }

    /// Returns whether the message with this code is due.
    pub(crate) fn has(self, code: u32) -> bool {
        self.0 & (1 << code) != 0
    }
}

/// Sequence numbers, window and credit of an endpoint.
#[derive(Debug)]
pub(crate) struct FlowControl {
    /// Sequence number of the next frame to the peer.
    pub(crate) tx_seq: u32,
    /// Frames that the peer has acknowledged.
    pub(crate) acked: u32,
    /// Frames that may be unacknowledged; 0 while the endpoint is not ready.
    pub(crate) window: u32,
    /// The most frames of either direction that may be unacknowledged on the latest connection;
    /// at first no limit, since datagrams are acknowledged by themselves.
    pub(crate) granted: u32,
    /// Frames that the peer may have unacknowledged: `granted`, or [`LOW_WINDOW`].
    pub(crate) share: u32,
    /// The peer was told to keep to [`LOW_WINDOW`] and has not confirmed it.
    pub(crate) is_lowering: bool,
    /// Receives that are reserved for the connection.
    pub(crate) receives: u32,
    pub(crate) unacked: VecDeque<Unacked>,
    /// The device has not completed the messages that this connection has sent again.
    pub(crate) is_replaying: bool,
    /// Sequence number of the next frame from the peer: the frames delivered.
    pub(crate) rx_seq: u32,
    /// The latest `rx_seq` that was sent to the peer.
    pub(crate) advertised: u32,
    /// A frame for the peer had no space.
    pub(crate) no_credit: bool,
    /// The endpoint is among those without space.
    pub(crate) is_blocked: bool,
    /// The peer's acknowledgement was requested.
    pub(crate) credit_requested: bool,
    /// Control messages that are due: an acknowledgement if the peer has requested it, or may have
    /// missed the last one.
    pub(crate) due: Due,
}

impl Default for FlowControl {
    fn default() -> FlowControl {
        FlowControl {
            tx_seq: 0,
            acked: 0,
            window: 0,
            granted: u32::MAX,
            share: u32::MAX,
            is_lowering: false,
            receives: 0,
            unacked: VecDeque::new(),
            is_replaying: false,
            rx_seq: 0,
            advertised: 0,
            no_credit: false,
            is_blocked: false,
            credit_requested: false,
            due: Due::default(),
        }
    }
}

impl FlowControl {
    /// Returns whether the window permits another frame.
    #[inline]
    pub(crate) fn has_credit(&self) -> bool {
        self.tx_seq.wrapping_sub(self.acked) < self.window
    }

    /// Handles the peer's acknowledgement of all frames before `seq`; `free` gets the slots that
    /// are no longer in use. Returns false if that is nothing new, and an error if the frames were
    /// never sent.
    #[inline]
    pub(crate) fn on_ack(&mut self, seq: u32, free: impl FnMut(u32)) -> Result<bool, &'static str> {
        let count = seq.wrapping_sub(self.acked);
        if count == 0 {
            return Ok(false);
        }
        if count > self.tx_seq.wrapping_sub(self.acked) {
            // A message that was overtaken repeats an old number; any other is invalid.
            return if (count as i32) < 0 {
                Ok(false)
            } else {
                Err("it acknowledges frames that were never sent")
            };
        }
        (self.acked, self.credit_requested) = (seq, false);
        if !self.is_replaying {
            self.free_acked(free);
        }
        Ok(true)
    }

    /// Removes the acknowledged messages.
    #[inline]
    fn free_acked(&mut self, mut free: impl FnMut(u32)) {
        let acked = self.acked;
        let is_complete = |message: &Unacked| {
            acked.wrapping_sub(message.seq.wrapping_add(message.frames)) as i32 >= 0
        };
        while let Some(message) = self.unacked.front().filter(|message| is_complete(message)) {
            free(message.slot);
            self.unacked.pop_front();
        }
    }

    /// Ends a replay: the device reads no slot of acknowledged messages any more. `free` gets these
    /// slots.
    #[cold]
    pub(crate) fn end_replay(&mut self, free: impl FnMut(u32)) {
        self.is_replaying = false;
        self.free_acked(free);
    }

    /// Returns whether an acknowledgement is due to the peer: half of its window is due.
    #[inline]
    pub(crate) fn must_advertise(&self) -> bool {
        self.rx_seq.wrapping_sub(self.advertised) >= self.share / 2
    }

    /// Returns the window of a peer that sends little.
    pub(crate) fn low_window(&self) -> u32 {
        LOW_WINDOW.min(self.granted)
    }

    /// Lets the peer have so many frames unacknowledged, and as many the other way.
    pub(crate) fn grant(&mut self, window: u32) {
        (self.granted, self.share, self.is_lowering) = (window, window, false);
    }

    /// Begins a connection: the handshake has acknowledged delivered frames.
    pub(crate) fn connected(&mut self) {
        (self.advertised, self.window, self.due) = (self.rx_seq, self.granted, Due::default());
    }

    /// Ends a connection.
    pub(crate) fn disconnect(&mut self) {
        (self.window, self.credit_requested) = (0, false);
        (self.share, self.is_lowering) = (self.granted, false);
        self.due.keep(control::CREDIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(acked: u32, count: u32) -> FlowControl {
        let message = |slot| Unacked { slot, bytes: 48, seq: acked.wrapping_add(slot), frames: 1 };
        let unacked = (0..count).map(message).collect();
        FlowControl { acked, tx_seq: acked.wrapping_add(count), unacked, ..Default::default() }
    }

    #[test]
    fn acknowledged_frames_free_their_slots_in_order() {
        // Sequence numbers wrap.
        let mut flow = flow(u32::MAX - 1, 5);
        let mut freed = Vec::new();
        assert_eq!(flow.on_ack(1, |slot| freed.push(slot)), Ok(true));
        assert_eq!(
            (freed.as_slice(), flow.acked, flow.unacked.len()),
            ([0, 1, 2].as_slice(), 1, 2)
        );
        assert_eq!(flow.on_ack(u32::MAX, |_| panic!("freed twice")), Ok(false));
        assert_eq!(flow.acked, 1);
        assert!(flow.on_ack(4, |_| ()).is_err());
        assert_eq!(flow.on_ack(3, |_| ()), Ok(true));
        assert!(flow.unacked.is_empty());
    }

    #[test]
    fn slots_of_a_replay_are_kept_until_the_device_has_read_them() {
        let mut flow = flow(0, 3);
        flow.is_replaying = true;
        assert_eq!(flow.on_ack(2, |_| panic!("the device reads it")), Ok(true));
        assert_eq!((flow.acked, flow.unacked.len()), (2, 3));
        let mut freed = Vec::new();
        flow.end_replay(|slot| freed.push(slot));
        assert_eq!((freed.as_slice(), flow.unacked.len()), ([0, 1].as_slice(), 1));
        flow.on_ack(3, |slot| freed.push(slot)).unwrap();
        assert_eq!((freed.as_slice(), flow.unacked.len()), ([0, 1, 2].as_slice(), 0));
    }

    #[test]
    fn a_coalesced_message_is_kept_until_its_last_frame_is_acknowledged() {
        let mut flow = flow(u32::MAX, 1);
        flow.unacked.push_back(Unacked { slot: 1, bytes: 200, seq: 0, frames: 3 });
        flow.unacked.push_back(Unacked { slot: 2, bytes: 48, seq: 3, frames: 1 });
        flow.tx_seq = 4;
        let mut freed = Vec::new();
        flow.on_ack(2, |slot| freed.push(slot)).unwrap();
        assert_eq!((freed.as_slice(), flow.acked), ([0].as_slice(), 2));
        assert!(flow.on_ack(5, |_| ()).is_err());
        flow.on_ack(3, |slot| freed.push(slot)).unwrap();
        assert_eq!(freed, [0, 1]);
        flow.on_ack(4, |slot| freed.push(slot)).unwrap();
        assert_eq!((freed.as_slice(), flow.unacked.len()), ([0, 1, 2].as_slice(), 0));
    }

    #[test]
    fn credit_ends_with_the_window() {
        let mut flow = flow(0, 3);
        assert!(!flow.has_credit());
        flow.window = 4;
        assert!(flow.has_credit());
        flow.window = 3;
        assert!(!flow.has_credit());
    }
}
