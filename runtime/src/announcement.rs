//! The message by which a partitioned send announces its channel, and the memory that holds it.
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

/// The message; three words.
pub(crate) struct Announcement {
    /// Under way in the engine with these bytes; `None`: it is over.
    pub(crate) id: Option<RequestId>,
    bytes: ManuallyDrop<Box<[u8; ANNOUNCEMENT_BYTES]>>,
}

impl Announcement {
    pub(crate) fn new(words: [u64; 3]) -> Announcement {
        let mut bytes = Box::new([0; ANNOUNCEMENT_BYTES]);
        for (at, word) in bytes.chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        Announcement { id: None, bytes: ManuallyDrop::new(bytes) }
    }

    /// Returns the memory of the message, for the engine.
    pub(crate) fn buffer(&mut self) -> Buffer {
        // SAFETY: the box is not moved out of and not freed while the engine uses it: see `drop`.
        let memory = unsafe { UserBuf::new(self.bytes.as_mut_ptr(), ANNOUNCEMENT_BYTES) };
        Buffer::contiguous(memory)
    }

    /// Returns the words; `None` while the message is under way.
    pub(crate) fn words(&mut self, stack: &mut Stack) -> Option<(Completion, [u64; 3])> {
        let completion = stack.pt2pt().finish(self.id?)?;
        self.id = None;
        let word = |at: usize| {
            let bytes = self.bytes[8 * at..8 * at + 8].try_into();
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        Some((completion, [word(0), word(1), word(2)]))
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // The engine still has the bytes of a message that is under way: they are never freed.
        if self.id.is_none() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.bytes) };
        }
    }
}
