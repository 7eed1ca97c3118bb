//! Sub-groups of the ranks of a communicator at one level of the machine, and how these are split
//! further: what compositions run flat algorithms in.
//!
//! A *leader* acts for the ranks of its group. A *lane* has one rank of each group, those with the
//! same number in their groups. Lists are shared: a schedule that is written takes a reference.
//!
//! Several levels are a tree: each group may be split by parts of its host ([`Grouping::within`]),
//! and the groups themselves by switches ([`Grouping::between`]). A composition writes stages in
//! groups and between them; selection may take a composition for such a stage again.
//!
//! Invariants: groups are numbered in the order of their lowest ranks, and the ranks of a group
//! rise. Each lane has all groups, in order; therefore there are as many lanes as the smallest
//! group has ranks. Lane 0 has the lowest rank of each group. The split of a group depends on its
//! members' locations only; therefore other groups need not know it.

use std::sync::Arc;

use crate::level::Level;

/// The sub-groups of some ranks at one level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grouping {
    level: Level,
    /// The group of each rank, and its number there.
    places: Vec<(u32, u32)>,
    members: Vec<Arc<[u32]>>,
    lanes: Vec<Arc<[u32]>>,
    is_consecutive: bool,
    /// The split of each group.
    within: Vec<Option<Box<Grouping>>>,
    between: Option<Box<Grouping>>,
}

impl Grouping {
    /// Splits ranks whose groups at some levels these are, the largest parts first; `None` if no
    /// level has several groups of which one has several ranks.
    ///
    /// Ranks of several hosts are split by host, since that is where the cost of a message changes
    /// most: then the hosts by switch, and the ranks of each host by its parts.
    pub(crate) fn new(levels: &[(Level, Vec<u32>)]) -> Option<Grouping> {
        let is_useful = |(_, group_of): &&(Level, Vec<u32>)| {
            let count = count(group_of);
            count > 1 && count < group_of.len()
        };
        let by_host = levels.iter().filter(|(level, _)| *level == Level::Host).find(is_useful);
        let (level, group_of) = by_host.or_else(|| levels.iter().find(is_useful))?;
        let (above, below): (Vec<_>, Vec<_>) = levels
            .iter()
            .filter(|(of, _)| of != level)
            .partition(|(of, _)| (*of as usize) < *level as usize);
        Some(Grouping::at_level(*level, group_of, &above, &below))
    }

    fn at_level(
        level: Level,
        group_of: &[u32],
        above: &[&(Level, Vec<u32>)],
        below: &[&(Level, Vec<u32>)],
    ) -> Grouping {
        let mut members = vec![Vec::new(); count(group_of)];
        let numbered = numbered(group_of);
        let is_consecutive = numbered.is_sorted();
        let places: Vec<(u32, u32)> = (0..)
            .zip(numbered)
            .map(|(rank, group)| {
                let ranks: &mut Vec<u32> = &mut members[group as usize];
                ranks.push(rank);
                (group, ranks.len() as u32 - 1)
            })
            .collect();
        let smallest = members.iter().map(Vec::len).min().unwrap_or(0);
        let lane = |index: usize| members.iter().map(|ranks: &Vec<u32>| ranks[index]).collect();
        let lanes: Vec<Arc<[u32]>> = (0..smallest).map(lane).collect();
        let among = |levels: &[&(Level, Vec<u32>)], ranks: &[u32]| {
            let part =
                |group_of: &[u32]| ranks.iter().map(|&rank| group_of[rank as usize]).collect();
            let levels: Vec<_> = levels.iter().map(|(of, groups)| (*of, part(groups))).collect();
            Grouping::new(&levels).map(Box::new)
        };
        Grouping {
            level,
            places,
            is_consecutive,
            within: members.iter().map(|ranks| among(below, ranks)).collect(),
            between: lanes.first().and_then(|leaders| among(above, leaders)),
            members: members.into_iter().map(Arc::from).collect(),
            lanes,
        }
    }

    /// What the groups are.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many groups there are.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// Ranks of all groups.
    pub fn size(&self) -> u32 {
        self.places.len() as u32
    }

    /// The group of a rank, and the rank's number there.
    pub fn place(&self, rank: u32) -> (u32, u32) {
        self.places[rank as usize]
    }

