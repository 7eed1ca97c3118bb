//! Takes frames out of the rings that peers write.

use fabric::Sink;

use super::channel::RxState;
use super::wire::{self, SLOT_BYTES};
use crate::frame::{PREFIX, Prefix};
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Delivers what peers have written. Returns whether there was anything.
    #[inline]
    pub(crate) fn poll_rings(&mut self, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        for index in (0..self.rings.readable.len()).rev() {
            let Some(&at) = self.rings.readable.get(index) else { continue };
            let at = at as usize;
            let endpoint = &self.endpoints[at];
            // Checked before the last poll of the ring.
            let is_over =
                endpoint.eager_rdma.rx == RxState::Draining && !self.endpoints.is_draining(at);
            let seq = endpoint.flow.rx_seq;
            if endpoint
                .eager_rdma
                .rx_slot(seq)
                .is_some_and(|slot| wire::sequence_matches(|at| slot.read(at), seq))
                && endpoint.failed.is_none()
            {
                moved |= self.take_written(at, sink);
            }
            let endpoint = &self.endpoints[at];
            if !endpoint.eager_rdma.overtaking.is_empty() {
                moved |= self.take_overtaking(at, sink);
            }
            let endpoint = &self.endpoints[at];
            if is_over || endpoint.eager_rdma.is_over(endpoint.flow.rx_seq) {
                self.release_ring(at);
            }
        }
        moved
    }

    /// Delivers the frames in a peer's ring, from the next sequence number on.
    #[inline(never)]
    pub(crate) fn take_written(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        loop {
            let Self { endpoints, send, rings, polls, .. } = self;
            let endpoint = &mut endpoints[at];
            let seq = endpoint.flow.rx_seq;
            let Some(slot) = endpoint.eager_rdma.rx_slot(seq) else { return moved };
            let Some(len) = wire::decode_slot(|at| slot.read(at), seq, &mut rings.frame) else {
                return moved;
            };
            // All of it is in memory, and the peer may not write the next frame yet.
            wire::clear(len, |at, word| slot.write(at, word));
            let Some((prefix, frame)) = Prefix::decode(&rings.frame[..len]) else { return moved };
            if let Err(why) = endpoint.on_ack(prefix.acked, |slot| send.put(slot)) {
                return moved | self.protocol_error(at, why);
            }
            endpoint.used_at = *polls;
            if !endpoint.deliver(frame, sink) {
                return moved | self.protocol_error(at, "a header is malformed");
            }
            self.on_delivered(at, len - PREFIX);
            moved = true;
        }
    }

    /// Handles a peer's promise, on queue pair `qpn`, to write no more: what it has written are
    /// frames before `end`. They have arrived, unless the device lets a send overtake writes.
    #[cold]
    pub(crate) fn on_stopped(
        &mut self,
        at: usize,
        qpn: u32,
        end: u32,
        sink: &mut impl Sink,
    ) -> bool {
        let moved = self.take_written(at, sink);
        let endpoint = &mut self.endpoints[at];
        let is_closing = matches!(endpoint.eager_rdma.rx, RxState::Closing { .. });
        if endpoint.tx.is_on(qpn) && is_closing {
            endpoint.eager_rdma.stopped_at = Some(end);
            if endpoint.eager_rdma.is_over(endpoint.flow.rx_seq) {
                self.release_ring(at);
            }
        }
        moved
    }

    /// Keeps a sent message, of which frame `first` is the first, until the written frames before
    /// it have arrived. Returns false if none can be missing.
    #[cold]
    pub(crate) fn keep_overtaking(&mut self, at: usize, first: u32, message: &[u8]) -> bool {
        let flow = &self.endpoints[at].flow;
        let is_in_window = first.wrapping_sub(flow.rx_seq) < flow.granted;
        let channel = &mut self.endpoints[at].eager_rdma;
        if channel.rx == RxState::Absent || !is_in_window {
            return false;
        }
        channel.overtaking.retain(|(other, _)| *other != first);
        channel.overtaking.push((first, message.into()));
        true
    }

    /// Delivers kept messages that are next, and the written frames between them.
    #[cold]
    fn take_overtaking(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        loop {
            let endpoint = &mut self.endpoints[at];
            let seq = endpoint.flow.rx_seq;
            let Some(message) = endpoint.eager_rdma.take_overtaking(seq) else { return moved };
            moved |= self.take_kept(at, seq, &message, sink);
            moved |= self.take_written(at, sink);
        }
    }

    /// Returns whether a frame can be taken out of a ring.
    pub(crate) fn is_any_written(&self) -> bool {
        let endpoints = self.rings.readable.iter().map(|&at| &self.endpoints[at as usize]);
        endpoints.filter(|endpoint| endpoint.failed.is_none()).any(|endpoint| {
            let seq = endpoint.flow.rx_seq;
            endpoint.eager_rdma.rx_slot(seq).is_some_and(|slot| {
                wire::decode_slot(|at| slot.read(at), seq, &mut [0; SLOT_BYTES]).is_some()
            })
        })
    }

    fn release_ring(&mut self, at: usize) {
        self.rings.release(at, &mut self.endpoints[at].eager_rdma);
    }
}
