//! Where the words and grains of a ring are, for both of its sides.
//!
//! Invariant: every place is masked, so whatever the other process has written, what is
//! touched lies inside the ring. Which side may touch what, and when, is said in `ring`.

#![allow(unsafe_code)]

use super::{Corrupted, GRANULE, LINE_GRANULES};
use crate::sync::{AtomicU64, Ordering};

/// Where a ring lies: a power of two of grains, zero at the start.
#[derive(Clone, Debug)]
pub struct RingMemory {
    pub(super) base: *mut u8,
    pub(super) granules: u64,
    #[cfg(loom)]
    pub(super) model: super::loom_tests::Model,
}

impl RingMemory {
    /// # Safety
    /// `base` is aligned to a line and valid for `lines` lines for the life of the
    /// process. All of it was zero when the ring was first used, and only one
    /// producer and one consumer ever use it.
    #[cfg(not(loom))]
    pub unsafe fn new(base: *mut u8, lines: u64) -> RingMemory {
        assert!(lines.is_power_of_two() && lines >= 8);
        RingMemory { base, granules: lines * LINE_GRANULES }
    }

    /// The place of a position.
    #[inline]
    pub(super) fn offset(&self, position: u64) -> u64 {
        position & (self.granules - 1)
    }

    /// Where the lap of a position begins, as a position.
    #[inline]
    pub(super) fn lap(&self, position: u64) -> u64 {
        position & !(self.granules - 1)
    }

    #[inline]
    pub(super) fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: masked, so inside the ring.
        unsafe { self.base.add(self.offset(position) as usize * GRANULE) }
    }

    #[cfg(not(loom))]
    #[inline]
    pub(super) fn word(&self, position: u64) -> &AtomicU64 {
        // SAFETY: inside the ring, aligned to a grain. A grain's first eight bytes
        // are accessed as anything but an atomic only by the producer, inside a
        // frame that the consumer has not seen or has given back, and by the
        // consumer, inside a frame that it has not given back: each ordered
        // against the other's atomic accesses by the words and the head.
        unsafe { &*self.at(position).cast::<AtomicU64>() }
    }

    #[cfg(loom)]
    pub(super) fn word(&self, position: u64) -> &AtomicU64 {
        self.model.word(self.offset(position))
    }

    /// Clears the words from one position up to another in the same line, or its end.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn clear(&self, from: u64, to: u64) {
        let first = self.at(from).cast::<AtomicU64>();
        let clear = |granule: u64| {
            // SAFETY: a line is contiguous, and this grain is in the same one as the first; see `word`.
            let word = unsafe { &*first.byte_add(granule as usize * GRANULE) };
            word.store(0, Ordering::Relaxed);
        };
        // A whole line, as most are, without a loop.
        match to - from {
            LINE_GRANULES => (0..LINE_GRANULES).for_each(clear),
            fewer => (0..fewer).for_each(clear),
        }
    }

    #[cfg(loom)]
    pub(super) fn clear(&self, from: u64, to: u64) {
        (from..to).for_each(|granule| self.word(granule).store(0, Ordering::Relaxed));
    }

    /// Position of the consumer less `CONTROL_GRANULES`, as it said last.
    #[inline]
    pub(super) fn head(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// What the consumer says about the bodies that it reads; see `pool`.
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn read_cost(&self) -> &AtomicU64 {
        // SAFETY: the second word of the head's line, which only ever is an atomic.
        unsafe { &*self.at(0).cast::<AtomicU64>().add(1) }
    }

    /// Bytes written of bodies that are read at the same time; see `fabric::pipeline`.
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn watermark_word(&self) -> &'static std::sync::atomic::AtomicU32 {
        // SAFETY: the second word of that line, which only ever is an atomic, and is mapped
        // for the life of the process.
        unsafe { &*self.at(LINE_GRANULES).cast::<std::sync::atomic::AtomicU32>().add(2) }
    }

    /// Not 0: somebody has the claim.
    pub(super) fn transfer_lock(&self) -> &AtomicU64 {
        self.word(LINE_GRANULES + 1)
    }

    /// Not 0: the producer waits for room.
    #[inline]
    pub(super) fn producer_waiting(&self) -> &AtomicU64 {
        self.word(LINE_GRANULES)
    }

    /// Asks for the line of `position`, soon to be written: the consumer has read it,
    /// so it takes as long to own as a message takes to cross.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, position: u64) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: a hint, which changes nothing, and inside the ring all the same.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) self.at(position), options(nostack, preserves_flags, readonly))
        };
        #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
        let _ = position;
    }

    /// Asks for the line of `position`, which is to be read.
    #[inline(always)]
    pub(super) fn prefetch_read(&self, position: u64) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: a hint, and inside the ring all the same.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                self.at(position).cast(),
            )
        };
        #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
        let _ = position;
    }
}

/// The right to move what is left of the producer's large messages. With it the consumer knows that
/// none of them is complete of which it has seen no last piece: their senders' memory is as it was.
#[derive(Debug)]
pub(crate) struct TransferLock(RingMemory);

impl TransferLock {
    /// `None`: the other side has it.
    pub(super) fn of(memory: &RingMemory) -> Result<Option<TransferLock>, Corrupted> {
        // Acquire: what was published with it is seen, and read memory was read.
        match memory.transfer_lock().compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Some(TransferLock(memory.clone()))),
            Err(1) => Ok(None),
            Err(value) => Err(Corrupted { what: "the claim", value }),
        }
    }
}

impl Drop for TransferLock {
    fn drop(&mut self) {
        self.0.transfer_lock().store(0, Ordering::Release);
    }
}
