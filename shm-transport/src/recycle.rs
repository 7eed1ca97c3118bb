//! Blocks that go to and fro between two ranks, with the large bodies in them.
//!
//! Lines are written fastest by the processor that has read them last: it has them already, and
//! the other has to give them up and nothing else. Those of a `pool` come from farther away each time.
//! So who has received a body may answer in the block that it came in, and with the answer the block
//! goes back. A ping-pong uses one block for ever, which stays in both caches, and takes no more memory
//! than its messages are long.
//!
//! A block belongs to the rank to which the last message in it went, from when that has read the message: there is
//! nothing to agree on and nothing to give back. Who has none of a peer's makes one, or has made one before
//! that the peer keeps, and then the body goes through the pool. So a stream in one direction goes through the pool,
//! and where both sides send at the same time there are two blocks.
//!
//! Invariants:
//! - A rank makes [`BLOCKS_PER_RANK`] blocks at most, out of the part of the segment behind its pool.
//! - Only the first `end` bytes of a block have memory. Who has the block may take more.
//! - What a reference says is checked against the mapping: what a broken peer writes leads to memory,
//!   if not to a message.

#![allow(unsafe_code)]

use std::ops::Range;

use fabric::user_buf::valgrind_mark_defined;

use crate::bounce::{BodySlot, Descriptor, Mapping};
use crate::ring::LINE;

/// Blocks that a rank makes.
pub(crate) const BLOCKS_PER_RANK: usize = 16;
/// Of these, for one peer: as many as a message of 2 MiB has pieces, and twice as many with those of the peer. Half of
/// all are kept for peers that have none.
const BLOCKS_PER_PEER: usize = 8;
/// Blocks that a peer's frames can leave here: what it has made, and what this rank has.
const MAX_HELD: usize = 2 * BLOCKS_PER_PEER;
/// Bytes that a block begins with.
const INITIAL_BYTES: usize = 8 << 10;

/// How often a body looks for the peer's next block, where that has not come in time before, and where it has.
const WAIT_POLLS: (u32, u32) = (16, 1024);

/// A block that is here.
#[derive(Debug)]
pub(crate) struct RecycledBlock {
    mapping: Mapping,
    start: usize,
    /// Bytes that have memory, a power of two.
    end: usize,
    /// This rank has made it.
    is_own: bool,
}

/// What a reference says of the block that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockTag {
    /// The sender of the reference has made it, not its receiver.
    of_sender: bool,
    /// Binary logarithm of the bytes that have memory.
    end: u8,
}

impl BlockTag {
    pub(crate) fn encode(self) -> [u8; 2] {
        [1 + u8::from(self.of_sender), self.end]
    }

    /// `None`: the body is in the pool.
    pub(crate) fn decode([kind, end]: [u8; 2]) -> Option<BlockTag> {
        (kind != 0).then_some(BlockTag { of_sender: kind == 2, end })
    }
}

impl RecycledBlock {
    /// The block that a body has come in; `None` if that can't be.
    pub(crate) fn arrived(
        tag: BlockTag,
        descriptor: Descriptor,
        theirs: Mapping,
        own: Option<Mapping>,
    ) -> Option<RecycledBlock> {
        let mapping = if tag.of_sender { theirs } else { own? };
        let (start, part) = (descriptor.start(), mapping.recycled());
        let (size, end) = (part.len() / BLOCKS_PER_RANK, 1_usize.checked_shl(tag.end.into())?);
        let fits = part.contains(&start) && (start - part.start).is_multiple_of(size);
        (fits && descriptor.len as usize <= end && end <= size).then_some(RecycledBlock {
            mapping,
            start,
            end,
            is_own: !tag.of_sender,
        })
    }

    /// The body that has come in it.
    pub(crate) fn body(&self, len: usize) -> &[u8] {
        assert!(len <= self.end);
        valgrind_mark_defined(self.mapping.at(self.start), len);
        // SAFETY: inside of the mapping, and the sender does not touch it any more; one that does
        // spoils its own message.
        unsafe { std::slice::from_raw_parts(self.mapping.at(self.start), len) }
    }

    /// Room for a body of that length.
    pub(crate) fn slot(&mut self, len: usize) -> BodySlot<'_> {
        assert!(len <= self.end);
        let tag = BlockTag { of_sender: self.is_own, end: self.end.trailing_zeros() as u8 };
        // SAFETY: inside of the mapping, and nobody else reads or writes it until the reference is published.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.mapping.at(self.start), len) };
        BodySlot::in_block(bytes, (self.start / LINE) as u32, tag)
    }

    /// Sees to it that a body of that length finds memory.
    fn has_room(&mut self, len: usize, take: impl FnOnce(bool, Range<usize>) -> bool) -> bool {
        if len <= self.end {
            return true;
        }
        let end = len.next_power_of_two().max(INITIAL_BYTES);
        let more = self.start + self.end..self.start + end;
        if end > self.mapping.recycled().len() / BLOCKS_PER_RANK || !take(self.is_own, more.clone())
        {
            return false;
        }
        self.mapping.populate(more);
        self.end = end;
        true
    }
}

