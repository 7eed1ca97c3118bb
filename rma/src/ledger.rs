//! The accesses to one rank's memory that no synchronisation has completed yet (`rma.check`).
//!
//! An access is *open* from its announcement until its epoch ends: one of a passive epoch until a
//! flush or an unlock of its origin, one of a fence epoch until the target's next fence, one of a
//! started epoch until the target's MPI_Win_wait. Two open accesses conflict if they share a byte,
//! unless both read, or both are atomic for elements of one type at the same places (MPI-5.0
//! §12.7). Ranks do not leave a fence together; therefore accesses carry how many fences their
//! origin has passed, and only those of one number meet.
//!
//! Accesses of one *sort* conflict with the same others. For each sort, ranges are kept by the
//! power of two that holds their length, and by begin: a search looks only at ranges that begin
//! close by.
//! Memory grows with the distinct ranges that each origin has open.

use std::collections::BTreeMap;

/// What an access does, as far as conflicts depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    Read,
    Write,
    /// Type, and displacement modulo its extent.
    Accumulate(u32, u32),
    /// The same of an operation that changes nothing, with MPI_NO_OP.
    AtomicRead(u32, u32),
}

impl Sort {
    fn conflicts(self, other: Sort) -> bool {
        use Sort::{Accumulate, AtomicRead, Read, Write};
        match (self, other) {
            (Read | AtomicRead(..), Read | AtomicRead(..)) => false,
            (Read | Write, _) | (_, Read | Write) => true,
            (
                Accumulate(code, place) | AtomicRead(code, place),
                Accumulate(other, others) | AtomicRead(other, others),
            ) => (code, place) != (other, others),
        }
    }
}

/// The epoch of an access, which says when it is complete at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epoch {
    Fence,
    Started,
    Passive,
}

/// An access without its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Rank in the window.
    pub(crate) origin: u32,
    /// The origin's call, as its report names it.
    pub(crate) call: u32,
    pub(crate) epoch: Epoch,
    /// Fences that the origin has passed, modulo 2^32.
    pub(crate) fences: u32,
    /// It is complete at the target once it is complete at the origin.
    pub(crate) returns: bool,
}

/// Bytes from `.0` to `.1`.
pub(crate) type Range = (i64, i64);

/// Begin, end, origin and fences of an open access.
type Key = (i64, i64, u32, u32);

/// Open ranges of one sort, by the power of two that holds their length.
type Ranges = BTreeMap<u32, BTreeMap<Key, Announced>>;

/// The open accesses of one rank's memory.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sorts: BTreeMap<Sort, Ranges>,
    /// Fences that this rank has passed, modulo 2^32.
    fences: u32,
}

impl Ledger {
    /// Returns how many fences this rank has passed, modulo 2^32.
    pub(crate) fn fences(&self) -> u32 {
        self.fences
    }

    /// Returns an open access with which this one conflicts, and its range.
    pub(crate) fn conflict(
        &self,
        sort: Sort,
        range: Range,
        fences: u32,
    ) -> Option<(Announced, Range)> {
        let others = self.sorts.iter().filter(|(other, _)| sort.conflicts(**other));
        others.flat_map(|(_, ranges)| ranges).find_map(|(class, open)| {
            let lowest = range.0.saturating_sub(1_i64.checked_shl(*class).unwrap_or(i64::MAX));
            let near = open.range((lowest, i64::MIN, 0, 0)..(range.1, i64::MIN, 0, 0));
            let mut meets = near.filter(|((_, end, ..), by)| *end > range.0 && by.fences == fences);
            meets.next().map(|((begin, end, ..), by)| (*by, (*begin, *end)))
        })
    }

    /// Adds an access of at least one byte.
    pub(crate) fn open(&mut self, sort: Sort, range: Range, by: Announced) {
        let class = range.1.abs_diff(range.0).next_power_of_two().trailing_zeros();
        let open = self.sorts.entry(sort).or_default().entry(class).or_default();
        let key = (range.0, range.1, by.origin, by.fences);
        // Of two like accesses the one that remains open for longer counts.
        let kept = open.entry(key).or_insert(by);
        kept.returns &= by.returns;
    }

    /// Ends the passive accesses of an origin that has flushed; `returns`: those that are complete
    /// when they are complete at the origin.
    pub(crate) fn flushed(&mut self, origin: u32, returns: bool) {
        self.keep(|by| by.epoch != Epoch::Passive || by.origin != origin || returns && !by.returns);
    }

