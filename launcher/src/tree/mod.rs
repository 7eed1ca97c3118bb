//! The tree of daemons: `mpiexec` starts some of them, each of these starts some more, and every
//! message travels along its edges.
//!
//! A [`Branch`] is a daemon (its head) with the hosts that it starts and relays for. Each parent
//! splits the hosts below it by the same rule ([`branches`]), so that no list of edges is sent.
//! `link` is one edge, seen from the parent; [`links`] are all edges of a process and what time
//! does to them; [`store`] is one process's part of the job's store; [`batch`] joins what hosts
//! send alike. `simulation` runs all of them but the sockets, for jobs of many hosts.
//!
//! Invariants: a parent exchanges messages with its children and its own parent alone. A child is
//! over after all hosts below it. A daemon that loses its parent ends its ranks and its children.
//! This module prints nothing and judges no rank.

pub(crate) mod agent;
pub(crate) mod batch;
mod channel;
pub(crate) mod link;
pub(crate) mod links;
#[cfg(test)]
mod simulation;
pub mod store;

use std::ops::Range;
use std::path::PathBuf;

use bootstrap::Ranks;
use bootstrap::ranks::merged;
use serde::{Deserialize, Serialize};

use crate::lost_host::LostHost;

/// The children of a process where `launch.tree_width` is 0 and every host reaches every other.
pub const DEFAULT_WIDTH: u32 = 32;

/// A host, and the ranks that it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShare {
    /// The name as the user wrote it.
    pub name: String,
    /// The ranks.
    pub ranks: Ranks,
}

impl HostShare {
    /// Returns the first rank, by which other hosts know this one.
    pub fn first(&self) -> u32 {
        self.ranks.first()
    }
}

/// What a daemon knows of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// The name of its own host, as the user wrote it.
    pub name: String,
    /// The hosts that it starts and relays for.
    pub below: Vec<HostShare>,
    /// The largest number of children of a process.
    pub width: u32,
    /// The command that starts a daemon, if not the default.
    pub agent: Option<String>,
    /// The path of `mpiexec`, the same on all hosts.
    pub program: PathBuf,
}

/// A child, and the hosts below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The child's own host.
    pub head: HostShare,
    /// The hosts that it starts and relays for.
    pub below: Vec<HostShare>,
}

impl Branch {
    /// Returns the child's host, then those below it.
    pub fn hosts(&self) -> impl Iterator<Item = &HostShare> {
        std::iter::once(&self.head).chain(&self.below)
    }

    /// Returns the ranks of all its hosts, in few ranges.
    pub fn ranges(&self) -> Vec<Range<u32>> {
        let mut all: Vec<Range<u32>> = self.hosts().flat_map(|host| host.ranks.ranges()).collect();
        all.sort_by_key(|ranks| ranks.start);
        merged(all.into_iter())
    }

    /// Returns the report that these hosts are lost; see [`LostHost`].
    pub(crate) fn lost(&self, why: String, was_running: bool) -> LostHost {
        let below = self.below.iter().map(HostShare::first).collect();
        LostHost { first: self.head.first(), below, why, was_running }
    }
}

/// Splits hosts into at most `width` branches of nearly equal size, besides one for each host that
/// `is_direct`: those mean another host elsewhere, as localhost does.
pub fn branches(
    hosts: Vec<HostShare>,
    width: u32,
    is_direct: impl Fn(&HostShare) -> bool,
) -> Vec<Branch> {
    let (direct, others): (Vec<HostShare>, Vec<HostShare>) = hosts.into_iter().partition(is_direct);
    let count = others.len().min(width.max(1) as usize);
    let mut others = others.into_iter();
    let mut all: Vec<Branch> =
        direct.into_iter().map(|head| Branch { head, below: Vec::new() }).collect();
    for branch in 0..count {
        let size = others.len().div_ceil(count - branch);
        let mut own = others.by_ref().take(size);
        all.extend(own.next().map(|head| Branch { head, below: own.collect() }));
    }
    all.sort_by_key(|branch| branch.head.first());
    all
}

/// Returns the levels below a daemon that relays for `below` hosts.
pub(crate) fn height(below: usize, width: u32) -> u32 {
    let mut levels = 0;
    let mut left = below;
    while left > 0 {
        levels += 1;
        left = left.div_ceil(width.max(1) as usize) - 1;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: u32) -> Vec<HostShare> {
        let ranks = |n| (2 * n..2 * n + 2).into();
        (0..count).map(|n| HostShare { name: format!("h{n}"), ranks: ranks(n) }).collect()
    }

    /// Returns the levels below the root, and checks that each host is started once.
    fn levels(hosts: Vec<HostShare>, width: u32, seen: &mut Vec<u32>) -> u32 {
        let all = branches(hosts, width, |_| false);
        assert!(all.len() <= width as usize);
        let below = all.into_iter().map(|branch| {
            seen.push(branch.head.first());
            let expected = height(branch.below.len(), width);
            let found = levels(branch.below, width, seen);
            assert_eq!(found, expected);
            found + 1
        });
        below.max().unwrap_or(0)
    }

    #[test]
    fn every_host_is_started_once_in_few_levels() {
        for (count, width, expected) in
            [(1, 32, 1), (32, 32, 1), (33, 32, 2), (1056, 32, 2), (100, 4, 4), (5, 1, 5), (0, 3, 0)]
        {
            let mut seen = Vec::new();
            assert_eq!(levels(hosts(count), width, &mut seen), expected, "{count} by {width}");
            seen.sort_unstable();
            assert_eq!(seen, (0..count).map(|n| 2 * n).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_host_that_means_another_elsewhere_is_a_child_of_the_root() {
        let all = branches(hosts(7), 2, |host| host.name == "h3");
        let heads: Vec<(u32, usize)> =
            all.iter().map(|branch| (branch.head.first(), branch.below.len())).collect();
        assert_eq!(heads, [(0, 2), (6, 0), (8, 2)]);
        assert_eq!(all[0].below[1].ranks.in_words(), "ranks 4 to 5");
    }
}
