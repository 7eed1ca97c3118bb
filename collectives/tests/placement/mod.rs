//! Placements of ranks on hosts, and the schedules that a selection writes for them.

use collectives::{
    Algorithm, CollArgs, Level, Position, RankLocation, Rule, Schedule, Selection, Topology,
};
use fabric::CollectiveKind;

use crate::random::Random;

/// The host of each rank: one host, even hosts, uneven hosts, round robin, or anything.
pub(crate) fn any_hosts(size: u32, random: &mut Random) -> Vec<u64> {
    let size = u64::from(size);
    let hosts = 2 + random.below(4);
    match random.below(6) {
        0 => vec![0; size as usize],
        1 => (0..size).map(|rank| rank * hosts.min(size) / size).collect(),
        2 => (0..size).map(|rank| rank.ilog2_or_zero()).collect(),
        3 => (0..size).map(|rank| rank % hosts).collect(),
        4 => (0..size).map(|_| random.below(hosts)).collect(),
        _ => (0..size).collect(),
    }
}

/// Hosts of 2, 2, 4, 8, ... ranks.
trait Log {
    fn ilog2_or_zero(self) -> u64;
}

impl Log for u64 {
    fn ilog2_or_zero(self) -> u64 {
        self.checked_ilog2().unwrap_or(0).into()
    }
}

/// Locations of ranks on such hosts, at times with switches above and packages below.
pub(crate) fn any_locations(size: u32, random: &mut Random) -> Vec<RankLocation> {
    let hosts = any_hosts(size, random);
    let (switches, packages) = (1 + random.below(3), 1 + random.below(3));
    let is_scattered = random.chance();
    (0..)
        .zip(hosts)
        .map(|(rank, host)| {
            let mut location = RankLocation::on_host(host);
            let switch = if is_scattered { host % switches } else { host / 2 };
            let package = if is_scattered { rank % packages } else { rank / 3 % packages };
            location.0[Level::Switch as usize] = Some(switch).filter(|_| switches > 1);
            location.0[Level::Package as usize] = Some(package).filter(|_| packages > 1);
            location.0[Level::L3Cache as usize] = Some(rank / 2).filter(|_| packages > 2);
            location
        })
        .collect()
}

/// Rules that prefer algorithms drawn at random, for all operations: where an algorithm cannot do a
/// call, the next one is tried.
pub(crate) fn any_rules(random: &mut Random) -> Vec<Rule> {
    let levels = [None, None, Some(Level::Host), Some(Level::Switch), Some(Level::Package)];
    let count = random.below(6);
    let mut rules = Vec::new();
    for kind in KINDS {
        for _ in 0..count {
            let at = random.below(Algorithm::NAMES.len() as u64) as usize;
            let level = levels[random.below(levels.len() as u64) as usize];
            rules.push(Rule { level, ..Rule::new(kind, Algorithm::NAMES[at].1) });
        }
    }
    rules
}

const KINDS: [CollectiveKind; 15] = [
    CollectiveKind::Barrier,
    CollectiveKind::Bcast,
    CollectiveKind::Gather,
    CollectiveKind::Gatherv,
    CollectiveKind::Scatter,
    CollectiveKind::Scatterv,
    CollectiveKind::Allgather,
    CollectiveKind::Allgatherv,
    CollectiveKind::Alltoall,
    CollectiveKind::Reduce,
    CollectiveKind::Allreduce,
    CollectiveKind::ReduceScatter,
    CollectiveKind::ReduceScatterBlock,
    CollectiveKind::Scan,
    CollectiveKind::Exscan,
];

/// A selection, and where the ranks are.
#[allow(dead_code, reason = "not all tests choose schedules")]
pub(crate) struct Chooser {
    pub(crate) selection: Selection,
    pub(crate) topology: Topology,
}

#[allow(dead_code, reason = "not all tests choose schedules")]
impl Chooser {
    /// Any algorithms.
    pub(crate) fn new(selection: Selection, size: u32, random: &mut Random) -> Chooser {
        let mut chooser = Chooser::of_table(selection, size, random);
        chooser.selection.prefer_all(any_rules(random));
        chooser
    }

    /// The algorithms of the table.
    pub(crate) fn of_table(selection: Selection, size: u32, random: &mut Random) -> Chooser {
        Chooser { selection, topology: Topology::new(&any_locations(size, random)) }
    }

    pub(crate) fn position(&self, rank: usize) -> Position<'_> {
        Position::in_topology(rank as u32, &self.topology)
    }

    pub(crate) fn schedule(&self, args: &CollArgs, rank: usize) -> Schedule {
        self.selection.schedule(args, self.position(rank), false)
    }
}
