//! Rings on the device: frames that peers write into our memory, and our frames in theirs.
//!
//! What the bytes are and who may write when is in [`ring`](crate::eager_rdma::wire). A ring is given to a
//! peer that has sent many short frames since this process slept last, and closed before it
//! sleeps, since a write wakes nobody; or when somebody else talks more.

use std::io;
use std::time::{Duration, Instant};

use fabric::Sink;

use crate::connect::{PREFIX, VerbsTransport};
use crate::eager_rdma::wire as ring;
use crate::eager_rdma::wire::{GATE, Inbound, PLACE, Way};
use crate::endpoint::{Endpoint, Signal};
use crate::ibv::Destination;
use crate::memory::{Exposed, Words};
use crate::poll::prefix;
use crate::post::{note, put};

/// The words of a place.
type Place<'a> = Words<'a, { PLACE / 8 }>;

impl VerbsTransport {
    /// Whether the peer lets us write now.
    #[inline]
    pub(crate) fn may_write(&mut self, at: usize) -> bool {
        if self.pairs[at].has_news() {
            self.look_at_gate(at);
        }
        self.pairs[at].out.is_open()
    }

    /// A frame was written. If the gate has closed before it was, the peer may sleep already and
    /// must be woken; if not, the frame is on its way while the peer still looks.
    #[inline]
    pub(crate) fn has_written(&mut self, at: usize) {
        self.written += 1;
        if self.pairs[at].has_news() {
            self.look_at_gate(at);
        }
    }

    /// What a gate says that has changed.
    #[cold]
    fn look_at_gate(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        let Some(gate) = &pair.gate else { return };
        let words = gate.words::<{ GATE / 8 }>(0);
        let has_closed = pair.out.look(std::array::from_fn(|at| words.read(at)));
        let is_open = pair.out.is_open();
        self.held.retain(|&held| held != at as u32);
        if is_open {
            self.held.push(at as u32);
        }
        if has_closed && !self.note(at, note::STOPPED) {
            self.pairs[at].owes_stop = true;
            self.debts.push(at as u32);
        }
    }

    /// Whether peers have closed what we write to.
    #[cold]
    pub(crate) fn look_at_gates(&mut self) {
        for place in (0..self.held.len()).rev() {
            if let Some(&at) = self.held.get(place) {
                self.may_write(at as usize);
            }
        }
    }

    /// Takes what peers have written; true if there was anything.
    #[inline]
    pub(crate) fn look_in_rings(&mut self, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        for place in (0..self.ringed.len()).rev() {
            let Some(&at) = self.ringed.get(place) else { continue };
            let pair = &self.pairs[at as usize];
            // Asked before the last look.
            let is_over = pair.inbound == Inbound::Draining && !self.is_burying(at);
            if pair
                .next_place()
                .is_some_and(|place| ring::is_there(|at| place.read(at), pair.consumed))
            {
                moved |= self.take_written(at as usize, sink);
            }
            if is_over {
                self.free_ring(at as usize);
            }
        }
        moved
    }

    /// Takes the frames that are in a peer's ring, from the next on.
    #[inline(never)]
    pub(crate) fn take_written(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        loop {
            let Self { pairs, long, short, taken, polls, .. } = self;
            let pair = &mut pairs[at];
            let Some(place) = pair.next_place() else { return moved };
            let Some(len) = ring::take(|at| place.read(at), pair.consumed, taken) else {
                return moved;
            };
            let Some(([_, consumed], frame)) = prefix(&taken[..len]) else { return moved };
            if let Err(why) = pair.acknowledge(consumed, |slot| put(long, short, slot)) {
                return moved | self.nonsense(at, why);
            }
            pair.used_at = *polls;
            if !pair.hand_up(frame, sink) {
                return moved | self.nonsense(at, "a header is malformed");
            }
            self.count(at, len - PREFIX);
            moved = true;
        }
    }

    /// The peer writes no more, and what it wrote has arrived.
    #[cold]
    pub(crate) fn peer_has_stopped(&mut self, at: usize, queue: u32, sink: &mut impl Sink) -> bool {
        let moved = self.take_written(at, sink);
        let pair = &self.pairs[at];
        let is_current = pair.qp.as_ref().is_some_and(|qp| qp.number() == queue);
        if is_current && matches!(pair.inbound, Inbound::Closing { .. }) {
            self.free_ring(at);
        }
        moved
    }

    /// Opens a ring for a peer that talks much; when there is none left, takes it from one that talks
    /// less than half as much, for the next time.
    #[cold]
    pub(crate) fn give_ring(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        if !pair.is_ready() || pair.their_gate.0 == 0 || self.settings.eager_rdma_peers == 0 {
            // Not so soon again.
            pair.lately = 0;
            return;
        }
        let Ok(Some(ring)) = self.rings.expose() else { return self.compare(at) };
        let (addr, rkey) = ring.target();
        let way = Way { addr, rkey, mask: ring.places::<{ PLACE / 8 }>() as u32 - 1 };
        if !self.write_gate(at, way) {
            return self.rings.conceal(ring);
        }
        let pair = &mut self.pairs[at];
        (pair.ring, pair.inbound) = (Some(ring), Inbound::Open);
        self.ringed.push(at as u32);
    }

