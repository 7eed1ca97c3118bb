//! A collective call in numbers: what an algorithm is given.
//!
//! Everything is this rank's view, in [`Run`]s. `None` stands for MPI_IN_PLACE
//! where a rank's own data is meant, and for "not significant here" where only
//! the root has the buffer.

use fabric::CollectiveKind;

use crate::shape::Run;

/// See the module. The spaces of the runs say which user buffer they lie in.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the standard's arguments; the exceptions are said at the variants"
)]
pub enum Problem<'a> {
    Barrier,
    Bcast {
        root: u32,
        data: Run,
    },
    /// `all` has the blocks of all ranks one after the other (root only).
    Gather {
        root: u32,
        own: Option<Run>,
        all: Option<Run>,
    },
    Gatherv {
        root: u32,
        own: Option<Run>,
        all: Option<&'a [Run]>,
    },
    Scatter {
        root: u32,
        all: Option<Run>,
        own: Option<Run>,
    },
    Scatterv {
        root: u32,
        all: Option<&'a [Run]>,
        own: Option<Run>,
    },
    Allgather {
        own: Option<Run>,
        all: Run,
    },
    Allgatherv {
        own: Option<Run>,
        all: &'a [Run],
    },
    /// Alltoall, alltoallv and alltoallw, as `kind` says.
    Alltoall {
        kind: CollectiveKind,
        from: Option<&'a [Run]>,
        to: &'a [Run],
    },
    /// In place the input is the output, here and below.
    Reduce {
        root: u32,
        input: Run,
        output: Option<Run>,
        commutative: bool,
    },
    Allreduce {
        input: Run,
        output: Run,
        commutative: bool,
    },
    /// Reduce_scatter and reduce_scatter_block, as `kind` says. `counts` are
    /// elements for each rank.
    ReduceScatter {
        kind: CollectiveKind,
        input: Run,
        counts: &'a [u64],
        output: Run,
        commutative: bool,
    },
    Scan {
        input: Run,
        output: Run,
    },
    Exscan {
        input: Run,
        output: Run,
    },
    /// A neighbourhood collective; `None` among the ranks is MPI_PROC_NULL.
    Neighbor {
        kind: CollectiveKind,
        cartesian: bool,
        sources: &'a [Option<u32>],
        into: &'a [Run],
        destinations: &'a [Option<u32>],
        out: &'a [Run],
    },
}

impl Problem<'_> {
    /// Whether operands may be taken in any order; true where nothing is reduced.
    // Not inlined: looked at before the variant is, as the optimiser would have it, the
    // field is not always there, and valgrind says so.
    #[inline(never)]
    pub(crate) fn commutes(&self) -> bool {
        match *self {
            Problem::Reduce { commutative, .. }
            | Problem::Allreduce { commutative, .. }
            | Problem::ReduceScatter { commutative, .. } => commutative,
            _ => true,
        }
    }

    /// The operation.
    pub fn kind(&self) -> CollectiveKind {
        match self {
            Problem::Barrier => CollectiveKind::Barrier,
            Problem::Bcast { .. } => CollectiveKind::Bcast,
            Problem::Gather { .. } => CollectiveKind::Gather,
            Problem::Gatherv { .. } => CollectiveKind::Gatherv,
            Problem::Scatter { .. } => CollectiveKind::Scatter,
            Problem::Scatterv { .. } => CollectiveKind::Scatterv,
            Problem::Allgather { .. } => CollectiveKind::Allgather,
            Problem::Allgatherv { .. } => CollectiveKind::Allgatherv,
            Problem::Reduce { .. } => CollectiveKind::Reduce,
            Problem::Allreduce { .. } => CollectiveKind::Allreduce,
            Problem::Scan { .. } => CollectiveKind::Scan,
            Problem::Exscan { .. } => CollectiveKind::Exscan,
            Problem::Alltoall { kind, .. }
            | Problem::ReduceScatter { kind, .. }
            | Problem::Neighbor { kind, .. } => *kind,
        }
    }

    /// The root, where the operation has one.
    pub fn root(&self) -> Option<u32> {
        match *self {
            Problem::Bcast { root, .. }
            | Problem::Gather { root, .. }
            | Problem::Gatherv { root, .. }
            | Problem::Scatter { root, .. }
            | Problem::Scatterv { root, .. }
            | Problem::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    /// True when no rank has data, as far as this one knows: the operation is one
    /// in which all have the same amount. Its messages are sent all the same, so
    /// that a rank that was called with data finds out. With lists of counts no
    /// rank knows what the others have.
    pub fn is_empty(&self, size: u32) -> bool {
        match self {
            Problem::Bcast { .. }
            | Problem::Gather { .. }
            | Problem::Scatter { .. }
            | Problem::Allgather { .. }
            | Problem::Reduce { .. }
            | Problem::Allreduce { .. }
            | Problem::Alltoall { kind: CollectiveKind::Alltoall, .. }
            | Problem::ReduceScatter { kind: CollectiveKind::ReduceScatterBlock, .. } => {
                self.bytes(size) == 0
            }
            Problem::Scan { input, .. } | Problem::Exscan { input, .. } => input.bytes() == 0,
            _ => false,
        }
    }

    /// The size that selection goes by, the same on all ranks: one block for
    /// gather, scatter and alltoall, the whole result for allgather(v), the
    /// whole vector for broadcasts and reductions, 0 where sizes are not known
    /// everywhere.
    pub fn bytes(&self, size: u32) -> u64 {
        match self {
            Problem::Gather { own, all, .. } | Problem::Scatter { own, all, .. } => own
                .as_ref()
                .map(Run::bytes)
                .or(all.map(|all| all.bytes() / u64::from(size)))
                .unwrap_or(0),
            Problem::Bcast { data, .. } => data.bytes(),
            Problem::Allgather { all, .. } => all.bytes(),
            Problem::Allgatherv { all, .. } => all.iter().map(Run::bytes).sum(),
            Problem::Reduce { input, .. }
            | Problem::Allreduce { input, .. }
            | Problem::ReduceScatter { input, .. } => input.bytes(),
            Problem::Alltoall { kind: CollectiveKind::Alltoall, to, .. } => {
                to.first().map_or(0, Run::bytes)
            }
            _ => 0,
        }
    }
}
