//! One rank's position among the ranks of its communicator: its number, and its place on the
//! machine.

use crate::grouping::Grouping;
use crate::topology::{Level, Topology};

/// The position of a rank, as algorithms see it.
#[derive(Clone, Copy, Debug)]
pub struct Position<'t> {
    /// The own rank, less than `size`.
    pub rank: u32,
    /// Ranks in the group, at least 1.
    pub size: u32,
    /// `None`: nothing is known but the number of hosts.
    topology: Option<&'t Topology>,
    levels: Option<&'t Grouping>,
    hosts: u32,
    lanes: u32,
}

impl<'t> Position<'t> {
    /// A position on one host, unknown inside.
    pub fn new(rank: u32, size: u32) -> Position<'static> {
        Position { rank, size, topology: None, levels: None, hosts: 1, lanes: 1 }
    }

    /// A position in a group of a split.
    pub(crate) fn within(me: u32, group: u32, split: &'t Grouping) -> Position<'t> {
        let size = split.members(group).len() as u32;
        let hosts = if split.level() == Level::Switch { size } else { 1 };
        Position { rank: me, size, topology: None, levels: split.within(group), hosts, lanes: 1 }
    }

    /// A position among ranks of which each is in a group of its own; so many ranks of each group
    /// do the same for a part of the data each.
    pub(crate) fn between(group: u32, split: &'t Grouping, lanes: u32) -> Position<'t> {
        let size = split.count();
        let hosts = if split.level() as u32 <= Level::Host as u32 { size } else { 1 };
        Position { rank: group, size, topology: None, levels: split.between(), hosts, lanes }
    }

    /// A position among one rank of each group of a split but one, in stages of which each starts
    /// at another group.
    pub(crate) fn between_others(rank: u32, split: &Grouping) -> Position<'static> {
        let size = split.count() - 1;
        let hosts = if split.level() as u32 <= Level::Host as u32 { size } else { 1 };
        Position { rank, size, topology: None, levels: None, hosts, lanes: 1 }
    }

    /// A position in a table of all ranks.
    pub fn in_topology(rank: u32, topology: &'t Topology) -> Position<'t> {
        let hosts = topology.groups(Level::Host);
        let levels = topology.split();
        Position { rank, size: topology.size(), topology: Some(topology), levels, hosts, lanes: 1 }
    }

    /// The rank `by` places further round the ring; `by <= size`.
    pub fn ahead(self, by: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(by)) % u64::from(self.size)) as u32
    }

    /// The rank `by` places back round the ring; `by <= size`.
    pub fn behind(self, by: u32) -> u32 {
        self.ahead(self.size - by)
    }

    /// All other ranks from the next one on, so that not all ranks start with rank 0.
    pub fn others(self) -> impl Iterator<Item = u32> {
        (1..self.size).map(move |by| self.ahead(by))
    }

    /// How many groups of ranks share a part of the machine at a level.
    pub fn groups(self, level: Level) -> u32 {
        self.topology.map_or(1, |topology| topology.groups(level))
    }

    /// The ranks that share this rank's part of the machine at a level, in order; itself among
    /// them. The first one is their leader.
    pub fn neighbors(self, level: Level) -> impl ExactSizeIterator<Item = u32> + Clone {
        let members = self
            .topology
            .map(|topology| topology.members(level, topology.group_of(level, self.rank)));
        let count = members.map_or(self.size, |members| members.len() as u32);
        (0..count).map(move |index| members.map_or(index, |members| members[index as usize]))
    }

    /// The leader of each group at a level, in the order of groups.
    pub fn leaders(self, level: Level) -> impl ExactSizeIterator<Item = u32> + Clone {
        let groups = 0..self.groups(level);
        groups.map(move |group| self.topology.map_or(0, |t| t.members(level, group)[0]))
    }

    /// How many hosts the ranks are on.
    pub fn hosts(self) -> u32 {
        self.hosts
    }

    /// How many ranks of each host take part, each in a stage like this one.
    pub(crate) fn lanes(self) -> u32 {
        self.lanes
    }

    /// True for a position in a stage of a composition.
    pub(crate) fn is_in_stage(self) -> bool {
        self.topology.is_none()
    }

    /// How compositions split the ranks.
    pub fn levels(self) -> Option<&'t Grouping> {
        self.levels
    }

    /// The other ranks of this rank's host, itself among them, where there are several hosts and
    /// one of them has several ranks.
    pub fn host_members(self) -> Option<&'t std::sync::Arc<[u32]>> {
        let hosts = self.levels.filter(|split| split.level() == Level::Host)?;
        Some(hosts.members(hosts.place(self.rank).0))
    }

    /// This rank's group at a level.
    pub fn group(self, level: Level) -> u32 {
        self.topology.map_or(0, |topology| topology.group_of(level, self.rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::RankLocation;

    #[test]
    fn where_nothing_is_known_all_ranks_are_neighbors() {
        let pos = Position::new(2, 4);
        assert!(pos.neighbors(Level::Core).eq(0..4));
        assert!(pos.leaders(Level::Host).eq([0]));
        assert!(pos.others().eq([3, 0, 1]));
    }

    #[test]
    fn neighbors_and_leaders_are_those_of_the_table() {
        let hosts = [0, 1, 0, 1].map(RankLocation::on_host);
        let topology = Topology::new(&hosts);
        let pos = Position::in_topology(3, &topology);
        assert_eq!((pos.size, pos.group(Level::Host), pos.groups(Level::Host)), (4, 1, 2));
        assert!(pos.neighbors(Level::Host).eq([1, 3]));
        assert!(pos.leaders(Level::Host).eq([0, 1]));
    }
}
