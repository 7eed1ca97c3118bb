//! Recycled blocks: a reply goes back in the block that the last body came in.
//!
//! A processor writes lines fastest that it has just read: they are in its cache already, and the
//! other side only has to give them up. A ping-pong therefore uses one block forever, which is in
//! both caches and takes no more memory than the messages are long.
//!
//! A block belongs to the rank that the last message in it went to, from when that has read the
//! message: no agreement and no return is needed. A sender without a block allocates one; if the
//! peer still holds it, the body goes through the bounce pool. A stream in one direction therefore
//! uses the bounce pool, and an exchange in both directions two blocks.
//!
//! Invariants:
//! - A rank allocates at most [`BLOCKS_PER_RANK`] blocks, in the part of its range after its
//!   bounce pool.
//! - Only the first `end` bytes of a block have memory. Its holder may take more.
//! - A descriptor is checked against the mapping: a corrupted one leads to memory, if not to a
//!   message.

#![allow(unsafe_code)]

use std::ops::Range;

use crate::body::{BlockTag, BodyMemory, BodySlot, Descriptor};
use crate::ring::LINE;
use crate::store_tuner::StoreKind;

/// Blocks that a rank allocates.
pub(crate) const BLOCKS_PER_RANK: usize = 16;
/// Blocks that a rank allocates for one peer: one for each piece of a message of 2 MiB, and both
/// sides together twice as many. The second half of all blocks is kept for peers that have none.
const BLOCKS_PER_PEER: usize = 8;
/// Blocks of a peer held at once: those that it allocated and those that this rank did.
const MAX_HELD: usize = 2 * BLOCKS_PER_PEER;
/// Bytes that a block begins with.
const INITIAL_BYTES: usize = 8 << 10;
/// Bounds of the polls that a body waits for the peer's next block. They adapt to whether the
/// last ones came in time.
const WAIT_POLLS: (u32, u32) = (16, 1024);

/// A block that this rank holds.
#[derive(Debug)]
pub(crate) struct RecycledBlock {
    memory: BodyMemory,
    start: usize,
    /// Bytes that have memory, a power of two.
    end: usize,
    /// It lies in this rank's range.
    is_own: bool,
}

impl RecycledBlock {
    /// Returns the block of a body that has arrived; `None` if the descriptor is corrupted.
    pub(crate) fn arrived(
        tag: BlockTag,
        descriptor: Descriptor,
        theirs: BodyMemory,
        own: Option<BodyMemory>,
    ) -> Option<RecycledBlock> {
        let memory = if tag.of_sender { theirs } else { own? };
        let (start, part) = (descriptor.start(), memory.recycled());
        let (size, end) = (part.len() / BLOCKS_PER_RANK, 1_usize.checked_shl(tag.end.into())?);
        let fits = part.contains(&start) && (start - part.start).is_multiple_of(size);
        (fits && descriptor.len as usize <= end && end <= size).then_some(RecycledBlock {
            memory,
            start,
            end,
            is_own: !tag.of_sender,
        })
    }

    /// Returns the body that has come in the block.
    pub(crate) fn body(&self, len: usize) -> &[u8] {
        assert!(len <= self.end);
        // SAFETY: the sender gave the block away and writes at most past the watermark, which is
        // not read. A rank that does otherwise spoils its own message.
        let body = unsafe { self.memory.bytes(self.start, len) };
        fabric::valgrind::mark_defined(body.as_ptr(), len);
        body
    }

    /// Makes the block the slot of a body of `len`, which takes it to the peer.
    pub(crate) fn into_slot<'a>(self, len: usize) -> BodySlot<'a> {
        assert!(len <= self.end);
        let tag = BlockTag { of_sender: self.is_own, end: self.end.trailing_zeros() as u8 };
        // SAFETY: this rank holds the block, and gives it away with the slot: no other slot or
        // body is in it. The peer reads it after the descriptor, or up to the watermark.
        let bytes = unsafe { self.memory.bytes_mut(self.start, len) };
        let line = (self.start / LINE) as u32;
        BodySlot { bytes, line, kind: StoreKind::Temporal, is_timed: false, tag: Some(tag) }
    }

    /// Takes memory for a body of `len` if the block has less; returns whether it has enough now.
    fn ensure(&mut self, len: usize, grow: impl FnOnce(bool, Range<usize>) -> bool) -> bool {
        if len <= self.end {
            return true;
        }
        let end = len.next_power_of_two().max(INITIAL_BYTES);
        let more = self.start + self.end..self.start + end;
        let is_short = end > self.memory.recycled().len() / BLOCKS_PER_RANK;
        if is_short || !grow(self.is_own, more.clone()) {
            return false;
        }
        self.memory.populate(more);
        self.end = end;
        true
    }
}

