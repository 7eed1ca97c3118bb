//! The arguments of a collective call in numbers, as an algorithm sees them.
//!
//! All is this rank's view, in [`Extent`]s. `None` stands for MPI_IN_PLACE where a rank's own data
//! is meant, and for "not significant here" where only the root has the buffer.

use fabric::CollectiveKind;

use crate::shape::Extent;

/// The arguments of a call. The space of an extent shows in which user buffer it lies.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the standard's arguments; the exceptions are said at the variants"
)]
pub enum CollArgs<'a> {
    Barrier,
    Bcast {
        root: u32,
        data: Extent,
    },
    /// `all` has the blocks of all ranks one after the other (root only).
    Gather {
        root: u32,
        own: Option<Extent>,
        all: Option<Extent>,
    },
    Gatherv {
        root: u32,
        own: Option<Extent>,
        all: Option<&'a [Extent]>,
    },
    Scatter {
        root: u32,
        all: Option<Extent>,
        own: Option<Extent>,
    },
    Scatterv {
        root: u32,
        all: Option<&'a [Extent]>,
        own: Option<Extent>,
    },
    Allgather {
        own: Option<Extent>,
        all: Extent,
    },
    Allgatherv {
        own: Option<Extent>,
        all: &'a [Extent],
    },
    /// Alltoall, alltoallv and alltoallw, depending on `kind`.
    Alltoall {
        kind: CollectiveKind,
        from: Option<&'a [Extent]>,
        to: &'a [Extent],
    },
    /// In place the input is the output, here and below.
    Reduce {
        root: u32,
        input: Extent,
        output: Option<Extent>,
        commutative: bool,
    },
    Allreduce {
        input: Extent,
        output: Extent,
        commutative: bool,
    },
    /// Reduce_scatter and reduce_scatter_block, depending on `kind`. `counts` are elements for each
    /// rank.
    ReduceScatter {
        kind: CollectiveKind,
        input: Extent,
        counts: &'a [u64],
        output: Extent,
        commutative: bool,
    },
    Scan {
        input: Extent,
        output: Extent,
    },
    Exscan {
        input: Extent,
        output: Extent,
    },
    /// A neighbourhood collective; `None` among the ranks is MPI_PROC_NULL.
    Neighbor {
        kind: CollectiveKind,
        cartesian: bool,
        sources: &'a [Option<u32>],
        into: &'a [Extent],
        destinations: &'a [Option<u32>],
        out: &'a [Extent],
    },
}

impl CollArgs<'_> {
    /// Whether operands may be taken in any order; true where nothing is reduced.
    // Not inlined: the optimiser would read the field before the variant, and valgrind reports a
    // field that is not there.
    #[inline(never)]
    pub(crate) fn commutes(&self) -> bool {
        match *self {
            CollArgs::Reduce { commutative, .. }
            | CollArgs::Allreduce { commutative, .. }
            | CollArgs::ReduceScatter { commutative, .. } => commutative,
            _ => true,
        }
    }

    /// True for operations in which the order of ranks' operands is the algorithm's.
    pub(crate) fn reduces(&self) -> bool {
        matches!(
            self,
            CollArgs::Reduce { .. }
                | CollArgs::Allreduce { .. }
                | CollArgs::ReduceScatter { .. }
                | CollArgs::Scan { .. }
                | CollArgs::Exscan { .. }
        )
    }

    /// The operation.
    pub fn kind(&self) -> CollectiveKind {
        match self {
            CollArgs::Barrier => CollectiveKind::Barrier,
            CollArgs::Bcast { .. } => CollectiveKind::Bcast,
            CollArgs::Gather { .. } => CollectiveKind::Gather,
            CollArgs::Gatherv { .. } => CollectiveKind::Gatherv,
            CollArgs::Scatter { .. } => CollectiveKind::Scatter,
            CollArgs::Scatterv { .. } => CollectiveKind::Scatterv,
            CollArgs::Allgather { .. } => CollectiveKind::Allgather,
            CollArgs::Allgatherv { .. } => CollectiveKind::Allgatherv,
            CollArgs::Reduce { .. } => CollectiveKind::Reduce,
            CollArgs::Allreduce { .. } => CollectiveKind::Allreduce,
            CollArgs::Scan { .. } => CollectiveKind::Scan,
            CollArgs::Exscan { .. } => CollectiveKind::Exscan,
            CollArgs::Alltoall { kind, .. }
            | CollArgs::ReduceScatter { kind, .. }
            | CollArgs::Neighbor { kind, .. } => *kind,
        }
    }

    /// The root, where the operation has one.
    pub fn root(&self) -> Option<u32> {
        match *self {
            CollArgs::Bcast { root, .. }
            | CollArgs::Gather { root, .. }
            | CollArgs::Gatherv { root, .. }
            | CollArgs::Scatter { root, .. }
            | CollArgs::Scatterv { root, .. }
            | CollArgs::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    /// True when no rank has data, as far as this one knows: the operation is one
    /// in which all have the same amount. Its messages are sent all the same, so
    /// that a rank that was called with data finds out. With lists of counts no
    /// rank knows what the others have.
    pub fn is_empty(&self, size: u32) -> bool {
        match self {
            CollArgs::Bcast { .. }
            | CollArgs::Gather { .. }
            | CollArgs::Scatter { .. }
            | CollArgs::Allgather { .. }
            | CollArgs::Reduce { .. }
            | CollArgs::Allreduce { .. }
            | CollArgs::Alltoall { kind: CollectiveKind::Alltoall, .. }
            | CollArgs::ReduceScatter { kind: CollectiveKind::ReduceScatterBlock, .. } => {
                self.bytes(size) == 0
            }
            CollArgs::Scan { input, .. } | CollArgs::Exscan { input, .. } => input.bytes() == 0,
            _ => false,
        }
    }

    /// The bytes that each rank gives or gets, which all ranks know, for comparing calls; `None`
    /// where ranks have sizes of their own.
    pub fn block_bytes(&self, size: u32) -> Option<u64> {
        use CollectiveKind as Of;
        match self.kind() {
            Of::Barrier => Some(0),
            Of::Allgather => Some(self.bytes(size) / u64::from(size)),
            Of::Bcast | Of::Gather | Of::Scatter | Of::Alltoall | Of::Reduce | Of::Allreduce => {
                Some(self.bytes(size))
            }
            Of::Allgatherv | Of::ReduceScatter | Of::ReduceScatterBlock => Some(self.bytes(size)),
            _ => None,
        }
    }

    /// The size that selection goes by, the same on all ranks: one block for gather, scatter and
    /// alltoall, the whole result for allgather(v), the whole vector for broadcasts and reductions.
    /// It is 0 where sizes are not known everywhere.
    pub fn bytes(&self, size: u32) -> u64 {
        match self {
            CollArgs::Gather { own, all, .. } | CollArgs::Scatter { own, all, .. } => own
                .as_ref()
                .map(Extent::bytes)
                .or(all.map(|all| all.bytes() / u64::from(size)))
                .unwrap_or(0),
            CollArgs::Bcast { data, .. } => data.bytes(),
            CollArgs::Allgather { all, .. } => all.bytes(),
            CollArgs::Allgatherv { all, .. } => all.iter().map(Extent::bytes).sum(),
            CollArgs::Reduce { input, .. }
            | CollArgs::Allreduce { input, .. }
            | CollArgs::ReduceScatter { input, .. } => input.bytes(),
            CollArgs::Alltoall { kind: CollectiveKind::Alltoall, to, .. } => {
                to.first().map_or(0, Extent::bytes)
            }
            _ => 0,
        }
    }
}
