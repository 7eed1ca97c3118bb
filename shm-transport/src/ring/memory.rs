//! The memory of a ring: addresses of granules, commit words and control words.
//!
//! Invariant: each offset is masked, so that every access lies inside the ring for any contents
//! that the other process has written. The parent module defines which side accesses which word and
//! when.

#![allow(unsafe_code)]

use super::{Corrupted, GRANULE, LINE_GRANULES};
use crate::sync::{AtomicU64, Ordering};

/// The memory of a ring: a power of two of granules, zero when first used.
#[derive(Clone, Debug)]
pub struct RingMemory {
    pub(super) base: *mut u8,
    pub(super) granules: u64,
    #[cfg(loom)]
    pub(super) model: super::loom_tests::Model,
}

impl RingMemory {
    /// # Safety
    /// `base` is aligned to a line and valid for `lines` lines until [`RingMemory::unmap`]. All of
    /// it was zero when the ring was first used. Only one producer and one consumer ever use it.
    #[cfg(not(loom))]
    pub unsafe fn new(base: *mut u8, lines: u64) -> RingMemory {
        assert!(lines.is_power_of_two() && lines >= 8);
        RingMemory { base, granules: lines * LINE_GRANULES }
    }

    /// Unmaps the ring.
    ///
    /// # Safety
    /// The ring was mapped, and nothing uses it any more in this process.
    #[cfg(not(loom))]
    pub(crate) unsafe fn unmap(self) {
        // SAFETY: the caller's promise.
        unsafe { crate::memory_file::unmap(self.base, self.granules * GRANULE as u64) }
    }

    /// Returns the offset of a position.
    #[inline]
    pub(super) fn offset(&self, position: u64) -> u64 {
        position & (self.granules - 1)
    }

    /// Returns the position at which the lap of `position` begins.
    #[inline]
    pub(super) fn lap(&self, position: u64) -> u64 {
        position & !(self.granules - 1)
    }

    #[inline]
    pub(super) fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: masked, therefore inside the ring.
        unsafe { self.base.add(self.offset(position) as usize * GRANULE) }
    }

    #[cfg(not(loom))]
    #[inline]
    pub(super) fn first_word(&self, position: u64) -> &AtomicU64 {
        // SAFETY: inside the ring and aligned to a granule. Only two accesses to a granule's first
        // eight bytes are not atomic: the producer's, inside a frame that the consumer has not seen
        // or has returned, and the consumer's, inside a frame that it has not returned. Commit
        // words and head order both against the other side's atomic accesses.
        unsafe { &*self.at(position).cast::<AtomicU64>() }
    }

    #[cfg(loom)]
    pub(super) fn first_word(&self, position: u64) -> &AtomicU64 {
        self.model.first_word(self.offset(position))
    }

    /// Clears the commit words from one position up to another in the same line, or to its end.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn clear(&self, from: u64, to: u64) {
        let first = self.at(from).cast::<AtomicU64>();
        let clear = |granule: u64| {
            // SAFETY: this granule is in the same line as the first, therefore inside the ring;
            // `first_word` explains why the access may be atomic.
            let first_word = unsafe { &*first.byte_add(granule as usize * GRANULE) };
            first_word.store(0, Ordering::Relaxed);
        };
        // A whole line, the common case, needs no loop.
        match to - from {
            LINE_GRANULES => (0..LINE_GRANULES).for_each(clear),
            fewer => (0..fewer).for_each(clear),
        }
    }

    #[cfg(loom)]
    pub(super) fn clear(&self, from: u64, to: u64) {
        (from..to).for_each(|granule| self.first_word(granule).store(0, Ordering::Relaxed));
    }

    /// Holds the consumer's position less `CONTROL_GRANULES`.
    #[inline]
    pub(super) fn head(&self) -> &AtomicU64 {
        self.first_word(0)
    }

    /// Holds the cost of the consumer's last timed read; see `store_tuner`.
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn read_cost(&self) -> &AtomicU64 {
        // SAFETY: the second word of the head's line: inside the ring, aligned, only ever an
        // atomic.
        unsafe { &*self.at(0).cast::<AtomicU64>().add(1) }
    }

    /// Holds the classes of bodies that the consumer wants to have announced; see `copy_tuner`.
    #[inline]
    pub(super) fn wanted_classes(&self) -> &AtomicU64 {
        self.first_word(1)
    }

    /// Holds the bytes written of pipelined bodies; see `crate::pipeline`.
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn watermark_word(&self) -> &'static std::sync::atomic::AtomicU32 {
        // SAFETY: the second word of that line: inside the ring, aligned, only ever an atomic, and
        // mapped as long as the ring is used.
        unsafe { &*self.at(LINE_GRANULES).cast::<std::sync::atomic::AtomicU32>().add(2) }
    }

    /// Holds 1 while a side has the transfer lock.
    pub(super) fn transfer_lock(&self) -> &AtomicU64 {
        self.first_word(LINE_GRANULES + 1)
    }

    /// Holds the number of the consumer's offer while no side has taken it, otherwise 0.
    pub(super) fn offer(&self) -> &AtomicU64 {
        self.first_word(LINE_GRANULES + 2)
    }

    /// Takes an offer. The Release of a later one orders it after all accesses to the memory of
    /// this one.
    pub(super) fn take_offer(&self, number: u64) -> bool {
        self.offer().compare_exchange(number, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Holds 1 while the producer waits for space.
    #[inline]
    pub(super) fn producer_waiting(&self) -> &AtomicU64 {
        self.first_word(LINE_GRANULES)
    }

    /// Prefetches the line of `position` for writing: the consumer has read it; therefore owning it
    /// takes as long as a message takes to cross.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, position: u64) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: a prefetch changes nothing, and its address lies inside the ring.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) self.at(position),
                options(nostack, preserves_flags, readonly)
            )
        };
        #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
        let _ = position;
    }

    /// Prefetches the line of `position` for reading.
    #[inline(always)]
    pub(super) fn prefetch_read(&self, position: u64) {
        #[cfg(not(loom))]
        fabric::copy::prefetch_read(self.at(position));
        #[cfg(loom)]
        let _ = position;
    }
}

/// The right to move the rest of the producer's large messages, until dropped.
///
/// The producer holds it while it publishes a piece. A consumer that holds it, and has no unread
/// frame, knows the last piece was not posted: the send is incomplete and its buffer unchanged.
#[derive(Debug)]
pub(crate) struct TransferLock(RingMemory);

impl TransferLock {
    /// Tries to take the lock; `None` while the other side has it.
    pub(super) fn of(memory: &RingMemory) -> Result<Option<TransferLock>, Corrupted> {
        // Acquire: frames published under the lock are seen, and reads under it are over.
        match memory.transfer_lock().compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Some(TransferLock(memory.clone()))),
            Err(1) => Ok(None),
            Err(value) => Err(Corrupted { what: "the transfer lock", value }),
        }
    }
}

impl Drop for TransferLock {
    fn drop(&mut self) {
        self.0.transfer_lock().store(0, Ordering::Release);
    }
}
