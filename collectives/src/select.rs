//! Selection: which algorithm writes the schedule.
//!
//! A table of rules, tried in order: the first rule whose sizes fit and whose algorithm can do the
//! call is taken. Sizes are what all ranks agree on ([`CollArgs::bytes`]); therefore all of them
//! take the same rule. The table is built from [`Thresholds`].

use fabric::CollectiveKind;

use crate::algorithm::{Algorithm, Limits};
use crate::algorithms::{inter, segment_counter, segment_flags, segment_long, segment_pieces};
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::compositions::{self, Stages};
use crate::position::Position;
use crate::schedule::Schedule;
use crate::shape::{Extent, Shape, Space, Ty};
use crate::thresholds::{HostSegment, SegmentUse, Thresholds};
use crate::topology::Level;

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For this operation.
    pub kind: CollectiveKind,
    /// From this many bytes ([`CollArgs::bytes`]) on.
    pub bytes: u64,
    /// From this many bytes on of all ranks of a host that are in stages like this one.
    pub host_bytes: u64,
    /// From this many bytes on for each rank.
    pub rank_bytes: u64,
    /// From this many ranks on.
    pub ranks: u32,
    /// From this many hosts on.
    pub hosts: u32,
    /// From this many ranks on each host on, on average.
    pub ranks_per_host: u32,
    /// For ranks that are split at this level, if it is given: for compositions.
    pub level: Option<Level>,
    /// Take this algorithm, if it can do the call.
    pub algorithm: Algorithm,
}

impl Rule {
    /// A rule without conditions.
    pub const fn new(kind: CollectiveKind, algorithm: Algorithm) -> Rule {
        Rule {
            kind,
            bytes: 0,
            host_bytes: 0,
            rank_bytes: 0,
            ranks: 0,
            hosts: 0,
            ranks_per_host: 0,
            level: None,
            algorithm,
        }
    }
}

/// The rules, and what else bears on a schedule.
#[derive(Clone, Debug)]
pub struct Selection {
    rules: Vec<Rule>,
    /// See [`Thresholds::shm_max`].
    shm_max: u64,
    /// See [`Thresholds::shm_pieces_max`].
    shm_pieces_max: u64,
    /// See [`Thresholds::oversubscribed_max`].
    oversubscribed_max: u64,
    /// See [`Thresholds::host_segment`].
    host_segment: Option<HostSegment>,
    /// See [`Builder::announce_above`].
    announce_above: Option<u64>,
    limits: Limits,
    /// For communicators on this host alone, in a job over several hosts; `None`: no other rules.
    one_host: Option<Box<Selection>>,
    /// For communicators with members of several jobs; `None`: no other rules.
    several_jobs: Option<Box<Selection>>,
}

impl Selection {
    /// The table for these thresholds.
    pub fn new(t: &Thresholds) -> Selection {
        let max = t.oversubscribed_max.filter(|_| !t.reproducible);
        // From this size on it does not matter that ranks share processors.
        let from = max.map_or(0, |max| max.saturating_add(1));
        let mut rules = Vec::new();
        rules_of_compositions(t, &mut rules);
        rules_of_flags(t, &mut rules);
        rules_of_data(t, from, &mut rules);
        rules_of_reductions(t, from, &mut rules);
        if max.is_some() {
            let algorithms = [Algorithm::SegmentRoot, Algorithm::SegmentCounter, Algorithm::Linear];
            rules.extend(algorithms.map(|by| rule(CollectiveKind::Barrier, 0, 0, by)));
        }
        let has_counter = t.shm && max.is_some();
        let counts =
            |algorithm| matches!(algorithm, Algorithm::SegmentCounter | Algorithm::SegmentRoot);
        rules.retain(|rule| has_counter || !counts(rule.algorithm));
        let limits = Limits {
            window: t.window.max(2),
            reproducible: t.reproducible,
            radix: t.radix.max(2),
            piece: t.piece,
            has_flags: max.is_none(),
        };
        let host_segment = t.host_segment.filter(|_| t.shm);
        Selection {
            rules,
            shm_max: t.shm_max.unwrap_or(0),
            shm_pieces_max: t.shm_pieces_max,
            oversubscribed_max: max.unwrap_or(0),
            host_segment,
            announce_above: t.oversubscribed_max.map(|_| AT_ONCE),
            limits,
            one_host: t.of_one_host().map(|t| Box::new(Selection::new(&t))),
            several_jobs: t.of_several_jobs().map(|t| Box::new(Selection::new(&t))),
        }
    }

