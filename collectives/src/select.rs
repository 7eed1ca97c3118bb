//! Selection: which algorithm writes the schedule.
//!
//! A table of rules, tried in order: the first one whose sizes fit and whose
//! algorithm can do the case is taken. Sizes are what all ranks agree on (see
//! [`Problem::bytes`]), so all of them take the same rule. The table is built
//! from [`Thresholds`], which the runtime fills from its knobs.

use fabric::CollectiveKind;

use crate::algorithms::{
    Seat, allgather, allreduce, alltoall, arena, barrier, bcast, flat, gather, inter, neighbor,
    reduce, reduce_scatter, scan, scatter,
};
use crate::problem::Problem;
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
    CollSegment,
    /// In one that is flat.
    Flat,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For this operation.
    pub kind: CollectiveKind,
    /// From this many bytes ([`Problem::bytes`]) on.
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
    pub crowded_short: Option<u64>,
    /// Where ranks share an arena, they meet in it for these.
    pub arenas: bool,
    /// Where ranks have a processor each (and [`Thresholds::crowded_short`] is `None`), arenas are flat, and ranks that share one
    /// meet in it where no rank has more bytes in its seat; `None`: no arena is flat.
    pub flat_short: Option<u64>,
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
            crowded_short: None,
            arenas: true,
            flat_short: None,
            window: 32,
            reproducible: false,
        }
    }
}

