//! Memory of messages, kept for the messages of the next round or access.
//!
//! Fresh memory costs a page fault for each page, which takes as long as copying the page several
//! times. Blocks are kept until a file is closed, [`MAX_BYTES`] in all.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smallest block that is kept: the system's allocator keeps smaller ones by itself.
const MIN_BLOCK_BYTES: usize = 64 << 10;
/// Most bytes that are kept.
const MAX_BYTES: usize = 32 << 20;

/// Blocks without a user.
static BLOCKS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn blocks() -> MutexGuard<'static, Vec<Vec<u8>>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a block of `len` bytes of any value.
pub fn take(len: usize) -> Vec<u8> {
    kept(len).unwrap_or_else(|| vec![0; len])
}

/// Returns a block like [`take`]; `None` if the system has no memory.
pub(crate) fn try_take(len: usize) -> Option<Vec<u8>> {
    kept(len).or_else(|| {
        let mut block = Vec::new();
        block.try_reserve_exact(len).ok()?;
        block.resize(len, 0);
        Some(block)
    })
}

/// Takes a block of `len` bytes that was kept.
fn kept(len: usize) -> Option<Vec<u8>> {
    if len < MIN_BLOCK_BYTES {
        return None;
    }
    let mut blocks = blocks();
    let fitting = blocks.iter().enumerate().filter(|(_, block)| block.capacity() >= len);
    let smallest = fitting.min_by_key(|(_, block)| block.capacity()).map(|(at, _)| at);
    let mut block = blocks.swap_remove(smallest?);
    block.resize(len, 0);
    Some(block)
}

/// Keeps a block for later, if there are not too many.
pub fn give_back(block: Vec<u8>) {
    let mut blocks = blocks();
    let kept: usize = blocks.iter().map(Vec::capacity).sum();
    if block.capacity() >= MIN_BLOCK_BYTES && kept + block.capacity() <= MAX_BYTES {
        blocks.push(block);
    }
}

/// Gives the blocks that are kept back to the system.
pub(crate) fn clear() {
    let blocks = std::mem::take(&mut *blocks());
    drop(blocks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_are_used_again() {
        clear();
        let first = take(1 << 20);
        let address = first.as_ptr();
        give_back(first);
        give_back(vec![0; MIN_BLOCK_BYTES - 1]);
        let shorter = take(1 << 19);
        assert_eq!((shorter.as_ptr(), shorter.len()), (address, 1 << 19));
        give_back(shorter);
        let longer = take((1 << 20) + 1);
        assert_eq!(longer.len(), (1 << 20) + 1);
        give_back(vec![0; MAX_BYTES]);
        assert_eq!(blocks().len(), 1);
        clear();
        assert!(blocks().is_empty());
    }
}
