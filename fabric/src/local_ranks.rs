//! The ranks of one host: mostly consecutive, or any set if a process manager has dealt them so.

use std::ops::Range;

/// A set of ranks. Asking for a rank costs two comparisons if the ranks are consecutive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRanks {
    /// From the lowest to the highest.
    range: Range<u32>,
    /// A bit for each rank of the range; empty if all of them are in the set.
    bits: Vec<u64>,
}

impl LocalRanks {
    /// Returns true if the rank is in the set.
    #[inline]
    pub fn contains(&self, rank: u32) -> bool {
        self.range.contains(&rank) && (self.bits.is_empty() || self.has_bit(rank))
    }

    /// Adds a rank.
    pub fn insert(&mut self, rank: u32) {
        let mut ranks: Vec<u32> = self.range.clone().filter(|&rank| self.contains(rank)).collect();
        if let Err(at) = ranks.binary_search(&rank) {
            ranks.insert(at, rank);
            *self = LocalRanks::from(&ranks[..]);
        }
    }

    #[cold]
    fn has_bit(&self, rank: u32) -> bool {
        let index = (rank - self.range.start) as usize;
        self.bits[index / 64] >> (index % 64) & 1 == 1
    }
}

impl From<Range<u32>> for LocalRanks {
    fn from(range: Range<u32>) -> LocalRanks {
        LocalRanks { range, bits: Vec::new() }
    }
}

impl From<&[u32]> for LocalRanks {
    /// Makes the set of these ranks, which are in rising order.
    fn from(ranks: &[u32]) -> LocalRanks {
        let (Some(&first), Some(&last)) = (ranks.first(), ranks.last()) else {
            return LocalRanks::from(0..0);
        };
        let range = first..last + 1;
        if range.len() == ranks.len() {
            return LocalRanks::from(range);
        }
        let mut bits = vec![0; range.len().div_ceil(64)];
        for rank in ranks {
            let index = (rank - first) as usize;
            bits[index / 64] |= 1 << (index % 64);
        }
        LocalRanks { range, bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_ranks_that_it_was_made_of() {
        for ranks in [&[][..], &[3], &[2, 3, 4], &[1, 3], &[0, 64, 65, 200]] {
            let set = LocalRanks::from(ranks);
            for rank in 0..300 {
                assert_eq!(set.contains(rank), ranks.contains(&rank), "{rank} in {ranks:?}");
            }
        }
        assert_eq!(LocalRanks::from(&[2, 3, 4][..]), LocalRanks::from(2..5));
        let mut set = LocalRanks::from(0..0);
        [7, 200, 8, 7, 3].into_iter().for_each(|rank| set.insert(rank));
        assert_eq!(set, LocalRanks::from(&[3, 7, 8, 200][..]));
    }
}
