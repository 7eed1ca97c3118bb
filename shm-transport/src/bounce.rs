//! The bounce pool of a sender, shared by all of its receivers: blocks that return in order.
//!
//! A ring's lines were just read by the receiver and must leave its cache before they are written
//! again. The pool is larger than the private caches and used from end to end; therefore its lines
//! have left both caches by then.
//!
//! Frames are read in order. A block is therefore free once the head of its receiver's ring has
//! passed its frame. The pool needs no shared words of its own.
//!
//! Invariants:
//! - Blocks lie in the order taken. `blocks` has all that may still be read; the space from `next`
//!   to the oldest of them is free.
//! - Only the first `end` bytes have memory. The pool grows before it would wrap, until the system
//!   refuses memory.
//! - A sender without space waits for its own receiver alone. While the oldest block belongs to
//!   another rank, which might not poll for long, bodies go through the ring.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use fabric::Peer;

use crate::body::{BodyMemory, BodySlot, Descriptor};
use crate::copy_cost::CopyCost;
use crate::ring::LINE;
use crate::store_tuner::StoreTuner;

/// Bytes that a pool begins with.
const INITIAL_BYTES: usize = 256 << 10;

/// The range of another rank, as its receiver reads it.
#[derive(Debug)]
pub(crate) struct RemotePool {
    memory: BodyMemory,
    /// Bytes of the pool whose pages are mapped.
    mapped: usize,
}

impl RemotePool {
    pub(crate) fn new(memory: BodyMemory) -> RemotePool {
        RemotePool { memory, mapped: 0 }
    }

    /// Returns the range.
    pub(crate) fn memory(&self) -> BodyMemory {
        self.memory
    }

    /// Maps what the sender has taken memory for by now.
    #[cold]
    fn populate(&mut self, end: usize) {
        let until = end.max(INITIAL_BYTES).next_power_of_two().min(self.memory.bounce_bytes());
        self.memory.populate(self.mapped..until);
        self.mapped = until;
    }

    /// Hands the body to `take` and returns the read cost to report, if the sender wants it. `None`
    /// if the descriptor leads out of the pool.
    pub(crate) fn read(
        &mut self,
        descriptor: Descriptor,
        take: impl FnOnce(&[u8]),
    ) -> Option<Option<u64>> {
        let (start, len) = (descriptor.start(), descriptor.len as usize);
        if start + len > self.memory.bounce_bytes() {
            return None;
        }
        if start + len > self.mapped {
            self.populate(start + len);
        }
        // SAFETY: the sender does not write it until the ring's head has passed the frame, other
        // than past the watermark, which is not read. A receiver that does so spoils its own
        // message.
        let body = unsafe { self.memory.bytes(start, len) };
        let begun = descriptor.timed.map(|kind| (kind, Instant::now()));
        take(body);
        Some(begun.map(|(kind, begun)| CopyCost::since(begun, len).encode(kind)))
    }
}

/// Where a body can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Here, now.
    At(usize),
    /// In the pool, once the head of its receiver's ring is here.
    AfterHead(u64),
    /// Not in the pool.
    None,
}

/// The pool, as its owner writes it.
#[derive(Debug)]
pub(crate) struct BouncePool {
    memory: BodyMemory,
    /// Bytes that have memory.
    end: usize,
    /// The next block begins here, if it fits.
    next: usize,
    blocks: VecDeque<Block>,
    /// The system has refused more memory.
    frozen: bool,
    /// How often the pool has wrapped.
    lap: u32,
}

/// A block that may still be read.
#[derive(Debug)]
pub(crate) struct Block {
    start: usize,
    /// Its receiver.
    pub to: Peer,
    /// It is free once the head of the ring to `to` is here.
    pub until: u64,
}

impl BouncePool {
    /// Makes a pool that has no memory yet.
    pub(crate) fn new(memory: BodyMemory) -> BouncePool {
        BouncePool { memory, end: 0, next: 0, blocks: VecDeque::new(), frozen: false, lap: 0 }
    }

    /// Returns the range that the pool begins.
    pub(crate) fn memory(&self) -> BodyMemory {
        self.memory
    }

    /// Finds space for a body to `to`. `grow` takes memory for a part of the range; `is_free`
    /// returns whether a block has been read.
    pub(crate) fn find(
        &mut self,
        to: Peer,
        len: usize,
        grow: impl FnOnce(Range<usize>) -> bool,
        mut is_free: impl FnMut(&Block) -> bool,
    ) -> Space {
        let size = len.next_multiple_of(LINE);
        if self.fits(size) {
            return Space::At(self.next);
        }
        while self.blocks.front().is_some_and(&mut is_free) {
            self.blocks.pop_front();
        }
        if self.fits(size) || self.grow(size, grow) {
            return Space::At(self.next);
        }
        let oldest = self.blocks.front().map_or(self.end, |block| block.start);
        if (oldest < self.next || self.blocks.is_empty()) && size < oldest {
            self.next = 0;
            self.lap = self.lap.wrapping_add(1);
            return Space::At(0);
        }
        match self.blocks.front() {
            Some(oldest) if oldest.to == to => Space::AfterHead(oldest.until),
            _ => Space::None,
        }
    }