    /// Ends the accesses of fence epochs before the one that begins.
    pub(crate) fn fenced(&mut self) {
        self.fences = self.fences.wrapping_add(1);
        let fences = self.fences;
        self.keep(|by| by.epoch != Epoch::Fence || by.fences == fences);
    }

    /// Ends the accesses of an exposure epoch.
    pub(crate) fn waited(&mut self) {
        self.keep(|by| by.epoch != Epoch::Started);
    }

    fn keep(&mut self, is_open: impl Fn(&Announced) -> bool) {
        self.sorts.retain(|_, ranges| {
            ranges.retain(|_, open| {
                open.retain(|_, by| is_open(by));
                !open.is_empty()
            });
            !ranges.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: Announced =
        Announced { origin: 1, call: 7, epoch: Epoch::Passive, fences: 0, returns: false };

    fn meets(ledger: &Ledger, sort: Sort, range: Range) -> bool {
        ledger.conflict(sort, range, 0).is_some()
    }

    #[test]
    fn bytes_that_are_shared_conflict_unless_both_sides_agree() {
        let (sum, look) = (Sort::Accumulate(5, 0), Sort::AtomicRead(5, 0));
        for (open, then, conflicts) in [
            (Sort::Read, Sort::Read, false),
            (Sort::Read, Sort::Write, true),
            (Sort::Write, Sort::Read, true),
            (Sort::Write, Sort::Write, true),
            (sum, sum, false),
            (sum, Sort::Accumulate(5, 4), true),
            (sum, Sort::Accumulate(6, 0), true),
            (sum, Sort::Read, true),
            (Sort::Write, sum, true),
            (look, Sort::AtomicRead(6, 0), false),
            (look, Sort::Read, false),
            (Sort::Read, look, false),
            (look, sum, false),
            (look, Sort::Accumulate(6, 0), true),
            (look, Sort::Write, true),
            (Sort::Write, look, true),
        ] {
            let mut ledger = Ledger::default();
            ledger.open(open, (8, 16), BY);
            for range in [(8, 16), (0, 9), (15, 100), (-5, 1000), (10, 11)] {
                assert_eq!(meets(&ledger, then, range), conflicts, "{open:?} {then:?} {range:?}");
            }
            assert!(!meets(&ledger, then, (0, 8)) && !meets(&ledger, then, (16, 17)));
        }
    }

    #[test]
    fn a_search_finds_what_a_look_at_all_ranges_finds() {
        let mut seed = 9_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % below) as i64
        };
        let (mut ledger, mut all) = (Ledger::default(), Vec::new());
        for _ in 0..400 {
            let (begin, len) = (draw(4000) - 2000, {
                let top = draw(9) as u64;
                1 + draw(2 << top)
            });
            let range = (begin, begin + len);
            let expected = all.iter().any(|&(b, e): &Range| b < range.1 && range.0 < e);
            assert_eq!(meets(&ledger, Sort::Read, range), expected, "{range:?}");
            if draw(4) == 0 {
                ledger.open(Sort::Write, range, BY);
                all.push(range);
            }
        }
        assert!(all.len() > 50);
    }

    #[test]
    fn each_synchronisation_ends_its_own_accesses() {
        let write = |ledger: &mut Ledger, at: i64, by: Announced| {
            ledger.open(Sort::Write, (at, at + 1), by);
        };
        let mut ledger = Ledger::default();
        write(&mut ledger, 0, BY);
        write(&mut ledger, 1, Announced { origin: 2, ..BY });
        write(&mut ledger, 2, Announced { returns: true, ..BY });
        write(&mut ledger, 3, Announced { epoch: Epoch::Started, ..BY });
        write(&mut ledger, 4, Announced { epoch: Epoch::Fence, ..BY });
        write(&mut ledger, 5, Announced { epoch: Epoch::Fence, fences: 1, ..BY });
        let open = |ledger: &Ledger, fences| {
            let is_open = |at: &i64| ledger.conflict(Sort::Read, (*at, at + 1), fences).is_some();
            (0..6).filter(is_open).collect::<Vec<_>>()
        };
        assert_eq!(open(&ledger, 0), [0, 1, 2, 3, 4]);
        ledger.flushed(1, true);
        assert_eq!(open(&ledger, 0), [0, 1, 3, 4]);
        ledger.flushed(1, false);
        assert_eq!(open(&ledger, 0), [1, 3, 4]);
        ledger.waited();
        assert_eq!(open(&ledger, 0), [1, 4]);
        ledger.fenced();
        assert_eq!((open(&ledger, 0), open(&ledger, 1)), (vec![1], vec![5]), "of the new epoch");
        assert_eq!(ledger.fences(), 1);
    }
}
