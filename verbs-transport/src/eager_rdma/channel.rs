//! The eager-RDMA channel of one endpoint: the ring that the peer writes and the ring that this
//! process writes, with the states of both ends.
//!
//! A ring has a slot for each sequence number of the window. Therefore a slot is free whenever its
//! frame may be sent, and written and sent frames keep one order by their numbers. The receiver
//! opens its ring by writing a descriptor, and closes it by writing another word, to the ring
//! control in the sender's memory. The sender reads its ring control before and after each frame.
//!
//! States: [`RxState`]. Invariants: nothing is written before the ring control was open. A word of
//! the ring control is written again only when the sender has reported that it has stopped. A
//! ring's memory goes to another peer only then, or when its queue pair is gone. This file does
//! not post requests: `grant` and `recv` do.

use std::time::{Duration, Instant};

use super::wire::{CLOSING, CONTROL_BYTES, RingDescriptor, SLOT_BYTES};
use crate::memory::{Exposed, Words};

/// First interval at which a sleeper polls a ring that is closing, and that of one that is open.
const FIRST_POLL: Duration = Duration::from_millis(1);

/// The words of a slot.
pub(crate) type SlotWords<'a> = Words<'a, { SLOT_BYTES / 8 }>;

/// State of the ring that the peer writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RxState {
    /// There is no ring.
    #[default]
    Absent,
    /// The peer may write.
    Open,
    /// The peer was requested to stop; frames that it writes before it knows still arrive.
    Closing { since: Instant },
    /// The connection is over; frames that have arrived are still taken.
    Draining,
}

/// The sender's view of the ring that it may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TxRing {
    /// Checksum of the last descriptor that was taken over; 0 before the first.
    opening: u64,
    /// The word that closes its ring.
    closing: u64,
    /// The ring; its address is 0 while it is closed.
    ring: RingDescriptor,
}

/// The words of a ring control.
pub(crate) type ControlWords = [u64; CONTROL_BYTES / 8];

/// The eager-RDMA channel of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Our view of the peer's ring.
    pub(crate) tx: TxRing,
    /// The ring control, where the peer opens and closes its ring.
    pub(crate) control: Option<Exposed>,
    /// State of the ring that the peer writes.
    pub(crate) rx: RxState,
    /// That ring.
    pub(crate) ring: Option<Exposed>,
    /// The peer has stopped to write: the ring is free once all frames before this one are here.
    pub(crate) stopped_at: Option<u32>,
    /// Sent messages that have overtaken written frames, by the number of their first frame.
    pub(crate) overtaking: Vec<(u32, Box<[u8]>)>,
    /// Address and key of the peer's ring control; 0 if it writes into no ring.
    pub(crate) peer_control: (u64, u32),
    /// Number of times that a ring was opened to the peer.
    pub(crate) openings: u64,
    /// Short frames received from the peer in `period`.
    recent_short: u32,
    /// The period, see [`Rings::period`](super::rings::Rings), that `recent_short` counts in.
    period: u64,
}

impl RxState {
    /// Returns when a sleeper must poll a ring: a closing one after 1, 2, 4 .. ms, as long as
    /// anything can be under way, that is for `longest`.
    pub(crate) fn next_poll(&self, now: Instant, longest: Duration) -> Option<Instant> {
        let since = match *self {
            RxState::Absent | RxState::Draining => return None,
            RxState::Open => now,
            RxState::Closing { since } => since,
        };
        let elapsed = now.saturating_duration_since(since);
        let mut poll = FIRST_POLL;
        while poll <= elapsed {
            poll *= 2;
        }
        (elapsed <= longest).then(|| since + poll)
    }
}

impl TxRing {
    /// Returns whether the ring control has changed since it was taken over. `word` reads a word
    /// of it: the one that closes the ring while it is open, otherwise the one that opens it.
    #[inline]
    pub(crate) fn has_changed(&self, word: impl Fn(usize) -> u64) -> bool {
        if self.is_open() { word(CLOSING) == self.closing } else { word(0) != self.opening }
    }

