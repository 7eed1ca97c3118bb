//! The members that move data for all of them in a collective access, chosen by where they run.
//!
//! Aggregators are dealt to the hosts in turn, within a host to its packages, and within a package
//! to its NUMA nodes. In the smallest part they are as far apart by rank as can be. Therefore the
//! memory channels and the network adapters of all hosts and packages take part.

use std::collections::HashMap;

/// Where a member runs. Numbers mean nothing but equality within the enclosing part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The host.
    pub host: u32,
    /// The processor package within the host; the same for all if it is not known.
    pub package: u32,
    /// The NUMA node within the package; the same for all if it is not known.
    pub numa_node: u32,
}

impl Place {
    /// Bytes of an encoded place.
    pub(crate) const SIZE: usize = 12;

    /// Returns the number of its part at each level, the largest first.
    fn parts(self) -> [u32; 3] {
        [self.host, self.package, self.numa_node]
    }

    /// Encodes the fields in their order.
    pub(crate) fn encode(self) -> Vec<u8> {
        self.parts().into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    /// Decodes what [`Place::encode`] made.
    pub(crate) fn decode(bytes: &[u8]) -> Place {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at * 4 + i]));
        Place { host: word(0), package: word(1), numa_node: word(2) }
    }
}

/// Returns the number of members of each host.
pub(crate) fn hosts(places: &[Place]) -> Vec<u64> {
    let mut members = HashMap::new();
    places.iter().for_each(|place| *members.entry(place.host).or_insert(0) += 1);
    members.into_values().collect()
}

/// Returns the ranks of `number` aggregators, ascending, or all ranks if there are fewer; `places`
/// has the place of each.
pub(crate) fn choose(places: &[Place], number: u32) -> Vec<u32> {
    let mut chosen = Vec::new();
    let all: Vec<u32> = (0..places.len() as u32).collect();
    deal(places, &all, (number as usize).min(all.len()), 0, &mut chosen);
    chosen.sort_unstable();
    chosen
}

/// Chooses `number` of the ranks, which share a part of the level above.
fn deal(places: &[Place], ranks: &[u32], number: usize, level: usize, chosen: &mut Vec<u32>) {
    if level == Place::default().parts().len() {
        chosen.extend((0..number).map(|at| ranks[at * ranks.len() / number]));
        return;
    }
    let mut parts: Vec<(u32, Vec<u32>)> = Vec::new();
    for &rank in ranks {
        let part = places[rank as usize].parts()[level];
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, members)) => members.push(rank),
            None => parts.push((part, vec![rank])),
        }
    }
    let (mut counts, mut left) = (vec![0; parts.len()], number);
    while left > 0 {
        for ((_, members), count) in parts.iter().zip(&mut counts) {
            if left > 0 && *count < members.len() {
                (*count, left) = (*count + 1, left - 1);
            }
        }
    }
    for ((_, members), count) in parts.iter().zip(counts) {
        deal(places, members, count, level + 1, chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_hosts(hosts: &[u32]) -> Vec<Place> {
        hosts.iter().map(|&host| Place { host, ..Place::default() }).collect()
    }

    #[test]
    fn aggregators_are_spread_over_hosts() {
        let choose = |hosts: &[u32], number| super::choose(&on_hosts(hosts), number);
        assert_eq!(choose(&[0; 8], 4), [0, 2, 4, 6]);
        assert_eq!(choose(&[0; 3], 9), [0, 1, 2]);
        assert_eq!(choose(&[0, 0, 0, 0, 4, 4, 4, 4], 2), [0, 4]);
        assert_eq!(choose(&[0, 0, 0, 0, 4, 4, 4, 4], 4), [0, 2, 4, 6]);
        assert_eq!(choose(&[0, 1, 0, 1, 2], 4), [0, 1, 2, 4]);
        assert_eq!(choose(&[0, 1, 2], 1), [0]);
        assert_eq!(hosts(&on_hosts(&[3, 3])), [2]);
        assert_eq!(hosts(&on_hosts(&[3, 3, 7])).len(), 2);
    }

    #[test]
    fn aggregators_of_a_host_are_spread_over_packages_and_nodes() {
        // Two hosts of two packages of two nodes; ranks fill a package before the next.
        let at =
            |rank: u32| Place { host: rank / 8, package: rank / 4 % 2, numa_node: rank / 2 % 2 };
        let places: Vec<Place> = (0..16).map(at).collect();
        assert_eq!(choose(&places, 2), [0, 8]);
        assert_eq!(choose(&places, 4), [0, 4, 8, 12]);
        assert_eq!(choose(&places, 8), [0, 2, 4, 6, 8, 10, 12, 14]);
        assert_eq!(choose(&places[..8], 3), [0, 2, 4]);
        // A package with one rank gives one.
        let uneven: Vec<Place> =
            [0, 1, 1, 1, 1].map(|package| Place { package, ..Place::default() }).to_vec();
        assert_eq!(choose(&uneven, 3), [0, 1, 3]);
        assert_eq!(choose(&uneven, 5), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn places_come_back() {
        let place = Place { host: 7, package: 1, numa_node: u32::MAX };
        assert_eq!(Place::decode(&place.encode()), place);
        assert_eq!(place.encode().len(), Place::SIZE);
    }
}
