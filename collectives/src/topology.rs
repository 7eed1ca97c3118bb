//! Where the ranks of a communicator are on the machine: a table, computed once for each
//! communicator, with the groups that share a part of the machine and their leaders.
//!
//! Invariants: all ranks of a communicator hold the same table; therefore algorithms may depend on
//! it. Group numbers follow the lowest rank of each group, which is the group's leader. A rank
//! whose part of the machine is unknown shares a group with the other unknown ones of the same
//! enclosing part.
//!
//! What it does not do: find out where ranks are. The runtime knows the hosts from the launcher,
//! and gathers the rest from all ranks when a topology is reordered.

use std::collections::HashMap;

use crate::grouping::Grouping;
pub use crate::level::{Level, RankLocation};

/// The locations of all ranks, and their groups at each level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    levels: [Groups; Level::ALL.len()],
    split: Option<Grouping>,
}

/// The groups of one level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Groups {
    /// The group of each rank.
    group_of: Vec<u32>,
    /// The members of all groups, one group after the other, by rank within a group.
    members: Vec<u32>,
    /// Where each group begins in `members`, and the end of the last one.
    starts: Vec<u32>,
}

impl Topology {
    /// The table of ranks at these locations, in the order of ranks.
    pub fn new(locations: &[RankLocation]) -> Topology {
        let mut enclosing = vec![0; locations.len()];
        let levels = Level::ALL.map(|level| {
            let parts = locations.iter().map(|location| location.0[level as usize]);
            let groups = Groups::new(enclosing.iter().copied().zip(parts));
            enclosing.clone_from(&groups.group_of);
            groups
        });
        let groups: Vec<(Level, Vec<u32>)> = Level::ALL
            .into_iter()
            .filter(|level| *level != Level::Core)
            .map(|level| (level, levels[level as usize].group_of.clone()))
            .collect();
        Topology { levels, split: Grouping::new(&groups) }
    }

    /// How compositions split the ranks; `None` if no level has several groups of which one has
    /// several ranks.
    pub fn split(&self) -> Option<&Grouping> {
        self.split.as_ref()
    }

    /// One host of `size` ranks, unknown inside.
    pub fn one_host(size: u32) -> Topology {
        Topology::new(&vec![RankLocation::on_host(0); size as usize])
    }

    /// Ranks in the table.
    pub fn size(&self) -> u32 {
        self.levels[0].group_of.len() as u32
    }

    /// How many groups a level has.
    pub fn groups(&self, level: Level) -> u32 {
        self.levels[level as usize].starts.len() as u32 - 1
    }

    /// The group of a rank at a level.
    pub fn group_of(&self, level: Level, rank: u32) -> u32 {
        self.levels[level as usize].group_of[rank as usize]
    }

    /// The ranks of a group, in order.
    pub fn members(&self, level: Level, group: u32) -> &[u32] {
        let Groups { members, starts, .. } = &self.levels[level as usize];
        &members[starts[group as usize] as usize..starts[group as usize + 1] as usize]
    }

    /// The lowest rank of each group, in the order of groups.
    pub fn leaders(&self, level: Level) -> impl ExactSizeIterator<Item = u32> {
        (0..self.groups(level)).map(move |group| self.members(level, group)[0])
    }
}

impl Groups {
    /// Groups ranks by their enclosing group and their part within it.
    fn new(keys: impl Iterator<Item = (u32, Option<u64>)>) -> Groups {
        let mut numbers = HashMap::new();
        let group_of: Vec<u32> = keys
            .map(|key| {
                let next = numbers.len() as u32;
                *numbers.entry(key).or_insert(next)
            })
            .collect();
        let mut members: Vec<u32> = (0..group_of.len() as u32).collect();
        members.sort_by_key(|&rank| group_of[rank as usize]);
        let of_group =
            |group| members.partition_point(|&rank| group_of[rank as usize] < group) as u32;
        let starts = (0..=numbers.len() as u32).map(of_group).collect();
        Groups { group_of, members, starts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_follow_their_lowest_rank_and_nest() {
        // Round robin over two hosts; the packages of both have the same numbers.
        let at = |host, package| {
            let mut location = RankLocation::on_host(host);
            location.0[Level::Package as usize] = package;
            location
        };
        let table = Topology::new(&[
            at(9, Some(1)),
            at(4, Some(1)),
            at(9, Some(0)),
            at(4, None),
            at(9, Some(1)),
            at(4, None),
        ]);
        assert_eq!(table.groups(Level::Host), 2);
        assert_eq!(table.members(Level::Host, 0), [0, 2, 4]);
        assert_eq!(table.members(Level::Host, 1), [1, 3, 5]);
        let packages: Vec<&[u32]> =
            (0..table.groups(Level::Package)).map(|i| table.members(Level::Package, i)).collect();
        assert_eq!(packages, [&[0, 4][..], &[1], &[2], &[3, 5]]);
        assert_eq!(table.leaders(Level::Package).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(table.group_of(Level::Package, 5), 3);
        // Unknown cores: no further than the packages.
        assert_eq!(table.groups(Level::Core), 4);
    }

    #[test]
    fn one_host_is_one_group_at_every_level() {
        let table = Topology::one_host(3);
        assert!(Level::ALL.into_iter().all(|level| table.members(level, 0) == [0, 1, 2]));
        assert_eq!(table.size(), 3);
    }
}
