//! Large bodies on their way: one pool for each sender, for all of its receivers.
//!
//! What goes through a ring is written to lines that the receiver has read a moment
//! ago and that must first leave its cache, line by line. A pool is larger than the
//! private caches and is used from end to end before any of it is used again, so
//! its lines have left both caches by then: several times the bandwidth, where the
//! processors share a cache. Where they don't, it is stores past the cache that
//! win. Which one it is changes under our feet in a virtual machine, so it is
//! measured for each pair, now and then ([`StoreTuner`]).
//!
//! The frame in the ring is the header and a [`Descriptor`] to the body, which may still be
//! written when the frame is there (`fabric::pipeline`). Frames are taken in order, so a body has been read once the ring's head has passed its
//! frame: the pool itself needs no words that two processes share.
//!
//! Invariants:
//! - Blocks lie in the order taken, `blocks` has all that may still be read, and the
//!   space from `next` to the oldest of them is free.
//! - Only the first `end` bytes have memory; more is taken when the pool would
//!   otherwise begin again. A pool that can't grow stays as it is.
//! - Who has no room waits for its own receiver alone. When the oldest body is for
//!   another rank, which may not look for long, the body goes through the ring.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use fabric::user_buf::nt_fence;
use fabric::{Peer, Slot, Watermark};
use rustix::mm::{Advice, madvise};

use crate::recycle::BlockTag;
use crate::ring::LINE;

/// Bytes that a pool begins with.
const INITIAL_BYTES: usize = 256 << 10;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// Into the cache.
    Temporal,
    /// Past it.
    NonTemporal,
}

impl StoreKind {
    fn other(self) -> StoreKind {
        match self {
            StoreKind::Temporal => StoreKind::NonTemporal,
            StoreKind::NonTemporal => StoreKind::Temporal,
        }
    }
}

/// Nanoseconds for 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyCost(u32);

impl CopyCost {
    fn since(begun: Instant, bytes: usize) -> CopyCost {
        let nanoseconds = (begun.elapsed().as_nanos() as u64).saturating_sub(STARTUP_NS);
        CopyCost(((nanoseconds << 16) / bytes.max(1) as u64).min(u32::MAX.into()) as u32)
    }

    /// What a reader says of its side, as a word of the ring. Never 0.
    fn encode(self, kind: StoreKind) -> u64 {
        u64::from(self.0) << 2 | (kind as u64) << 1 | 1
    }

    fn decode(word: u64) -> Option<(StoreKind, CopyCost)> {
        let kind = if word & 2 == 0 { StoreKind::Temporal } else { StoreKind::NonTemporal };
        (word & 1 != 0).then_some((kind, CopyCost((word >> 2) as u32)))
    }
}

/// Nanoseconds that pass before the first byte has crossed.
const STARTUP_NS: u64 = 200;

/// What writing and reading cost together through caches that the two processors share; memory
/// takes longer on every machine.
const SHARED_CACHE_NS: u64 = 3_500;

/// The last few costs. The least of them counts: who was interrupted says nothing.
#[derive(Clone, Copy, Debug, Default)]
struct RecentCosts {
    costs: [u32; 4],
    count: usize,
}

impl RecentCosts {
    fn push(&mut self, cost: CopyCost) {
        self.costs[self.count % 4] = cost.0;
        self.count += 1;
    }

    /// `None` until there are enough to say something.
    fn least(&self) -> Option<u32> {
        if self.count < 4 { None } else { self.costs.iter().copied().min() }
    }
}

/// Which way is faster between two ranks.
///
/// What a body costs depends on how the lines under it were written the time
/// before, so a way is tried for two laps of the pool, and what counts is the
/// second, unless the difference is plain at once. Trials get rarer while they fail.
#[derive(Debug)]
pub(crate) struct StoreTuner {
    kind: StoreKind,
    /// The lap in which the trial of the other way began.
    trial: Option<u32>,
    /// The lap of the next trial, and the laps between that and the one before.
    next_trial: u32,
    interval: u32,
    /// By way.
    written: [RecentCosts; 2],
    read: [RecentCosts; 2],
    /// What the reader said last.
    heard: u64,
    bodies: u32,
}

impl Default for StoreTuner {
    fn default() -> StoreTuner {
        StoreTuner {
            kind: StoreKind::Temporal,
            trial: None,
            next_trial: 2,
            interval: 2,
            written: Default::default(),
            read: Default::default(),
            heard: 0,
            bodies: 0,
        }
    }
}

/// Laps between two trials, at most.
const MAX_TRIAL_INTERVAL: u32 = 256;

