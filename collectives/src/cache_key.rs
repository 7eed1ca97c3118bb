//! The key by which the planner recognises a call that it planned recently.

use std::sync::Arc;

use objects::{Area, Comm, Op};

use crate::operation::{Data, Operation, ROOT_HERE, Vector};
use crate::thresholds::SegmentUse;

/// All that distinguishes two calls, except their addresses and lists. Types and operations are
/// distinguished by the addresses of their objects, which live as long as the cached plan. Context
/// ids are never reused.
///
/// It is made anew in each call and only compared, as words that are kept in registers. A key in
/// memory would be written word by word and read several words at once, which stalls store
/// forwarding.
#[derive(Clone, Copy)]
pub(crate) struct CacheKey {
    /// Kind, root, which buffers there are, and the use of the segment.
    what: u64,
    context: u64,
    counts: [u64; 2],
    types: [usize; 2],
    op: usize,
    handle: usize,
}

impl CacheKey {
    /// The key of a call and its addresses; `None` for calls with lists other than one of counts.
    #[inline(always)]
    pub(crate) fn of(
        operation: &Operation,
        comm: &Comm,
        segment: SegmentUse,
    ) -> Option<(CacheKey, Area, Area)> {
        let root = if comm.is_inter() { ROOT_HERE } else { comm.rank() };
        let is_root = operation.root().is_none_or(|is| is == root);
        let data = |send: Option<&Data>, recv: Option<&Data>| {
            let numbers =
                |data: Option<&Data>| data.map_or((0, 0), |data| (data.count, data.ty.identity()));
            let (sent, received) = (numbers(send), numbers(recv));
            let area = |data: Option<&Data>| data.map_or(Area::EMPTY, |data| data.area);
            let key = CacheKey {
                what: CacheKey::what(operation, comm, segment, [send.is_some(), recv.is_some()]),
                context: comm.context(),
                counts: [sent.0, received.0],
                types: [sent.1, received.1],
                op: 0,
                handle: 0,
            };
            (key, area(send), area(recv))
        };
        let vector = |vector: &Vector, count: u64| {
            let recv = vector.recv.filter(|_| is_root);
            let key = CacheKey {
                what: CacheKey::what(
                    operation,
                    comm,
                    segment,
                    [vector.send.is_some(), recv.is_some()],
                ),
                context: comm.context(),
                counts: [count, 0],
                types: [vector.ty.identity(), 0],
                op: match vector.op {
                    Op::Builtin(op) => *op as usize,
                    Op::User(op) => Arc::as_ptr(op) as usize,
                },
                handle: vector.handle,
            };
            (key, vector.send.unwrap_or(Area::EMPTY), recv.unwrap_or(Area::EMPTY))
        };
        Some(match operation {
            Operation::Barrier => data(None, None),
            Operation::Bcast { data: recv, .. } => data(None, Some(recv)),
            Operation::Gather { send, recv, .. } => {
                data(send.as_ref(), recv.as_ref().filter(|_| is_root))
            }
            Operation::Scatter { send, recv, .. } => {
                data(send.as_ref().filter(|_| is_root), recv.as_ref())
            }
            Operation::Allgather { send, recv } | Operation::Alltoall { send, recv } => {
                data(send.as_ref(), Some(recv))
            }
            Operation::Reduce { vector: of, count, .. }
            | Operation::Allreduce { vector: of, count }
            | Operation::ReduceScatterBlock { vector: of, count }
            | Operation::Scan { vector: of, count }
            | Operation::Exscan { vector: of, count } => vector(of, *count),
            Operation::ReduceScatter { vector: of, counts } => vector(of, counts.len() as u64),
            _ => return None,
        })
    }

    /// Kind, root, and which buffers there are. An operation within the local group of an
    /// intercommunicator has the same context; the bit distinguishes it.
    #[inline(always)]
    fn what(
        operation: &Operation,
        comm: &Comm,
        segment: SegmentUse,
        [has_send, has_recv]: [bool; 2],
    ) -> u64 {
        let bits = u64::from(has_send)
            | u64::from(has_recv) << 1
            | u64::from(comm.is_inter()) << 2
            | (segment as u64) << 3;
        u64::from(operation.root().unwrap_or(u32::MAX)) << 32
            | (operation.kind() as u64) << 8
            | bits
    }

    /// True for the same call.
    #[inline(always)]
    pub(crate) fn is(&self, other: &CacheKey) -> bool {
        let differ = (self.what ^ other.what)
            | (self.context ^ other.context)
            | (self.counts[0] ^ other.counts[0])
            | (self.counts[1] ^ other.counts[1]);
        let differs = (self.types[0] ^ other.types[0])
            | (self.types[1] ^ other.types[1])
            | (self.op ^ other.op)
            | (self.handle ^ other.handle);
        differ == 0 && differs == 0
    }

    /// True for a call on the communicator with this context.
    pub(crate) fn is_on(&self, context: u64) -> bool {
        self.context == context
    }

    /// A number of so many bits, mostly another one for another key.
    #[inline(always)]
    pub(crate) fn hash(&self, bits: u32) -> usize {
        let mixed = (self.context << 8 ^ self.what)
            .wrapping_add(self.counts[0].rotate_left(16))
            .wrapping_add(self.counts[1].rotate_left(40));
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }
}