    /// Puts a rule before all others, as a configuration does.
    pub fn prefer(&mut self, rule: Rule) {
        self.prefer_all(vec![rule]);
    }

    /// Puts rules before all others, in their order.
    pub fn prefer_all(&mut self, rules: Vec<Rule>) {
        for other in [&mut self.one_host, &mut self.several_jobs].into_iter().flatten() {
            other.prefer_all(rules.clone());
        }
        self.rules.splice(0..0, rules);
    }

    /// The rules, in the order in which they are tried.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// True when some calls of an operation use a collective segment: that of all ranks, or where
    /// `pos` has levels, of the ranks of one host.
    pub fn may_use_segment(&self, kind: CollectiveKind, pos: Position) -> bool {
        if pos.host_members().is_some() {
            let is_composed = |rule: &Rule| rule.kind == kind && rule.algorithm.is_composition();
            return self.host_segment.is_some() && self.rules.iter().any(is_composed);
        }
        let is_on_one_host = pos.hosts() == 1;
        is_on_one_host
            && self
                .of_call(pos)
                .rules
                .iter()
                .any(|rule| rule.kind == kind && rule.algorithm.uses_segment())
    }

    /// The algorithm for a call. `segment`: what it may use the segment of its ranks for.
    pub fn choose(
        &self,
        args: &CollArgs,
        pos: Position,
        segment: impl Into<SegmentUse>,
    ) -> Algorithm {
        let (kind, bytes, segment) = (args.kind(), args.bytes(pos.size), segment.into());
        let is_short = |algorithm| match algorithm {
            // Two ranks copy messages in both directions at once.
            Algorithm::SegmentFlags => {
                let is_exchange = segment_flags::exchanged_bytes(args, pos.size) > self.shm_max / 2;
                segment_flags::slot_bytes(args, pos.size) <= self.shm_max
                    && !(pos.size == 2 && is_exchange)
            }
            Algorithm::SegmentCounter => {
                segment_counter::slot_bytes(args, pos.size) <= self.counter_max(kind, pos.size)
            }
            Algorithm::SegmentPieces if self.limits.has_flags => {
                segment_pieces::can(args, pos.size) && bytes <= self.shm_pieces_max
            }
            Algorithm::SegmentPieces => {
                segment_counter::can_in_pieces(args, pos.size)
                    && segment_counter::pieces(args, pos.size) <= pieces_max(kind)
                    && bytes <= self.oversubscribed_max.saturating_mul(LONGEST)
            }
            _ => true,
        };
        let may_use = |algorithm| match segment {
            SegmentUse::Nothing => false,
            SegmentUse::Gets => true,
            // Rank 0 may compute when the last one has arrived.
            SegmentUse::FewRounds => !matches!(
                algorithm,
                Algorithm::SegmentPieces | Algorithm::SegmentRoot | Algorithm::SegmentGet
            ),
            SegmentUse::Anything => algorithm != Algorithm::SegmentGet,
        };
        // Over several hosts the segment is that of the ranks of one; compositions use it.
        let is_on_one_host = pos.hosts() == 1;
        // Rules of a configuration give way to it.
        let must_reproduce = self.limits.reproducible && args.reduces();
        let can = |algorithm: Algorithm| {
            algorithm.can(args, pos)
                && (!must_reproduce || algorithm.is_reproducible())
                && (!algorithm.uses_segment() || is_on_one_host && may_use(algorithm))
                && is_short(algorithm)
        };
        let fits = |rule: &&Rule| {
            rule.kind == kind
                && bytes >= rule.bytes
                && bytes.saturating_mul(pos.lanes().into()) >= rule.host_bytes
                && bytes / u64::from(pos.size) >= rule.rank_bytes
                && pos.size >= rule.ranks
                && pos.hosts() >= rule.hosts
                && pos.size / pos.hosts().max(1) >= rule.ranks_per_host
                && rule.level.is_none_or(|at| pos.levels().is_some_and(|by| by.level() == at))
                && can(rule.algorithm)
        };
        self.rules.iter().find(fits).map_or(Algorithm::Only, |rule| rule.algorithm)
    }

