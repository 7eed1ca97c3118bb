//! The ranks of a host, or other numbers in rising order, as progressions.
//!
//! A host with one block of ranks has one progression of step 1; a host that gets a rank in each
//! turn has one with the number of hosts as its step. Invariants: a progression has members, its
//! step is not 0, and it ends before the next one begins. Decoding is total: what breaks one of
//! these is an error.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The ranges that [`Ranks::in_words`] lists at most.
const MAX_RANGES: usize = 4;

/// Numbers in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Progression>", into = "Vec<Progression>")]
pub struct Ranks {
    progressions: Vec<Progression>,
}

/// `first`, `first + step`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Progression {
    first: u32,
    count: u32,
    step: u32,
}

impl Progression {
    fn last(&self) -> u32 {
        self.first + (self.count - 1) * self.step
    }

    fn index_of(&self, rank: u32) -> Option<u32> {
        let distance = rank.checked_sub(self.first)?;
        let index = distance / self.step;
        (distance % self.step == 0 && index < self.count).then_some(index)
    }

    fn members(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |index| self.first + index * self.step)
    }
}

impl Ranks {
    /// Returns the ranks of each host, from the host of each rank.
    pub fn of_hosts(host_of: &[u32]) -> Vec<Ranks> {
        let hosts = host_of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut all = vec![Ranks::default(); hosts];
        for (rank, host) in (0..).zip(host_of) {
            all[*host as usize].push(rank);
        }
        all
    }

    /// Returns the host of each rank, from the ranks of each host; `None` if a rank has none or
    /// several.
    pub fn hosts_of<'a>(hosts: impl Iterator<Item = &'a Ranks> + Clone) -> Option<Vec<u32>> {
        let size = hosts.clone().try_fold(0u32, |size, ranks| size.checked_add(ranks.count()));
        let mut host_of = vec![None; size? as usize];
        for (host, ranks) in (0..).zip(hosts) {
            for rank in ranks.iter() {
                if host_of.get_mut(rank as usize)?.replace(host).is_some() {
                    return None;
                }
            }
        }
        host_of.into_iter().collect()
    }

    /// Adds a rank beyond all others.
    fn push(&mut self, rank: u32) {
        match self.progressions.last_mut() {
            Some(last) if last.count == 1 => (last.count, last.step) = (2, rank - last.first),
            Some(last) if last.last() + last.step == rank => last.count += 1,
            _ => self.progressions.push(Progression { first: rank, count: 1, step: 1 }),
        }
    }

    /// Returns the number of ranks.
    pub fn count(&self) -> u32 {
        self.progressions.iter().map(|progression| progression.count).sum()
    }

    /// Returns the lowest rank; 0 if there is none.
    pub fn first(&self) -> u32 {
        self.progressions.first().map_or(0, |progression| progression.first)
    }

    /// Returns all ranks.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.progressions.iter().flat_map(|progression| progression.members())
    }

    /// Returns the rank with `index` others before it.
    ///
    /// # Panics
    ///
    /// If there are no more than `index`.
    pub fn at(&self, index: u32) -> u32 {
        let mut left = index;
        for progression in &self.progressions {
            if left < progression.count {
                return progression.first + left * progression.step;
            }
            left -= progression.count;
        }
        panic!("{index} of {} ranks", self.count());
    }

    /// Returns how many others are before a rank; `None` if it is none of them.
    pub fn index_of(&self, rank: u32) -> Option<u32> {
        let mut before = 0;
        for progression in &self.progressions {
            if let Some(index) = progression.index_of(rank) {
                return Some(before + index);
            }
            before += progression.count;
        }
        None
    }

    /// Returns true for one of these ranks.
    pub fn contains(&self, rank: u32) -> bool {
        self.index_of(rank).is_some()
    }

    /// Returns the ranks as ranges.
    pub fn ranges(&self) -> Vec<Range<u32>> {
        merged(self.progressions.iter().flat_map(|progression| {
            let Progression { first, count, step } = *progression;
            let each = if step == 1 { count } else { 1 };
            let begins = (0..count).step_by(each as usize).map(move |index| first + index * step);
            begins.map(move |begin| begin..begin + each)
        }))
    }

    /// Returns each number plus `base`.
    #[must_use]
    pub fn shifted(&self, base: u32) -> Ranks {
        let shifted = |p: &Progression| Progression { first: base + p.first, ..*p };
        Ranks { progressions: self.progressions.iter().map(shifted).collect() }
    }

    /// Returns the ranks in words: `rank 3`, `ranks 4 to 7`, `ranks 0, 2 and 4 to 6`.
    pub fn in_words(&self) -> String {
        let ranges = self.ranges();
        let range = |range: &Range<u32>| match range.end - range.start {
            1 => range.start.to_string(),
            _ => format!("{} to {}", range.start, range.end - 1),
        };
        let noun = if self.count() == 1 { "rank" } else { "ranks" };
        let words: Vec<String> = ranges.iter().take(MAX_RANGES).map(range).collect();
        match (words.split_last(), self.progressions.as_slice()) {
            (None, _) => "no ranks".into(),
            (_, [only]) if ranges.len() > MAX_RANGES => {
                format!("ranks {} to {} in steps of {}", only.first, only.last(), only.step)
            }
            (Some((last, [])), _) => format!("{noun} {last}"),
            _ if ranges.len() > MAX_RANGES => {
                let listed = ranges.iter().take(MAX_RANGES).map(|range| range.end - range.start);
                let rest = self.count() - listed.sum::<u32>();
                format!("ranks {} and {rest} more", words.join(", "))
            }
            (Some((last, before)), _) => format!("ranks {} and {last}", before.join(", ")),
        }
    }
}

