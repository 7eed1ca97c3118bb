//! The sending half of a pair: the ring to a peer and what is known about the route.

use fabric::{Caps, Peer, PeerFailed};

use crate::event_count::EventCount;
use crate::method::STREAM_LEN;
use crate::ring::Producer;
use crate::segment::RingPlace;
use crate::store_tuner::StoreTuner;

/// The rings and descriptors that lead to a peer.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub producer: Producer,
    /// The producer's ring.
    pub place: RingPlace,
    /// The peer's.
    pub event_count: &'static EventCount,
    pub caps: Caps,
    /// The peer's local rank.
    pub local: u32,
    /// The system has refused memory for longer laps.
    pub frozen: bool,
    pub tuner: StoreTuner,
    /// Larger frames posted in a row, with no frame received in between.
    streak: u32,
    /// `InboundRings::receipts` at the last of them.
    receipts: u32,
}

impl Outbound {
    pub(crate) fn new(
        (producer, place): (Producer, RingPlace),
        event_count: &'static EventCount,
        caps: Caps,
        local: u32,
    ) -> Outbound {
        Outbound {
            producer,
            place,
            event_count,
            caps,
            local,
            frozen: false,
            tuner: StoreTuner::default(),
            streak: 0,
            receipts: 0,
        }
    }

    /// Counts a frame and returns whether it belongs to a stream. `receipts` counts the polls that
    /// have found frames.
    pub(crate) fn is_stream(&mut self, receipts: u32) -> bool {
        self.streak = if self.receipts == receipts { self.streak.saturating_add(1) } else { 1 };
        self.receipts = receipts;
        self.streak > STREAM_LEN
    }

    /// Wakes the peer if it waits, after a frame was published.
    #[inline]
    pub(crate) fn notify(&mut self, has_membarrier: bool) {
        self.event_count.publish_fence(has_membarrier);
        self.event_count.notify();
    }
}

/// Returns the ring to a peer, if there is one.
#[inline(always)]
pub(crate) fn outbound_to(
    rings: &mut [Option<Box<Outbound>>],
    peer: Peer,
) -> Option<&mut Outbound> {
    match rings.get_mut(peer.0 as usize) {
        Some(Some(outbound)) => Some(outbound),
        _ => None,
    }
}

/// Returns the error for a peer that has no ring although it was connected.
#[cold]
pub(crate) fn not_connected(peer: Peer) -> PeerFailed {
    PeerFailed { peer, why: "there is no ring to it".into() }
}