    /// Returns the most bytes of a rank in a segment whose members count in one word. A rank that
    /// gives the same to all writes it once, where messages copy it for each. A block for each rank
    /// goes through a segment once more than by a message, which pays where messages are many.
    fn counter_max(&self, kind: CollectiveKind, ranks: u32) -> u64 {
        let times = match kind {
            CollectiveKind::Bcast => 4,
            CollectiveKind::Scatter => 3,
            CollectiveKind::Gather | CollectiveKind::Allgather => 8,
            CollectiveKind::Alltoall if ranks >= CROWD => 4,
            _ => 1,
        };
        self.oversubscribed_max.saturating_mul(times)
    }

    /// The selection for communicators with members of several jobs.
    pub(crate) fn of_several_jobs(&self) -> &Selection {
        self.several_jobs.as_deref().unwrap_or(self)
    }

    /// The selection for a communicator: that of one host where all its ranks are on one.
    fn of_call(&self, pos: Position) -> &Selection {
        self.one_host.as_deref().filter(|_| pos.hosts() == 1).unwrap_or(self)
    }

    /// This rank's schedule for a call. `segment`: what it may use the segment of its ranks for.
    pub fn schedule(
        &self,
        args: &CollArgs,
        pos: Position,
        segment: impl Into<SegmentUse>,
    ) -> Schedule {
        let mut b = Builder::new();
        b.keep_empty(args.is_empty(pos.size));
        let selection = self.of_call(pos);
        b.announce_above(selection.announce_above);
        selection.write_call(&mut b, args, pos, segment.into());
        b.finish()
    }

    /// Writes a stage, or all of a schedule, by the algorithm that the rules give.
    fn write_call(&self, b: &mut Builder, args: &CollArgs, pos: Position, segment: SegmentUse) {
        match self.choose(args, pos, segment) {
            algorithm if algorithm.is_composition() => {
                compositions::write(algorithm, b, args, pos, (self, segment));
            }
            algorithm => self.write(algorithm, b, args, pos),
        }
    }

    /// Writes a stage, or all of a schedule, by an algorithm that is no composition.
    fn write(&self, algorithm: Algorithm, b: &mut Builder, args: &CollArgs, pos: Position) {
        algorithm.write(b, args, pos, self.limits);
        if let (CollArgs::Allreduce { output, .. }, Algorithm::Ordered | Algorithm::Only) =
            (*args, algorithm)
        {
            b.round();
            let bcast = CollArgs::Bcast { root: 0, data: output };
            self.write_call(b, &bcast, pos, SegmentUse::Nothing);
        }
    }

    /// The algorithm for a stage in the segment of a host, where the communicator has other hosts
    /// as well; `None` if the stage uses messages.
    fn choose_in_host_segment(&self, args: &CollArgs, pos: Position) -> Option<Algorithm> {
        match self.host_segment? {
            HostSegment::Counter { max } => {
                let fits = args.bytes(pos.size) <= max
                    && segment_counter::can_without_long_slots(args, pos.size);
                fits.then_some(Algorithm::SegmentCounter)
            }
            HostSegment::Flags { max } => {
                let fits = segment_flags::can(args, pos.size)
                    && segment_flags::slot_bytes(args, pos.size) <= max;
                fits.then_some(Algorithm::SegmentFlags)
            }
        }
    }

    /// Describes the choice for an operation that commutes: the algorithms by the sizes from which
    /// on they are taken, `first` for the least one. `None` where there is no choice.
    pub fn describe(
        &self,
        kind: CollectiveKind,
        pos: Position,
        segment: impl Into<SegmentUse>,
        show: impl Fn(u64) -> String,
    ) -> Option<String> {
        let segment = segment.into();
        let at =
            |bytes| with_args_of(kind, bytes, pos.size, |args| self.choose(args, pos, segment));
        let mut chosen = at(8)?;
        let mut text = chosen.name().to_owned();
        let mut low = 8;
        for high in (4..=26).map(|bit| 1u64 << bit) {
            // There may be several changes on the way.
            while at(high) != Some(chosen) {
                let (mut below, mut from) = (low, high);
                while from - below > 8 {
                    let middle = (below + from) / 16 * 8;
                    if at(middle) == Some(chosen) {
                        below = middle;
                    } else {
                        from = middle;
                    }
                }
                (chosen, low) = (at(from)?, from);
                text += &format!(", from {} {}", show(from), chosen.name());
            }
            low = high;
        }
        Some(text)
    }

