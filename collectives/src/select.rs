//! Selection: which algorithm writes the schedule.
//!
//! A table of rules, tried in order: the first one whose sizes fit and whose
//! algorithm can do the case is taken. Sizes are what all ranks agree on (see
//! [`CollArgs::bytes`]), so all of them take the same rule. The table is built
//! from [`Thresholds`], which the runtime fills from its knobs.

use fabric::CollectiveKind;

use crate::algorithms::{
    Position, allgather, allreduce, alltoall, barrier, bcast, gather, inter, neighbor, reduce,
    reduce_scatter, scan, scatter, segment_counter, segment_flags,
};
use crate::coll_args::CollArgs;
use crate::schedule::{Builder, Schedule};

/// An algorithm by name; which operations have it stands in [`Algorithm::can`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The only way there is for this operation.
    Only,
    /// A tree of log2 size levels.
    Binomial,
    /// The root exchanges with everyone itself.
    Linear,
    /// Scatter, then the pieces round the ring.
    ScatterRing,
    /// Everyone exchanges everything across each bit of the rank.
    RecursiveDoubling,
    /// Bruck's logarithmic algorithms.
    Bruck,
    /// Round the ring.
    Ring,
    /// Straight from each rank to each.
    Pairwise,
    /// Recursive halving of the vector.
    Halving,
    /// Reduce in rank order at one rank, then hand out.
    Ordered,
    /// In the arena that all ranks share.
    SegmentCounter,
    /// In one that is flat.
    SegmentFlags,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For this operation.
    pub kind: CollectiveKind,
    /// From this many bytes ([`CollArgs::bytes`]) on.
    pub bytes: u64,
    /// From this many ranks on.
    pub ranks: u32,
    /// Take this algorithm, if it can do the case.
    pub algorithm: Algorithm,
}

/// The sizes, in bytes unless said otherwise, at which selection changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Broadcasts from this size on are scattered and sent round the ring.
    pub bcast_long: u64,
    /// Gathers with blocks from this size on go straight to the root.
    pub gather_long: u64,
    /// Scatters with blocks from this size on go straight from the root.
    pub scatter_long: u64,
    /// Allgathers whose results are from this size on go round the ring.
    pub allgather_long: u64,
    /// Alltoalls with blocks up to this size are forwarded in log2 size rounds.
    pub alltoall_short: u64,
    /// Reductions of vectors from this size on are cut into pieces.
    pub reduce_long: u64,
    /// Allreduces of vectors from this size on are cut into pieces.
    pub allreduce_long: u64,
    /// Reduce_scatters of vectors from this size on are done pairwise.
    pub reduce_scatter_long: u64,
    /// Barriers, and broadcasts and reductions of up to this size, go through an arena if that has room, or straight to and
    /// from one rank; `None`: no size does. For ranks that take turns on their
    /// processors: what costs time then is how often each has to have its turn.
    pub oversubscribed_max: Option<u64>,
    /// Where ranks share an arena, they meet in it for these.
    pub shm: bool,
    /// Where ranks have a processor each (and [`Thresholds::oversubscribed_max`] is `None`), arenas are flat, and ranks that share one
    /// meet in it where no rank has more bytes in its seat; `None`: no arena is flat.
    pub shm_max: Option<u64>,
    /// How many messages (not bytes) of one collective are under way at once
    /// where each rank deals with all others.
    pub window: u32,
    /// Reductions take their operands in an order that depends on nothing but
    /// the number of ranks.
    pub reproducible: bool,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            bcast_long: 64 << 10,
            gather_long: 8 << 10,
            scatter_long: 8 << 10,
            allgather_long: 64 << 10,
            alltoall_short: 256,
            reduce_long: 64 << 10,
            allreduce_long: 16 << 10,
            reduce_scatter_long: 128 << 10,
            oversubscribed_max: None,
            shm: true,
            shm_max: None,
            window: 32,
            reproducible: false,
        }
    }
}

/// The rules, and what else bears on a schedule.
#[derive(Clone, Debug)]
pub struct Selection {
    rules: Vec<Rule>,
    /// See [`Thresholds::shm_max`].
    shm_max: u64,
    window: u32,
    reproducible: bool,
}

