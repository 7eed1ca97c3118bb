//! The ranks of a communicator by host: the sub-groups that compositions run flat algorithms in.
//!
//! A *leader* acts for the ranks of its host. A *lane* has one rank of each host, those with the
//! same number on their hosts. Lists are shared: a schedule that is written takes a reference.
//!
//! Invariants: hosts are numbered in the order of their lowest ranks, and the ranks of a host rise.
//! Each lane has all hosts, in order; therefore there are as many lanes as the smallest host has
//! ranks. Lane 0 has the lowest rank of each host.

use std::sync::Arc;

/// The sub-groups of the ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hosts {
    /// The host of each rank, and its number there.
    places: Vec<(u32, u32)>,
    members: Vec<Arc<[u32]>>,
    lanes: Vec<Arc<[u32]>>,
    is_consecutive: bool,
}

impl Hosts {
    /// The sub-groups of ranks whose hosts these are, numbered as in the module.
    pub(crate) fn new(host_of: &[u32]) -> Hosts {
        let count = host_of.iter().max().map_or(0, |last| last + 1);
        let mut members = vec![Vec::new(); count as usize];
        let places: Vec<(u32, u32)> = (0..)
            .zip(host_of)
            .map(|(rank, &host)| {
                let ranks = &mut members[host as usize];
                ranks.push(rank);
                (host, ranks.len() as u32 - 1)
            })
            .collect();
        let smallest = members.iter().map(Vec::len).min().unwrap_or(0);
        let lane = |index: usize| members.iter().map(|ranks: &Vec<u32>| ranks[index]).collect();
        let lanes = (0..smallest).map(lane).collect();
        let is_consecutive = host_of.is_sorted();
        Hosts {
            places,
            members: members.into_iter().map(Arc::from).collect(),
            lanes,
            is_consecutive,
        }
    }

    /// How many hosts have ranks.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// The host of a rank, and the rank's number there.
    pub fn place(&self, rank: u32) -> (u32, u32) {
        self.places[rank as usize]
    }

    /// The ranks of a host.
    pub fn members(&self, host: u32) -> &Arc<[u32]> {
        &self.members[host as usize]
    }

    /// The lanes.
    pub fn lanes(&self) -> &[Arc<[u32]>] {
        &self.lanes
    }

    /// True when all hosts have the same number of ranks.
    pub fn are_even(&self) -> bool {
        self.lanes.len() * self.members.len() == self.places.len()
    }

    /// True when the ranks of each host follow each other. Then sub-groups keep rank order.
    pub fn are_consecutive(&self) -> bool {
        self.is_consecutive
    }

    /// True when there are levels: several hosts, and one of them has several ranks.
    pub fn are_levels(&self) -> bool {
        self.count() > 1 && self.members.len() < self.places.len()
    }

    /// The rank that acts for each host where `root` acts for its own: otherwise the lowest one.
    pub fn leaders(&self, root: u32) -> Arc<[u32]> {
        let (host, index) = self.place(root);
        if index == 0 {
            return self.lanes[0].clone();
        }
        let mut leaders = self.lanes[0].to_vec();
        leaders[host as usize] = root;
        leaders.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_cross_all_hosts() {
        let hosts = Hosts::new(&[0, 1, 0, 1, 0]);
        assert_eq!((&hosts.members(0)[..], &hosts.members(1)[..]), (&[0, 2, 4][..], &[1, 3][..]));
        assert_eq!(
            hosts.lanes().iter().map(|lane| &lane[..]).collect::<Vec<_>>(),
            [[0, 1], [2, 3]]
        );
        assert!(hosts.are_levels() && !hosts.are_even() && !hosts.are_consecutive());
        assert_eq!(hosts.place(4), (0, 2));
        assert_eq!(&hosts.leaders(4)[..], [4, 1]);
    }

    #[test]
    fn one_host_or_one_rank_for_each_has_no_levels() {
        assert!(!Hosts::new(&[0, 0, 0]).are_levels());
        assert!(!Hosts::new(&[0, 1, 2]).are_levels());
        let even = Hosts::new(&[0, 0, 1, 1]);
        assert!(even.are_levels() && even.are_even() && even.are_consecutive());
    }
}
