//! The completion queue, and what the numbers of its work requests mean.

use crate::ibv::{Cq, Wc};

/// Completions taken in one call of the device.
pub(crate) const BATCH: usize = 16;

/// The kind of a work request, in the highest bits of its number.
pub(crate) mod wr_id {
    /// A receive of the shared receive queue; the low half is its slot.
    pub(crate) const RECV: u64 = 0;
    /// A request on a connection.
    pub(crate) const SEND: u64 = 1 << 62;
    /// A receive of the UD queue pair; the low half is its slot, the bits above it its
    /// [generation](ud).
    pub(crate) const UD_RECV: u64 = 2 << 62;
    /// A send on the UD queue pair, numbered as a receive.
    pub(crate) const UD_SEND: u64 = 3 << 62;
    /// The bits of the kind.
    pub(crate) const MASK: u64 = 3 << 62;
    /// The bits of the generation.
    const GENERATION: u64 = !MASK & !(u32::MAX as u64);

    /// Returns the number of a request on the UD queue pair since it was set up so many times.
    pub(crate) fn ud(kind: u64, generation: u32, slot: u32) -> u64 {
        kind | (u64::from(generation) << 32 & GENERATION) | u64::from(slot)
    }

    /// Returns whether a request on the UD queue pair is of this generation.
    pub(crate) fn is_of(id: u64, generation: u32) -> bool {
        id & GENERATION == u64::from(generation) << 32 & GENERATION
    }
}

/// The completion queue of all queue pairs, and the completions taken last.
#[derive(Debug)]
pub(crate) struct Completions {
    pub(crate) cq: Cq,
    pub(crate) batch: [Wc; BATCH],
    /// Completions in `batch` that were taken before a sleep and are not handled yet.
    pub(crate) stashed: usize,
}

impl Completions {
    pub(crate) fn new(cq: Cq) -> Completions {
        Completions { cq, batch: [Wc::default(); BATCH], stashed: 0 }
    }

    /// Returns how many completions there are now in `batch`.
    #[inline]
    pub(crate) fn take(&mut self) -> usize {
        match std::mem::take(&mut self.stashed) {
            0 => self.cq.poll(&mut self.batch),
            stashed => stashed,
        }
    }

    /// Requests an event with the next completion. Returns false if there are completions to
    /// handle first, or the device refuses.
    pub(crate) fn request_event(&mut self) -> bool {
        // In this order: a completion after the request makes an event.
        let requested = self.cq.request_notification();
        self.stashed = self.cq.poll(&mut self.batch);
        requested.is_ok() && self.stashed == 0
    }
}