    /// This rank's schedule for a call between its group and one of `remote` ranks. Each operation
    /// has one algorithm.
    pub fn schedule_between(&self, args: &CollArgs, pos: Position, remote: u32) -> Schedule {
        let mut b = Builder::new();
        b.limit(self.limits.window);
        inter::write(&mut b, args, pos, remote);
        b.finish()
    }

    /// This rank's schedule for an allreduce over both groups of an intercommunicator.
    pub fn schedule_of_both(&self, args: &CollArgs, pos: Position) -> Schedule {
        let mut b = Builder::new();
        if let CollArgs::Allreduce { input, output, .. } = *args {
            inter::allreduce_of_both(&mut b, pos, input, output);
        }
        b.finish()
    }
}

/// Calls `then` with a call of rank 0 in which the size that selection goes by is `bytes`, or the
/// next one that the operation can have; `None` for kinds without a choice.
fn with_args_of<R>(
    kind: CollectiveKind,
    bytes: u64,
    size: u32,
    then: impl FnOnce(&CollArgs) -> R,
) -> Option<R> {
    use CollectiveKind as Of;
    let run = |space, bytes| Extent::new(space, Ty::BYTES, bytes, Shape::BYTE);
    let [send, recv] = [Space::Send, Space::Recv].map(|space| run(space, bytes));
    let n = u64::from(size);
    let each = bytes / n;
    let (root, commutative) = (0, true);
    Some(match kind {
        Of::Barrier => then(&CollArgs::Barrier),
        Of::Bcast => then(&CollArgs::Bcast { root, data: recv }),
        Of::Gather => then(&CollArgs::Gather {
            root,
            own: Some(send),
            all: Some(run(Space::Recv, n * bytes)),
        }),
        Of::Scatter => then(&CollArgs::Scatter {
            root,
            own: Some(recv),
            all: Some(run(Space::Send, n * bytes)),
        }),
        Of::Allgather => then(&CollArgs::Allgather {
            own: Some(run(Space::Send, each)),
            all: run(Space::Recv, each * n),
        }),
        Of::Alltoall => {
            let (from, to) = (run(Space::Send, n * bytes), run(Space::Recv, n * bytes));
            let (from, to) = (from.split(size), to.split(size));
            then(&CollArgs::Alltoall { kind, from: Some(&from), to: &to })
        }
        Of::Reduce => {
            then(&CollArgs::Reduce { root, input: send, output: Some(recv), commutative })
        }
        Of::Allreduce => then(&CollArgs::Allreduce { input: send, output: recv, commutative }),
        Of::ReduceScatterBlock => then(&CollArgs::ReduceScatter {
            kind,
            input: run(Space::Send, each * n),
            counts: &vec![each; size as usize],
            output: run(Space::Recv, each),
            commutative,
        }),
        Of::Scan => then(&CollArgs::Scan { input: send, output: recv }),
        _ => return None,
    })
}

impl Stages for Selection {
    fn radix(&self) -> u32 {
        self.limits.radix
    }

    fn piece(&self) -> u64 {
        self.limits.piece
    }

    fn write_by_messages(&self, b: &mut Builder, args: &CollArgs, pos: Position) {
        self.write_call(b, args, pos, SegmentUse::Nothing);
    }

    fn await_last_in_segment(&self, b: &mut Builder, pos: Position, many: u32) -> bool {
        let has_flags = matches!(self.host_segment, Some(HostSegment::Flags { .. }));
        if has_flags {
            b.segment_stage();
            segment_flags::await_last(b, pos.size, many);
            b.round();
        }
        has_flags
    }

    fn write_in_segment(&self, b: &mut Builder, args: &CollArgs, pos: Position) -> bool {
        let algorithm = self.choose_in_host_segment(args, pos);
        if let Some(algorithm) = algorithm {
            b.segment_stage();
            match algorithm {
                Algorithm::SegmentFlags if segment_flags::takes_two_rounds(args, pos.size) => {
                    segment_flags::write_in_two_rounds(b, args, pos);
                }
                _ => self.write(algorithm, b, args, pos),
            }
            b.round();
        }
        algorithm.is_some()
    }

