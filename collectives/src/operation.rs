//! The arguments of a collective call: the standard's arguments, typed.
//!
//! Buffers are passed as [`Area`]s, whose makers vouch for the bytes; counts have 64 bits.
//! MPI_IN_PLACE and "significant only at the root" are `None`.

use fabric::CollectiveKind;
use objects::{Area, Datatype, Op};

/// As the root of an operation on an intercommunicator: this process is it
/// (MPI_ROOT). Any other root is a rank of the remote group.
pub const ROOT_HERE: u32 = u32::MAX - 1;

/// `count` elements of one type.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// The buffer; its address is that of the first element.
    pub area: Area,
    /// How many; for blocks of many ranks, how many for each.
    pub count: u64,
    /// Of which type.
    pub ty: &'a Datatype,
}

/// A block for each rank (or neighbour), each with a count and a displacement.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// The buffer; displacements are relative to its address.
    pub area: Area,
    /// Elements for each rank.
    pub counts: &'a [u64],
    /// Where each block starts: in extents of the type for [`Types::One`], in
    /// bytes for [`Types::Each`].
    pub displs: &'a [i64],
    /// Of which types.
    pub types: Types<'a>,
}

/// The types of [`Blocks`].
#[derive(Clone, Copy, Debug)]
pub enum Types<'a> {
    /// All blocks are of one type.
    One(&'a Datatype),
    /// Each has its own (the `w` operations).
    Each(&'a [Datatype]),
}

/// The operands of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    /// The input; `None` when it lies in the output.
    pub send: Option<Area>,
    /// The output; `None` where a rank gets no result.
    pub recv: Option<Area>,
    /// Of which type the elements are.
    pub ty: &'a Datatype,
    /// Its handle in the ABI, for user functions.
    pub handle: usize,
    /// The operation.
    pub op: &'a Op,
}

/// The neighbours of a process topology (MPI-5.0 §8.6); `None` is
/// MPI_PROC_NULL.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// The rank to receive from.
    pub sources: &'a [Option<u32>],
    /// The rank to send to.
    pub destinations: &'a [Option<u32>],
    /// A Cartesian topology: negative and positive direction alternate.
    pub cartesian: bool,
}

/// A collective call.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the standard's arguments; the exceptions are said at the variants"
)]
pub enum Operation<'a> {
    Barrier,
    /// The root is another one of this group and this process has no part in it
    /// (MPI_PROC_NULL as the root on an intercommunicator).
    Absent {
        kind: CollectiveKind,
    },
    Bcast {
        root: u32,
        data: Data<'a>,
    },
    /// `recv.count` is for each rank.
    Gather {
        root: u32,
        send: Option<Data<'a>>,
        recv: Option<Data<'a>>,
    },
    Gatherv {
        root: u32,
        send: Option<Data<'a>>,
        recv: Option<Blocks<'a>>,
    },
    /// `send.count` is for each rank.
    Scatter {
        root: u32,
        send: Option<Data<'a>>,
        recv: Option<Data<'a>>,
    },
    Scatterv {
        root: u32,
        send: Option<Blocks<'a>>,
        recv: Option<Data<'a>>,
    },
    /// `recv.count` is for each rank.
    Allgather {
        send: Option<Data<'a>>,
        recv: Data<'a>,
    },
    Allgatherv {
        send: Option<Data<'a>>,
        recv: Blocks<'a>,
    },
    /// Both counts are for each rank.
    Alltoall {
        send: Option<Data<'a>>,
        recv: Data<'a>,
    },
    /// With [`Types::Each`] this is alltoallw.
    Alltoallv {
        send: Option<Blocks<'a>>,
        recv: Blocks<'a>,
    },
    Reduce {
        root: u32,
        vector: Vector<'a>,
        count: u64,
    },
    Allreduce {
        vector: Vector<'a>,
        count: u64,
    },
    /// The library's own: as allreduce, but on an intercommunicator the operands
    /// are those of both groups. The operation must commute.
    AllreduceOfBoth {
        vector: Vector<'a>,
        count: u64,
    },
    /// Elements for each rank.
    ReduceScatter {
        vector: Vector<'a>,
        counts: &'a [u64],
    },
    /// `count` is for each rank.
    ReduceScatterBlock {
        vector: Vector<'a>,
        count: u64,
    },
    Scan {
        vector: Vector<'a>,
        count: u64,
    },
    Exscan {
        vector: Vector<'a>,
        count: u64,
    },
    /// `recv.count` is for each neighbour.
    NeighborAllgather {
        edges: Edges<'a>,
        send: Data<'a>,
        recv: Data<'a>,
    },
    NeighborAllgatherv {
        edges: Edges<'a>,
        send: Data<'a>,
        recv: Blocks<'a>,
    },
    /// Both counts are for each neighbour.
    NeighborAlltoall {
        edges: Edges<'a>,
        send: Data<'a>,
        recv: Data<'a>,
    },
    /// With [`Types::Each`] this is neighbor_alltoallw.
    NeighborAlltoallv {
        edges: Edges<'a>,
        send: Blocks<'a>,
        recv: Blocks<'a>,
    },
}

