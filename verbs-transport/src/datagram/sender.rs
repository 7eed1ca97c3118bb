//! The sending half of a stream: cuts messages into packets, and repeats those that are lost.
//!
//! A packet is *sent*, *lost* or *received*. A packet counts as lost when three packets that were
//! sent after it have arrived, or when nothing has arrived for the retransmission timeout: then
//! only the oldest is repeated, and its acknowledgement shows the others. A peer that computes
//! acknowledges nothing; therefore the timeout doubles up to [`MAX_TIMEOUT`] and nothing fails.
//!
//! Invariants: `packets` are the packets `acked .. acked + packets.len()`, of which `outstanding`
//! are sent. At most `window` packets are outstanding and at most [`WINDOW`] are kept.

use std::collections::VecDeque;

use super::packet::{Ack, flags};
use super::{ACK_DELAY, Micros, WINDOW, is_after};
use crate::endpoint::flow::Unacked;

/// First congestion window, packets.
const FIRST_WINDOW: u16 = 8;
/// Smallest congestion window.
const MIN_WINDOW: u16 = 2;
/// Packets that may arrive before one that was sent earlier.
const REORDER: u32 = 3;
/// Retransmission timeout before a round trip was measured, the smallest one, and the longest.
const FIRST_TIMEOUT: Micros = 25_000;
const MIN_TIMEOUT: Micros = 3 * ACK_DELAY;
pub(crate) const MAX_TIMEOUT: Micros = 500_000;
/// Packets that an idle stream keeps memory for.
const IDLE_PACKETS: usize = 4;

/// The messages that wait for acknowledgements, as far as they may be sent.
#[derive(Clone, Copy)]
pub(crate) struct Backlog<'a> {
    pub(crate) messages: &'a VecDeque<Unacked>,
    /// Messages of them that are complete.
    pub(crate) count: usize,
}

/// A part of a message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Number of the packet.
    pub(crate) number: u32,
    pub(crate) message: Unacked,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// See [`flags`].
    pub(crate) flags: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sent,
    Lost,
    Received,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sent_at: Micros,
    /// Sequence number of the message's first frame.
    message: u32,
    offset: u32,
    /// Number of the transmission.
    transmission: u32,
    len: u16,
    state: State,
    is_repeated: bool,
}

/// The sending half of a stream.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    packets: VecDeque<Flight>,
    /// When the oldest packet is repeated.
    timeout_at: Option<Micros>,
    pub(crate) stream: u32,
    /// Number of the oldest packet that has not arrived.
    acked: u32,
    /// Sequence number of the next message to cut, and the bytes cut of it.
    next_message: u32,
    next_offset: u32,
    transmissions: u32,
    /// The latest transmission that has arrived.
    arrived: u32,
    /// The packet from which on a loss reduces the window again.
    recovered_at: u32,
    /// Smoothed round-trip time and its deviation, microseconds; 0: not measured.
    round_trip: u32,
    deviation: u32,
    window: u16,
    outstanding: u16,
    /// Packets acknowledged since the window grew.
    grown: u16,
    lost: u16,
    /// Timeouts in a row.
    pub(crate) timeouts: u8,
}

impl Backlog<'_> {
    fn iter(&self) -> impl Iterator<Item = &Unacked> {
        self.messages.iter().take(self.count)
    }

    /// Returns the message that begins with frame `seq`, or the first one after it.
    fn from(&self, seq: u32) -> Option<Unacked> {
        self.iter().find(|message| !is_after(seq, message.seq)).copied()
    }

    fn exactly(&self, seq: u32) -> Option<Unacked> {
        self.from(seq).filter(|message| message.seq == seq)
    }
}

impl Sender {
    /// Begins the next stream, with the oldest message of those that are not acknowledged, or
    /// with `next_frame`.
    pub(crate) fn restart(&mut self, backlog: Backlog<'_>, next_frame: u32) {
        self.stop();
        let first = backlog.messages.front().map_or(next_frame, |message| message.seq);
        (self.next_message, self.next_offset) = (first, 0);
    }