    fn write_long_in_segment(&self, b: &mut Builder, args: &CollArgs, pos: Position) -> bool {
        let has_flags = matches!(self.host_segment, Some(HostSegment::Flags { .. }));
        let is_long = has_flags
            && args.bytes(pos.size) <= self.shm_pieces_max
            && segment_long::can(args, pos.size)
            && self.choose_in_host_segment(args, pos).is_none();
        if is_long {
            segment_long::write(b, args, pos);
            b.round();
        }
        is_long
    }
}

fn rule(kind: CollectiveKind, bytes: u64, ranks: u32, algorithm: Algorithm) -> Rule {
    Rule { bytes, ranks, ..Rule::new(kind, algorithm) }
}

/// With so many hosts, the rounds of a fan are fewer than those of leaders.
const FAN_HOSTS: u32 = 4;

/// From so many bytes on, with so many hosts and ranks on each, the stages of lanes take longer one
/// after the other.
const PIPELINED_MIN: u64 = 256 << 10;
const PIPELINED_HOSTS: u32 = 16;
const PIPELINED_RANKS: u32 = 16;

/// Compositions over hosts.
fn rules_of_compositions(t: &Thresholds, rules: &mut Vec<Rule>) {
    use Algorithm::{Fan, Lanes, Leaders, Linear, PipelinedLanes, Scattered};
    use CollectiveKind as Of;
    if !t.hierarchical {
        return;
    }
    let level = Some(Level::Host);
    let over_hosts = |kind, bytes, algorithm| Rule { level, ..rule(kind, bytes, 0, algorithm) };
    let over_many = |kind, bytes, algorithm| Rule {
        hosts: FAN_HOSTS,
        ranks_per_host: 2,
        ..over_hosts(kind, bytes, algorithm)
    };
    let pipelined = |kind| Rule {
        hosts: PIPELINED_HOSTS,
        ranks_per_host: PIPELINED_RANKS,
        ..over_hosts(kind, t.lanes_min.max(PIPELINED_MIN), PipelinedLanes)
    };
    let longer = t.fan_max.saturating_add(1);
    rules.extend([
        over_many(Of::Barrier, 0, Fan),
        over_hosts(Of::Barrier, 0, Leaders),
        pipelined(Of::Bcast),
        over_hosts(Of::Bcast, t.lanes_min, Lanes),
        over_many(Of::Bcast, longer, Leaders),
        over_many(Of::Bcast, 0, Fan),
        over_hosts(Of::Bcast, 0, Leaders),
        over_hosts(Of::Gather, t.gather_long, Linear),
        over_hosts(Of::Gather, 0, Leaders),
        over_hosts(Of::Scatter, t.scatter_long, Linear),
        over_hosts(Of::Scatter, 0, Leaders),
        over_hosts(Of::Alltoall, t.alltoall_short.saturating_add(1), Scattered),
        over_hosts(Of::Alltoall, 0, Lanes),
        over_hosts(Of::Alltoall, 0, Leaders),
    ]);
    for kind in [Of::Allgather, Of::Allgatherv] {
        // A lane has a step for each host, which pays where each host gives enough.
        rules.push(Rule { hosts: MANY, ..over_hosts(kind, 0, Leaders) });
        for (hosts, long) in [(64, 64 * LANE_MIN), (32, 32 * LANE_MIN), (0, 16 * LANE_MIN)] {
            rules.push(Rule { hosts, ..over_hosts(kind, long, Lanes) });
            rules.push(Rule { hosts, ..over_hosts(kind, 0, Leaders) });
        }
    }
    if !t.reproducible {
        rules.extend([
            pipelined(Of::Reduce),
            over_hosts(Of::Reduce, t.lanes_min, Lanes),
            over_hosts(Of::Reduce, 0, Leaders),
            pipelined(Of::Allreduce),
            over_hosts(Of::Allreduce, t.lanes_min, Lanes),
            over_many(Of::Allreduce, longer, Leaders),
            over_many(Of::Allreduce, 0, Fan),
            over_hosts(Of::Allreduce, 0, Leaders),
            over_hosts(Of::ReduceScatter, t.lanes_min, Lanes),
            over_hosts(Of::ReduceScatter, 0, Leaders),
            over_hosts(Of::ReduceScatterBlock, t.lanes_min, Lanes),
            over_hosts(Of::ReduceScatterBlock, 0, Leaders),
            over_hosts(Of::Scan, 0, Leaders),
            over_hosts(Of::Exscan, 0, Leaders),
        ]);
    }
}

