//! The algorithms by name: what each can do, and which function writes its schedule.

use fabric::CollectiveKind;

use crate::algorithms::{
    allgather, allreduce, alltoall, barrier, bcast, gather, neighbor, radix, reduce,
    reduce_scatter, scan, scatter, scattered, segment_counter, segment_flags, segment_get,
    segment_pieces,
};
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::shape::Extent;

/// An algorithm by name; [`Algorithm::can`] tests whether it implements an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The only one of its operation.
    Only,
    /// A tree of log2 size levels.
    Binomial,
    /// The root exchanges with every rank itself.
    Linear,
    /// Scatter, then the pieces round the ring.
    ScatterRing,
    /// Scatter, then the pieces are exchanged across each bit of the rank.
    ScatterDoubling,
    /// All data is exchanged across each bit of the rank.
    RecursiveDoubling,
    /// Bruck's logarithmic algorithms.
    Bruck,
    /// Round the ring.
    Ring,
    /// A tree, dissemination, or recursive multiplying, by [`Thresholds::radix`].
    ///
    /// [`Thresholds::radix`]: crate::Thresholds::radix
    Radix,
    /// Straight from each rank to each, in rounds in which each rank has one partner.
    Pairwise,
    /// Recursive halving of the vector.
    Halving,
    /// Reduce in rank order at rank 0, then distribute.
    Ordered,
    /// In pieces from rank to rank.
    Chain,
    /// In pieces down a binary tree.
    BinaryTree,
    /// Pairs of blocks between neighbours, to both sides in turn.
    NeighborExchange,
    /// Straight from each rank to each, a bounded number at once.
    Scattered,
    /// In a collective segment, by the last rank to arrive.
    SegmentCounter,
    /// In a collective segment, by rank 0.
    SegmentRoot,
    /// In a collective segment, each rank for itself.
    SegmentFlags,
    /// In a collective segment, piece by piece: an allreduce with flags, each rank for its part of
    /// each; a broadcast where ranks share processors.
    SegmentPieces,
    /// Each rank reads the memory of the others, in rounds of a collective segment.
    SegmentGet,
    /// Within hosts, and between them by one rank of each host.
    Leaders,
    /// Within hosts, and between them by each rank for a part of the vector.
    Lanes,
    /// As lanes, chunk by chunk, stages of different chunks at the same time.
    PipelinedLanes,
    /// Within hosts, and between them by several ranks of each host at once, each with all data.
    Fan,
}

/// The inputs of a schedule other than the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Messages under way at once where each rank deals with all others.
    pub(crate) window: u32,
    /// Operands are taken in an order that depends on the number of ranks only.
    pub(crate) reproducible: bool,
    /// See [`crate::Thresholds::radix`].
    pub(crate) radix: u32,
    /// See [`crate::Thresholds::piece`].
    pub(crate) piece: u64,
    /// Collective segments have flags.
    pub(crate) has_flags: bool,
}

impl Algorithm {
    /// All of them but [`Algorithm::Only`], by their names in rules.
    pub const NAMES: [(&'static str, Algorithm); 24] = [
        ("binomial", Algorithm::Binomial),
        ("linear", Algorithm::Linear),
        ("scatter-ring", Algorithm::ScatterRing),
        ("scatter-doubling", Algorithm::ScatterDoubling),
        ("recursive-doubling", Algorithm::RecursiveDoubling),
        ("bruck", Algorithm::Bruck),
        ("ring", Algorithm::Ring),
        ("radix", Algorithm::Radix),
        ("pairwise", Algorithm::Pairwise),
        ("halving", Algorithm::Halving),
        ("ordered", Algorithm::Ordered),
        ("chain", Algorithm::Chain),
        ("binary-tree", Algorithm::BinaryTree),
        ("neighbor-exchange", Algorithm::NeighborExchange),
        ("scattered", Algorithm::Scattered),
        ("segment-counter", Algorithm::SegmentCounter),
        ("segment-root", Algorithm::SegmentRoot),
        ("segment-flags", Algorithm::SegmentFlags),
        ("segment-pieces", Algorithm::SegmentPieces),
        ("segment-get", Algorithm::SegmentGet),
        ("leaders", Algorithm::Leaders),
        ("lanes", Algorithm::Lanes),
        ("pipelined-lanes", Algorithm::PipelinedLanes),
        ("fan", Algorithm::Fan),
    ];

    /// Its name in rules; that of the only algorithm of an operation is "only".
    pub fn name(self) -> &'static str {
        let known = Algorithm::NAMES.into_iter().find(|(_, of)| *of == self);
        known.map_or("only", |(name, _)| name)
    }

