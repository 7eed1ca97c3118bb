//! The shared receive queue: receives for all connections, and their slots.
//!
//! A connection reserves the receives that its peer's window and its control messages may take.
//! Therefore a receive is posted whenever a message arrives. The number of receives is fixed; they
//! are made when they are first reserved, and kept.

use std::io;
use std::sync::Arc;

use crate::completions::{BATCH, wr_id};
use crate::ibv::{Pd, Sge, Srq};
use crate::memory::Pool;

/// Receives that may wait to be reposted.
pub(crate) const REPOST_BATCH: u32 = 2 * BATCH as u32;

/// The receives of a process.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    // Before its memory.
    srq: Srq,
    slots: Pool,
    /// Slots to repost.
    to_repost: Vec<u32>,
    /// The device has refused the first of them.
    is_refused: bool,
    /// Bytes of the longest message.
    message: usize,
    /// Receives that connections may reserve; [`REPOST_BATCH`] more wait to be reposted.
    max: u32,
    /// Receives that connections have reserved.
    reserved: u32,
    /// Receives that were made, the spare ones included.
    made: u32,
}

impl ReceiveQueue {
    /// Returns an empty queue of `max` receives for messages of up to `message` bytes.
    pub(crate) fn new(pd: &Arc<Pd>, message: usize, max: u32) -> io::Result<ReceiveQueue> {
        let all = max + REPOST_BATCH;
        Ok(ReceiveQueue {
            srq: Srq::new(pd, all)?,
            slots: Pool::new(pd, message, all),
            to_repost: Vec::new(),
            is_refused: false,
            message,
            max,
            reserved: 0,
            made: 0,
        })
    }

    /// Returns the queue itself, for queue pairs that receive from it.
    pub(crate) fn srq(&self) -> &Srq {
        &self.srq
    }

    /// Returns the receives that are not reserved.
    pub(crate) fn unreserved(&self) -> u32 {
        self.max - self.reserved
    }

    /// Reserves so many receives, which are posted. Returns false if there are fewer. If the system
    /// refuses memory for them, calls `evict` as [`Pool::take_or_evict`] does; fails if it refuses
    /// all the same.
    pub(crate) fn reserve(
        &mut self,
        count: u32,
        mut evict: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        if self.unreserved() < count {
            return Ok(false);
        }
        while self.made < self.reserved + count + REPOST_BATCH {
            let slot = self.slots.take_or_evict(&mut evict)?;
            let slot = slot.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
            self.to_repost.push(slot);
            self.made += 1;
        }
        self.reserved += count;
        self.repost();
        Ok(true)
    }

    /// Takes back receives that were reserved.
    pub(crate) fn release(&mut self, count: u32) {
        self.reserved -= count;
    }

    /// Returns a received message.
    #[inline]
    pub(crate) fn message(&self, slot: u32, len: usize) -> &[u8] {
        self.slots.bytes(slot, len)
    }

    /// Returns a slot whose message is handled.
    #[inline]
    pub(crate) fn put(&mut self, slot: u32) {
        self.to_repost.push(slot);
    }

    /// Returns how many slots wait to be reposted.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.to_repost.len()
    }

    /// Posts the waiting receives. Those that the device refuses wait on.
    #[inline(never)]
    pub(crate) fn repost(&mut self) {
        self.is_refused = false;
        while !self.is_refused && !self.to_repost.is_empty() {
            let mut list = [(0, Sge::default()); BATCH];
            let count = self.to_repost.len().min(BATCH);
            for (receive, &slot) in list.iter_mut().zip(&self.to_repost) {
                *receive = (wr_id::RECV | u64::from(slot), self.slots.sge(slot, self.message));
            }
            let (taken, result) = self.srq.post(&list[..count]);
            self.to_repost.drain(..taken);
            self.is_refused = result.is_err();
        }
    }

    /// Returns the registered bytes: now, and at most.
    pub(crate) fn registered(&self) -> [usize; 2] {
        self.slots.registered()
    }

    /// Returns whether the device refused receives, which must be tried again.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }
}