/// A rule for several hosts, where latency counts.
fn between_hosts(kind: CollectiveKind, algorithm: Algorithm) -> Rule {
    Rule { hosts: 2, ..rule(kind, 0, 0, algorithm) }
}

/// Segments with flags, where each rank has a processor.
fn rules_of_flags(t: &Thresholds, rules: &mut Vec<Rule>) {
    use CollectiveKind::*;
    if !t.shm || t.oversubscribed_max.is_some() || t.shm_max.is_none() {
        return;
    }
    let reductions = [Reduce, Allreduce, ReduceScatter, ReduceScatterBlock];
    let kinds = [Barrier, Bcast, Gather, Scatter, Allgather, Allgatherv, Alltoall]
        .into_iter()
        .chain(reductions.into_iter().filter(|_| !t.reproducible));
    rules.extend(kinds.map(|kind| rule(kind, 0, 0, Algorithm::SegmentFlags)));
    if !t.reproducible {
        rules.push(rule(Allreduce, 0, 0, Algorithm::SegmentPieces));
    }
    // Of longer messages both sides copy a half. Two ranks measure whether to get them.
    let end = t.get_min.saturating_mul(4);
    rules.extend([
        Rule { rank_bytes: end, ..rule(Allgather, t.allgather_long, 0, Algorithm::Ring) },
        rule(Alltoall, end, 0, Algorithm::Scattered),
        Rule { ranks: 3, rank_bytes: t.get_min, ..rule(Allgather, 0, 0, Algorithm::SegmentGet) },
        Rule { ranks: 3, ..rule(Alltoall, t.get_min, 0, Algorithm::SegmentGet) },
    ]);
}

/// Bytes that a broadcast takes to each of many hosts from which on it is scattered first.
const SCATTER_MIN: u64 = 32 << 10;
/// Where ranks share processors: vectors of up to so many times
/// [`Thresholds::oversubscribed_max`] go through the segment in pieces.
const LONGEST: u64 = 256;
/// Bytes that a rank may exchange at once, where ranks share processors, by messages that are not
/// announced. The receivers of more run when all of it is written, and find it in no cache.
const AT_ONCE: u64 = 192 << 10;
/// Ranks that share processors from which on an exchange by messages takes much longer than one
/// that each of them joins twice.
const CROWD: u32 = 8;
/// Ranks from which on none of them sends to all others: each would need a connection.
const MANY: u32 = 129;
/// Bytes of each of many hosts from which on an allgather goes by lanes.
const LANE_MIN: u64 = 512;
/// Bytes of the part of each of several hosts from which on all send theirs straight to each other.
const PART_MIN: u64 = 4 << 10;
/// Bytes of the part of each of many hosts from which on parts go round the ring: then bytes
/// count more than rounds.
const RING_MIN: u64 = 16 << 10;
/// Bytes of a vector from which on several hosts reduce it in parts.
const HALVING_MIN: u64 = 8 << 10;

/// Returns the most pieces of a call: with more, ranks wait for each other more often than for
/// messages. Of two pieces, a rank that only gives leaves at once.
fn pieces_max(kind: CollectiveKind) -> u64 {
    if kind == CollectiveKind::Gather { 2 } else { 4 }
}