    /// Ends the stream: another path carries the messages.
    pub(crate) fn stop(&mut self) {
        *self = Sender {
            stream: self.stream.wrapping_add(1),
            round_trip: self.round_trip,
            deviation: self.deviation,
            window: FIRST_WINDOW,
            ..Sender::default()
        };
    }

    /// Returns the next part to send, of at most `payload` bytes; `None` while the window is full
    /// or there is nothing. A packet with the last part that may go requests its acknowledgement
    /// if the window `is_full` for further messages.
    pub(crate) fn next(
        &mut self,
        now: Micros,
        backlog: Backlog<'_>,
        payload: usize,
        is_full: bool,
    ) -> Option<Part> {
        if self.outstanding >= self.window {
            return None;
        }
        if self.lost > 0 {
            if let Some(part) = self.next_lost(now, backlog) {
                return Some(part);
            }
            // The message has arrived on another path: the numbers after it would never come.
            let next_frame = self.next_message;
            self.restart(backlog, next_frame);
        }
        if self.packets.len() as u32 >= WINDOW {
            return None;
        }
        let message = backlog.from(self.next_message)?;
        if message.seq != self.next_message {
            (self.next_message, self.next_offset) = (message.seq, 0);
        }
        let offset = self.next_offset;
        let len = (message.bytes - offset).min(payload.min(usize::from(u16::MAX)) as u32);
        let number = self.acked.wrapping_add(self.packets.len() as u32);
        self.next_offset += len;
        if self.next_offset == message.bytes {
            self.next_message = message.seq.wrapping_add(message.frames);
            self.next_offset = 0;
        }
        self.packets.push_back(Flight {
            sent_at: now,
            message: message.seq,
            offset,
            transmission: 0,
            len: len as u16,
            state: State::Sent,
            is_repeated: false,
        });
        let index = self.packets.len() - 1;
        Some(self.transmit(now, index, message, number, is_full))
    }

    fn next_lost(&mut self, now: Micros, backlog: Backlog<'_>) -> Option<Part> {
        let index = self.packets.iter().position(|flight| flight.state == State::Lost)?;
        let message = backlog.exactly(self.packets[index].message)?;
        self.packets[index].is_repeated = true;
        self.lost -= 1;
        let number = self.acked.wrapping_add(index as u32);
        Some(self.transmit(now, index, message, number, true))
    }

    fn transmit(
        &mut self,
        now: Micros,
        index: usize,
        message: Unacked,
        number: u32,
        is_full: bool,
    ) -> Part {
        self.transmissions = self.transmissions.wrapping_add(1);
        self.outstanding += 1;
        let flight = &mut self.packets[index];
        (flight.state, flight.sent_at, flight.transmission) =
            (State::Sent, now, self.transmissions);
        let (offset, len) = (flight.offset, u32::from(flight.len));
        let is_last = offset + len == message.bytes;
        let may_send_more = self.outstanding < self.window
            && (self.packets.len() as u32) < WINDOW
            && !(is_full && is_last);
        if self.timeout_at.is_none() {
            self.timeout_at = Some(now + self.timeout());
        }
        let flags = flags::DATA
            | if offset == 0 { flags::FIRST } else { 0 }
            | if is_last { flags::LAST } else { 0 }
            | if may_send_more { 0 } else { flags::ACK_NOW };
        Part { number, message, offset, len, flags }
    }

    /// Handles an acknowledgement. Returns whether any packet has arrived that had not; an
    /// acknowledgement of packets that were never sent is dropped.
    pub(crate) fn on_ack(&mut self, now: Micros, ack: Ack) -> bool {
        let count = ack.next.wrapping_sub(self.acked);
        if ack.stream != self.stream || count as usize > self.packets.len() {
            return false;
        }
        let mut arrived = 0;
        for _ in 0..count {
            arrived += self.arrive(now, 0);
            self.packets.pop_front();
        }
        self.acked = ack.next;
        for bit in 0..63 {
            let index = bit + 1;
            if ack.later >> bit & 1 == 1 && index < self.packets.len() {
                arrived += self.arrive(now, index);
            }
        }
        if arrived == 0 && count == 0 {
            return false;
        }
        self.grow(arrived);
        self.find_lost();
        self.timeouts = 0;
        self.timeout_at = (!self.packets.is_empty()).then(|| now + self.timeout());
        if self.packets.is_empty() && self.packets.capacity() > 2 * IDLE_PACKETS {
            self.packets.shrink_to(IDLE_PACKETS);
        }
        true
    }