/// All blocks that this rank holds.
#[derive(Debug)]
pub(crate) struct RecycledBlocks {
    /// By local rank.
    peers: Vec<PeerBlocks>,
    /// Blocks that this rank has allocated.
    allocated: usize,
}

#[derive(Debug)]
struct PeerBlocks {
    /// The last to arrive is the last.
    held: Vec<RecycledBlock>,
    /// Blocks that this rank has allocated for the peer.
    allocated: usize,
    /// Polls to wait for the peer's next block.
    wait_polls: u32,
    /// Polls waited since its last block; `u32::MAX` when the wait is over.
    waited: u32,
}

impl RecycledBlocks {
    /// Makes the empty set for so many local ranks.
    pub(crate) fn new(ranks: usize) -> RecycledBlocks {
        let peers = std::iter::repeat_with(PeerBlocks::new).take(ranks).collect();
        RecycledBlocks { peers, allocated: 0 }
    }

    /// Takes a block for a body to local rank `to`, `None` if there is none. `grow` takes memory
    /// for a part of this rank's range (true) or of the peer's.
    #[inline]
    pub(crate) fn take(
        &mut self,
        to: u32,
        len: usize,
        own: BodyMemory,
        grow: impl FnOnce(bool, Range<usize>) -> bool,
    ) -> Option<RecycledBlock> {
        let peer = &mut self.peers[to as usize];
        if let Some(last) = peer.held.last_mut() {
            return if last.ensure(len, grow) { peer.held.pop() } else { None };
        }
        let most = if self.allocated < BLOCKS_PER_RANK / 2 { BLOCKS_PER_PEER } else { 1 };
        if peer.allocated >= most || self.allocated == BLOCKS_PER_RANK {
            return None;
        }
        let part = own.recycled();
        let start = part.start + part.len() / BLOCKS_PER_RANK * self.allocated;
        let mut new = RecycledBlock { memory: own, start, end: 0, is_own: true };
        if !new.ensure(len, grow) {
            return None;
        }
        (peer.allocated, self.allocated) = (peer.allocated + 1, self.allocated + 1);
        Some(new)
    }

    /// Returns whether a body should wait for a block, all of which the peer holds. While both
    /// ranks send, each soon reads the other's bodies, and then both write lines that they have
    /// in their caches.
    pub(crate) fn should_wait(&mut self, from: u32) -> bool {
        let peer = &mut self.peers[from as usize];
        if !peer.held.is_empty() || peer.waited > peer.wait_polls {
            return false;
        }
        peer.waited += 1;
        let should_wait = peer.waited <= peer.wait_polls;
        if !should_wait {
            // The peer sends nothing, or is slow.
            peer.wait_polls = (peer.wait_polls / 2).max(WAIT_POLLS.0);
            peer.waited = u32::MAX;
        }
        should_wait
    }

    /// Adopts a block whose body was read.
    #[inline]
    pub(crate) fn adopt(&mut self, from: u32, block: RecycledBlock) {
        let peer = &mut self.peers[from as usize];
        if (1..=peer.wait_polls).contains(&peer.waited) {
            peer.wait_polls = (4 * peer.wait_polls).min(WAIT_POLLS.1);
        }
        peer.waited = 0;
        if peer.held.len() < MAX_HELD {
            peer.held.push(block);
        }
    }
}

