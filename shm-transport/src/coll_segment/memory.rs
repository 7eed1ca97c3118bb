//! Whether a collective segment has memory: a word in its owner's control block, which the first
//! member to know decides for all.
//!
//! ```text
//! Unknown ---> Taken ---> LongTaken        when a call first needs long slots
//!    |           |
//!    |           +------> LongRefused
//!    +-------> Refused
//! ```

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::memory_file::allocate;
use crate::sync::{AtomicU32, Ordering};

/// The states of the word.
pub(crate) const UNKNOWN: u32 = 0;
const TAKEN: u32 = 1;
pub(crate) const REFUSED: u32 = 2;
const LONG_TAKEN: u32 = 3;
pub(crate) const LONG_REFUSED: u32 = 4;

/// The memory of a collective segment that only long slots use.
#[derive(Debug)]
pub(crate) struct LongSlots {
    file: Arc<OwnedFd>,
    /// In the file.
    parts: Vec<Range<u64>>,
    /// See [`UNKNOWN`].
    word: &'static AtomicU32,
}

impl LongSlots {
    /// The memory of these parts of a file. `word` is that of the segment, which has all others.
    pub(crate) fn new(
        file: Arc<OwnedFd>,
        parts: Vec<Range<u64>>,
        word: &'static AtomicU32,
    ) -> LongSlots {
        LongSlots { file, parts, word }
    }

    /// Takes the memory, unless a member has; false, for all members, if there is none.
    pub(crate) fn take(&self) -> bool {
        let take = || allocate_all(&self.file, &self.parts);
        decide(self.word, TAKEN, [LONG_TAKEN, LONG_REFUSED], take) == LONG_TAKEN
    }
}

/// Takes the memory that each segment has, parts of a file, unless a member has; false, for all
/// members, if there is none.
pub(crate) fn take(file: &OwnedFd, parts: &[Range<u64>], word: &AtomicU32) -> bool {
    decide(word, UNKNOWN, [TAKEN, REFUSED], || allocate_all(file, parts)) != REFUSED
}

/// Takes memory for parts of a file; returns false if there is none.
fn allocate_all(file: &OwnedFd, parts: &[Range<u64>]) -> bool {
    parts.iter().all(|part| allocate(file, part.start, part.end - part.start).is_ok())
}

/// Moves a word from one state to one of two others, by whether there is memory. The first member
/// to know has decided it for all. Returns the state.
fn decide(
    word: &AtomicU32,
    from: u32,
    [taken, refused]: [u32; 2],
    take: impl FnOnce() -> bool,
) -> u32 {
    // Relaxed: the word orders nothing else.
    if word.load(Ordering::Relaxed) == from {
        let outcome = if take() { taken } else { refused };
        let _ = word.compare_exchange(from, outcome, Ordering::Relaxed, Ordering::Relaxed);
    }
    word.load(Ordering::Relaxed)
}