impl Selection {
    /// The table for these thresholds.
    pub fn new(t: &Thresholds) -> Selection {
        use Algorithm::*;
        use CollectiveKind as Of;
        let rule = |kind, bytes, ranks, algorithm| Rule { kind, bytes, ranks, algorithm };
        // From here on it does not matter that ranks take turns.
        let short = t.oversubscribed_max.filter(|_| !t.reproducible);
        let from = short.map_or(0, |short| short.saturating_add(1));
        let mut rules = Vec::new();
        if t.shm && t.oversubscribed_max.is_none() && t.shm_max.is_some() {
            let anyway =
                [Of::Barrier, Of::Bcast, Of::Gather, Of::Scatter, Of::Allgather, Of::Alltoall];
            let reductions = [Of::Reduce, Of::Allreduce, Of::ReduceScatter, Of::ReduceScatterBlock];
            let segment_flags =
                anyway.into_iter().chain(reductions.into_iter().filter(|_| !t.reproducible));
            rules.extend(segment_flags.map(|kind| rule(kind, 0, 0, SegmentFlags)));
        }
        rules.extend([
            rule(Of::Bcast, t.bcast_long.max(from), 4, ScatterRing),
            rule(Of::Bcast, from, 0, Binomial),
            rule(Of::Bcast, 0, 0, SegmentCounter),
            rule(Of::Bcast, 0, 0, Linear),
            rule(Of::Gather, t.gather_long, 0, Linear),
            rule(Of::Gather, 0, 0, Binomial),
            rule(Of::Scatter, t.scatter_long, 0, Linear),
            rule(Of::Scatter, 0, 0, Binomial),
            rule(Of::Allgather, t.allgather_long, 0, Ring),
            rule(Of::Allgather, 0, 0, RecursiveDoubling),
            rule(Of::Allgather, 0, 0, Bruck),
            rule(Of::Allgatherv, t.allgather_long, 0, Ring),
            rule(Of::Allgatherv, 0, 0, Bruck),
            rule(Of::Alltoall, t.alltoall_short.saturating_add(1), 0, Pairwise),
            rule(Of::Alltoall, 0, 5, Bruck),
            rule(Of::Alltoall, 0, 0, Pairwise),
        ]);
        if !t.reproducible {
            rules.extend([
                rule(Of::Reduce, t.reduce_long.max(from), 3, Halving),
                rule(Of::Allreduce, t.allreduce_long.max(from), 3, Ring),
                rule(Of::Allreduce, t.allreduce_long.max(from), 2, Halving),
                rule(Of::Allreduce, from, 0, RecursiveDoubling),
                rule(Of::Allreduce, 0, 0, SegmentCounter),
                rule(Of::Allreduce, 0, 0, Linear),
                rule(Of::ReduceScatter, t.reduce_scatter_long, 0, Pairwise),
                rule(Of::ReduceScatter, 0, 0, Halving),
                rule(Of::ReduceScatterBlock, t.reduce_scatter_long, 0, Pairwise),
                rule(Of::ReduceScatterBlock, 0, 0, Halving),
            ]);
        }
        rules.extend([
            rule(Of::Reduce, from, 0, Binomial),
            rule(Of::Reduce, 0, 0, SegmentCounter),
            rule(Of::Reduce, 0, 0, Linear),
            rule(Of::Allreduce, 0, 0, Ordered),
            rule(Of::ReduceScatter, 0, 0, Ordered),
            rule(Of::ReduceScatterBlock, 0, 0, Ordered),
        ]);
        if short.is_some() {
            rules
                .extend([rule(Of::Barrier, 0, 0, SegmentCounter), rule(Of::Barrier, 0, 0, Linear)]);
        }
        rules.retain(|rule| t.shm && short.is_some() || rule.algorithm != SegmentCounter);
        let shm_max = t.shm_max.unwrap_or(0);
        Selection { rules, shm_max, window: t.window.max(2), reproducible: t.reproducible }
    }

    /// Puts a rule before all others, as a configuration does.
    pub fn prefer(&mut self, rule: Rule) {
        self.rules.insert(0, rule);
    }

    /// The rules, in the order in which they are tried.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// True when an arena would be of use for some calls of an operation.
    pub fn may_use_segment(&self, kind: CollectiveKind) -> bool {
        self.rules.iter().any(|rule| rule.kind == kind && rule.algorithm.uses_segment())
    }

    /// The algorithm for a problem. `has_segment`: the ranks share an arena.
    pub fn choose(&self, args: &CollArgs, pos: Position, has_segment: bool) -> Algorithm {
        let (kind, bytes) = (args.kind(), args.bytes(pos.size));
        let is_short = |algorithm| {
            algorithm != Algorithm::SegmentFlags
                || segment_flags::seated(args, pos.size) <= self.shm_max
        };
        let can = |algorithm: Algorithm| {
            algorithm.can(args, pos)
                && (has_segment || !algorithm.uses_segment())
                && is_short(algorithm)
        };
        let fits = |rule: &&Rule| {
            rule.kind == kind
                && bytes >= rule.bytes
                && pos.size >= rule.ranks
                && can(rule.algorithm)
        };
        self.rules.iter().find(fits).map_or(Algorithm::Only, |rule| rule.algorithm)
    }