    /// Returns whether frames may be written.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.ring.addr != 0
    }

    /// Takes over a ring control that has changed. Returns true if the ring was closed, so that the
    /// sender must report that it has stopped. An incomplete control is read again later, and a
    /// closing that arrives before its opening has an effect only after that.
    pub(crate) fn update(&mut self, control: ControlWords) -> bool {
        let [opening, addr, place, count, closing] = control;
        if !self.is_open() {
            if opening == self.opening {
                return false;
            }
            let decoded = RingDescriptor::decode([opening, addr, place, count]);
            let Some(ring) = decoded else { return false };
            *self = TxRing { opening, closing: ring.closing(), ring };
        }
        let has_closed = closing == self.closing;
        if has_closed {
            self.ring = RingDescriptor::default();
        }
        has_closed
    }

    /// Returns address and key of the slot of frame `seq`.
    #[inline]
    pub(crate) fn slot(&self, seq: u32) -> (u64, u32) {
        (
            self.ring.addr.wrapping_add(u64::from(seq & self.ring.mask) * SLOT_BYTES as u64),
            self.ring.rkey,
        )
    }
}

impl Channel {
    /// Counts a short frame of the peer and returns how many came in this period.
    #[inline]
    pub(crate) fn count_short(&mut self, period: u64) -> u32 {
        if self.period != period {
            (self.period, self.recent_short) = (period, 0);
        }
        self.recent_short += 1;
        self.recent_short
    }

    /// Lets the count of short frames begin again.
    pub(crate) fn reset_short(&mut self) {
        self.recent_short = 0;
    }

    /// Returns the number of short frames that came in this period.
    pub(crate) fn short_frames(&self, period: u64) -> u32 {
        if self.period == period { self.recent_short } else { 0 }
    }

    /// Returns the slot in which frame `seq` of the peer arrives.
    #[inline]
    pub(crate) fn rx_slot(&self, seq: u32) -> Option<SlotWords<'_>> {
        let ring = self.ring.as_ref()?;
        // The number of slots is a power of two.
        let mask = ring.count::<{ SLOT_BYTES / 8 }>() - 1;
        Some(ring.words(seq as usize & mask))
    }

    /// Takes the message whose first frame is `seq` out of those that have overtaken others, and
    /// drops those that are older.
    pub(crate) fn take_overtaking(&mut self, seq: u32) -> Option<Box<[u8]>> {
        self.overtaking.retain(|(first, _)| first.wrapping_sub(seq) as i32 >= 0);
        let at = self.overtaking.iter().position(|(first, _)| *first == seq)?;
        Some(self.overtaking.swap_remove(at).1)
    }

    /// Returns whether the peer has stopped to write and all of it has arrived, if frame `seq` is
    /// the next.
    pub(crate) fn is_over(&self, seq: u32) -> bool {
        self.stopped_at.is_some_and(|end| seq.wrapping_sub(end) as i32 >= 0)
    }

    /// Returns whether the ring control has changed since it was read. Without one no ring is
    /// open.
    #[inline]
    pub(crate) fn control_changed(&self) -> bool {
        self.control.as_ref().is_some_and(|control| {
            let words = control.words::<{ CONTROL_BYTES / 8 }>(0);
            self.tx.has_changed(|at| words.read(at))
        })
    }

    /// Reads the ring control. Returns true if the peer has closed its ring.
    pub(crate) fn read_control(&mut self) -> bool {
        let Some(control) = &self.control else { return false };
        let words = control.words::<{ CONTROL_BYTES / 8 }>(0);
        self.tx.update(std::array::from_fn(|at| words.read(at)))
    }

    /// Returns the descriptor that opens this ring to the peer.
    pub(crate) fn descriptor(&self, ring: &Exposed) -> RingDescriptor {
        let ((addr, rkey), slots) = (ring.target(), ring.count::<{ SLOT_BYTES / 8 }>());
        RingDescriptor { addr, rkey, mask: slots as u32 - 1, count: self.openings + 1 }
    }

    /// Returns the word that closes the ring opened last.
    pub(crate) fn closing(&self) -> u64 {
        RingDescriptor { count: self.openings, ..RingDescriptor::default() }.closing()
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
