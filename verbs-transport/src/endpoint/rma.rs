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
//!
//! The operations of an endpoint have one [`Path`] at a time, chosen when there are none. Writes of
//! an initiator are *read back*: frames to the peer go another way and could be there first.
//! Therefore such an operation ends with a read of its last byte, which counts as one byte more.
//!
//! The requests of a short operation name a slot of [`VerbsTransport::bounce`], which holds the
//! data of a put, and gets the answer of a read or an atomic until the operation has ended.
//!
//! [`VerbsTransport::bounce`]: crate::transport::VerbsTransport::bounce

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::OneSided;

use super::send_queue::MAX_RMA_OPS;
use crate::ibv::{Destination, Mr, Sge};
use crate::memory::Pool;

/// Bytes of one read request. The peer's device answers one after the other; with several of
/// this size both devices work at the same time.
const READ_BYTES: usize = 64 << 10;
/// Bytes of one write request.
const WRITE_BYTES: usize = 1 << 20;

/// What carries the operations of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// A connection, for which they wait.
    Connection,
    /// An initiator of dynamically connected transport, for which they wait.
    Line,
    /// The initiator of this number.
    Initiator(u8),
}

/// The memory of this process that the requests of an operation name.
#[derive(Debug)]
pub(crate) enum Local {
    /// The program's, by its registration.
    Registered(Arc<Mr>),
    /// A slot for short operations.
    Slot(u32, Sge),
}

/// An RMA operation.
#[derive(Debug)]
pub(crate) struct RmaOp {
    token: u64,
    /// The peer's memory.
    addr: u64,
    rkey: u32,
    what: OneSided,
    local: Local,
    /// Bytes that were posted on this connection or are complete.
    posted: usize,
    /// Bytes that are complete.
    completed: usize,
    /// Bytes of the piece that this connection completed last: unconfirmed until the next piece
    /// or the end.
    unconfirmed: usize,
    /// Its last byte is read back in the end.
    reads_back: bool,
}

/// The RMA operations of an endpoint, and how many pieces are under way.
#[derive(Debug)]
pub(crate) struct RmaQueue {
    pub(crate) ops: VecDeque<RmaOp>,
    pub(crate) path: Path,
    pieces: usize,
    /// Pieces that were completed and confirmed.
    pub(crate) confirmed: u32,
    /// Pieces under way that are answered with data: reads and atomics.
    reads: usize,
    /// Most of these that both devices of the connection have under way.
    pub(crate) max_reads: usize,
}

/// A request that is a piece of an operation.
pub(crate) struct Piece {
    pub(crate) memory: Sge,
    pub(crate) to: Destination,
    /// It writes data of the peer.
    pub(crate) is_write: bool,
    /// The device accesses the memory after the request was posted.
    pub(crate) by_reference: bool,
    /// It reads back what was written, to memory of the caller's choice.
    pub(crate) reads_back: bool,
    /// It is the first one of its operation.
    pub(crate) is_first: bool,
}

/// The meaning of the completion of a piece.
pub(crate) struct Completed {
    /// It was the last one of its operation.
    pub(crate) is_last: bool,
    /// It was answered with data.
    pub(crate) is_answered: bool,
    /// The piece before it is confirmed.
    pub(crate) is_progress: bool,
}

impl RmaQueue {
    pub(crate) fn new() -> RmaQueue {
        let path = Path::Connection;
        RmaQueue { ops: VecDeque::new(), path, pieces: 0, confirmed: 0, reads: 0, max_reads: 1 }
    }

    /// Queues an operation.
    pub(crate) fn push(&mut self, what: OneSided, addr: u64, rkey: u32, local: Local, token: u64) {
        let (posted, completed, unconfirmed) = (0, 0, 0);
        let reads_back = self.path != Path::Connection && matches!(what, OneSided::Put(_));
        self.ops.push_back(RmaOp {
            token,
            addr,
            rkey,
            what,
            local,
            posted,
            completed,
            unconfirmed,
            reads_back,
        });
    }

    /// Returns whether there are operations that wait for a connection or use it.
    pub(crate) fn needs_connection(&self) -> bool {
        !self.ops.is_empty() && self.path == Path::Connection
    }