    /// The algorithm with this name in rules.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::NAMES.into_iter().find(|(of, _)| *of == name).map(|(_, algorithm)| algorithm)
    }

    /// True when it needs a collective segment that all ranks share.
    pub(crate) fn uses_segment(self) -> bool {
        matches!(
            self,
            Algorithm::SegmentCounter
                | Algorithm::SegmentRoot
                | Algorithm::SegmentFlags
                | Algorithm::SegmentPieces
                | Algorithm::SegmentGet
        )
    }

    /// True when the order in which it combines operands depends on the number of ranks alone, and
    /// is that of the others for which this is true.
    pub(crate) fn is_reproducible(self) -> bool {
        matches!(self, Algorithm::Binomial | Algorithm::Ordered | Algorithm::Only)
    }

    /// True for compositions over the levels of the machine.
    pub(crate) fn is_composition(self) -> bool {
        use Algorithm::{Fan, Lanes, Leaders, PipelinedLanes};
        matches!(self, Leaders | Lanes | PipelinedLanes | Fan)
    }

    /// Returns whether it can do this call: the restrictions of each algorithm.
    pub fn can(self, args: &CollArgs, pos: Position) -> bool {
        use Algorithm::*;
        match (args, self) {
            (_, Leaders | Lanes | PipelinedLanes | Fan) => self.can_compose(args, pos),
            (_, SegmentCounter) => segment_counter::can(args, pos.size),
            (_, SegmentFlags) => segment_flags::can(args, pos.size),
            (_, SegmentGet) => segment_get::can(args, pos.size),
            (_, SegmentPieces) => {
                segment_pieces::can(args, pos.size)
                    || segment_counter::can_in_pieces(args, pos.size)
            }
            (CollArgs::Barrier, Linear) => true,
            (CollArgs::Barrier, SegmentRoot) => pos.size > 1,
            (
                CollArgs::Barrier
                | CollArgs::Bcast { .. }
                | CollArgs::Reduce { .. }
                | CollArgs::Allreduce { .. },
                Radix,
            ) => true,
            (
                CollArgs::Bcast { .. },
                Binomial | ScatterRing | Scattered | Linear | Chain | BinaryTree,
            ) => true,
            (CollArgs::Bcast { .. }, ScatterDoubling) => pos.size.is_power_of_two(),
            (CollArgs::Gather { .. } | CollArgs::Scatter { .. }, Binomial | Radix | Linear) => true,
            (CollArgs::Allgather { .. }, RecursiveDoubling) => pos.size.is_power_of_two(),
            (
                CollArgs::Allgather { .. } | CollArgs::Allgatherv { .. },
                Bruck | Radix | Ring | Scattered,
            ) => true,
            (CollArgs::Allgather { .. } | CollArgs::Allgatherv { .. }, NeighborExchange) => {
                pos.size.is_multiple_of(2)
            }
            (CollArgs::Alltoall { kind, .. }, Bruck | Radix) => *kind == CollectiveKind::Alltoall,
            (CollArgs::Alltoall { .. }, Pairwise | Scattered) => true,
            (CollArgs::Reduce { .. }, Binomial | Halving | Linear) => true,
            (CollArgs::Allreduce { .. }, RecursiveDoubling | Halving | Ordered | Linear) => true,
            // A power of two moves as little by halving, in fewer rounds.
            (CollArgs::Reduce { .. } | CollArgs::Allreduce { .. }, Ring) => {
                args.commutes() && !pos.size.is_power_of_two()
            }
            (CollArgs::ReduceScatter { .. }, Pairwise) => {
                args.commutes() && !pos.size.is_power_of_two()
            }
            (CollArgs::ReduceScatter { .. }, Halving) => args.commutes(),
            (
                CollArgs::Reduce { .. }
                | CollArgs::Allreduce { .. }
                | CollArgs::ReduceScatter { .. },
                Scattered,
            ) => args.commutes(),
            (CollArgs::ReduceScatter { .. }, Radix | Ordered) => true,
            (_, Only) => true,
            _ => false,
        }
    }

    /// The base in which ranks are numbered by its trees and rounds; `None` where they are not.
    fn radix(self, limits: Limits) -> Option<u32> {
        match self {
            Algorithm::Binomial | Algorithm::Bruck => Some(2),
            Algorithm::Radix => Some(limits.radix),
            _ => None,
        }
    }

    /// Writes this rank's part of a call, if it is no composition.
    pub(crate) fn write(self, b: &mut Builder, args: &CollArgs, pos: Position, limits: Limits) {
        if self == Algorithm::Scattered {
            b.limit(limits.window);
        }
        match self {
            Algorithm::SegmentCounter => return segment_counter::write(b, args, pos),
            Algorithm::SegmentFlags => return segment_flags::write(b, args, pos),
            Algorithm::SegmentGet => return segment_get::write(b, args, pos, limits.has_flags),
            Algorithm::SegmentPieces if limits.has_flags => {
                return segment_pieces::write(b, args, pos);
            }
            Algorithm::SegmentPieces => return segment_counter::write_in_pieces(b, args, pos),
            _ => {}
        }
        match *args {
            CollArgs::Barrier
            | CollArgs::Bcast { .. }
            | CollArgs::Reduce { .. }
            | CollArgs::Allreduce { .. }
                if self == Algorithm::Radix =>
            {
                write_radix(b, args, pos, limits);
            }
            CollArgs::Barrier => self.write_barrier(b, pos),
            CollArgs::Bcast { root, data } => self.write_bcast(b, pos, root, data, limits),
            CollArgs::Gather { .. }
            | CollArgs::Gatherv { .. }
            | CollArgs::Scatter { .. }
            | CollArgs::Scatterv { .. } => self.write_rooted(b, args, pos, limits),
            CollArgs::Allgather { own, all } if self == Algorithm::RecursiveDoubling => {
                let own = own.unwrap_or_else(|| all.split(pos.size)[pos.rank as usize]);
                allgather::recursive_doubling(b, pos, own, all);
            }
            CollArgs::Allgather { own, all } => {
                self.write_allgather(b, pos, own, &all.split(pos.size), limits);
            }
            CollArgs::Allgatherv { own, all } => self.write_allgather(b, pos, own, all, limits),
            CollArgs::Alltoall { from, to, .. } => {
                if self != Algorithm::Pairwise {
                    b.limit(limits.window);
                }
                if let Some(radix) = self.radix(limits) {
                    return alltoall::bruck(b, pos, from.unwrap_or(to), to, radix);
                }
                match (self, from) {
                    (Algorithm::Pairwise, Some(from)) => alltoall::pairwise(b, pos, from, to),
                    (_, Some(from)) => alltoall::scattered(b, pos, from, to),
                    (_, None) => alltoall::exchange_in_place(b, pos, to),
                }
            }
            CollArgs::Neighbor { cartesian, sources, into, destinations, out, .. } => {
                neighbor::exchange(b, cartesian, (sources, into), (destinations, out));
            }
            _ => self.write_reduction(b, args, pos, limits),
        }
    }

    fn write_barrier(self, b: &mut Builder, pos: Position) {
        match self {
            Algorithm::SegmentRoot => segment_counter::barrier_root_last(b, pos),
            Algorithm::Linear => barrier::linear(b, pos),
            _ => barrier::dissemination(b, pos),
        }
    }

    fn write_bcast(self, b: &mut Builder, pos: Position, root: u32, data: Extent, limits: Limits) {
        match self {
            Algorithm::Chain => bcast::chain(b, pos, root, data, limits.piece),
            Algorithm::BinaryTree => bcast::binary_tree(b, pos, root, data, limits.piece),
            Algorithm::ScatterRing => bcast::scatter_ring(b, pos, root, data),
            Algorithm::ScatterDoubling => bcast::scatter_doubling(b, pos, root, data),
            Algorithm::Scattered => scattered::bcast(b, pos, root, data),
            Algorithm::Linear => bcast::linear(b, pos, root, data),
            _ => bcast::binomial(b, pos, root, data),
        }
    }

    fn write_rooted(self, b: &mut Builder, args: &CollArgs, pos: Position, limits: Limits) {
        let radix = self.radix(limits);
        if radix.is_none() {
            b.limit(limits.window);
        }
        match (*args, radix) {
            (CollArgs::Gather { root, own, all }, Some(radix)) => {
                gather::knomial(b, pos, (root, radix), own, all);
            }
            (CollArgs::Gather { root, own, all }, None) => {
                let all = all.map(|all| all.split(pos.size));
                gather::linear(b, pos, root, own, all.as_deref());
            }
            (CollArgs::Gatherv { root, own, all }, _) => gather::linear(b, pos, root, own, all),
            (CollArgs::Scatter { root, all, own }, Some(radix)) => {
                scatter::knomial(b, pos, (root, radix), all, own);
            }
            (CollArgs::Scatter { root, all, own }, None) => {
                let all = all.map(|all| all.split(pos.size));
                scatter::linear(b, pos, root, all.as_deref(), own);
            }
            (CollArgs::Scatterv { root, all, own }, _) => scatter::linear(b, pos, root, all, own),
            _ => debug_assert!(false, "not a gather or a scatter"),
        }
    }

    fn write_allgather(
        self,
        b: &mut Builder,
        pos: Position,
        own: Option<Extent>,
        blocks: &[Extent],
        limits: Limits,
    ) {
        let own = own.unwrap_or(blocks[pos.rank as usize]);
        if let Some(radix) = self.radix(limits) {
            return allgather::bruck(b, pos, own, blocks, radix);
        }
        match self {
            Algorithm::NeighborExchange => allgather::neighbor_exchange(b, pos, own, blocks),
            Algorithm::Scattered => scattered::allgather(b, pos, own, blocks),
            _ => allgather::ring(b, pos, own, blocks),
        }
    }

    fn write_reduction(self, b: &mut Builder, args: &CollArgs, pos: Position, limits: Limits) {
        match *args {
            CollArgs::Reduce { root, input, output, commutative } => {
                let commutative = commutative && !limits.reproducible;
                match self {
                    Algorithm::Halving => reduce::halving(b, pos, root, input, output, commutative),
                    Algorithm::Ring => reduce::ring(b, pos, root, input, output),
                    Algorithm::Scattered => scattered::reduce(b, pos, root, input, output),
                    Algorithm::Linear => reduce::linear(b, pos, root, input, output),
                    _ => reduce::binomial(b, pos, root, input, output, commutative),
                }
            }
            CollArgs::Allreduce { input, output, commutative } => {
                self.write_allreduce(b, pos, input, output, commutative)
            }
            CollArgs::ReduceScatter { input, counts, output, .. } => match self {
                Algorithm::Radix => {
                    reduce_scatter::whole(b, pos, input, counts, (output, limits.radix));
                }
                Algorithm::Halving => reduce_scatter::halving(b, pos, input, counts, output),
                Algorithm::Pairwise => reduce_scatter::pairwise(b, pos, input, counts, output),
                Algorithm::Scattered => scattered::reduce_scatter(b, pos, input, counts, output),
                _ => reduce_scatter::ordered(b, pos, input, counts, output),
            },
            CollArgs::Scan { input, output } => scan::inclusive(b, pos, input, output),
            CollArgs::Exscan { input, output } => scan::exclusive(b, pos, input, output),
            _ => debug_assert!(false, "not a reduction"),
        }
    }

    fn write_allreduce(
        self,
        b: &mut Builder,
        pos: Position,
        input: Extent,
        output: Extent,
        commutative: bool,
    ) {
        let at_rank_0 = (pos.rank == 0).then_some(output);
        match self {
            Algorithm::Ring => allreduce::ring(b, pos, input, output),
            Algorithm::Scattered => scattered::allreduce(b, pos, input, output),
            Algorithm::Halving => allreduce::halving(b, pos, input, output, commutative),
            Algorithm::RecursiveDoubling => {
                allreduce::recursive_doubling(b, pos, input, output, commutative)
            }
            Algorithm::Linear => {
                reduce::linear(b, pos, 0, input, at_rank_0);
                b.round();
                bcast::linear(b, pos, 0, output);
            }
            // The first half; `Selection` appends a broadcast of its choice.
            _ => reduce::binomial(b, pos, 0, input, at_rank_0, false),
        }
    }
}

fn write_radix(b: &mut Builder, args: &CollArgs, pos: Position, limits: Limits) {
    match *args {
        CollArgs::Bcast { root, data } => radix::bcast(b, pos, root, data, limits.radix),
        CollArgs::Reduce { root, input, output, commutative } => {
            let commutative = commutative && !limits.reproducible;
            radix::reduce(b, pos, root, (input, output, commutative), limits.radix);
        }
        CollArgs::Allreduce { input, output, .. } => {
            radix::allreduce(b, pos, input, output, limits.radix);
        }
        _ => radix::dissemination(b, pos, limits.radix),
    }
}