    fn compare(&mut self, at: usize) {
        let lately = |at: usize| match &self.pairs[at] {
            pair if pair.period == self.period => pair.lately,
            _ => 0,
        };
        let open = self.ringed.iter().map(|&other| other as usize);
        let open = open.filter(|&other| self.pairs[other].inbound == Inbound::Open);
        let least = open.min_by_key(|&other| lately(other));
        if let Some(other) = least.filter(|&other| lately(other) < lately(at) / 2) {
            self.close_ring(other);
        }
        self.period += 1;
    }

    /// Tells a peer to write no more. False when there is no room to say so.
    fn close_ring(&mut self, at: usize) -> bool {
        let closings = self.pairs[at].closings.wrapping_add(1);
        let is_said = self.write_gate(at, Way::closed(closings));
        let pair = &mut self.pairs[at];
        // Unless the pair has broken by that.
        if is_said && pair.inbound == Inbound::Open {
            (pair.inbound, pair.closings) = (Inbound::Closing { since: Instant::now() }, closings);
        }
        is_said
    }

    /// Before this process sleeps: nobody may write, and whoever may not any more hears that we
    /// know. False when it can't sleep yet.
    pub(crate) fn close_rings(&mut self) -> bool {
        self.look_at_gates();
        let is_open = |pair: &Endpoint| pair.inbound == Inbound::Open;
        for place in (0..self.ringed.len()).rev() {
            if let Some(&at) = self.ringed.get(place)
                && is_open(&self.pairs[at as usize])
                && !self.close_ring(at as usize)
            {
                return false;
            }
        }
        true
    }

    /// True when a frame can be taken out of a ring.
    pub(crate) fn is_any_written(&self) -> bool {
        self.ringed.iter().map(|&at| &self.pairs[at as usize]).any(|pair| {
            let is_whole = |place: Place| {
                ring::take(|at| place.read(at), pair.consumed, &mut [0; PLACE]).is_some()
            };
            pair.next_place().is_some_and(is_whole)
        })
    }

    /// When a sleeper looks again.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        if self.ringed.is_empty() {
            return None;
        }
        // Twice what a device takes to give up: for the gate's contents, and for the last frame that
        // is written before they arrive. Devices may take four times their timeout.
        let tries = 1 + u64::from(self.settings.retries);
        let longest =
            Duration::from_micros(2 * 4 * tries * (4 << self.settings.ack_timeout.min(31)));
        let now = Instant::now();
        let pairs = self.ringed.iter().map(|&at| &self.pairs[at as usize]);
        pairs.filter_map(|pair| pair.inbound.next_look(now, longest)).min()
    }

    /// Writes to a peer's gate. False when it has to be tried again.
    fn write_gate(&mut self, at: usize, way: Way) -> bool {
        let Self { pairs, notes, .. } = self;
        let pair = &mut pairs[at];
        if pair.used >= self.depth {
            return false;
        }
        let Ok(Some(slot)) = notes.take() else { return false };
        notes.bytes_mut(slot, GATE).copy_from_slice(&way.encode());
        let (addr, rkey) = pair.their_gate;
        let signal = Signal { slot: Some(slot), ..Signal::NONE };
        if pair.submit(notes.sge(slot, GATE), Destination::write(addr, rkey), signal).is_err() {
            self.notes.put(slot);
            self.break_pair(at, "a write was refused");
        }
        true
    }

    /// A gate for a connection, closed; none where no ring is wanted.
    pub(crate) fn new_gate(&mut self) -> io::Result<Option<Exposed>> {
        if self.settings.eager_rdma_peers == 0 { Ok(None) } else { self.gates.expose() }
    }

    /// The connection is over: nobody writes any more, to either side. What has arrived is kept
    /// until everything else that has arrived on it is taken.
    pub(crate) fn leave_rings(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        (pair.out, pair.owes_stop, pair.their_gate) = (Default::default(), false, (0, 0));
        if pair.ring.is_some() {
            pair.inbound = Inbound::Draining;
        }
        if let Some(gate) = pair.gate.take() {
            self.gates.conceal(gate);
            self.held.retain(|&held| held != at as u32);
        }
    }

    /// Takes a pair's ring back, if it has one.
    pub(crate) fn free_ring(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        pair.inbound = Inbound::Absent;
        if let Some(ring) = pair.ring.take() {
            self.rings.conceal(ring);
            self.ringed.retain(|&ringed| ringed != at as u32);
        }
    }

    /// True while a queue pair of the pair is retired and not yet destroyed.
    fn is_burying(&self, at: u32) -> bool {
        self.retired.iter().any(|retired| self.by_queue.get(&retired.qp.number()) == Some(&at))
    }
}

impl Endpoint {
    /// Where its next frame is to be, in its ring.
    #[inline]
    fn next_place(&self) -> Option<Place<'_>> {
        let ring = self.ring.as_ref()?;
        // As many as a power of two.
        let last = ring.places::<{ PLACE / 8 }>() - 1;
        Some(ring.words(self.consumed as usize & last))
    }

    /// Whether its gate says what we have not seen. Without a gate nothing is open.
    #[inline]
    fn has_news(&self) -> bool {
        self.gate
            .as_ref()
            .is_some_and(|gate| !self.out.has_seen(gate.words::<{ GATE / 8 }>(0).read(0)))
    }
}