impl StoreTuner {
    /// The way for the next body, in that lap of the pool, and whether it is timed.
    fn next(&mut self, lap: u32) -> (StoreKind, bool) {
        self.bodies = self.bodies.wrapping_add(1);
        match self.trial {
            Some(began) => self.judge(lap, began),
            None if lap >= self.next_trial && self.should_try_other() => {
                let other = self.kind.other() as usize;
                (self.written[other], self.read[other]) = Default::default();
                self.trial = Some(lap);
            }
            None => {}
        }
        let kind = if self.trial.is_some() { self.kind.other() } else { self.kind };
        (kind, self.bodies.is_multiple_of(8))
    }

    /// False while the caches are plainly faster than memory, where the other way leads.
    fn should_try_other(&self) -> bool {
        let least = if self.kind == StoreKind::Temporal { SHARED_CACHE_NS } else { 0 };
        self.cost(self.kind).is_some_and(|cost| cost > least)
    }

    /// Ends the trial when enough is known.
    fn judge(&mut self, lap: u32, began: u32) {
        let (Some(now), Some(tried)) = (self.cost(self.kind), self.cost(self.kind.other())) else {
            return;
        };
        let is_fair = lap > began + 1;
        if tried < now && (is_fair || 2 * tried < now) {
            self.kind = self.kind.other();
            self.interval = 2;
        } else if is_fair || tried > 2 * now {
            self.interval = (2 * self.interval).min(MAX_TRIAL_INTERVAL);
        } else {
            return;
        }
        self.trial = None;
        self.next_trial = lap + self.interval;
    }

    /// The better way as far as is known.
    pub(crate) fn best(&self) -> StoreKind {
        self.kind
    }

    fn cost(&self, kind: StoreKind) -> Option<u64> {
        let (written, read) = (&self.written[kind as usize], &self.read[kind as usize]);
        Some(u64::from(written.least()?) + u64::from(read.least()?))
    }

    /// True when it is time to ask what the reader says.
    pub(crate) fn due_for_feedback(&self) -> bool {
        self.bodies % 8 == 7
    }

    /// Takes what the reader says.
    pub(crate) fn record_read_cost(&mut self, word: u64) {
        if word != self.heard
            && let Some((kind, cost)) = CopyCost::decode(word)
        {
            self.heard = word;
            self.read[kind as usize].push(cost);
        }
    }
}

/// What the frame in the ring says about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The body's first line in the pool.
    line: u32,
    /// Bytes of the body.
    pub len: u32,
    /// The sender asks what reading costs that was written this way.
    timed: Option<StoreKind>,
    /// It is still being written: what the count held before.
    pub base: Option<u32>,
    /// The block is the receiver's from now on.
    pub tag: Option<BlockTag>,
}

impl Descriptor {
    pub(crate) const SIZE: usize = 16;

    pub(crate) fn encode(self) -> [u8; Descriptor::SIZE] {
        let mut out = [0; Descriptor::SIZE];
        out[..4].copy_from_slice(&self.line.to_le_bytes());
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8] = self.timed.map_or(0, |kind| 1 + kind as u8);
        out[9] = self.base.is_some().into();
        out[10..12].copy_from_slice(&self.tag.map_or([0; 2], BlockTag::encode));
        out[12..].copy_from_slice(&self.base.unwrap_or(0).to_le_bytes());
        out
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Descriptor> {
        let body: &[u8; Descriptor::SIZE] = body.try_into().ok()?;
        let word =
            |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let timed = match body[8] {
            0 => None,
            1 => Some(StoreKind::Temporal),
            _ => Some(StoreKind::NonTemporal),
        };
        let (base, tag) =
            ((body[9] != 0).then(|| word(12)), BlockTag::decode([body[10], body[11]]));
        Some(Descriptor { line: word(0), len: word(4), timed, base, tag })
    }

    /// Where it leads to, in bytes.
    pub(crate) fn start(self) -> usize {
        self.line as usize * LINE
    }
}

/// Where a pool lies, and behind it twice as much for `tag`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    /// Of the pool.
    bytes: usize,
}

// SAFETY: memory that is shared with other processes anyway, mapped for ever; a
// transport is used by one thread at a time.
unsafe impl Send for Mapping {}

impl Mapping {
    /// # Safety
    /// `base` is aligned to a page and mapped for [`Mapping::length`] for the life of the process.
    pub(crate) unsafe fn new(base: *mut u8, bytes: usize) -> Mapping {
        Mapping { base, bytes }
    }

    /// Bytes of a pool of `bytes` and the part behind it.
    pub(crate) fn length(bytes: u64) -> u64 {
        3 * bytes
    }