impl PeerBlocks {
    /// Before the first block has come, no body waits for one.
    fn new() -> PeerBlocks {
        PeerBlocks { held: Vec::new(), allocated: 0, wait_polls: WAIT_POLLS.0, waited: u32::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body;

    const BYTES: usize = 1 << 20;
    const SIZE: usize = 2 * BYTES / BLOCKS_PER_RANK;

    fn descriptor(start: usize, len: usize, end: u8) -> Descriptor {
        let tag = BlockTag { of_sender: true, end };
        let (line, len) = ((start / LINE) as u32, len as u32);
        Descriptor { line, len, timed: None, base: None, tag: Some(tag) }
    }

    #[test]
    fn corrupted_descriptors_lead_to_no_block() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let arrives = |start, len, end| {
            let descriptor = descriptor(start, len, end);
            RecycledBlock::arrived(descriptor.tag.unwrap(), descriptor, memory, None).is_some()
        };
        assert!(arrives(BYTES, 8192, 13) && arrives(3 * BYTES - SIZE, SIZE, 17));
        assert!(!arrives(BYTES - SIZE, 100, 13), "in the bounce pool");
        assert!(!arrives(3 * BYTES, 100, 13), "past the range");
        assert!(!arrives(BYTES + LINE, 100, 13), "within a block");
        assert!(!arrives(BYTES, 8193, 13), "longer than its memory");
        assert!(!arrives(BYTES, 100, 18), "longer than a block");
        assert!(!arrives(BYTES, 100, 64) && !arrives(BYTES, 100, 255));
        let own = BlockTag { of_sender: false, end: 13 };
        let block = RecycledBlock::arrived(own, descriptor(BYTES, 100, 13), memory, None);
        assert!(block.is_none(), "this rank has no range");
    }

    #[test]
    fn a_rank_allocates_a_few_for_each_peer_and_a_bounded_number_in_all() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let mut recycled = RecycledBlocks::new(2 * BLOCKS_PER_RANK);
        assert!(recycled.take(0, 8192, memory, |_, _| false).is_none(), "no memory");
        assert!(recycled.take(0, SIZE + 1, memory, |_, _| true).is_none(), "too long");
        let mut starts = std::collections::HashSet::new();
        let mut allocate = |peer| {
            let block =
                recycled.take(peer, 9_000, memory, |is_own, part| is_own && part.len() == 16 << 10);
            block.inspect(|block| _ = starts.insert(block.start))
        };
        let first: Vec<_> = (0..BLOCKS_PER_PEER).map(|_| allocate(0).unwrap()).collect();
        assert!(allocate(0).is_none(), "the peer has all of its own");
        for peer in 1..=(BLOCKS_PER_RANK - BLOCKS_PER_PEER) as u32 {
            assert!(allocate(peer).is_some() && allocate(peer).is_none(), "others get one each");
        }
        assert_eq!(starts.len(), BLOCKS_PER_RANK);
        first.into_iter().for_each(|block| recycled.adopt(3, block));
        let last = recycled.take(BLOCKS_PER_RANK as u32, 9_000, memory, |_, _| true);
        assert!(last.is_none(), "that was the last one");
        assert!(recycled.take(3, SIZE, memory, |_, _| false).is_none(), "no more memory for it");
        let held = recycled.take(3, 9_000, memory, |_, _| false).unwrap();
        assert_eq!(held.end, 16 << 10, "the block is still held");
    }

    #[test]
    fn a_block_of_the_peer_is_used_and_grown_like_an_own_one() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let (mut here, descriptor) = (RecycledBlocks::new(2), descriptor(BYTES, 100, 13));
        let came =
            || RecycledBlock::arrived(descriptor.tag.unwrap(), descriptor, memory, None).unwrap();
        (0..2 * MAX_HELD).for_each(|_| here.adopt(1, came()));
        let (_others, own) = body::tests::memory(BYTES);
        let grown = BYTES + 8192..BYTES + 16384;
        let block = here.take(1, 16 << 10, own, |is_own, part| !is_own && part == grown).unwrap();
        let tag = block.into_slot(10_000).descriptor(None).tag;
        assert_eq!(tag, Some(BlockTag { of_sender: false, end: 14 }));
        assert_eq!(here.peers[1].held.len(), MAX_HELD - 1, "no more are held than exist");
    }

    #[test]
    fn the_wait_for_a_block_adapts_to_whether_blocks_come_in_time() {
        let (_pages, memory) = body::tests::memory(BYTES);
        let descriptor = descriptor(BYTES, 100, 13);
        let came =
            || RecycledBlock::arrived(descriptor.tag.unwrap(), descriptor, memory, None).unwrap();
        let mut recycled = RecycledBlocks::new(2);
        let waits = |recycled: &mut RecycledBlocks| {
            (0..2 * WAIT_POLLS.1).take_while(|_| recycled.should_wait(1)).count() as u32
        };
        assert_eq!(waits(&mut recycled), 0, "none has come yet");
        let mut come_and_go = |waited: u32| {
            (0..waited).for_each(|_| _ = recycled.should_wait(1));
            recycled.adopt(1, came());
            assert!(!recycled.should_wait(1), "it is held");
            recycled.take(1, 100, memory, |_, _| true).unwrap();
            recycled.peers[1].wait_polls
        };
        assert_eq!(come_and_go(0), WAIT_POLLS.0, "no body has waited");
        assert_eq!(come_and_go(1), 4 * WAIT_POLLS.0, "it came in time");
        assert_eq!((0..8).map(|_| come_and_go(3)).max(), Some(WAIT_POLLS.1));
        for given_up in [WAIT_POLLS.1, WAIT_POLLS.1 / 2, WAIT_POLLS.1 / 4] {
            assert_eq!(waits(&mut recycled), given_up);
            assert_eq!(waits(&mut recycled), 0, "one body waits for it, not the next one too");
            recycled.adopt(1, came());
            recycled.take(1, 100, memory, |_, _| true).unwrap();
        }
    }
}
