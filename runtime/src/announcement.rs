//! Memory of this library that the engine sends from or receives into: the message by which a
//! partitioned send announces its channel, and partitions that end inside of an element with gaps.
//!
//! Invariant: what the engine may still read or write is not freed: see `drop`.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;

use fabric::UserBuf;
use objects::Buffer;
use pt2pt::{Completion, RequestId};

use crate::stack::Stack;

/// Bytes of an announcement: channel, partitions, bytes of one partition.
const ANNOUNCEMENT_BYTES: usize = 24;

/// Bytes, and the operation that has them.
pub(crate) struct Staging {
    /// Under way in the engine with these bytes; `None`: it is over.
    pub(crate) id: Option<RequestId>,
    bytes: ManuallyDrop<Box<[u8]>>,
}

impl Staging {
    /// Returns so many bytes, all 0.
    pub(crate) fn new(len: usize) -> Staging {
        Staging { id: None, bytes: ManuallyDrop::new(vec![0; len].into_boxed_slice()) }
    }

    /// Returns the memory, for the engine.
    pub(crate) fn buffer(&mut self) -> Buffer {
        // SAFETY: the box is not moved out of and not freed while the engine uses it: see `drop`.
        let memory = unsafe { UserBuf::new(self.bytes.as_mut_ptr(), self.bytes.len()) };
        Buffer::contiguous(memory)
    }

    /// Takes the outcome, with the bytes; `None` while the operation is under way.
    pub(crate) fn take(&mut self, stack: &mut Stack) -> Option<(Completion, &[u8])> {
        let completion = stack.pt2pt().finish(self.id?)?;
        self.id = None;
        Some((completion, &self.bytes))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The engine still has the bytes of an operation that is under way: they are never freed.
        if self.id.is_none() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.bytes) };
        }
    }
}

/// An announcement; three words.
pub(crate) struct Announcement(pub(crate) Staging);

impl Announcement {
    pub(crate) fn new(words: [u64; 3]) -> Announcement {
        let mut staging = Staging::new(ANNOUNCEMENT_BYTES);
        for (at, word) in staging.bytes.chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        Announcement(staging)
    }

    /// Returns the words; `None` while the message is under way.
    pub(crate) fn words(&mut self, stack: &mut Stack) -> Option<(Completion, [u64; 3])> {
        let (completion, bytes) = self.0.take(stack)?;
        let word = |at: usize| {
            let bytes = bytes[8 * at..8 * at + 8].try_into();
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        Some((completion, [word(0), word(1), word(2)]))
    }
}
