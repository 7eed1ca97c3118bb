//! Opens and closes the rings that peers write, and follows the rings that peers open.
//!
//! A ring goes to a peer that has sent many short frames since this process slept last. It is
//! closed before this process sleeps, since a write wakes no process, and when another peer sends
//! more.

use std::time::{Duration, Instant};

use super::channel::RxState;
use super::wire::{self, CLOSING, SLOT_BYTES};
use crate::endpoint::send_queue::Signal;
use crate::frame::{PREFIX, control};
use crate::ibv::Destination;
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Returns whether the peer of endpoint `at` lets this process write now.
    #[inline]
    pub(crate) fn may_write(&mut self, at: usize) -> bool {
        if self.endpoints[at].eager_rdma.control_changed() {
            self.read_ring_control(at);
        }
        self.endpoints[at].eager_rdma.tx.is_open()
    }

    /// Reads the ring control again after a frame was written. If it has closed before, the peer
    /// may sleep already and must be woken. Otherwise the frame is under way while the peer
    /// still polls.
    #[inline]
    pub(crate) fn on_written(&mut self, at: usize) {
        self.rings.frames_written += 1;
        if self.endpoints[at].eager_rdma.control_changed() {
            self.read_ring_control(at);
        }
    }

    /// Takes over a ring control that has changed.
    #[cold]
    fn read_ring_control(&mut self, at: usize) {
        let channel = &mut self.endpoints[at].eager_rdma;
        if channel.control.is_none() {
            return;
        }
        let has_closed = channel.read_control();
        self.rings.set_writable(at, channel.tx.is_open());
        if has_closed && !self.send_control(at, control::STOPPED) {
            self.credit.owe(&mut self.endpoints, at, control::STOPPED);
        }
    }

    /// Reads the ring controls of all open rings of peers.
    #[cold]
    pub(crate) fn read_ring_controls(&mut self) {
        for index in (0..self.rings.writable.len()).rev() {
            if let Some(&at) = self.rings.writable.get(index) {
                self.may_write(at as usize);
            }
        }
    }

    /// Accounts for a delivered frame of `len` bytes: the peer may be due an acknowledgement, or
    /// a ring.
    #[inline]
    pub(crate) fn on_delivered(&mut self, at: usize, len: usize) {
        let endpoint = &mut self.endpoints[at];
        if endpoint.flow.must_advertise() {
            self.credit.due.push(at as u32);
        }
        if wire::slot_len(PREFIX + len) <= SLOT_BYTES {
            let count = endpoint.eager_rdma.count_short(self.rings.period);
            if count >= self.config.settings.eager_rdma_threshold
                && endpoint.eager_rdma.rx == RxState::Absent
            {
                self.grant(at);
            }
        }
    }

    /// Opens a ring for a peer that sends many short frames. If all are in use, a peer that sends
    /// much less loses its ring, so that the next attempt succeeds.
    #[cold]
    fn grant(&mut self, at: usize) {
        let endpoint = &mut self.endpoints[at];
        let has_control = endpoint.eager_rdma.peer_control.0 != 0;
        if !endpoint.is_ready() || !has_control || self.rings.max == 0 {
            // Not so soon again.
            endpoint.eager_rdma.reset_short();
            return;
        }
        let Ok(Some(ring)) = self.rings.take_ring() else { return self.arbitrate(at) };
        let opening = self.endpoints[at].eager_rdma.descriptor(&ring).encode();
        if !self.write_ring_control(at, 0, &opening) {
            return self.rings.put_ring(ring);
        }
        let channel = &mut self.endpoints[at].eager_rdma;
        channel.openings += 1;
        (channel.ring, channel.rx) = (Some(ring), RxState::Open);
        self.rings.readable.push(at as u32);
    }

    /// Closes the ring of the peer that has sent fewest short frames in this period, if endpoint
    /// `at` has received more than twice as many.
    fn arbitrate(&mut self, at: usize) {
        let channel = |at: usize| &self.endpoints[at].eager_rdma;
        let recent = |at: usize| channel(at).short_frames(self.rings.period);
        let open = self.rings.readable.iter().map(|&other| other as usize);
        let open = open.filter(|&other| channel(other).rx == RxState::Open);
        let least = open.min_by_key(|&other| recent(other));
        if let Some(other) = least.filter(|&other| recent(other) < recent(at) / 2) {
            self.close_ring(other);
        }
        self.rings.period += 1;
    }

    /// Requests a peer to stop writing. Returns false if it must be tried again.
    fn close_ring(&mut self, at: usize) -> bool {
        let closing = self.endpoints[at].eager_rdma.closing().to_le_bytes();
        let is_posted = self.write_ring_control(at, CLOSING, &closing);
        if is_posted {
            self.endpoints[at].eager_rdma.rx = RxState::Closing { since: Instant::now() };
        }
        is_posted
    }

    /// Closes the rings before this process sleeps, and answers peers that have closed theirs. A
    /// ring whose peer cannot be told now remains open. Returns false if a connection has broken
    /// by that.
    pub(crate) fn close_rings(&mut self) -> bool {
        self.read_ring_controls();
        (0..self.rings.readable.len()).rev().all(|index| {
            let Some(&at) = self.rings.readable.get(index) else { return true };
            let at = at as usize;
            self.endpoints[at].eager_rdma.rx != RxState::Open
                || self.close_ring(at)
                || self.endpoints[at].is_ready()
        })
    }

    /// Returns when a sleeper must poll rings that are closing or not closed yet.
    pub(crate) fn next_ring_poll(&self) -> Option<Instant> {
        if self.rings.readable.is_empty() {
            return None;
        }
        // Twice what a device takes to give up: for the ring control, and for the last frame that
        // is written before it arrives. A device may take four times its timeout.
        let settings = &self.config.settings;
        let tries = 1 + u64::from(settings.retries);
        let longest = Duration::from_micros(2 * 4 * tries * (4 << settings.ack_timeout.min(31)));
        let now = Instant::now();
        let states =
            self.rings.readable.iter().map(|&at| self.endpoints[at as usize].eager_rdma.rx);
        states.filter_map(|state| state.next_poll(now, longest)).min()
    }

    /// Writes words of the ring control of a peer, from word `first` on. Returns false if it must
    /// be tried again, or if the connection has broken by that.
    fn write_ring_control(&mut self, at: usize, first: usize, bytes: &[u8]) -> bool {
        let Self { endpoints, send, config, .. } = self;
        let endpoint = &mut endpoints[at];
        if endpoint.tx.used >= config.send_depth {
            return false;
        }
        let Ok(Some(slot)) = send.control.take() else { return false };
        send.control.bytes_mut(slot, bytes.len()).copy_from_slice(bytes);
        let (addr, rkey) = endpoint.eager_rdma.peer_control;
        let addr = addr.wrapping_add(8 * first as u64);
        let signal = Signal { slot: Some(slot), ..Signal::NONE };
        let memory = send.control.sge(slot, bytes.len());
        let posted = endpoint.tx.submit(memory, Destination::write(addr, rkey), signal);
        if posted.is_err() {
            send.control.put(slot);
            self.break_connection(at, "the device refused a write");
        }
        posted.is_ok()
    }
}
