//! The memory that a rank has attached to a dynamic window, as other ranks see it.
//!
//! A table of [`Attached::BYTES`] bytes, zero at first. Its rank alone writes it. A reader finds
//! the range that holds an address, and its region, without help of the rank; the transport then
//! accesses the memory. Ranks of the host share one table for each rank. A rank on another host
//! has one of its own ([`PeerTable`]), with keys for its device, and reads a copy of it.
//!
//! Readers of shared memory: the first word is a sequence number, odd while the table is written. A
//! reader that meets a write finds nothing. Readers of a copy: a device copies words in any order;
//! therefore each slot ends with a check word, and one that was copied in part is not found. What
//! is not found travels in frames. A program must not access memory while it is detached; therefore
//! what was found is valid for the access.
//!
//! Invariant: memory that does not fit the table is not in it, and is accessed by frames.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering, fence};

use fabric::{Region, UserBuf};

/// The table of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Attached(UserBuf);

/// Most ranges in a table.
const SLOTS: usize = 24;
/// Words before the first slot: a cache line.
const HEAD: usize = 8;
/// Words of a slot: address, bytes, region and check word; 0 bytes: vacant.
const SLOT: usize = 6;
const REGION_WORDS: usize = Region::SIZE / 8;

impl Attached {
    /// Bytes of a table.
    pub const BYTES: usize = 8 * (HEAD + SLOTS * SLOT);

    /// Returns the table in `memory`, which is zero at first and shared by all ranks of the host.
    /// Panics if it is not [`Attached::BYTES`] long and aligned to 8 bytes.
    pub fn new(memory: UserBuf) -> Attached {
        const { assert!(REGION_WORDS + 3 == SLOT && Region::SIZE.is_multiple_of(8)) };
        assert!(memory.len() == Attached::BYTES && memory.addr().is_multiple_of(8));
        Attached(memory)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < HEAD + SLOTS * SLOT);
        // SAFETY: inside the table, aligned, and valid while the window lives by the promise of the
        // memory's maker. All ranks access it atomically.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().add(8 * at).cast()) }
    }

    fn slots() -> impl Iterator<Item = usize> {
        (0..SLOTS).map(|slot| HEAD + slot * SLOT)
    }

    fn range(&self, slot: usize) -> (u64, u64) {
        let word = |at| self.word(slot + at).load(Ordering::Relaxed);
        (word(0), word(1))
    }

    /// Writes a slot; readers that meet this find nothing.
    fn write(&self, slot: usize, words: [u64; SLOT]) {
        let sequence = self.word(0).load(Ordering::Relaxed);
        self.word(0).store(sequence + 1, Ordering::Relaxed);
        // The odd number is visible before any word of the slot changes...
        fence(Ordering::Release);
        for (at, word) in words.into_iter().enumerate() {
            self.word(slot + at).store(word, Ordering::Relaxed);
        }
        // ... and all words are before the even one.
        self.word(0).store(sequence + 2, Ordering::Release);
    }

    /// Adds memory of this rank; false if there is no space.
    pub(crate) fn add(&self, memory: UserBuf, region: &Region) -> bool {
        let vacant = Attached::slots().find(|&slot| self.range(slot).1 == 0);
        let Some(slot) = vacant.filter(|_| !memory.is_empty()) else { return false };
        let region = region.encode();
        let mut words = [memory.addr(), memory.len() as u64, 0, 0, 0, 0];
        for (word, bytes) in words[2..].iter_mut().zip(region.chunks_exact(8)) {
            *word = u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
        }
        words[SLOT - 1] = check(&words);
        self.write(slot, words);
        true
    }

    /// Removes the memory of this rank that begins at `base`, if it is there.
    pub(crate) fn remove(&self, base: u64) {
        let has_it = |&slot: &usize| {
            let (begin, bytes) = self.range(slot);
            begin == base && bytes > 0
        };
        if let Some(slot) = Attached::slots().find(has_it) {
            self.write(slot, [0; SLOT]);
        }
    }

    /// Returns the region that holds the addresses `begin .. end`, and where it begins.
    pub(crate) fn find(&self, begin: u64, end: u64) -> Option<(Region, u64)> {
        // Acquire: the words are read after it.
        let sequence = self.word(0).load(Ordering::Acquire);
        let holds = |&slot: &usize| holds(self.range(slot), begin, end);
        let slot = Attached::slots().find(holds)?;
        let words: [u64; SLOT] =
            std::array::from_fn(|at| self.word(slot + at).load(Ordering::Relaxed));
        // The words were read before the number is read again.
        fence(Ordering::Acquire);
        let is_whole =
            sequence.is_multiple_of(2) && self.word(0).load(Ordering::Relaxed) == sequence;
        if is_whole { region_of(&words) } else { None }
    }
}