    /// This rank's schedule for a problem. `has_segment`: the ranks share an arena.
    pub fn schedule(&self, args: &CollArgs, pos: Position, has_segment: bool) -> Schedule {
        let mut b = Builder::new();
        b.keep_empty(args.is_empty(pos.size));
        self.write(&mut b, args, pos, self.choose(args, pos, has_segment));
        b.finish()
    }

    /// This rank's schedule for a problem between its group and one of `remote`
    /// ranks. There is one algorithm for each operation.
    pub fn schedule_between(&self, args: &CollArgs, pos: Position, remote: u32) -> Schedule {
        let mut b = Builder::new();
        b.limit(self.window);
        inter::write(&mut b, args, pos, remote);
        b.finish()
    }

    /// As [`Selection::schedule_between`], for an allreduce over both groups.
    pub fn schedule_of_both(&self, args: &CollArgs, pos: Position) -> Schedule {
        let mut b = Builder::new();
        if let CollArgs::Allreduce { input, output, .. } = *args {
            inter::allreduce_of_both(&mut b, pos, input, output);
        }
        b.finish()
    }

    fn write(&self, b: &mut Builder, args: &CollArgs, pos: Position, algorithm: Algorithm) {
        match *args {
            _ if algorithm == Algorithm::SegmentFlags => segment_flags::write(b, args, pos),
            CollArgs::Barrier if algorithm == Algorithm::SegmentCounter => {
                segment_counter::barrier(b)
            }
            CollArgs::Barrier if algorithm == Algorithm::Linear => barrier::linear(b, pos),
            CollArgs::Barrier => barrier::dissemination(b, pos),
            CollArgs::Bcast { root, data } => write_bcast(b, algorithm, pos, root, data),
            CollArgs::Gather { root, own, all } if algorithm == Algorithm::Binomial => {
                gather::binomial(b, pos, root, own, all);
            }
            CollArgs::Gather { root, own, all } => {
                b.limit(self.window);
                let all = all.map(|all| all.split(pos.size));
                gather::linear(b, pos, root, own, all.as_deref());
            }
            CollArgs::Gatherv { root, own, all } => {
                b.limit(self.window);
                gather::linear(b, pos, root, own, all);
            }
            CollArgs::Scatter { root, all, own } if algorithm == Algorithm::Binomial => {
                scatter::binomial(b, pos, root, all, own);
            }
            CollArgs::Scatter { root, all, own } => {
                b.limit(self.window);
                let all = all.map(|all| all.split(pos.size));
                scatter::linear(b, pos, root, all.as_deref(), own);
            }
            CollArgs::Scatterv { root, all, own } => {
                b.limit(self.window);
                scatter::linear(b, pos, root, all, own);
            }
            CollArgs::Neighbor { cartesian, sources, into, destinations, out, .. } => {
                neighbor::exchange(b, cartesian, (sources, into), (destinations, out));
            }
            _ => self.write_symmetric(b, args, algorithm, pos),
        }
    }

    /// The operations in which all ranks do the same, and the reductions.
    fn write_symmetric(
        &self,
        b: &mut Builder,
        args: &CollArgs,
        algorithm: Algorithm,
        pos: Position,
    ) {
        match *args {
            CollArgs::Allgather { own, all } => {
                let own = own.unwrap_or_else(|| all.split(pos.size)[pos.rank as usize]);
                match algorithm {
                    Algorithm::RecursiveDoubling => allgather::recursive_doubling(b, pos, own, all),
                    Algorithm::Bruck => allgather::bruck(b, pos, own, &all.split(pos.size)),
                    _ => allgather::ring(b, pos, own, &all.split(pos.size)),
                }
            }
            CollArgs::Allgatherv { own, all } => {
                let own = own.unwrap_or(all[pos.rank as usize]);
                match algorithm {
                    Algorithm::Bruck => allgather::bruck(b, pos, own, all),
                    _ => allgather::ring(b, pos, own, all),
                }
            }
            CollArgs::Alltoall { from, to, .. } => {
                b.limit(self.window);
                match (algorithm, from) {
                    (Algorithm::Bruck, from) => alltoall::bruck(b, pos, from.unwrap_or(to), to),
                    (_, Some(from)) => alltoall::pairwise(b, pos, from, to),
                    (_, None) => alltoall::exchange_in_place(b, pos, to),
                }
            }
            _ => self.write_reduction(b, args, algorithm, pos),
        }
    }

