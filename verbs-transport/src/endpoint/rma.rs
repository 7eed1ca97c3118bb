//! The RMA operations of an endpoint: queued, cut into pieces, and completed in order.
//!
//! The operations of an endpoint begin in the order requested. Their pieces do too, and a queue
//! pair completes its requests in order. After a break, the missing pieces of reads and writes are
//! posted again, which is harmless while the operation is not reported complete. An atomic that was
//! posted may have been carried out or not; therefore it fails.
//!
//! The last piece that a connection completed before it broke is unconfirmed and posted again
//! too: `rdma_rxe` (Linux 6.1) completes a request with success when its answer is out of place,
//! and only then lets the queue pair fail.

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::OneSided;

use super::send_queue::MAX_RMA_OPS;
use crate::ibv::{Destination, Mr, Sge};

/// Bytes of one read request. The peer's device answers one after the other; with several of
/// this size both devices work at the same time.
const READ_BYTES: usize = 64 << 10;
/// Bytes of one write request.
const WRITE_BYTES: usize = 1 << 20;

/// An RMA operation.
#[derive(Debug)]
pub(crate) struct RmaOp {
    pub(crate) token: u64,
    /// The peer's memory.
    addr: u64,
    rkey: u32,
    what: OneSided,
    /// Registration of this process's memory.
    mr: Arc<Mr>,
    /// Bytes that were posted on this connection or are complete.
    posted: usize,
    /// Bytes that are complete.
    completed: usize,
    /// Bytes of the piece that this connection completed last: unconfirmed until the next piece
    /// or the end.
    unconfirmed: usize,
}

/// The RMA operations of an endpoint, and how many pieces are under way.
#[derive(Debug)]
pub(crate) struct RmaQueue {
    pub(crate) ops: VecDeque<RmaOp>,
    pieces: usize,
    /// Pieces under way that are answered with data: reads and atomics.
    reads: usize,
    /// Most of these that both devices have under way.
    pub(crate) max_reads: usize,
}

/// A request that is a piece of an operation.
pub(crate) struct Piece {
    pub(crate) memory: Sge,
    pub(crate) to: Destination,
    /// It writes data of the peer.
    pub(crate) is_write: bool,
}

/// The meaning of the completion of a piece.
pub(crate) struct Completed {
    /// It was the last one of its operation.
    pub(crate) is_last: bool,
    /// The piece before it is confirmed.
    pub(crate) is_progress: bool,
}

impl RmaQueue {
    pub(crate) fn new() -> RmaQueue {
        RmaQueue { ops: VecDeque::new(), pieces: 0, reads: 0, max_reads: 1 }
    }

    /// Queues an operation.
    pub(crate) fn push(&mut self, what: OneSided, addr: u64, rkey: u32, mr: Arc<Mr>, token: u64) {
        let (posted, completed, unconfirmed) = (0, 0, 0);
        self.ops.push_back(RmaOp { token, addr, rkey, what, mr, posted, completed, unconfirmed });
    }

    /// Returns the next piece of operation `*index` or a later one, and counts it as under way;
    /// `None` if no more can be posted now.
    pub(crate) fn next_piece(&mut self, index: &mut usize) -> Option<Piece> {
        while *index < self.ops.len() && self.pieces < MAX_RMA_OPS {
            let op = &mut self.ops[*index];
            let max = if op.is_answered() { READ_BYTES } else { WRITE_BYTES };
            let len = max.min(op.what.memory().len() - op.posted);
            if len == 0 {
                *index += 1;
                continue;
            }
            if op.is_answered() && self.reads >= self.max_reads {
                return None;
            }
            self.pieces += 1;
            self.reads += usize::from(op.is_answered());
            return Some(op.post(len));
        }
        None
    }

    /// Handles the completion of `len` bytes, the oldest piece under way.
    pub(crate) fn complete(&mut self, len: usize) -> Option<Completed> {
        let op = self.ops.front_mut()?;
        self.pieces -= 1;
        self.reads -= usize::from(op.is_answered());
        op.completed += len;
        let before = std::mem::replace(&mut op.unconfirmed, len);
        let is_last = op.completed == op.what.memory().len();
        Some(Completed { is_last, is_progress: is_last || before > 0 })
    }

    /// Takes out the atomics that were posted, and returns their tokens.
    pub(crate) fn abort_atomics(&mut self) -> Vec<u64> {
        let is_unclear = |op: &RmaOp| matches!(op.what, OneSided::Atomic(..)) && op.posted > 0;
        let tokens = self.ops.iter().filter(|op| is_unclear(op)).map(|op| op.token).collect();
        self.ops.retain(|op| !is_unclear(op));
        tokens
    }

    /// Ends a connection: missing or unconfirmed pieces are posted again.
    pub(crate) fn disconnect(&mut self) {
        (self.pieces, self.reads) = (0, 0);
        for op in &mut self.ops {
            op.completed -= std::mem::take(&mut op.unconfirmed);
            op.posted = op.completed;
        }
    }
}

impl RmaOp {
    /// Returns whether its requests are answered with data.
    fn is_answered(&self) -> bool {
        !matches!(self.what, OneSided::Put(_))
    }

    /// Returns the next request of it, over `len` bytes.
    fn post(&mut self, len: usize) -> Piece {
        let offset = self.posted as u64;
        self.posted += len;
        let addr = self.what.memory().addr() + offset;
        let memory = Sge { addr, length: len as u32, lkey: self.mr.lkey() };
        let (addr, rkey) = (self.addr.wrapping_add(offset), self.rkey);
        let to = match self.what {
            OneSided::Get(_) => Destination::read(addr, rkey),
            OneSided::Put(_) => Destination::write(addr, rkey),
            OneSided::Atomic(what, _) => Destination::atomic(addr, rkey, what),
        };
        Piece { memory, to, is_write: !self.is_answered() }
    }
}
