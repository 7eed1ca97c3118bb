//! A call in numbers: all that its schedule depends on.

use fabric::CollectiveKind;

use crate::coll_args::CollArgs;
use crate::operation::ROOT_HERE;
use crate::shape::Extent;
use crate::thresholds::SegmentUse;

const BCAST: u8 = CollectiveKind::Bcast as u8;
const GATHER: u8 = CollectiveKind::Gather as u8;
const SCATTER: u8 = CollectiveKind::Scatter as u8;
const ALLGATHER: u8 = CollectiveKind::Allgather as u8;
const ALLTOALL: u8 = CollectiveKind::Alltoall as u8;
const REDUCE: u8 = CollectiveKind::Reduce as u8;
const ALLREDUCE: u8 = CollectiveKind::Allreduce as u8;
/// Not a number of the wire, where this is an allreduce as well.
pub(crate) const ALLREDUCE_OF_BOTH: u8 = 255;
const REDUCE_SCATTER_BLOCK: u8 = CollectiveKind::ReduceScatterBlock as u8;
const SCAN: u8 = CollectiveKind::Scan as u8;
const EXSCAN: u8 = CollectiveKind::Exscan as u8;

/// All that the schedule of a call depends on, but for the lists of calls that have some.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScheduleKey {
    pub(crate) kind: u8,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The number of the planner's table of locations; see `topologies`.
    pub(crate) topology: u32,
    /// The number of the planner's table of rules; see `of_rules`.
    pub(crate) rules: u32,
    /// Ranks in the remote group; 0 unless the communicator is between groups.
    pub(crate) remote: u32,
    pub(crate) root: u32,
    pub(crate) send: Option<Extent>,
    pub(crate) recv: Option<Extent>,
    pub(crate) commutative: bool,
    /// What a collective segment that the ranks share is used for.
    pub(crate) segment: SegmentUse,
}

impl ScheduleKey {
    /// How many blocks the buffers of all ranks have: one for each rank that this one deals with.
    pub(crate) fn blocks(&self) -> u32 {
        if self.remote > 0 { self.remote } else { self.size }
    }

    /// True at the root.
    pub(crate) fn is_root(&self) -> bool {
        self.root == if self.remote > 0 { ROOT_HERE } else { self.rank }
    }

    /// Calls `then` with the arguments of the call.
    pub(crate) fn with_args<R>(&self, then: impl FnOnce(&CollArgs) -> R) -> R {
        let split =
            |data: Option<Extent>| data.map(|data| data.split(self.blocks())).unwrap_or_default();
        match (self.kind, self.send, self.recv) {
            (ALLTOALL, send, recv) => {
                let (from, to) = (send.map(|_| split(send)), split(recv));
                let kind = CollectiveKind::Alltoall;
                then(&CollArgs::Alltoall { kind, from: from.as_deref(), to: &to })
            }
            (REDUCE_SCATTER_BLOCK, Some(input), Some(output)) => {
                let counts = vec![output.count; self.size as usize];
                let (kind, commutative) = (CollectiveKind::ReduceScatterBlock, self.commutative);
                then(&CollArgs::ReduceScatter { kind, input, counts: &counts, output, commutative })
            }
            _ => then(&self.args()),
        }
    }

    fn args(&self) -> CollArgs<'static> {
        let ScheduleKey { root, commutative, .. } = *self;
        match (self.kind, self.send, self.recv) {
            (BCAST, _, Some(data)) => CollArgs::Bcast { root, data },
            (GATHER, own, all) => CollArgs::Gather { root, own, all },
            (SCATTER, all, own) => CollArgs::Scatter { root, all, own },
            (ALLGATHER, own, Some(all)) => CollArgs::Allgather { own, all },
            (REDUCE, Some(input), output) => CollArgs::Reduce { root, input, output, commutative },
            (ALLREDUCE | ALLREDUCE_OF_BOTH, Some(input), Some(output)) => {
                CollArgs::Allreduce { input, output, commutative }
            }
            (SCAN, Some(input), Some(output)) => CollArgs::Scan { input, output },
            // Rank 0, which has no output, writes none.
            (EXSCAN, Some(input), output) => {
                CollArgs::Exscan { input, output: output.unwrap_or(input) }
            }
            _ => CollArgs::Barrier,
        }
    }
}