/// Returns ranges in rising order as few ranges.
pub fn merged(ranges: impl Iterator<Item = Range<u32>>) -> Vec<Range<u32>> {
    let mut all: Vec<Range<u32>> = Vec::new();
    for range in ranges {
        match all.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => all.push(range),
        }
    }
    all
}

impl From<Range<u32>> for Ranks {
    fn from(range: Range<u32>) -> Ranks {
        let whole = Progression { first: range.start, count: range.len() as u32, step: 1 };
        Ranks { progressions: Some(whole).filter(|_| !range.is_empty()).into_iter().collect() }
    }
}

impl From<Ranks> for Vec<Progression> {
    fn from(ranks: Ranks) -> Vec<Progression> {
        ranks.progressions
    }
}

impl TryFrom<Vec<Progression>> for Ranks {
    type Error = &'static str;

    fn try_from(progressions: Vec<Progression>) -> Result<Ranks, &'static str> {
        let mut end = 0;
        for Progression { first, count, step } in &progressions {
            let last = count.checked_sub(1).and_then(|steps| steps.checked_mul(*step));
            let last = last.and_then(|length| first.checked_add(length));
            let is_valid = *step > 0 && *first >= end;
            end = last
                .filter(|_| is_valid)
                .and_then(|last| last.checked_add(1))
                .ok_or("ranks that do not rise")?;
        }
        Ok(Ranks { progressions })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranks(all: &[u32]) -> Ranks {
        let mut ranks = Ranks::default();
        all.iter().for_each(|rank| ranks.push(*rank));
        ranks
    }

    #[test]
    fn hosts_get_blocks_or_a_rank_in_each_turn() {
        assert_eq!(Ranks::of_hosts(&[0, 0, 1, 1, 1]), [(0..2).into(), (2..5).into()]);
        let turns = Ranks::of_hosts(&[0, 1, 2, 0, 1, 0]);
        assert_eq!(turns, [ranks(&[0, 3, 5]), ranks(&[1, 4]), ranks(&[2])]);
        let one = Ranks::of_hosts(&(0..30).map(|rank| rank % 3).collect::<Vec<_>>());
        assert_eq!(one[2].progressions, [Progression { first: 2, count: 10, step: 3 }]);
        assert_eq!(Ranks::hosts_of(turns.iter()), Some(vec![0, 1, 2, 0, 1, 0]));
        assert_eq!(Ranks::hosts_of(turns[1..].iter()), None, "rank 5 of 3");
        assert_eq!(Ranks::hosts_of([&turns[0], &turns[0]].into_iter()), None, "twice");
    }

    #[test]
    fn ranks_are_named_in_few_words() {
        for (all, words) in [
            (&[3][..], "rank 3"),
            (&[4, 5, 6, 7], "ranks 4 to 7"),
            (&[0, 2, 4], "ranks 0, 2 and 4"),
            (&[0, 1, 4, 7, 8], "ranks 0 to 1, 4 and 7 to 8"),
            (&[1, 4, 7, 10, 13], "ranks 1 to 13 in steps of 3"),
            (&[0, 2, 3, 5, 8, 9, 13, 14], "ranks 0, 2 to 3, 5, 8 to 9 and 2 more"),
            (&[], "no ranks"),
        ] {
            assert_eq!(ranks(all).in_words(), words);
        }
    }

    #[test]
    fn what_does_not_rise_is_not_decoded() {
        let decoded = |parts: &[(u32, u32, u32)]| {
            let part = |&(first, count, step): &_| Progression { first, count, step };
            Ranks::try_from(parts.iter().map(part).collect::<Vec<_>>()).is_ok()
        };
        assert!(decoded(&[]) && decoded(&[(0, 2, 3), (4, 1, 1)]));
        for wrong in [(3, 1, 1), (9, 0, 1), (9, 1, 0), (9, u32::MAX, 2), (u32::MAX, 1, 1)] {
            assert!(!decoded(&[(0, 2, 3), wrong]), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn progressions_are_the_ranks(all in prop::collection::btree_set(0u32..40, 0..20)) {
            let all: Vec<u32> = all.into_iter().collect();
            let ranks = ranks(&all);
            prop_assert!(ranks.iter().eq(all.iter().copied()));
            prop_assert_eq!(ranks.count() as usize, all.len());
            for rank in 0..41 {
                let index = all.iter().position(|own| *own == rank).map(|index| index as u32);
                prop_assert_eq!(ranks.index_of(rank), index);
                prop_assert!(index.is_none_or(|index| ranks.at(index) == rank));
            }
            prop_assert!(ranks.ranges().into_iter().flatten().eq(all.iter().copied()));
            let parts: Vec<Progression> = ranks.clone().into();
            prop_assert_eq!(Ranks::try_from(parts), Ok(ranks.clone()));
            prop_assert!(ranks.shifted(7).iter().eq(all.iter().map(|rank| rank + 7)));
        }
    }
}