    /// Records that packet `index` has arrived. Returns 1 if it had not before.
    fn arrive(&mut self, now: Micros, index: usize) -> u16 {
        let flight = &mut self.packets[index];
        let before = std::mem::replace(&mut flight.state, State::Received);
        match before {
            State::Received => return 0,
            State::Sent => self.outstanding -= 1,
            State::Lost => self.lost -= 1,
        }
        if before == State::Sent && is_after(flight.transmission, self.arrived) {
            self.arrived = flight.transmission;
        }
        if !flight.is_repeated {
            let sample = u32::try_from(now - flight.sent_at).unwrap_or(u32::MAX);
            self.measure(sample.clamp(1, MAX_TIMEOUT as u32));
        }
        1
    }

    fn measure(&mut self, sample: u32) {
        if self.round_trip == 0 {
            (self.round_trip, self.deviation) = (sample, sample / 2);
            return;
        }
        let error = sample.abs_diff(self.round_trip);
        self.deviation = self.deviation - self.deviation / 4 + error / 4;
        self.round_trip = self.round_trip - self.round_trip / 8 + sample / 8;
    }

    fn grow(&mut self, arrived: u16) {
        self.grown += arrived;
        if self.grown >= self.window && u32::from(self.window) < WINDOW {
            (self.window, self.grown) = (self.window + 1, 0);
        }
    }

    /// Counts as lost what was sent before others that have arrived.
    fn find_lost(&mut self) {
        let mut last = None;
        for (index, flight) in (0..).zip(&mut self.packets) {
            let limit = flight.transmission.wrapping_add(REORDER);
            if flight.state == State::Sent && !is_after(limit, self.arrived) {
                flight.state = State::Lost;
                self.lost += 1;
                self.outstanding -= 1;
                last = Some(self.acked.wrapping_add(index));
            }
        }
        if let Some(last) = last.filter(|&last| !is_after(self.recovered_at, last)) {
            self.window = (self.window / 2).max(MIN_WINDOW);
            self.recovered_at = self.acked.wrapping_add(self.packets.len() as u32);
            debug_assert!(is_after(self.recovered_at, last));
        }
    }

    /// Returns the retransmission timeout.
    fn timeout(&self) -> Micros {
        let first = match self.round_trip {
            0 => FIRST_TIMEOUT,
            _ => u64::from(self.round_trip) + 4 * u64::from(self.deviation) + ACK_DELAY,
        };
        (first.max(MIN_TIMEOUT) << self.timeouts.min(6)).min(MAX_TIMEOUT)
    }

    /// Counts the oldest packet as lost if nothing has arrived in time. Returns whether it has.
    pub(crate) fn on_time(&mut self, now: Micros) -> bool {
        if self.timeout_at.is_none_or(|at| now < at) {
            return false;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.timeout_at = Some(now + self.timeout());
        self.window = MIN_WINDOW.max(self.window / 2);
        if let Some(flight) = self.packets.iter_mut().find(|flight| flight.state != State::Received)
            && flight.state == State::Sent
        {
            flight.state = State::Lost;
            self.lost += 1;
            self.outstanding -= 1;
        }
        // One packet may go, however many were sent.
        self.window = self.window.max(self.outstanding + 1);
        true
    }

    /// Returns stream, number and length of the oldest packet that has not arrived.
    pub(crate) fn oldest(&self) -> Option<((u32, u32), u16)> {
        self.packets.front().map(|flight| ((self.stream, self.acked), flight.len))
    }

    /// Returns when [`Sender::on_time`] has something to do.
    pub(crate) fn timer(&self) -> Option<Micros> {
        self.timeout_at
    }

    /// Returns whether packets of messages are under way.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty()
    }
}
