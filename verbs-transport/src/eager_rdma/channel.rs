//! The eager-RDMA channel of one endpoint: the ring that the peer writes and the ring that this
//! process writes, with the states of both ends.
//!
//! A ring has a slot for each sequence number of the window. Therefore a slot is free whenever its
//! frame may be sent, and written and sent frames keep one order by their numbers. The receiver
//! opens and closes its ring by writing a descriptor to the ring control in the sender's memory.
//! The sender reads its ring control before and after it writes a frame.
//!
//! States: [`RxState`]. Invariants: nothing is written before the ring control was open. A ring's
//! memory goes to another peer only when the sender has reported that it has stopped, or when its
//! queue pair is gone. This file does not post requests: `grant` and `recv` do.

use std::time::{Duration, Instant};

use super::wire::{CONTROL_BYTES, RingDescriptor, SLOT_BYTES};
use crate::memory::{Exposed, Words};

/// First interval at which a sleeper polls a ring that is closing.
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
    /// Checksum of the ring control when it was last read; 0 until it is written.
    seen: u64,
    ring: RingDescriptor,
}

/// The eager-RDMA channel of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Our view of the peer's ring.
    pub(crate) tx: TxRing,
    /// The ring control, where the peer opens and closes its ring.
    pub(crate) control: Option<Exposed>,
    /// This process must still report to the peer that it has stopped to write.
    pub(crate) stop_due: bool,
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
    /// Number of times that the ring was closed.
    pub(crate) close_count: u32,
    /// Short frames received from the peer in `period`.
    recent_short: u32,
    /// The period, see [`Rings::period`](super::rings::Rings), that `recent_short` counts in.
    period: u64,
}

impl RxState {
    /// Returns when a sleeper must poll a closing ring: after 1, 2, 4 .. ms, as long as anything
    /// can be under way, that is for `longest`.
    pub(crate) fn next_poll(&self, now: Instant, longest: Duration) -> Option<Instant> {
        let RxState::Closing { since } = *self else { return None };
        let elapsed = now.saturating_duration_since(since);
        let mut poll = FIRST_POLL;
        while poll <= elapsed {
            poll *= 2;
        }
        (elapsed <= longest).then(|| since + poll)
    }
}

impl TxRing {
    /// Returns whether `checksum`, the first word of the ring control, is the one seen last.
    #[inline]
    pub(crate) fn has_seen(&self, checksum: u64) -> bool {
        self.seen == checksum
    }

    /// Returns whether frames may be written.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.ring.addr != 0
    }

    /// Takes over a ring control that has changed. Returns true if the ring was closed, so that the
    /// sender must report that it has stopped. An incomplete control is read again later.
    pub(crate) fn update(&mut self, control: [u64; 3]) -> bool {
        let Some(ring) = RingDescriptor::decode(control) else { return false };
        *self = TxRing { seen: control[0], ring };
        !self.is_open()
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
            !self.tx.has_seen(control.words::<{ CONTROL_BYTES / 8 }>(0).read(0))
        })
    }

    /// Reads the ring control. Returns true if the peer has closed its ring.
    pub(crate) fn read_control(&mut self) -> bool {
        let Some(control) = &self.control else { return false };
        let words = control.words::<{ CONTROL_BYTES / 8 }>(0);
        self.tx.update(std::array::from_fn(|at| words.read(at)))
    }

    /// Returns the descriptor that opens this ring to a peer.
    pub(crate) fn descriptor(ring: &Exposed) -> RingDescriptor {
        let (addr, rkey) = ring.target();
        RingDescriptor { addr, rkey, mask: ring.count::<{ SLOT_BYTES / 8 }>() as u32 - 1 }
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
