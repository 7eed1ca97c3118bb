//! The byte that a device wrote last, and the read that confirms it; see `confirm`.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;

use fabric::{Region, UserBuf};

/// The byte that a device has written last at a target, and has not confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unconfirmed {
    pub(crate) region: Region,
    /// Its offset in the region.
    pub(crate) at: u64,
}

/// The read of that byte.
#[derive(Debug)]
pub(crate) struct Confirmation {
    pub(crate) last: Unconfirmed,
    byte: AtomicU64,
}

impl Confirmation {
    /// Prepares the read.
    pub(crate) fn new(last: Unconfirmed) -> Confirmation {
        Confirmation { last, byte: AtomicU64::new(0) }
    }

    /// Returns the memory that gets the byte, valid as long as this.
    pub(crate) fn memory(&self) -> UserBuf {
        // SAFETY: the word is alive while this is, and nothing else accesses it. The operation
        // keeps this until the transfer has ended.
        unsafe { UserBuf::new(self.byte.as_ptr().cast(), 1) }
    }
}