/// Operations that move data.
fn rules_of_data(t: &Thresholds, from: u64, rules: &mut Vec<Rule>) {
    use Algorithm::*;
    use CollectiveKind as Of;
    rules.extend([
        // A tree would send a vector many times through the adapter of each host.
        Rule { ranks: MANY, host_bytes: SCATTER_MIN, ..between_hosts(Of::Bcast, ScatterDoubling) },
        Rule { ranks: MANY, rank_bytes: PART_MIN, ..between_hosts(Of::Bcast, ScatterRing) },
        Rule { ranks: 9, rank_bytes: PART_MIN, ..between_hosts(Of::Bcast, Scattered) },
        Rule { ranks: 9, host_bytes: SCATTER_MIN, ..between_hosts(Of::Bcast, ScatterDoubling) },
        Rule { ranks: 3, host_bytes: SCATTER_MIN, ..between_hosts(Of::Bcast, Scattered) },
        rule(Of::Bcast, 0, 0, SegmentCounter),
        rule(Of::Bcast, from, 0, SegmentPieces),
        rule(Of::Bcast, t.bcast_long.max(from), 4, ScatterRing),
        between_hosts(Of::Barrier, Radix),
        between_hosts(Of::Bcast, Radix),
        rule(Of::Bcast, from, 0, Binomial),
        rule(Of::Bcast, 0, 0, Linear),
        rule(Of::Gather, 0, 0, SegmentCounter),
        rule(Of::Gather, from, 0, SegmentPieces),
        rule(Of::Scatter, 0, 0, SegmentCounter),
        rule(Of::Allgather, 0, 0, SegmentCounter),
        rule(Of::Alltoall, 0, 0, SegmentCounter),
    ]);
    rules.extend([
        rule(Of::Gather, t.gather_long, 0, Linear),
        rule(Of::Scatter, t.scatter_long, 0, Linear),
    ]);
    for kind in [Of::Gather, Of::Scatter] {
        rules.extend([
            Rule { ranks: 33, ..between_hosts(kind, Radix) },
            // So few that the root sends to all before a tree would have passed blocks on.
            Rule { bytes: 1 << 10, ..between_hosts(kind, Linear) },
            Rule { ranks: 9, ..between_hosts(kind, Radix) },
            between_hosts(kind, Linear),
            rule(kind, 0, 0, Binomial),
        ]);
    }
    for kind in [Of::Allgather, Of::Allgatherv] {
        rules.extend([
            Rule { bytes: t.allgather_long, ranks: MANY, ..between_hosts(kind, Ring) },
            Rule { bytes: 48 << 10, ranks: 17, ..between_hosts(kind, Scattered) },
            Rule { bytes: 8 << 10, ranks: 17, ..between_hosts(kind, RecursiveDoubling) },
            Rule { bytes: 8 << 10, ranks: 17, ..between_hosts(kind, Bruck) },
            Rule { ranks: 17, ..between_hosts(kind, Radix) },
            Rule { bytes: 8 << 10, ranks: 9, ..between_hosts(kind, Scattered) },
            Rule { ranks: 9, ..between_hosts(kind, Radix) },
            between_hosts(kind, Scattered),
        ]);
    }
    rules.extend([
        rule(Of::Allgather, t.allgather_long, 0, Ring),
        rule(Of::Allgather, 0, 0, RecursiveDoubling),
        rule(Of::Allgather, 0, 0, Bruck),
        rule(Of::Allgatherv, t.allgather_long, 0, Ring),
        rule(Of::Allgatherv, 0, 3, Bruck),
        // Two ranks exchange their blocks, straight from buffer to buffer.
        rule(Of::Allgatherv, 0, 0, Ring),
        rule(Of::Alltoall, t.alltoall_short.saturating_add(1), 0, Scattered),
        Rule { ranks: 9, ..between_hosts(Of::Alltoall, Radix) },
        between_hosts(Of::Alltoall, Scattered),
        rule(Of::Alltoall, 0, 5, Bruck),
        rule(Of::Alltoall, 0, 0, Scattered),
    ]);
}

