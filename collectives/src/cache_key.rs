//! The key by which the planner recognises a call that it planned recently.

use std::sync::Arc;

use objects::{Area, Comm, Op};

use crate::operation::{Blocks, Data, Operation, ROOT_HERE, Types, Vector};
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

/// What this rank sends and receives.
enum Ends<'a> {
    Data(Option<&'a Data<'a>>, Option<&'a Data<'a>>),
    /// A vector, and its count.
    Vector(&'a Vector<'a>, u64),
}

/// Calls with lists for more ranks or neighbours are not kept.
const MAX_KEPT_BLOCKS: usize = 256;

/// What a rank sends or receives in a call with lists. The lists themselves are compared apart.
struct End {
    area: Area,
    count: u64,
    ty: usize,
}

impl From<&Data<'_>> for End {
    fn from(data: &Data) -> End {
        End { area: data.area, count: data.count, ty: data.ty.identity() }
    }
}

impl From<&Blocks<'_>> for End {
    fn from(blocks: &Blocks) -> End {
        let ty = match blocks.types {
            Types::One(ty) => ty.identity(),
            Types::Each(_) => 0,
        };
        End { area: blocks.area, count: blocks.counts.len() as u64, ty }
    }
}

impl CacheKey {
    /// The key of a call and its addresses; `None` for calls that are not kept.
    #[inline(always)]
    pub(crate) fn of(
        operation: &Operation,
        comm: &Comm,
        segment: SegmentUse,
    ) -> Option<(CacheKey, Area, Area)> {
        let root = if comm.is_inter() { ROOT_HERE } else { comm.rank() };
        let is_root = operation.root().is_none_or(|is| is == root);
        let ends = match operation {
            Operation::Barrier => Ends::Data(None, None),
            Operation::Bcast { data: recv, .. } => Ends::Data(None, Some(recv)),
            Operation::Gather { send, recv, .. } => {
                Ends::Data(send.as_ref(), recv.as_ref().filter(|_| is_root))
            }
            Operation::Scatter { send, recv, .. } => {
                Ends::Data(send.as_ref().filter(|_| is_root), recv.as_ref())
            }
            Operation::Allgather { send, recv } | Operation::Alltoall { send, recv } => {
                Ends::Data(send.as_ref(), Some(recv))
            }
            Operation::Reduce { vector, count, .. }
            | Operation::Allreduce { vector, count }
            | Operation::ReduceScatterBlock { vector, count }
            | Operation::Scan { vector, count }
            | Operation::Exscan { vector, count } => Ends::Vector(vector, *count),
            Operation::ReduceScatter { vector, counts } => {
                Ends::Vector(vector, counts.len() as u64)
            }
            _ => return CacheKey::of_lists(operation, comm, segment, is_root),
        };
        let (send, recv) = match ends {
            Ends::Data(send, recv) => (send.map(|data| data.area), recv.map(|data| data.area)),
            Ends::Vector(vector, _) => (vector.send, vector.recv.filter(|_| is_root)),
        };
        let (counts, types, op, handle) = match ends {
            Ends::Data(send, recv) => {
                let numbers = |data: &Data| (data.count, data.ty.identity());
                let sent = send.map_or((0, 0), numbers);
                let received = recv.map_or((0, 0), numbers);
                ([sent.0, received.0], [sent.1, received.1], 0, 0)
            }
            Ends::Vector(vector, count) => {
                let op = match vector.op {
                    Op::Builtin(op) => *op as usize,
                    Op::User(op) => Arc::as_ptr(op) as usize,
                };
                ([count, 0], [vector.ty.identity(), 0], op, vector.handle)
            }
        };
        let what = CacheKey::what(operation, comm, segment, [send.is_some(), recv.is_some()]);
        let key = CacheKey { what, context: comm.context(), counts, types, op, handle };
        Some((key, send.unwrap_or(Area::EMPTY), recv.unwrap_or(Area::EMPTY)))
    }

    /// The same for an operation with lists.
    #[inline(never)]
    fn of_lists(
        operation: &Operation,
        comm: &Comm,
        segment: SegmentUse,
        is_root: bool,
    ) -> Option<(CacheKey, Area, Area)> {
        let mut blocks = comm.peers().size() as usize;
        let (send, recv): (Option<End>, Option<End>) = match operation {
            Operation::Gatherv { send, recv, .. } => {
                let recv = recv.as_ref().filter(|_| is_root);
                (send.as_ref().map(End::from), recv.map(End::from))
            }
            Operation::Scatterv { send, recv, .. } => {
                let send = send.as_ref().filter(|_| is_root);
                (send.map(End::from), recv.as_ref().map(End::from))
            }
            Operation::Allgatherv { send, recv } => {
                (send.as_ref().map(End::from), Some(recv.into()))
            }
            Operation::Alltoallv { send, recv } => {
                (send.as_ref().map(End::from), Some(recv.into()))
            }
            Operation::NeighborAllgather { edges, send, recv }
            | Operation::NeighborAlltoall { edges, send, recv } => {
                blocks = edges.sources.len() + edges.destinations.len();
                (Some(send.into()), Some(recv.into()))
            }
            Operation::NeighborAllgatherv { edges, send, recv } => {
                blocks = edges.sources.len() + edges.destinations.len();
                (Some(send.into()), Some(recv.into()))
            }
            Operation::NeighborAlltoallv { edges, send, recv } => {
                blocks = edges.sources.len() + edges.destinations.len();
                (Some(send.into()), Some(recv.into()))
            }
            _ => return None,
        };
        if blocks > MAX_KEPT_BLOCKS {
            return None;
        }
        let what = CacheKey::what(operation, comm, segment, [send.is_some(), recv.is_some()]);
        let numbers = |end: End| (end.count, end.ty, end.area);
        let (sent, send_type, send) = send.map_or((0, 0, Area::EMPTY), numbers);
        let (received, recv_type, recv) = recv.map_or((0, 0, Area::EMPTY), numbers);
        let (counts, types) = ([sent, received], [send_type, recv_type]);
        let key = CacheKey { what, context: comm.context(), counts, types, op: 0, handle: 0 };
        Some((key, send, recv))
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