    /// The part behind the pool.
    pub(crate) fn recycled(&self) -> Range<usize> {
        self.bytes..Mapping::length(self.bytes as u64) as usize
    }

    /// The address of an offset.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        self.base.wrapping_add(offset)
    }

    /// Has pages mapped at once instead of one by one; an old kernel can't. Reading is enough: those of
    /// shared memory come with the right to write.
    pub(crate) fn populate(&self, chunk_bytes: Range<usize>) {
        // SAFETY: inside the mapping; what it holds stays as it is.
        let _ = unsafe {
            madvise(
                self.base.add(chunk_bytes.start).cast(),
                chunk_bytes.len(),
                Advice::LinuxPopulateRead,
            )
        };
    }
}

/// The receiving side: the pool of another rank.
#[derive(Debug)]
pub(crate) struct RemotePool {
    mapping: Mapping,
    /// Bytes whose pages are mapped.
    mapped: usize,
}

impl RemotePool {
    pub(crate) fn new(mapping: Mapping) -> RemotePool {
        RemotePool { mapping, mapped: 0 }
    }

    /// Where it lies.
    pub(crate) fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Maps what the sender has taken memory for by now, if that is more.
    #[cold]
    fn follow(&mut self, end: usize) {
        let until = end.max(INITIAL_BYTES).next_power_of_two().min(self.mapping.bytes);
        self.mapping.populate(self.mapped..until);
        self.mapped = until;
    }

    /// Hands the body to `take`; afterwards the word that says what that cost, if the
    /// sender asks for it. `None` when the reference leads out of the pool.
    pub(crate) fn read(
        &mut self,
        descriptor: Descriptor,
        take: impl FnOnce(&[u8]),
    ) -> Option<Option<u64>> {
        let (start, len) = (descriptor.start(), descriptor.len as usize);
        if start + len > self.mapping.bytes {
            return None;
        }
        if start + len > self.mapped {
            self.follow(start + len);
        }
        // SAFETY: inside, and the sender does not touch it until the ring's head has
        // passed the frame; one that does spoils its own message.
        let body = unsafe { std::slice::from_raw_parts(self.mapping.base.add(start), len) };
        let begun = descriptor.timed.map(|kind| (kind, Instant::now()));
        take(body);
        Some(begun.map(|(kind, begun)| CopyCost::since(begun, len).encode(kind)))
    }
}

/// Where a body may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Here, now.
    At(usize),
    /// Not before the head of its ring is there.
    After(u64),
    /// Not in the pool.
    None,
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct BouncePool {
    mapping: Mapping,
    /// Bytes that have memory.
    end: usize,
    /// The next block starts here, if there is room.
    next: usize,
    blocks: VecDeque<Block>,
    /// The system has refused more memory.
    frozen: bool,
    /// How often it has begun again.
    lap: u32,
}

/// A body that may still be read.
#[derive(Debug)]
pub(crate) struct Block {
    start: usize,
    /// By whom.
    pub to: Peer,
    /// It has been read when the head of the ring to that peer is here.
    pub until: u64,
}

impl BouncePool {
    /// Without memory yet.
    pub(crate) fn new(mapping: Mapping) -> BouncePool {
        BouncePool { mapping, end: 0, next: 0, blocks: VecDeque::new(), frozen: false, lap: 0 }
    }

    /// Where it lies.
    pub(crate) fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Finds room for a body to `to`. `grow` takes memory for a part of
    /// the pool; `is_read` says whether a block is no longer needed.
    pub(crate) fn room(
        &mut self,
        to: Peer,
        len: usize,
        grow: impl FnOnce(Range<usize>) -> bool,
        mut is_read: impl FnMut(&Block) -> bool,
    ) -> Room {
        let size = len.next_multiple_of(LINE);
        if self.fits(size) {
            return Room::At(self.next);
        }
        while self.blocks.front().is_some_and(&mut is_read) {
            self.blocks.pop_front();
        }
        if self.fits(size) || self.grow(size, grow) {
            return Room::At(self.next);
        }
        let oldest = self.blocks.front().map_or(self.end, |block| block.start);
        if (oldest < self.next || self.blocks.is_empty()) && size < oldest {
            self.next = 0;
            self.lap = self.lap.wrapping_add(1);
            return Room::At(0);
        }
        match self.blocks.front() {
            Some(oldest) if oldest.to == to => Room::After(oldest.until),
            _ => Room::None,
        }
    }

    /// True when there is room at `next`.
    #[inline]
    fn fits(&self, size: usize) -> bool {
        let until = match self.blocks.front() {
            Some(oldest) if oldest.start >= self.next => oldest.start,
            _ => self.end + 1,
        };
        self.next + size < until
    }

