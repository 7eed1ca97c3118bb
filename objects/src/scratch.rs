//! Scratch memory of the library, kept for reuse.
//!
//! It is never unmapped: a block returns to its pool. The pages of a large idle block return to the
//! system while its addresses are still valid. A use after the end, which would be a bug, therefore
//! reads or writes wrong data and nothing else, as with every [`UserBuf`]. Therefore [`Pool::take`]
//! can be safe.

#![allow(unsafe_code)]

use fabric::UserBuf;

use crate::Area;

/// Scratch memory, aligned to [`Pool::ALIGN`] bytes, with arbitrary contents.
#[derive(Debug)]
pub struct Scratch(UserBuf);

impl Scratch {
    /// Returns the whole block, from its first byte on.
    #[inline]
    pub fn area(&self) -> Area {
        Area::from(self.0)
    }
}

/// Blocks of scratch memory for reuse, by size: powers of two.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<UserBuf>; SIZE_CLASSES],
    /// Bytes in free blocks whose pages the pool still holds.
    resident: usize,
}

/// Number of size classes: one for each power of two.
const SIZE_CLASSES: usize = usize::BITS as usize;
/// Smallest free block, in bytes, whose pages return to the system...
const RECLAIM_MIN: usize = 1 << 18;
/// ... if the pool holds more than this, bytes.
const MAX_RESIDENT: usize = 64 << 20;
/// Bytes of the smallest block.
const BLOCK_MIN: usize = 1 << 10;

impl Pool {
    /// Alignment of all blocks.
    pub const ALIGN: usize = 64;

    /// Returns an empty pool.
    pub const fn new() -> Pool {
        Pool { free: [const { Vec::new() }; SIZE_CLASSES], resident: 0 }
    }

    /// Returns a block of at least `bytes`; `None` if the system is out of memory.
    #[inline]
    pub fn take(&mut self, bytes: u64) -> Option<Scratch> {
        let size = usize::try_from(bytes).ok()?.max(BLOCK_MIN).checked_next_power_of_two()?;
        match self.free[size.trailing_zeros() as usize].pop() {
            Some(block) => {
                self.resident = self.resident.saturating_sub(size);
                Some(Scratch(block))
            }
            None => map(size).map(Scratch),
        }
    }

    /// Returns a block to the pool.
    #[inline]
    pub fn give(&mut self, scratch: Scratch) {
        let (block, size) = (scratch.0, scratch.0.len());
        self.resident += size;
        if size >= RECLAIM_MIN && self.resident > MAX_RESIDENT {
            self.resident -= size;
            empty(block);
        }
        self.free[size.trailing_zeros() as usize].push(block);
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new()
    }
}

/// Allocates a block that is never freed.
#[cold]
fn map(size: usize) -> Option<UserBuf> {
    let address = if size < RECLAIM_MIN {
        let layout = std::alloc::Layout::from_size_align(size, Pool::ALIGN).ok()?;
        // SAFETY: the size is not zero.
        unsafe { std::alloc::alloc_zeroed(layout) }
    } else {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping where the kernel wants it.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if address == libc::MAP_FAILED { std::ptr::null_mut() } else { address.cast() }
    };
    // SAFETY: just allocated with that size, and never freed.
    (!address.is_null()).then(|| unsafe { UserBuf::new(address, size) })
}

/// Returns the pages to the system; the addresses are still valid.
#[cold]
fn empty(block: UserBuf) {
    // SAFETY: an anonymous mapping made by `map`, free now; it reads as zeros
    // afterwards. Failure (locked memory) only keeps the pages.
    unsafe { libc::madvise(block.as_ptr().cast(), block.len(), libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_come_back() {
        let mut pool = Pool::new();
        let scratch = pool.take(100).unwrap();
        let address = scratch.area().address();
        assert_eq!(address % Pool::ALIGN as u64, 0);
        pool.give(scratch);
        assert_eq!(pool.take(1000).unwrap().area().address(), address);
        assert!(pool.take(u64::MAX).is_none());
    }

    #[test]
    fn large_idle_blocks_give_their_pages_back() {
        let (mut pool, size) = (Pool::new(), MAX_RESIDENT as u64 + 1);
        let scratch = pool.take(size).unwrap();
        let last = scratch.area().bytes(MAX_RESIDENT as i64, 1);
        last.unpack(0, &[7]);
        pool.give(scratch);
        assert_eq!(pool.resident, 0);
        let mut byte = [1];
        last.pack(0, &mut byte);
        assert_eq!(byte, [0], "still mapped");
    }
}