/// Returns the address after a range.
fn end_of(range: &UserBuf) -> u64 {
    range.addr() + range.len() as u64
}

/// Returns `len` bytes at an address if they lie in attached ranges, which may adjoin each other.
pub(crate) fn locate(ranges: &[UserBuf], begin: u64, len: usize) -> Option<UserBuf> {
    let holding = |at: u64| ranges.iter().find(|range| range.addr() <= at && at < end_of(range));
    let Some(first) = holding(begin) else {
        // No bytes may also begin where a range ends.
        let last = ranges.iter().find(|range| len == 0 && end_of(range) == begin)?;
        return Some(last.slice(last.len(), 0));
    };
    let (offset, end) = ((begin - first.addr()) as usize, begin.checked_add(len as u64)?);
    if end <= end_of(first) {
        return Some(first.slice(offset, len));
    }
    let mut covered = end_of(first);
    while covered < end {
        covered = end_of(holding(covered)?);
    }
    // SAFETY: each byte is in a range, by whose promise it may be accessed; the ranges are of one
    // address space.
    Some(unsafe { UserBuf::new(first.as_ptr().wrapping_add(offset), len) })
}

/// Returns whether a range of memory holds the addresses `begin .. end`.
fn holds((base, bytes): (u64, u64), begin: u64, end: u64) -> bool {
    base <= begin && begin <= end && end - base <= bytes && bytes > 0
}

/// Returns the region of a slot, and where it begins.
fn region_of(slot: &[u64; SLOT]) -> Option<(Region, u64)> {
    let mut encoded = [0; Region::SIZE];
    for (bytes, word) in encoded.chunks_exact_mut(8).zip(&slot[2..]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Region::decode(&encoded).map(|region| (region, slot[0]))
}

/// Returns the check word of a slot: a hash of its other words.
fn check(slot: &[u64; SLOT]) -> u64 {
    let mix = |hash: u64, word: &u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    };
    slot[..SLOT - 1].iter().fold(1, mix)
}

/// The table of a rank on another host.
#[derive(Debug)]
pub(crate) struct PeerTable(Box<[AtomicU64]>);

impl PeerTable {
    /// Returns an empty table.
    pub(crate) fn new() -> PeerTable {
        PeerTable((0..Attached::BYTES / 8).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns its memory, for the device that reads it.
    pub(crate) fn memory(&self) -> UserBuf {
        // SAFETY: the words are alive while the table is, and change by atomics alone. The window
        // keeps it until no device reads it any more.
        unsafe { UserBuf::new(self.0.as_ptr().cast_mut().cast(), Attached::BYTES) }
    }

    /// Returns the table to write it.
    pub(crate) fn table(&self) -> Attached {
        Attached(self.memory())
    }
}

/// The copy of a table that a device makes, and the addresses that are looked up in it.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// The table at the target.
    pub(crate) table: Region,
    range: (u64, u64),
    copy: Box<[AtomicU64]>,
}

impl Lookup {
    /// Prepares to look up the addresses `begin .. end`.
    pub(crate) fn new(table: Region, begin: u64, end: u64) -> Lookup {
        Lookup { table, range: (begin, end), copy: PeerTable::new().0 }
    }

    /// Returns the memory of the copy, which is valid as long as this.
    pub(crate) fn memory(&self) -> UserBuf {
        // SAFETY: as in `PeerTable::memory`. The operation keeps it until the transfer has ended.
        unsafe { UserBuf::new(self.copy.as_ptr().cast_mut().cast(), Attached::BYTES) }
    }