/// All blocks that are here.
#[derive(Debug)]
pub(crate) struct RecycledBlocks {
    /// By local rank.
    pairs: Vec<PeerBlocks>,
    /// Blocks that this rank has made.
    allocated: usize,
}

#[derive(Debug)]
struct PeerBlocks {
    /// The last one to arrive is the last.
    here: Vec<RecycledBlock>,
    allocated: usize,
    /// How often to look for a block that may be on its way, and how often that was done since the last one came.
    wait_polls: u32,
    waited: u32,
}

impl RecycledBlocks {
    /// For so many local ranks.
    pub(crate) fn new(ranks: usize) -> RecycledBlocks {
        RecycledBlocks {
            pairs: std::iter::repeat_with(PeerBlocks::new).take(ranks).collect(),
            allocated: 0,
        }
    }

    /// A block for a body to that local rank, `None` if there is none to be had. `take`: takes memory for a part
    /// of this rank's mapping (true) or the peer's.
    #[inline]
    pub(crate) fn take(
        &mut self,
        to: u32,
        len: usize,
        own: Mapping,
        take: impl FnOnce(bool, Range<usize>) -> bool,
    ) -> Option<RecycledBlock> {
        let pair = &mut self.pairs[to as usize];
        if let Some(last) = pair.here.last_mut() {
            return if last.has_room(len, take) { pair.here.pop() } else { None };
        }
        let most = if self.allocated < BLOCKS_PER_RANK / 2 { BLOCKS_PER_PEER } else { 1 };
        if pair.allocated >= most || self.allocated == BLOCKS_PER_RANK {
            return None;
        }
        let part = own.recycled();
        let start = part.start + part.len() / BLOCKS_PER_RANK * self.allocated;
        let mut new = RecycledBlock { mapping: own, start, end: 0, is_own: true };
        if !new.has_room(len, take) {
            return None;
        }
        (pair.allocated, self.allocated) = (pair.allocated + 1, self.allocated + 1);
        Some(new)
    }

    /// Whether a body for a peer that has all blocks does well to wait for one: where both ranks send, each is soon
    /// through with what it has from the other, and with blocks that go to and fro both write lines that are theirs already.
    pub(crate) fn should_wait(&mut self, from: u32) -> bool {
        let pair = &mut self.pairs[from as usize];
        if !pair.here.is_empty() || pair.waited > pair.wait_polls {
            return false;
        }
        pair.waited += 1;
        let should_wait = pair.waited <= pair.wait_polls;
        if !should_wait {
            // It sends nothing, or is slow.
            pair.wait_polls = (pair.wait_polls / 2).max(WAIT_POLLS.0);
            pair.waited = u32::MAX;
        }
        should_wait
    }

    /// The block is this rank's now.
    #[inline]
    pub(crate) fn adopt(&mut self, from: u32, block: RecycledBlock) {
        let pair = &mut self.pairs[from as usize];
        if (1..=pair.wait_polls).contains(&pair.waited) {
            pair.wait_polls = (4 * pair.wait_polls).min(WAIT_POLLS.1);
        }
        pair.waited = 0;
        if pair.here.len() < MAX_HELD {
            pair.here.push(block);
        }
    }
}

