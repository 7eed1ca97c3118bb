//! The shared receive queue: receives for all connections, and their slots.
//!
//! Each connection adds the receives of one window and of its control messages. Therefore a receive
//! is posted whenever a message arrives. Receives of connections that have ended are kept.

use std::io;
use std::sync::Arc;

use crate::completions::{BATCH, wr_id};
use crate::endpoint::flow::CONTROL_RECVS;
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
    /// Receives for each connection.
    per_connection: u32,
    /// Connections that there are receives for.
    connections: u32,
}

impl ReceiveQueue {
    /// Returns the receives of one connection with a window of `credits` frames.
    pub(crate) fn per_connection(credits: u32) -> u32 {
        credits + CONTROL_RECVS
    }

    /// Returns an empty queue for messages of up to `message` bytes.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        message: usize,
        credits: u32,
        max_connections: u32,
    ) -> io::Result<ReceiveQueue> {
        let per_connection = ReceiveQueue::per_connection(credits);
        let max = max_connections * per_connection + REPOST_BATCH;
        Ok(ReceiveQueue {
            srq: Srq::new(pd, max)?,
            slots: Pool::new(pd, message, max),
            to_repost: Vec::new(),
            is_refused: false,
            message,
            per_connection,
            connections: 0,
        })
    }

    /// Returns the queue itself, for queue pairs that receive from it.
    pub(crate) fn srq(&self) -> &Srq {
        &self.srq
    }

    /// Posts receives for so many connections, as far as there are fewer.
    pub(crate) fn provide(&mut self, connections: u32) -> io::Result<()> {
        while self.connections < connections {
            let spare = if self.connections == 0 { REPOST_BATCH } else { 0 };
            for _ in 0..self.per_connection + spare {
                let slot = self.slots.take()?;
                let slot = slot.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
                self.to_repost.push(slot);
            }
            self.connections += 1;
        }
        self.repost();
        Ok(())
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