/// Operations that reduce.
fn rules_of_reductions(t: &Thresholds, from: u64, rules: &mut Vec<Rule>) {
    use Algorithm::*;
    use CollectiveKind as Of;
    if !t.reproducible {
        for (kind, part_min) in [(Of::Reduce, PART_MIN), (Of::Allreduce, 1 << 10)] {
            rules.extend([
                Rule { ranks: MANY, rank_bytes: RING_MIN, ..between_hosts(kind, Ring) },
                Rule { ranks: MANY, bytes: HALVING_MIN, ..between_hosts(kind, Halving) },
                Rule { ranks: MANY, ..between_hosts(kind, Radix) },
                Rule { ranks: 17, rank_bytes: PART_MIN, ..between_hosts(kind, Scattered) },
                Rule { ranks: 17, bytes: HALVING_MIN, ..between_hosts(kind, Halving) },
                Rule { ranks: 17, ..between_hosts(kind, Radix) },
                Rule { ranks: 9, rank_bytes: 1 << 10, ..between_hosts(kind, Scattered) },
                Rule { ranks: 9, bytes: HALVING_MIN, ..between_hosts(kind, Halving) },
                Rule { ranks: 9, ..between_hosts(kind, Radix) },
                Rule { bytes: part_min, ..between_hosts(kind, Scattered) },
                Rule { bytes: HALVING_MIN, ..between_hosts(kind, Halving) },
                between_hosts(kind, Radix),
            ]);
        }
        if from > 0 {
            // Ranks that share processors would wait for each other in each step.
            rules.extend([
                rule(Of::Reduce, 0, 0, SegmentCounter),
                rule(Of::Reduce, 0, 0, SegmentPieces),
                rule(Of::Reduce, from, 0, Linear),
                rule(Of::Allreduce, 0, 0, SegmentCounter),
                rule(Of::Allreduce, 0, 0, SegmentPieces),
                rule(Of::ReduceScatter, 0, 0, SegmentPieces),
                rule(Of::ReduceScatterBlock, 0, 0, SegmentPieces),
            ]);
        }
        rules.extend([
            rule(Of::Reduce, t.reduce_long.max(from), 3, Ring),
            rule(Of::Reduce, t.reduce_long.max(from), 3, Halving),
            rule(Of::Allreduce, t.allreduce_long.max(from), 3, Ring),
            rule(Of::Allreduce, t.allreduce_long.max(from), 2, Halving),
            rule(Of::Allreduce, from, 0, RecursiveDoubling),
            rule(Of::Allreduce, 0, 0, Linear),
        ]);
        for kind in [Of::ReduceScatter, Of::ReduceScatterBlock] {
            rules.extend([
                Rule { ranks: MANY, rank_bytes: RING_MIN / 2, ..between_hosts(kind, Pairwise) },
                Rule { ranks: MANY, bytes: 1 << 10, ..between_hosts(kind, Halving) },
                Rule { ranks: 17, rank_bytes: PART_MIN, ..between_hosts(kind, Scattered) },
                Rule { ranks: 17, bytes: 1 << 10, ..between_hosts(kind, Halving) },
                Rule { ranks: 17, ..between_hosts(kind, Radix) },
                Rule { ranks: 9, bytes: 2 << 10, ..between_hosts(kind, Scattered) },
                Rule { ranks: 9, ..between_hosts(kind, Radix) },
                between_hosts(kind, Scattered),
                Rule { bytes: 1 << 10, ..between_hosts(kind, Ordered) },
                between_hosts(kind, Radix),
                rule(kind, t.reduce_scatter_long, 0, Pairwise),
                rule(kind, 0, 0, Halving),
            ]);
        }
    }
    rules.extend([
        rule(Of::Reduce, from, 0, Binomial),
        rule(Of::Reduce, 0, 0, Linear),
        rule(Of::Allreduce, 0, 0, Ordered),
        rule(Of::ReduceScatter, 0, 0, Ordered),
        rule(Of::ReduceScatterBlock, 0, 0, Ordered),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_share_processors_announce_what_they_exchange_at_once() {
        let shared = Thresholds { oversubscribed_max: Some(64 << 10), ..Thresholds::default() };
        let announces = |thresholds: &Thresholds, kind, block: u64| {
            let announces = |args: &CollArgs| {
                let (pos, nothing) = (Position::new(0, 4), SegmentUse::Nothing);
                Selection::new(thresholds).schedule(args, pos, nothing).announces()
            };
            with_args_of(kind, block, 4, announces)
        };
        let exchange = CollectiveKind::Alltoall;
        assert_eq!(announces(&shared, exchange, 64 << 10), Some(false));
        assert_eq!(announces(&shared, exchange, 128 << 10), Some(true));
        assert_eq!(announces(&Thresholds::default(), exchange, 128 << 10), Some(false));
        // Its root sends and does not receive.
        assert_eq!(announces(&shared, CollectiveKind::Scatter, 1 << 20), Some(false));
    }

    #[test]
    fn the_choice_is_described_with_each_size_at_which_it_changes() {
        let mut selection = Selection::new(&Thresholds::default());
        let describe = |selection: &Selection, kind| {
            selection.describe(kind, Position::new(0, 4), false, |bytes| bytes.to_string())
        };
        let bcast = describe(&selection, CollectiveKind::Bcast).unwrap();
        assert_eq!(bcast, "binomial, from 65536 scatter-ring");
        for (bytes, algorithm) in [(100, Algorithm::Chain), (120, Algorithm::Linear)] {
            selection.prefer(rule(CollectiveKind::Bcast, bytes, 0, algorithm));
        }
        let bcast = describe(&selection, CollectiveKind::Bcast).unwrap();
        assert_eq!(bcast, "binomial, from 104 chain, from 120 linear");
        assert_eq!(describe(&selection, CollectiveKind::Alltoallw), None);
    }
}