impl PeerBlocks {
    /// As long as no block has come, none is waited for.
    fn new() -> PeerBlocks {
        PeerBlocks { here: Vec::new(), allocated: 0, wait_polls: WAIT_POLLS.0, waited: u32::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;
    const SLOT: usize = 2 * BYTES / BLOCKS_PER_RANK;

    fn memory() -> (Vec<[u64; 512]>, Mapping) {
        let mut pages = vec![[0; 512]; 3 * BYTES / 4096 + 1];
        let base = pages.as_mut_ptr().cast::<u8>();
        // SAFETY: aligned inside of what was allocated with a page to spare.
        let mapping = unsafe { Mapping::new(base.add(base.align_offset(4096)), BYTES) };
        (pages, mapping)
    }

    fn descriptor(start: usize, len: usize, end: u8) -> Descriptor {
        let tag = BlockTag { of_sender: true, end };
        BodySlot::in_block(&mut vec![0; len], (start / LINE) as u32, tag).descriptor(None)
    }

    #[test]
    fn what_can_not_be_a_block_is_none() {
        let (_memory, mapping) = memory();
        let arrives = |start, len, end| {
            let descriptor = descriptor(start, len, end);
            RecycledBlock::arrived(descriptor.tag.unwrap(), descriptor, mapping, None).is_some()
        };
        assert!(arrives(BYTES, 8192, 13) && arrives(3 * BYTES - SLOT, SLOT, 17));
        assert!(!arrives(BYTES - SLOT, 100, 13), "in the pool");
        assert!(!arrives(3 * BYTES, 100, 13), "behind all");
        assert!(!arrives(BYTES + LINE, 100, 13), "within a block");
        assert!(!arrives(BYTES, 8193, 13), "longer than its memory");
        assert!(!arrives(BYTES, 100, 18), "longer than a block");
        assert!(!arrives(BYTES, 100, 64) && !arrives(BYTES, 100, 255));
        let own = BlockTag { of_sender: false, end: 13 };
        assert!(
            RecycledBlock::arrived(own, descriptor(BYTES, 100, 13), mapping, None).is_none(),
            "there are none"
        );
    }

    #[test]
    fn a_rank_makes_a_few_for_each_peer_and_so_many_in_all() {
        let (_memory, mapping) = memory();
        let mut recycled = RecycledBlocks::new(2 * BLOCKS_PER_RANK);
        assert!(recycled.take(0, 8192, mapping, |_, _| false).is_none(), "no memory");
        assert!(recycled.take(0, SLOT + 1, mapping, |_, _| true).is_none(), "too long");
        let mut starts = std::collections::HashSet::new();
        let mut make = |peer| {
            let allocated = recycled
                .take(peer, 9_000, mapping, |is_own, part| is_own && part.len() == 16 << 10);
            allocated.inspect(|allocated| _ = starts.insert(allocated.start))
        };
        let first: Vec<_> = (0..BLOCKS_PER_PEER).map(|_| make(0).unwrap()).collect();
        assert!(make(0).is_none(), "the peer has all of its own");
        for peer in 1..=(BLOCKS_PER_RANK - BLOCKS_PER_PEER) as u32 {
            assert!(make(peer).is_some() && make(peer).is_none(), "the others get one each");
        }
        assert_eq!(starts.len(), BLOCKS_PER_RANK);
        first.into_iter().for_each(|allocated| recycled.adopt(3, allocated));
        assert!(
            recycled.take(BLOCKS_PER_RANK as u32, 9_000, mapping, |_, _| true).is_none(),
            "that was the last one"
        );
        assert!(recycled.take(3, SLOT, mapping, |_, _| false).is_none(), "no more memory for it");
        assert_eq!(
            recycled.take(3, 9_000, mapping, |_, _| false).unwrap().end,
            16 << 10,
            "but it is still here"
        );
    }

    #[test]
    fn who_has_a_block_need_not_have_made_it() {
        let (_memory, mapping) = memory();
        let (mut here, descriptor) = (RecycledBlocks::new(2), descriptor(BYTES, 100, 13));
        let came =
            || RecycledBlock::arrived(descriptor.tag.unwrap(), descriptor, mapping, None).unwrap();
        (0..2 * MAX_HELD).for_each(|_| here.adopt(1, came()));
        let (_other, own) = memory();
        let mut block = here
            .take(1, 16 << 10, own, |is_own, part| !is_own && part == (BYTES + 8192..BYTES + 16384))
            .unwrap();
        let tag = block.slot(10_000).descriptor(None).tag;
        assert_eq!(tag, Some(BlockTag { of_sender: false, end: 14 }));
        assert_eq!(here.pairs[1].here.len(), MAX_HELD - 1, "no more are kept than there can be");
    }

    #[test]
    fn a_block_is_due_as_long_as_patience_lasts_and_that_grows_with_what_comes_in_time() {
        let (_memory, mapping) = memory();
        let came = || {
            RecycledBlock::arrived(
                descriptor(BYTES, 100, 13).tag.unwrap(),
                descriptor(BYTES, 100, 13),
                mapping,
                None,
            )
        };
        let mut recycled = RecycledBlocks::new(2);
        let waited = |recycled: &mut RecycledBlocks| {
            (0..2 * WAIT_POLLS.1).take_while(|_| recycled.should_wait(1)).count() as u32
        };
        assert_eq!(waited(&mut recycled), 0, "none has come yet");
        let mut come_and_go = |looked: u32| {
            (0..looked).for_each(|_| _ = recycled.should_wait(1));
            recycled.adopt(1, came().unwrap());
            assert!(!recycled.should_wait(1), "it is here");
            recycled.take(1, 100, mapping, |_, _| true).unwrap();
            recycled.pairs[1].wait_polls
        };
        assert_eq!(come_and_go(0), WAIT_POLLS.0, "nobody has waited");
        assert_eq!(come_and_go(1), 4 * WAIT_POLLS.0, "it came in time");
        assert_eq!((0..8).map(|_| come_and_go(3)).max(), Some(WAIT_POLLS.1));
        for given_up in [WAIT_POLLS.1, WAIT_POLLS.1 / 2, WAIT_POLLS.1 / 4] {
            assert_eq!(waited(&mut recycled), given_up);
            assert_eq!(waited(&mut recycled), 0, "one body waits for it, not the next one too");
            recycled.adopt(1, came().unwrap());
            recycled.take(1, 100, mapping, |_, _| true).unwrap();
        }
    }
}