    /// Takes memory for as much again, if the pool would begin again otherwise; true
    /// when a block of that size fits then.
    fn grow(&mut self, size: usize, grow: impl FnOnce(Range<usize>) -> bool) -> bool {
        let has_begun_again = self.blocks.front().is_some_and(|oldest| oldest.start >= self.next);
        let end = (2 * self.end).max(INITIAL_BYTES).min(self.mapping.bytes);
        if self.frozen || has_begun_again || end == self.end || self.next + size > end {
            return false;
        }
        self.frozen = !grow(self.end..end);
        if !self.frozen {
            self.mapping.populate(self.end..end);
            self.end = end;
        }
        !self.frozen
    }

    /// Takes the room at `start`, which [`BouncePool::room`] gave for `len`, for a body whose
    /// reference ends at `until` of the ring to `to`.
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
        // SAFETY: inside, and free: nobody else reads or writes it until the reference is
        // published, and we not once it is written.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.mapping.base.add(start), len) };
        BodySlot { bytes, line: (start / LINE) as u32, kind, is_timed, tag: None }
    }
}

/// Room for one body.
#[derive(Debug)]
pub(crate) struct BodySlot<'a> {
    bytes: &'a mut [u8],
    line: u32,
    kind: StoreKind,
    is_timed: bool,
    tag: Option<BlockTag>,
}