    /// Returns the region that holds the addresses, and where it begins; `None` if no slot was
    /// copied that does.
    pub(crate) fn find(&self) -> Option<(Region, u64)> {
        let (begin, end) = self.range;
        let slots = self.copy[HEAD..].chunks_exact(SLOT);
        let mut slots = slots
            .map(|slot| std::array::from_fn::<u64, SLOT, _>(|at| slot[at].load(Ordering::Relaxed)));
        let is_it = |slot: &[u64; SLOT]| {
            holds((slot[0], slot[1]), begin, end) && check(slot) == slot[SLOT - 1]
        };
        slots.find(is_it).and_then(|slot| region_of(&slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_table(test: impl FnOnce(Attached)) {
        let mut memory = vec![0_u64; Attached::BYTES / 8];
        // SAFETY: the vector outlives the table, which the test does not keep.
        test(Attached::new(unsafe { UserBuf::new(memory.as_mut_ptr().cast(), Attached::BYTES) }));
    }

    /// Memory that is never accessed.
    fn at(addr: u64, len: usize) -> UserBuf {
        // SAFETY: nothing accesses it.
        unsafe { UserBuf::new(addr as *mut u8, len) }
    }

    #[test]
    fn ranges_that_adjoin_are_one() {
        let ranges = [at(3000, 500), at(1000, 100), at(1100, 50)];
        let find =
            |begin, len| locate(&ranges, begin, len).map(|found| (found.addr(), found.len()));
        for (begin, len) in [(1000, 100), (1000, 150), (1099, 2), (1100, 50), (1150, 0), (3499, 1)]
        {
            assert_eq!(find(begin, len), Some((begin, len)));
        }
        for (begin, len) in [(999, 2), (1000, 151), (1149, 2), (1150, 1), (2000, 0), (3400, 101)] {
            assert_eq!(find(begin, len), None, "{len} bytes at {begin}");
        }
        assert_eq!(find(1000, usize::MAX), None);
    }

    fn region(key: u32) -> Region {
        Region { addr: 99, keys: [key, 2, 3, u32::MAX] }
    }

    #[test]
    fn what_is_attached_is_found_until_it_is_detached() {
        with_table(|table| {
            assert_eq!(table.find(0, 0), None);
            table.add(at(1000, 100), &region(1));
            table.add(at(5000, 8), &region(2));
            assert_eq!(table.find(1000, 1100), Some((region(1), 1000)));
            assert_eq!(table.find(5001, 5008), Some((region(2), 5000)));
            for (begin, end) in [(999, 1001), (1050, 1101), (1099, 5001), (5008, 5009), (9, 8)] {
                assert_eq!(table.find(begin, end), None, "{begin} to {end}");
            }
            table.remove(1000);
            table.remove(77);
            assert_eq!(table.find(1000, 1001), None);
            assert!(table.find(5000, 5001).is_some());
        });
    }

    #[test]
    fn what_does_not_fit_is_not_found() {
        with_table(|table| {
            let base = |index: usize| 1000 * (index as u64 + 1);
            for index in 0..=SLOTS {
                let is_added = table.add(at(base(index), 10), &region(index as u32));
                assert_eq!(is_added, index < SLOTS);
            }
            let is_found = |index: usize| table.find(base(index), base(index) + 1).is_some();
            assert!((0..SLOTS).all(is_found) && !is_found(SLOTS));
            table.remove(base(3));
            table.add(at(base(SLOTS), 10), &region(7));
            assert!(is_found(SLOTS) && !is_found(3));
        });
    }

    #[test]
    fn a_copy_shows_whole_slots_alone() {
        let peer = PeerTable::new();
        peer.table().add(at(1000, 100), &region(1));
        peer.table().add(at(5000, 8), &region(2));
        let lookup = |begin, end| {
            let lookup = Lookup::new(Region::default(), begin, end);
            lookup.memory().copy_from(peer.memory());
            lookup
        };
        assert_eq!(lookup(1010, 1100).find(), Some((region(1), 1000)));
        assert_eq!(lookup(5000, 5009).find(), None);
        // Any word of the slot that is older, or of another slot.
        for word in 0..SLOT {
            for other in [0, 77, 5000] {
                let lookup = lookup(1010, 1020);
                let cell = &lookup.copy[HEAD + word];
                if cell.swap(other, Ordering::Relaxed) != other {
                    assert_eq!(lookup.find(), None, "word {word} is {other}");
                }
            }
        }
        peer.table().remove(1000);
        assert_eq!(lookup(1010, 1100).find(), None);
        assert!(lookup(5000, 5008).find().is_some());
    }

    #[test]
    fn a_reader_finds_a_whole_slot_or_nothing() {
        with_table(|table| {
            let memory = table.0.addr();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let table = Attached::new(at(memory, Attached::BYTES));
                    for key in 0..20_000_u32 {
                        let region = Region { addr: key.into(), keys: [key; 4] };
                        table.add(at(4096, 1 + key as usize), &region);
                        table.remove(4096);
                    }
                });
                for _ in 0..20_000 {
                    if let Some((found, base)) = table.find(4096, 4097) {
                        let key = found.addr as u32;
                        assert!(base == 4096 && found.keys == [key; 4], "{found:?}");
                    }
                }
            });
        });
    }
}