/// The rules, and what else bears on a schedule.
#[derive(Clone, Debug)]
pub struct Selection {
    rules: Vec<Rule>,
    /// See [`Thresholds::flat_short`].
    flat_short: u64,
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
        let short = t.crowded_short.filter(|_| !t.reproducible);
        let from = short.map_or(0, |short| short.saturating_add(1));
        let mut rules = Vec::new();
        if t.arenas && t.crowded_short.is_none() && t.flat_short.is_some() {
            let anyway =
                [Of::Barrier, Of::Bcast, Of::Gather, Of::Scatter, Of::Allgather, Of::Alltoall];
            let reductions = [Of::Reduce, Of::Allreduce, Of::ReduceScatter, Of::ReduceScatterBlock];
            let flat = anyway.into_iter().chain(reductions.into_iter().filter(|_| !t.reproducible));
            rules.extend(flat.map(|kind| rule(kind, 0, 0, Flat)));
        }
        rules.extend([
            rule(Of::Bcast, t.bcast_long.max(from), 4, ScatterRing),
            rule(Of::Bcast, from, 0, Binomial),
            rule(Of::Bcast, 0, 0, CollSegment),
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
                rule(Of::Allreduce, 0, 0, CollSegment),
                rule(Of::Allreduce, 0, 0, Linear),
                rule(Of::ReduceScatter, t.reduce_scatter_long, 0, Pairwise),
                rule(Of::ReduceScatter, 0, 0, Halving),
                rule(Of::ReduceScatterBlock, t.reduce_scatter_long, 0, Pairwise),
                rule(Of::ReduceScatterBlock, 0, 0, Halving),
            ]);
        }
        rules.extend([
            rule(Of::Reduce, from, 0, Binomial),
            rule(Of::Reduce, 0, 0, CollSegment),
            rule(Of::Reduce, 0, 0, Linear),
            rule(Of::Allreduce, 0, 0, Ordered),
            rule(Of::ReduceScatter, 0, 0, Ordered),
            rule(Of::ReduceScatterBlock, 0, 0, Ordered),
        ]);
        if short.is_some() {
            rules.extend([rule(Of::Barrier, 0, 0, CollSegment), rule(Of::Barrier, 0, 0, Linear)]);
        }
        rules.retain(|rule| t.arenas && short.is_some() || rule.algorithm != CollSegment);
        let flat_short = t.flat_short.unwrap_or(0);
        Selection { rules, flat_short, window: t.window.max(2), reproducible: t.reproducible }
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
    pub fn may_meet(&self, kind: CollectiveKind) -> bool {
        self.rules.iter().any(|rule| rule.kind == kind && rule.algorithm.meets())
    }

    /// The algorithm for a problem. `shares`: the ranks share an arena.
    pub fn choose(&self, problem: &Problem, seat: Seat, shares: bool) -> Algorithm {
        let (kind, bytes) = (problem.kind(), problem.bytes(seat.size));
        let is_short = |algorithm| {
            algorithm != Algorithm::Flat || flat::seated(problem, seat.size) <= self.flat_short
        };
        let can = |algorithm: Algorithm| {
            algorithm.can(problem, seat) && (shares || !algorithm.meets()) && is_short(algorithm)
        };
        let fits = |rule: &&Rule| {
            rule.kind == kind
                && bytes >= rule.bytes
                && seat.size >= rule.ranks
                && can(rule.algorithm)
        };
        self.rules.iter().find(fits).map_or(Algorithm::Only, |rule| rule.algorithm)
    }

    /// This rank's schedule for a problem. `shares`: the ranks share an arena.
    pub fn schedule(&self, problem: &Problem, seat: Seat, shares: bool) -> Schedule {
        let mut b = Builder::new();
        b.keep_empty(problem.is_empty(seat.size));
        self.write(&mut b, problem, seat, self.choose(problem, seat, shares));
        b.finish()
    }

    /// This rank's schedule for a problem between its group and one of `remote`
    /// ranks. There is one algorithm for each operation.
    pub fn schedule_between(&self, problem: &Problem, seat: Seat, remote: u32) -> Schedule {
        let mut b = Builder::new();
        b.limit(self.window);
        inter::write(&mut b, problem, seat, remote);
        b.finish()
    }

    /// As [`Selection::schedule_between`], for an allreduce over both groups.
    pub fn schedule_of_both(&self, problem: &Problem, seat: Seat) -> Schedule {
        let mut b = Builder::new();
        if let Problem::Allreduce { input, output, .. } = *problem {
            inter::allreduce_of_both(&mut b, seat, input, output);
        }
        b.finish()
    }

    fn write(&self, b: &mut Builder, problem: &Problem, seat: Seat, algorithm: Algorithm) {
        match *problem {
            _ if algorithm == Algorithm::Flat => flat::write(b, problem, seat),
            Problem::Barrier if algorithm == Algorithm::CollSegment => arena::barrier(b),
            Problem::Barrier if algorithm == Algorithm::Linear => barrier::linear(b, seat),
            Problem::Barrier => barrier::dissemination(b, seat),
            Problem::Bcast { root, data } => write_bcast(b, algorithm, seat, root, data),
            Problem::Gather { root, own, all } if algorithm == Algorithm::Binomial => {
                gather::binomial(b, seat, root, own, all);
            }
            Problem::Gather { root, own, all } => {
                b.limit(self.window);
                let all = all.map(|all| all.split(seat.size));
                gather::linear(b, seat, root, own, all.as_deref());
            }
            Problem::Gatherv { root, own, all } => {
                b.limit(self.window);
                gather::linear(b, seat, root, own, all);
            }
            Problem::Scatter { root, all, own } if algorithm == Algorithm::Binomial => {
                scatter::binomial(b, seat, root, all, own);
            }
            Problem::Scatter { root, all, own } => {
                b.limit(self.window);
                let all = all.map(|all| all.split(seat.size));
                scatter::linear(b, seat, root, all.as_deref(), own);
            }
            Problem::Scatterv { root, all, own } => {
                b.limit(self.window);
                scatter::linear(b, seat, root, all, own);
            }
            Problem::Neighbor { cartesian, sources, into, destinations, out, .. } => {
                neighbor::exchange(b, cartesian, (sources, into), (destinations, out));
            }
            _ => self.write_symmetric(b, problem, algorithm, seat),
        }
    }

    /// The operations in which all ranks do the same, and the reductions.
    fn write_symmetric(
        &self,
        b: &mut Builder,
        problem: &Problem,
        algorithm: Algorithm,
        seat: Seat,
    ) {
        match *problem {
            Problem::Allgather { own, all } => {
                let own = own.unwrap_or_else(|| all.split(seat.size)[seat.rank as usize]);
                match algorithm {
                    Algorithm::RecursiveDoubling => {
                        allgather::recursive_doubling(b, seat, own, all)
                    }
                    Algorithm::Bruck => allgather::bruck(b, seat, own, &all.split(seat.size)),
                    _ => allgather::ring(b, seat, own, &all.split(seat.size)),
                }
            }
            Problem::Allgatherv { own, all } => {
                let own = own.unwrap_or(all[seat.rank as usize]);
                match algorithm {
                    Algorithm::Bruck => allgather::bruck(b, seat, own, all),
                    _ => allgather::ring(b, seat, own, all),
                }
            }
            Problem::Alltoall { from, to, .. } => {
                b.limit(self.window);
                match (algorithm, from) {
                    (Algorithm::Bruck, from) => alltoall::bruck(b, seat, from.unwrap_or(to), to),
                    (_, Some(from)) => alltoall::pairwise(b, seat, from, to),
                    (_, None) => alltoall::exchange_in_place(b, seat, to),
                }
            }
            _ => self.write_reduction(b, problem, algorithm, seat),
        }
    }

    fn write_reduction(
        &self,
        b: &mut Builder,
        problem: &Problem,
        algorithm: Algorithm,
        seat: Seat,
    ) {
        match *problem {
            Problem::Reduce { root, input, output, commutative } => {
                let commutative = commutative && !self.reproducible;
                match algorithm {
                    Algorithm::Halving => {
                        reduce::halving(b, seat, root, input, output, commutative)
                    }
                    Algorithm::Linear => reduce::linear(b, seat, root, input, output),
                    Algorithm::CollSegment => arena::reduce(b, seat, Some(root), input, output),
                    _ => reduce::binomial(b, seat, root, input, output, commutative),
                }
            }
            Problem::Allreduce { input, output, commutative } => match algorithm {
                Algorithm::CollSegment => arena::reduce(b, seat, None, input, Some(output)),
                Algorithm::Ring => allreduce::ring(b, seat, input, output),
                Algorithm::Halving => allreduce::halving(b, seat, input, output, commutative),
                Algorithm::RecursiveDoubling => {
                    allreduce::recursive_doubling(b, seat, input, output, commutative)
                }
                Algorithm::Linear => {
                    reduce::linear(b, seat, 0, input, (seat.rank == 0).then_some(output));
                    b.round();
                    bcast::linear(b, seat, 0, output);
                }
                _ => {
                    reduce::binomial(b, seat, 0, input, (seat.rank == 0).then_some(output), false);
                    b.round();
                    let handing_out = Problem::Bcast { root: 0, data: output };
                    self.write(b, &handing_out, seat, self.choose(&handing_out, seat, false));
                }
            },
            Problem::ReduceScatter { input, counts, output, .. } => match algorithm {
                Algorithm::Halving => reduce_scatter::halving(b, seat, input, counts, output),
                Algorithm::Pairwise => reduce_scatter::pairwise(b, seat, input, counts, output),
                _ => reduce_scatter::ordered(b, seat, input, counts, output),
            },
            Problem::Scan { input, output } => scan::inclusive(b, seat, input, output),
            Problem::Exscan { input, output } => scan::exclusive(b, seat, input, output),
            _ => debug_assert!(false, "written above"),
        }
    }
}

