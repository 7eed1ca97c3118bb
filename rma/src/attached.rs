//! The memory that a rank has attached to a dynamic window, as other ranks of its host see it.
//!
//! A table of [`Attached::BYTES`] bytes for each rank lies in memory that all of them map, zero at
//! first. Its rank alone writes it. A reader finds the range that holds an address, and its region,
//! without help of the rank; the transport then accesses the memory.
//!
//! The first word is a sequence number, odd while the table is written. A reader that meets a write
//! finds nothing, and its operation travels in frames. A program must not access memory while it is
//! detached; therefore what was found is valid for the access.
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
/// Words of a slot: address, bytes and region; 0 bytes: vacant.
const SLOT: usize = 5;
const REGION_WORDS: usize = Region::SIZE / 8;

impl Attached {
    /// Bytes of a table.
    pub const BYTES: usize = 8 * (HEAD + SLOTS * SLOT);

    /// Returns the table in `memory`, which is zero at first and shared by all ranks of the host.
    /// Panics if it is not [`Attached::BYTES`] long and aligned to 8 bytes.
    pub fn new(memory: UserBuf) -> Attached {
        const { assert!(REGION_WORDS + 2 == SLOT && Region::SIZE.is_multiple_of(8)) };
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

    /// Adds memory of this rank, if there is space.
    pub(crate) fn add(&self, memory: UserBuf, region: &Region) {
        let Some(slot) = Attached::slots().find(|&slot| self.range(slot).1 == 0) else { return };
        let region = region.encode();
        let mut words = [memory.addr(), memory.len() as u64, 0, 0, 0];
        for (word, bytes) in words[2..].iter_mut().zip(region.chunks_exact(8)) {
            *word = u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
        }
        self.write(slot, words);
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
        let slot = Attached::slots().find(|&slot| {
            let (base, bytes) = self.range(slot);
            base <= begin && begin <= end && end - base <= bytes && bytes > 0
        })?;
        let base = self.range(slot).0;
        let mut encoded = [0; Region::SIZE];
        for (at, bytes) in encoded.chunks_exact_mut(8).enumerate() {
            let word = self.word(slot + 2 + at).load(Ordering::Relaxed);
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        // The words were read before the number is read again.
        fence(Ordering::Acquire);
        let is_whole =
            sequence.is_multiple_of(2) && self.word(0).load(Ordering::Relaxed) == sequence;
        if is_whole { Region::decode(&encoded).map(|region| (region, base)) } else { None }
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
            (0..=SLOTS).for_each(|index| table.add(at(base(index), 10), &region(index as u32)));
            let is_found = |index: usize| table.find(base(index), base(index) + 1).is_some();
            assert!((0..SLOTS).all(is_found) && !is_found(SLOTS));
            table.remove(base(3));
            table.add(at(base(SLOTS), 10), &region(7));
            assert!(is_found(SLOTS) && !is_found(3));
        });
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