    /// The ranks of a group.
    pub fn members(&self, group: u32) -> &Arc<[u32]> {
        &self.members[group as usize]
    }

    /// The ranks of each group, in the order of groups.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.members.iter().map(|members| &members[..])
    }

    /// The lanes.
    pub fn lanes(&self) -> &[Arc<[u32]>] {
        &self.lanes
    }

    /// How the ranks of a group, by their numbers there, are split further.
    pub fn within(&self, group: u32) -> Option<&Grouping> {
        self.within[group as usize].as_deref()
    }

    /// How the groups, by their numbers, are split in turn.
    pub fn between(&self) -> Option<&Grouping> {
        self.between.as_deref()
    }

    /// True when all groups have the same number of ranks.
    pub fn are_even(&self) -> bool {
        self.lanes.len() * self.members.len() == self.places.len()
    }

    /// True when the ranks of each group follow each other. Then sub-groups keep rank order.
    pub fn are_consecutive(&self) -> bool {
        self.is_consecutive
    }

    /// The rank that acts for each group where `root` acts for its own: otherwise the lowest one.
    pub fn leaders(&self, root: u32) -> Arc<[u32]> {
        let (group, index) = self.place(root);
        if index == 0 {
            return self.lanes[0].clone();
        }
        let mut leaders = self.lanes[0].to_vec();
        leaders[group as usize] = root;
        leaders.into()
    }

    /// The highest rank of each group.
    pub fn last_ranks(&self) -> Arc<[u32]> {
        self.members.iter().filter_map(|members| members.last().copied()).collect()
    }
}

/// How many groups ranks are in.
fn count(group_of: &[u32]) -> usize {
    let mut groups = group_of.to_vec();
    groups.sort_unstable();
    groups.dedup();
    groups.len()
}

/// The same groups, numbered in the order of their lowest ranks.
fn numbered(group_of: &[u32]) -> Vec<u32> {
    let mut numbers = rustc_hash::FxHashMap::default();
    let number = |group: &u32| {
        let next = numbers.len() as u32;
        *numbers.entry(*group).or_insert(next)
    };
    group_of.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_host(host_of: &[u32]) -> Option<Grouping> {
        Grouping::new(&[(Level::Host, host_of.to_vec())])
    }

    #[test]
    fn lanes_cross_all_groups() {
        let hosts = by_host(&[7, 1, 7, 1, 7]).unwrap();
        assert_eq!((&hosts.members(0)[..], &hosts.members(1)[..]), (&[0, 2, 4][..], &[1, 3][..]));
        assert_eq!(
            hosts.lanes().iter().map(|lane| &lane[..]).collect::<Vec<_>>(),
            [[0, 1], [2, 3]]
        );
        assert!(!hosts.are_even() && !hosts.are_consecutive());
        assert_eq!(hosts.place(4), (0, 2));
        assert_eq!((&hosts.leaders(4)[..], &hosts.last_ranks()[..]), (&[4, 1][..], &[4, 3][..]));
    }

    #[test]
    fn one_group_or_one_rank_for_each_is_no_split() {
        assert_eq!(by_host(&[0, 0, 0]), None);
        assert_eq!(by_host(&[0, 1, 2]), None);
        let even = by_host(&[0, 0, 1, 1]).unwrap();
        assert!(even.are_even() && even.are_consecutive());
    }

    #[test]
    fn levels_above_and_below_hosts_are_splits_of_splits() {
        // Two switches with two hosts each; two packages in the first host.
        let switches = (Level::Switch, vec![0, 0, 0, 0, 0, 1, 1, 1, 1]);
        let hosts = (Level::Host, vec![0, 0, 0, 0, 1, 2, 2, 3, 3]);
        let packages = (Level::Package, vec![0, 0, 1, 1, 2, 3, 3, 4, 4]);
        let split = Grouping::new(&[switches, hosts, packages]).unwrap();
        assert_eq!((split.level(), split.count(), split.size()), (Level::Host, 4, 9));
        let packages = split.within(0).unwrap();
        assert_eq!((packages.level(), &packages.members(1)[..]), (Level::Package, &[2, 3][..]));
        assert!(split.within(1).is_none() && split.within(2).is_none());
        let switches = split.between().unwrap();
        assert_eq!((switches.level(), &switches.members(1)[..]), (Level::Switch, &[2, 3][..]));
    }
}
