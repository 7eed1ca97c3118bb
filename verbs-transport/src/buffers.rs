//! The send slots of a process, shared by all peers.

use std::io;
use std::sync::Arc;

use crate::eager_rdma::wire::SLOT_HEADER;
use crate::endpoint::flow::Unacked;
use crate::frame::{OPERAND, PREFIX};
use crate::ibv::{Pd, Sge};
use crate::memory::Pool;
use crate::registration::Registrations;

/// Bytes of a slot for short frames.
const SHORT_BYTES: usize = 256;
/// Marks the number of a slot for frames of any length.
pub(crate) const LONG: u32 = 1 << 31;
/// Most peers whose windows the frame slots hold at once.
const MAX_FULL_WINDOWS: u32 = 64;

/// Slots for frames and for control messages. Frames lie after [`SLOT_HEADER`] bytes, so that a
/// short one can be written into a ring as it is.
#[derive(Debug)]
pub(crate) struct SendBuffers {
    pub(crate) long: Pool,
    pub(crate) short: Pool,
    /// For control messages and ring controls: frames that wait for credit never use them up.
    pub(crate) control: Pool,
    /// The error with which the system has refused memory, until it is reported.
    pub(crate) refusal: Option<io::Error>,
}

impl SendBuffers {
    /// Returns the pools for frames of up to `message` bytes, `window` of them for each of the
    /// `peers`, and `controls` control messages for each of `max_connections`.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        message: usize,
        window: u32,
        controls: u32,
        max_connections: u32,
        peers: u32,
    ) -> SendBuffers {
        // Peers without a connection need slots as well.
        let frames = peers.clamp(1, MAX_FULL_WINDOWS) * window;
        SendBuffers {
            long: Pool::new(pd, SLOT_HEADER + message, frames),
            short: Pool::new(pd, SHORT_BYTES, frames),
            control: Pool::new(pd, PREFIX + OPERAND, max_connections * controls),
            refusal: None,
        }
    }

    /// Makes the first slots of each kind. Then a refusal of the system counts as no slot later:
    /// slots come back.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        [&mut self.long, &mut self.short, &mut self.control].into_iter().try_for_each(Pool::prepare)
    }

    /// Takes a slot for a frame of `bytes` bytes; `None` if there is none. If the system refuses
    /// memory, registrations that are not in use give theirs.
    #[inline(always)]
    pub(crate) fn take(&mut self, bytes: usize, registrations: &mut Registrations) -> Option<u32> {
        if SLOT_HEADER + bytes <= self.short.slot_bytes()
            && let Ok(Some(slot)) = self.short.take_or_evict(|| registrations.evict_idle())
        {
            return Some(slot);
        }
        self.take_long(registrations)
    }

    /// Takes a slot for a frame of any length, as [`SendBuffers::take`] does.
    #[inline(always)]
    pub(crate) fn take_long(&mut self, registrations: &mut Registrations) -> Option<u32> {
        match self.long.take_or_evict(|| registrations.evict_idle()) {
            Ok(slot) => slot.map(|slot| slot | LONG),
            Err(error) => {
                self.refusal = Some(error);
                None
            }
        }
    }

    /// Returns the registered bytes: now, and at most.
    pub(crate) fn registered(&self) -> [usize; 2] {
        let pools = [&self.long, &self.short, &self.control].map(Pool::registered);
        [0, 1].map(|which| pools.iter().map(|pool| pool[which]).sum())
    }

    /// Returns a slot of a frame.
    #[inline]
    pub(crate) fn put(&mut self, slot: u32) {
        if slot & LONG != 0 { self.long.put(slot & !LONG) } else { self.short.put(slot) }
    }

    /// Returns the memory of an unacknowledged message for a request.
    #[inline]
    pub(crate) fn sge(&self, unacked: &Unacked) -> Sge {
        let slot = match unacked.slot & LONG {
            0 => self.short.sge(unacked.slot, SLOT_HEADER),
            _ => self.long.sge(unacked.slot & !LONG, SLOT_HEADER),
        };
        without_slot_header(slot, unacked.bytes)
    }

    /// Returns the bytes of an unacknowledged message.
    pub(crate) fn message(&self, unacked: &Unacked) -> &[u8] {
        let len = SLOT_HEADER + unacked.bytes as usize;
        let bytes = match unacked.slot & LONG {
            0 => self.short.bytes(unacked.slot, len),
            _ => self.long.bytes(unacked.slot & !LONG, len),
        };
        &bytes[SLOT_HEADER..]
    }

    /// Writes the acknowledgement into the prefix of a message that is about to be sent.
    pub(crate) fn set_ack(&mut self, slot: u32, rx_seq: u32) {
        let bytes = match slot & LONG {
            0 => self.short.bytes_mut(slot, SLOT_HEADER + PREFIX),
            _ => self.long.bytes_mut(slot & !LONG, SLOT_HEADER + PREFIX),
        };
        bytes[SLOT_HEADER + 4..].copy_from_slice(&rx_seq.to_le_bytes());
    }
}

/// Returns `length` bytes after the slot header.
#[inline]
pub(crate) fn without_slot_header(slot: Sge, length: u32) -> Sge {
    Sge { addr: slot.addr + SLOT_HEADER as u64, length, ..slot }
}
