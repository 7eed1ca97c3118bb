//! Placements of ranks on hosts, and the schedules that a selection writes for them.

use collectives::{CollArgs, Position, RankLocation, Schedule, Selection, Topology};

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

/// The table of ranks on these hosts.
pub(crate) fn topology(hosts: &[u64]) -> Topology {
    let locations: Vec<RankLocation> =
        hosts.iter().map(|&host| RankLocation::on_host(host)).collect();
    Topology::new(&locations)
}

/// A selection, and where the ranks are.
#[allow(dead_code, reason = "not all tests choose schedules")]
pub(crate) struct Chooser {
    pub(crate) selection: Selection,
    pub(crate) topology: Topology,
}

#[allow(dead_code, reason = "not all tests choose schedules")]
impl Chooser {
    pub(crate) fn new(selection: Selection, size: u32, random: &mut Random) -> Chooser {
        Chooser { selection, topology: topology(&any_hosts(size, random)) }
    }

    pub(crate) fn position(&self, rank: usize) -> Position<'_> {
        Position::in_topology(rank as u32, &self.topology)
    }

    pub(crate) fn schedule(&self, args: &CollArgs, rank: usize) -> Schedule {
        self.selection.schedule(args, self.position(rank), false)
    }
}