    /// Returns whether pieces are under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.pieces > 0
    }

    /// Returns the next piece of operation `*index` or a later one, and counts it as under way;
    /// `None` if no more can be posted now. At most `max_reads` are answered with data at once. If
    /// `may_begin` is not set, no further operation is begun.
    pub(crate) fn next_piece(
        &mut self,
        index: &mut usize,
        max_reads: usize,
        may_begin: bool,
    ) -> Option<Piece> {
        while *index < self.ops.len() && self.pieces < MAX_RMA_OPS {
            let op = &mut self.ops[*index];
            let is_answered = op.is_answered_at(op.posted);
            let len = op.next_len();
            if len == 0 {
                *index += 1;
                continue;
            }
            let has_begun = op.posted > 0;
            if (is_answered && self.reads >= max_reads) || !(has_begun || may_begin) {
                return None;
            }
            self.pieces += 1;
            self.reads += usize::from(is_answered);
            return Some(op.post(len));
        }
        None
    }

    /// Handles the completion of `len` bytes, the oldest piece under way.
    pub(crate) fn complete(&mut self, len: usize) -> Option<Completed> {
        let op = self.ops.front_mut()?;
        self.pieces -= 1;
        let is_answered = op.is_answered_at(op.completed);
        self.reads -= usize::from(is_answered);
        op.completed += len;
        let before = std::mem::replace(&mut op.unconfirmed, len);
        let is_last = op.completed == op.total();
        let is_progress = is_last || before > 0;
        self.confirmed = self.confirmed.wrapping_add(u32::from(is_progress));
        Some(Completed { is_last, is_answered, is_progress })
    }

    /// Takes out the atomics that were posted, and returns their tokens.
    pub(crate) fn abort_atomics(&mut self, bounce: &mut Pool) -> Vec<u64> {
        let is_unclear = |op: &RmaOp| matches!(op.what, OneSided::Atomic(..)) && op.posted > 0;
        let (unclear, others) = self.ops.drain(..).partition(is_unclear);
        self.ops = others;
        unclear.into_iter().map(|op: RmaOp| op.release(bounce)).collect()
    }

    /// Takes out all operations, and returns their tokens.
    pub(crate) fn abort(&mut self, bounce: &mut Pool) -> Vec<u64> {
        self.ops.drain(..).map(|op| op.release(bounce)).collect()
    }

    /// Takes out the first operation, which is complete, and returns its token.
    pub(crate) fn finish_first(&mut self, bounce: &mut Pool) -> Option<u64> {
        self.ops.pop_front().map(|op| op.finish(bounce))
    }

    /// Ends a connection or leaves an initiator: missing or unconfirmed pieces are posted again on
    /// a connection.
    pub(crate) fn disconnect(&mut self) {
        (self.pieces, self.reads) = (0, 0);
        self.path = Path::Connection;
        for op in &mut self.ops {
            op.completed -= std::mem::take(&mut op.unconfirmed);
            if std::mem::take(&mut op.reads_back) {
                // What was written is not known to be in memory.
                op.completed = 0;
            }
            op.posted = op.completed;
        }
    }
}

impl RmaOp {
    /// Ends the operation, whose requests are complete, and returns its token.
    fn finish(self, bounce: &mut Pool) -> u64 {
        if let Local::Slot(slot, _) = self.local
            && self.is_answered_at(0)
        {
            let memory = self.what.memory();
            memory.write(0, bounce.bytes(slot, memory.len()));
        }
        self.release(bounce)
    }

    /// Gives its slot back, if it has one, and returns its token. No request is under way.
    fn release(self, bounce: &mut Pool) -> u64 {
        if let Local::Slot(slot, _) = self.local {
            bounce.put(slot);
        }
        self.token
    }

    /// Returns whether the requests from byte `at` on are answered with data.
    fn is_answered_at(&self, at: usize) -> bool {
        !matches!(self.what, OneSided::Put(_)) || at >= self.what.memory().len()
    }

    /// Returns the bytes of all its requests.
    fn total(&self) -> usize {
        self.what.memory().len() + usize::from(self.reads_back)
    }

    /// Returns the bytes of its next request; 0 if there is none.
    fn next_len(&self) -> usize {
        let bytes = self.what.memory().len();
        let max = if self.is_answered_at(self.posted) { READ_BYTES } else { WRITE_BYTES };
        let end = if self.posted < bytes { bytes } else { self.total() };
        max.min(end - self.posted)
    }

    /// Returns the next request of it, over `len` bytes.
    fn post(&mut self, len: usize) -> Piece {
        let (offset, bytes) = (self.posted as u64, self.what.memory().len() as u64);
        self.posted += len;
        if offset == bytes {
            let memory = Sge { length: 1, ..Sge::default() };
            let to = Destination::read(self.addr.wrapping_add(bytes - 1), self.rkey);
            return Piece {
                memory,
                to,
                is_write: false,
                by_reference: true,
                reads_back: true,
                is_first: false,
            };
        }
        let (addr, lkey) = match &self.local {
            Local::Registered(mr) => (self.what.memory().addr(), mr.lkey()),
            Local::Slot(_, slot) => (slot.addr, slot.lkey),
        };
        let memory = Sge { addr: addr + offset, length: len as u32, lkey };
        let (addr, rkey) = (self.addr.wrapping_add(offset), self.rkey);
        let to = match self.what {
            OneSided::Get(_) => Destination::read(addr, rkey),
            OneSided::Put(_) => Destination::write(addr, rkey),
            OneSided::Atomic(what, _) => Destination::atomic(addr, rkey, what),
        };
        let is_write = matches!(self.what, OneSided::Put(_));
        let by_reference = !is_write || matches!(self.local, Local::Registered(_));
        Piece { memory, to, is_write, by_reference, reads_back: false, is_first: offset == 0 }
    }
}