fn write_bcast(b: &mut Builder, algorithm: Algorithm, seat: Seat, root: u32, data: crate::Run) {
    match algorithm {
        Algorithm::ScatterRing => bcast::scatter_ring(b, seat, root, data),
        Algorithm::Linear => bcast::linear(b, seat, root, data),
        Algorithm::CollSegment => arena::bcast(b, seat, root, data),
        _ => bcast::binomial(b, seat, root, data),
    }
}

impl Algorithm {
    /// True when it needs an arena that all ranks share.
    fn meets(self) -> bool {
        matches!(self, Algorithm::CollSegment | Algorithm::Flat)
    }

    /// Whether it can do this problem: the restrictions of each algorithm.
    pub fn can(self, problem: &Problem, seat: Seat) -> bool {
        use Algorithm::*;
        match (problem, self) {
            (_, CollSegment) => arena::can(problem, seat.size),
            (_, Flat) => flat::can(problem, seat.size),
            (Problem::Barrier, Linear) => true,
            (Problem::Bcast { .. }, Binomial | ScatterRing | Linear) => true,
            (Problem::Gather { .. } | Problem::Scatter { .. }, Binomial | Linear) => true,
            (Problem::Allgather { .. }, RecursiveDoubling) => seat.size.is_power_of_two(),
            (Problem::Allgather { .. } | Problem::Allgatherv { .. }, Bruck | Ring) => true,
            (Problem::Alltoall { kind, .. }, Bruck) => *kind == CollectiveKind::Alltoall,
            (Problem::Alltoall { .. }, Pairwise) => true,
            (Problem::Reduce { .. }, Binomial | Halving | Linear) => true,
            (Problem::Allreduce { .. }, RecursiveDoubling | Halving | Ordered | Linear) => true,
            // Halving moves as little, in fewer rounds, where nothing is folded.
            (Problem::Allreduce { .. }, Ring) => problem.commutes() && !seat.size.is_power_of_two(),
            (Problem::ReduceScatter { .. }, Halving | Pairwise) => problem.commutes(),
            (Problem::ReduceScatter { .. }, Ordered) => true,
            (_, Only) => true,
            _ => false,
        }
    }
}