    fn write_reduction(
        &self,
        b: &mut Builder,
        args: &CollArgs,
        algorithm: Algorithm,
        pos: Position,
    ) {
        match *args {
            CollArgs::Reduce { root, input, output, commutative } => {
                let commutative = commutative && !self.reproducible;
                match algorithm {
                    Algorithm::Halving => reduce::halving(b, pos, root, input, output, commutative),
                    Algorithm::Linear => reduce::linear(b, pos, root, input, output),
                    Algorithm::SegmentCounter => {
                        segment_counter::reduce(b, pos, Some(root), input, output)
                    }
                    _ => reduce::binomial(b, pos, root, input, output, commutative),
                }
            }
            CollArgs::Allreduce { input, output, commutative } => match algorithm {
                Algorithm::SegmentCounter => {
                    segment_counter::reduce(b, pos, None, input, Some(output))
                }
                Algorithm::Ring => allreduce::ring(b, pos, input, output),
                Algorithm::Halving => allreduce::halving(b, pos, input, output, commutative),
                Algorithm::RecursiveDoubling => {
                    allreduce::recursive_doubling(b, pos, input, output, commutative)
                }
                Algorithm::Linear => {
                    reduce::linear(b, pos, 0, input, (pos.rank == 0).then_some(output));
                    b.round();
                    bcast::linear(b, pos, 0, output);
                }
                _ => {
                    reduce::binomial(b, pos, 0, input, (pos.rank == 0).then_some(output), false);
                    b.round();
                    let handing_out = CollArgs::Bcast { root: 0, data: output };
                    self.write(b, &handing_out, pos, self.choose(&handing_out, pos, false));
                }
            },
            CollArgs::ReduceScatter { input, counts, output, .. } => match algorithm {
                Algorithm::Halving => reduce_scatter::halving(b, pos, input, counts, output),
                Algorithm::Pairwise => reduce_scatter::pairwise(b, pos, input, counts, output),
                _ => reduce_scatter::ordered(b, pos, input, counts, output),
            },
            CollArgs::Scan { input, output } => scan::inclusive(b, pos, input, output),
            CollArgs::Exscan { input, output } => scan::exclusive(b, pos, input, output),
            _ => debug_assert!(false, "written above"),
        }
    }
}

fn write_bcast(
    b: &mut Builder,
    algorithm: Algorithm,
    pos: Position,
    root: u32,
    data: crate::Extent,
) {
    match algorithm {
        Algorithm::ScatterRing => bcast::scatter_ring(b, pos, root, data),
        Algorithm::Linear => bcast::linear(b, pos, root, data),
        Algorithm::SegmentCounter => segment_counter::bcast(b, pos, root, data),
        _ => bcast::binomial(b, pos, root, data),
    }
}

impl Algorithm {
    /// True when it needs an arena that all ranks share.
    fn uses_segment(self) -> bool {
        matches!(self, Algorithm::SegmentCounter | Algorithm::SegmentFlags)
    }

    /// Whether it can do this problem: the restrictions of each algorithm.
    pub fn can(self, args: &CollArgs, pos: Position) -> bool {
        use Algorithm::*;
        match (args, self) {
            (_, SegmentCounter) => segment_counter::can(args, pos.size),
            (_, SegmentFlags) => segment_flags::can(args, pos.size),
            (CollArgs::Barrier, Linear) => true,
            (CollArgs::Bcast { .. }, Binomial | ScatterRing | Linear) => true,
            (CollArgs::Gather { .. } | CollArgs::Scatter { .. }, Binomial | Linear) => true,
            (CollArgs::Allgather { .. }, RecursiveDoubling) => pos.size.is_power_of_two(),
            (CollArgs::Allgather { .. } | CollArgs::Allgatherv { .. }, Bruck | Ring) => true,
            (CollArgs::Alltoall { kind, .. }, Bruck) => *kind == CollectiveKind::Alltoall,
            (CollArgs::Alltoall { .. }, Pairwise) => true,
            (CollArgs::Reduce { .. }, Binomial | Halving | Linear) => true,
            (CollArgs::Allreduce { .. }, RecursiveDoubling | Halving | Ordered | Linear) => true,
            // Halving moves as little, in fewer rounds, where nothing is folded.
            (CollArgs::Allreduce { .. }, Ring) => args.commutes() && !pos.size.is_power_of_two(),
            (CollArgs::ReduceScatter { .. }, Halving | Pairwise) => args.commutes(),
            (CollArgs::ReduceScatter { .. }, Ordered) => true,
            (_, Only) => true,
            _ => false,
        }
    }
}