    /// Takes the space at `start`, which [`BouncePool::find`] found for `len`. The block is free
    /// once the head of the ring to `to` is at `until`.
    pub(crate) fn take(
        &mut self,
        start: usize,
        len: usize,
        (to, until): (Peer, u64),
        tuner: &mut StoreTuner,
    ) -> BodySlot<'_> {
        assert!(start + len <= self.end);
        let (kind, is_timed) = tuner.next(self.lap);
        self.blocks.push_back(Block { start, to, until });
        self.next = start + len.next_multiple_of(LINE);
        // SAFETY: free, therefore its last reader is done; the next one waits for the descriptor,
        // or for the watermark of a pipelined body. `blocks` keeps it from being taken again
        // meanwhile.
        let bytes = unsafe { self.memory.bytes_mut(start, len) };
        BodySlot { bytes, line: (start / LINE) as u32, kind, is_timed, tag: None }
    }

    /// Returns whether a block of `size` fits at `next`.
    #[inline]
    fn fits(&self, size: usize) -> bool {
        let until = match self.blocks.front() {
            Some(oldest) if oldest.start >= self.next => oldest.start,
            _ => self.end + 1,
        };
        self.next + size < until
    }

    /// Doubles the memory if the pool would wrap otherwise; returns whether a block of `size` fits
    /// then.
    fn grow(&mut self, size: usize, grow: impl FnOnce(Range<usize>) -> bool) -> bool {
        let has_wrapped = self.blocks.front().is_some_and(|oldest| oldest.start >= self.next);
        let end = (2 * self.end).max(INITIAL_BYTES).min(self.memory.bounce_bytes());
        if self.frozen || has_wrapped || end == self.end || self.next + size > end {
            return false;
        }
        self.frozen = !grow(self.end..end);
        if !self.frozen {
            self.memory.populate(self.end..end);
            self.end = end;
        }
        !self.frozen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body;

    const BYTES: usize = INITIAL_BYTES * 4;

    /// Posts a body of `len` times `tag`, which is read when `head` gets past `until`.
    fn post(
        pool: &mut BouncePool,
        len: usize,
        tag: u8,
        until: u64,
        head: u64,
    ) -> Option<Descriptor> {
        let mut tuner = StoreTuner::default();
        let Space::At(start) = pool.find(Peer(1), len, |_| true, |block| block.until <= head)
        else {
            return None;
        };
        let slot = pool.take(start, len, (Peer(1), until), &mut tuner);
        let descriptor = slot.descriptor(None);
        slot.fill(None, &mut tuner, |slot| slot.fill(tag));
        Some(descriptor)
    }

    #[test]
    fn bodies_arrive_whole() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let mut pool = BouncePool::new(memory);
        let (mut remote, mut waiting) =
            (RemotePool::new(memory), VecDeque::<(Descriptor, u8, usize)>::new());
        let (mut sent, mut read, mut full) = (0, 0, 0);
        for round in 0..5000_usize {
            let (len, tag) = (round * 7919 % 60_000, round as u8);
            match post(&mut pool, len, tag, sent + 1, read) {
                Some(descriptor) => {
                    sent += 1;
                    waiting.push_back((descriptor, tag, len));
                }
                None => full += 1,
            }
            if round % 3 == 0 || full % 5 == 4 {
                let (descriptor, tag, len) = waiting.pop_front().unwrap();
                let whole = |body: &[u8]| {
                    assert!(body.len() == len && body.iter().all(|&byte| byte == tag))
                };
                assert!(remote.read(descriptor, whole).is_some());
                read += 1;
            }
        }
        assert!(full > 0 && pool.end == BYTES && pool.lap > 0);
    }

    #[test]
    fn the_pool_is_used_from_end_to_end() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let mut pool = BouncePool::new(memory);
        let mut starts = std::collections::HashSet::new();
        for round in 0..1000 {
            let descriptor = post(&mut pool, 8000, 1, round, round).unwrap();
            starts.insert(descriptor.line);
        }
        assert!(starts.len() >= BYTES / 8192, "{} blocks were used in turn", starts.len());
    }

    #[test]
    fn without_memory_there_is_no_space_and_no_harm() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let mut pool = BouncePool::new(memory);
        assert_eq!(pool.find(Peer(1), 100, |_| false, |_| true), Space::None);
        let again = pool.find(Peer(1), 100, |_| true, |_| true);
        assert_eq!(again, Space::None, "memory was refused once");
    }

    #[test]
    fn a_full_pool_is_waited_for_by_those_that_fill_it() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let mut pool = BouncePool::new(memory);
        let filled = (1..).take_while(|&until| post(&mut pool, 8000, 1, until, 0).is_some());
        assert!(filled.count() > 100);
        assert_eq!(pool.find(Peer(1), 8000, |_| true, |_| false), Space::AfterHead(1));
        assert_eq!(pool.find(Peer(2), 8000, |_| true, |_| false), Space::None);
        assert_eq!(pool.find(Peer(2), 8000, |_| true, |block| block.until < 3), Space::At(0));
    }

    #[test]
    fn descriptors_out_of_the_pool_are_refused() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let last = (BYTES / LINE) as u32;
        for (line, len) in [(last, 1), (last - 1, 65), (u32::MAX, u32::MAX), (1, BYTES as u32)] {
            let descriptor = Descriptor { line, len, timed: None, base: None, tag: None };
            assert_eq!(RemotePool::new(memory).read(descriptor, |_| ()), None, "{line} {len}");
        }
    }
}