impl<'a> BodySlot<'a> {
    /// In a block that goes to the receiver.
    pub(crate) fn in_block(bytes: &'a mut [u8], line: u32, tag: BlockTag) -> BodySlot<'a> {
        BodySlot { bytes, line, kind: StoreKind::Temporal, is_timed: false, tag: Some(tag) }
    }

    /// Bytes of the body.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// `base`: what the count holds, if the body is read while it is written.
    pub(crate) fn descriptor(&self, base: Option<u32>) -> Descriptor {
        let (len, timed) = (self.bytes.len() as u32, self.is_timed.then_some(self.kind));
        Descriptor { line: self.line, len, timed, base, tag: self.tag }
    }

    /// Has it written, and counted as it comes if it is read at the same time.
    pub(crate) fn fill(
        self,
        count: Option<Watermark<'_>>,
        tuner: &mut StoreTuner,
        fill: impl FnOnce(&mut Slot),
    ) {
        let (len, non_temporal) = (self.bytes.len(), self.kind == StoreKind::NonTemporal);
        let begun = self.is_timed.then(Instant::now);
        fill(&mut match count {
            None => Slot::new(self.bytes, non_temporal),
            Some(count) => {
                Slot::pipelined(self.bytes, non_temporal, count, chunk_bytes(self.kind, len))
            }
        });
        nt_fence();
        if let Some(begun) = begun {
            tuner.written[self.kind as usize].push(CopyCost::since(begun, len));
        }
    }
}

/// Bytes between two counts: few enough for the copies to go on side by side, and
/// enough that a count, a line that crosses, is little beside them. Past the cache each count
/// waits for all stores before it.
fn chunk_bytes(kind: StoreKind, len: usize) -> usize {
    let (parts, most) = match kind {
        StoreKind::Temporal => (4, 16 << 10),
        StoreKind::NonTemporal => (2, 128 << 10),
    };
    (len / parts).clamp(2 << 10, most).next_multiple_of(LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = INITIAL_BYTES * 4;

    fn memory() -> (Vec<[u64; 512]>, Mapping) {
        let mut pages = vec![[0; 512]; 2 * BYTES / 4096 + 1];
        let base = pages.as_mut_ptr().cast::<u8>();
        // SAFETY: aligned inside of what was allocated with a page to spare.
        let mapping = unsafe { Mapping::new(base.add(base.align_offset(4096)), BYTES) };
        (pages, mapping)
    }

    /// A body of `len` times `tag`, which is read when `head` gets past `until`.
    fn put(
        pool: &mut BouncePool,
        tuner: &mut StoreTuner,
        len: usize,
        tag: u8,
        until: u64,
        head: u64,
    ) -> Option<Descriptor> {
        let Room::At(start) = pool.room(Peer(1), len, |_| true, |block| block.until <= head) else {
            return None;
        };
        let place = pool.take(start, len, (Peer(1), until), tuner);
        let descriptor = place.descriptor(None);
        place.fill(None, tuner, |slot| slot.fill(tag));
        Some(descriptor)
    }

    #[test]
    fn bodies_arrive_whole() {
        let (_memory, mapping) = memory();
        let (mut pool, mut tuner) = (BouncePool::new(mapping), StoreTuner::default());
        let (mut source, mut waiting) =
            (RemotePool::new(mapping), VecDeque::<(Descriptor, u8, usize)>::new());
        let (mut sent, mut read, mut full) = (0, 0, 0);
        for round in 0..5000_usize {
            let (len, tag) = (round * 7919 % 60_000, round as u8);
            match put(&mut pool, &mut tuner, len, tag, sent + 1, read) {
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
                assert!(source.read(descriptor, whole).is_some());
                read += 1;
            }
        }
        assert!(full > 0 && pool.end == BYTES && pool.lap > 0);
    }

    #[test]
    fn it_is_used_from_end_to_end() {
        let (_memory, mapping) = memory();
        let (mut pool, mut tuner) = (BouncePool::new(mapping), StoreTuner::default());
        let mut starts = std::collections::HashSet::new();
        for round in 0..1000 {
            let descriptor = put(&mut pool, &mut tuner, 8000, 1, round, round).unwrap();
            starts.insert(descriptor.line);
        }
        assert!(starts.len() >= BYTES / 8192, "{} blocks took turns", starts.len());
    }

    #[test]
    fn without_memory_there_is_no_room_and_no_harm() {
        let (_memory, mapping) = memory();
        let mut pool = BouncePool::new(mapping);
        assert_eq!(pool.room(Peer(1), 100, |_| false, |_| true), Room::None);
        assert_eq!(pool.room(Peer(1), 100, |_| true, |_| true), Room::None, "it was refused once");
    }

    #[test]
    fn a_full_pool_is_waited_for_by_those_that_fill_it() {
        let (_memory, mapping) = memory();
        let (mut pool, mut tuner) = (BouncePool::new(mapping), StoreTuner::default());
        let filled = (1..)
            .take_while(|&until| put(&mut pool, &mut tuner, 8000, 1, until, 0).is_some())
            .count();
        assert!(filled > 100);
        assert_eq!(pool.room(Peer(1), 8000, |_| true, |_| false), Room::After(1));
        assert_eq!(pool.room(Peer(2), 8000, |_| true, |_| false), Room::None);
        assert_eq!(pool.room(Peer(2), 8000, |_| true, |block| block.until < 3), Room::At(0));
    }

    #[test]
    fn references_out_of_the_pool_are_refused() {
        let (_memory, mapping) = memory();
        let last = (BYTES / LINE) as u32;
        for (line, len) in [(last, 1), (last - 1, 65), (u32::MAX, u32::MAX), (1, BYTES as u32)] {
            let read = RemotePool::new(mapping)
                .read(Descriptor { line, len, timed: None, base: None, tag: None }, |_| ());
            assert_eq!(read, None, "{line} {len}");
        }
        for (timed, base) in [
            (None, None),
            (Some(StoreKind::Temporal), Some(0)),
            (Some(StoreKind::NonTemporal), Some(u32::MAX)),
        ] {
            for tag in [None, BlockTag::decode([1, 17]), BlockTag::decode([2, 20])] {
                let descriptor = Descriptor { line: 7, len: 70_000, timed, base, tag };
                assert_eq!(Descriptor::decode(&descriptor.encode()), Some(descriptor));
            }
        }
        assert_eq!(Descriptor::decode(&[0; 5]), None);
    }

    #[test]
    fn the_faster_way_is_found_and_left_again() {
        let (mut tuner, mut lap) = (StoreTuner::default(), 0);
        let (cached, past) = (StoreKind::Temporal, StoreKind::NonTemporal);
        let rare = MAX_TRIAL_INTERVAL * 64 * 5 / 4;
        // What is plainly fast is not doubted; what is not, now and then.
        for (costs, expected, most) in [
            ([1_000, 2_000], cached, 0),
            ([30_000, 2_000], past, rare),
            ([10_000, 20_000], cached, rare),
            ([1_000, 2_000], cached, 256),
        ] {
            let mut slow = 0;
            for _ in 0..2 * MAX_TRIAL_INTERVAL + 16 {
                lap += 1;
                for body in 0..64 {
                    let (kind, timed) = tuner.next(lap);
                    slow += u32::from(kind != expected);
                    let interrupted = if body == 21 { 1_000_000 } else { 0 };
                    if timed {
                        tuner.written[kind as usize]
                            .push(CopyCost(costs[kind as usize] + interrupted));
                        tuner.record_read_cost(
                            CopyCost(costs[kind as usize] + body / 8 % 2).encode(kind),
                        );
                    }
                }
            }
            assert_eq!(tuner.best(), expected);
            assert!(slow <= most, "{slow} bodies went the slower way");
        }
    }
}