impl Operation<'_> {
    /// Which one it is.
    pub fn kind(&self) -> CollectiveKind {
        use CollectiveKind as Kind;
        match self {
            Operation::Barrier => Kind::Barrier,
            Operation::Bcast { .. } => Kind::Bcast,
            Operation::Gather { .. } => Kind::Gather,
            Operation::Gatherv { .. } => Kind::Gatherv,
            Operation::Scatter { .. } => Kind::Scatter,
            Operation::Scatterv { .. } => Kind::Scatterv,
            Operation::Allgather { .. } => Kind::Allgather,
            Operation::Allgatherv { .. } => Kind::Allgatherv,
            Operation::Alltoall { .. } => Kind::Alltoall,
            Operation::Alltoallv { recv: Blocks { types: Types::Each(_), .. }, .. } => {
                Kind::Alltoallw
            }
            Operation::Alltoallv { .. } => Kind::Alltoallv,
            Operation::Reduce { .. } => Kind::Reduce,
            Operation::Allreduce { .. } | Operation::AllreduceOfBoth { .. } => Kind::Allreduce,
            Operation::Absent { kind } => *kind,
            Operation::ReduceScatter { .. } => Kind::ReduceScatter,
            Operation::ReduceScatterBlock { .. } => Kind::ReduceScatterBlock,
            Operation::Scan { .. } => Kind::Scan,
            Operation::Exscan { .. } => Kind::Exscan,
            Operation::NeighborAllgather { .. } => Kind::NeighborAllgather,
            Operation::NeighborAllgatherv { .. } => Kind::NeighborAllgatherv,
            Operation::NeighborAlltoall { .. } => Kind::NeighborAlltoall,
            Operation::NeighborAlltoallv { recv: Blocks { types: Types::Each(_), .. }, .. } => {
                Kind::NeighborAlltoallw
            }
            Operation::NeighborAlltoallv { .. } => Kind::NeighborAlltoallv,
        }
    }

    /// The root, where it has one.
    pub fn root(&self) -> Option<u32> {
        match *self {
            Operation::Bcast { root, .. }
            | Operation::Gather { root, .. }
            | Operation::Gatherv { root, .. }
            | Operation::Scatter { root, .. }
            | Operation::Scatterv { root, .. }
            | Operation::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    /// The operands, in a reduction.
    pub fn vector(&self) -> Option<&Vector<'_>> {
        match self {
            Operation::Reduce { vector, .. }
            | Operation::Allreduce { vector, .. }
            | Operation::AllreduceOfBoth { vector, .. }
            | Operation::ReduceScatter { vector, .. }
            | Operation::ReduceScatterBlock { vector, .. }
            | Operation::Scan { vector, .. }
            | Operation::Exscan { vector, .. } => Some(vector),
            _ => None,
        }
    }
}
