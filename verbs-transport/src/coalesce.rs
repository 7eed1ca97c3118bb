//! Coalescing: several frames to one peer in one SEND. `docs/verbs.md` draws the bytes.
//!
//! Between `begin_batch` and `end_batch` the frames to one peer are put together, if they had to
//! wait for space. A message is open until the next frame does not fit, or the batch ends.
//!
//! States: [`State`]. Invariants: the open message is the last one that its endpoint keeps as
//! unacknowledged. Therefore it is replayed after a break like any other; it is never kept from one
//! MPI call to the next. This file does not post: `post` does.

use fabric::{Header, Slot};

use crate::buffers::{LONG, SendBuffers};
use crate::eager_rdma::wire::SLOT_HEADER;
use crate::endpoint::flow::{FlowControl, Unacked};
use crate::frame::{self, COALESCED, COALESCED_HEADER, LENGTH_BYTES, PREFIX};
use crate::registration::Registrations;

/// Whether frames are being coalesced; with the index of the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No: each frame goes at once.
    #[default]
    Off,
    /// Frames of this endpoint are; there is no message yet.
    Empty(usize),
    /// Frames of this endpoint are; its last unacknowledged message is open.
    Open(usize),
}

/// Puts frames together.
#[derive(Debug)]
pub(crate) struct Coalescer {
    state: State,
    /// Bytes of the longest message.
    max_message: usize,
    /// Frames that were sent together with others.
    pub(crate) frames: u64,
}

impl Coalescer {
    /// Returns a coalescer for frames with bodies of up to `frame` bytes.
    pub(crate) fn new(frame: usize) -> Coalescer {
        Coalescer { state: State::Off, max_message: frame::max_message(frame), frames: 0 }
    }

    /// Begins a batch of frames to endpoint `at`, or ends it. No message is open.
    pub(crate) fn set_batch(&mut self, at: Option<usize>) {
        self.state = at.map_or(State::Off, State::Empty);
    }

    /// Returns whether each frame goes at once.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// Returns whether a message to endpoint `at` is open.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        self.state == State::Open(at)
    }

    /// Ends the open message, if there is one, and returns its endpoint. Further frames of the
    /// batch make another message.
    pub(crate) fn close_message(&mut self) -> Option<usize> {
        let State::Open(at) = self.state else { return None };
        self.state = State::Empty(at);
        Some(at)
    }

    /// Ends the batch if it is for endpoint `at`: its connection is over.
    pub(crate) fn disconnect(&mut self, at: usize) {
        if matches!(self.state, State::Open(it) | State::Empty(it) if it == at) {
            self.state = State::Off;
        }
    }

    /// Returns whether a frame with a body of `len` bytes fits into the open message.
    pub(crate) fn fits(&self, flow: &FlowControl, len: usize) -> bool {
        let needed = LENGTH_BYTES + Header::SIZE + len;
        flow.unacked.back().is_some_and(|open| open.bytes as usize + needed <= self.max_message)
    }

    /// Opens a message to endpoint `at` if its batch has none. Returns false if the frame is to
    /// go alone: it leaves no space for a second one of its length, or there is no slot.
    pub(crate) fn open(
        &mut self,
        at: usize,
        flow: &mut FlowControl,
        send: &mut SendBuffers,
        registrations: &mut Registrations,
        len: usize,
    ) -> bool {
        let needed = LENGTH_BYTES + Header::SIZE + len;
        if self.state != State::Empty(at) || COALESCED_HEADER + 2 * needed > self.max_message {
            return false;
        }
        let Some(slot) = send.take_long(registrations) else { return false };
        let bytes = send.long.bytes_mut(slot & !LONG, SLOT_HEADER + COALESCED_HEADER);
        let message = &mut bytes[SLOT_HEADER..];
        message[..4].copy_from_slice(&flow.tx_seq.to_le_bytes());
        message[PREFIX..].copy_from_slice(&COALESCED);
        let bytes = COALESCED_HEADER as u32;
        flow.unacked.push_back(Unacked { slot, bytes, seq: flow.tx_seq, frames: 0 });
        self.state = State::Open(at);
        true
    }

    /// Appends a frame, which fits, to the open message.
    pub(crate) fn append(
        &mut self,
        flow: &mut FlowControl,
        send: &mut SendBuffers,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) {
        let Some(open) = flow.unacked.back_mut() else { return };
        let from = SLOT_HEADER + open.bytes as usize;
        let to = from + LENGTH_BYTES + Header::SIZE + len;
        let bytes = &mut send.long.bytes_mut(open.slot & !LONG, to)[from..];
        bytes[..LENGTH_BYTES].copy_from_slice(&((Header::SIZE + len) as u32).to_le_bytes());
        bytes[LENGTH_BYTES..LENGTH_BYTES + Header::SIZE].copy_from_slice(&header.encode());
        fill(&mut Slot::new(&mut bytes[LENGTH_BYTES + Header::SIZE..], false));
        open.bytes = (to - SLOT_HEADER) as u32;
        open.frames += 1;
        flow.tx_seq = flow.tx_seq.wrapping_add(1);
        flow.no_credit = false;
        self.frames += 1;
    }
}
