//! The sending side of a ring; the parent module has the layout and the orderings.

#![allow(unsafe_code)]

use fabric::copy::nt_fence;
use fabric::{Header, Kind, Slot};

use super::memory::{RingMemory, TransferLock};
use super::{
    CONTROL_GRANULES, Corrupted, EXTERNAL, FULL_PREFIX, GRANULE, LINE, LINE_ALIGNED_MIN,
    LINE_GRANULES, PREFETCH_FRAMES, PREFETCH_RANGE, RETURN_BATCH, SHORT, SHORT_PREFIX, SKIP,
    layout,
};
#[cfg(not(loom))]
use crate::pipeline::Watermark;
use crate::sync::Ordering;

/// The choices of a producer without space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// There is space.
    Found,
    /// The consumer must return space first.
    None,
    /// Laps may become longer once the granules up to this one have memory.
    Extend(u64),
}

/// The sending side.
#[derive(Debug)]
pub struct Producer {
    memory: RingMemory,
    /// The producer's rank in the job.
    me: u32,
    /// Bytes of pipelined bodies so far, wrapping: the watermark between two bodies.
    #[cfg(not(loom))]
    body_bytes: u32,
    /// The next frame begins here.
    pub(super) position: u64,
    /// The next frame ends before here: the end of the lap or of the space.
    limit: u64,
    /// Commit words from `position` to here are 0.
    cleared: u64,
    /// The commit word here is 0 too, if no frame has reached it: where a frame like the last ends.
    expected_end: u64,
    /// Lines up to here were prefetched.
    prefetched: u64,
    /// The transport takes these frames for a stream, not for requests and replies.
    streaming: bool,
    /// The consumer's position as last seen.
    consumed: u64,
    /// Granules of a lap, `CONTROL_GRANULES` included. No frame reaches the last one, so that a
    /// `SKIP` always fits.
    end: u64,
    /// This lap continues in lines that no lap has used.
    pub(super) on_new_lines: bool,
    /// Granules that the last frame lacked; 0 if it fitted.
    space_needed: u64,
    /// Head at which the last frame's body finds space in the bounce pool; 0 if it does not wait
    /// for that.
    head_needed: u64,
    /// The producer-waiting word is 1.
    waiting_set: bool,
}

// SAFETY: the pointers lead to shared memory that is mapped as long as the ring is used. `&mut
// self` keeps a producer to one thread at a time.
unsafe impl Send for Producer {}

impl Producer {
    /// Makes the only producer of a ring whose first `end` granules have memory; `me` is its rank
    /// in the job.
    pub fn new(memory: RingMemory, end: u64, me: u32) -> Producer {
        assert!(end <= memory.granules && end >= 8 * LINE_GRANULES);
        let start = CONTROL_GRANULES;
        let cleared = start + 1;
        Producer {
            memory,
            me,
            #[cfg(not(loom))]
            body_bytes: 0,
            position: start,
            limit: end,
            cleared,
            expected_end: start,
            prefetched: start,
            streaming: true,
            consumed: start,
            end,
            on_new_lines: false,
            space_needed: 0,
            head_needed: 0,
            waiting_set: false,
        }
    }

    /// Returns the memory of the ring, which this side uses no more.
    #[cfg(not(loom))]
    pub(crate) fn into_memory(self) -> RingMemory {
        self.memory
    }

    /// Returns the largest body that a ring of `lines` carries. A frame of three eighths of the
    /// lines less one always fits once all before it is consumed. That holds although the consumer
    /// returns space in batches of a quarter and a lap may end as much earlier.
    pub const fn max_body(lines: u64) -> usize {
        let most = (lines as usize * 3 / 8 - 1) * LINE;
        if most < LINE_ALIGNED_MIN + 2 * LINE {
            most - FULL_PREFIX - (LINE - GRANULE)
        } else {
            most - 2 * LINE
        }
    }

    /// Returns whether a frame of `needed` granules may be published now.
    #[inline]
    pub fn has_space(&self, needed: u64) -> bool {
        self.position + needed < self.limit
    }

    /// Looks for space after [`Producer::has_space`] has returned false. `may_extend`: there may
    /// be memory for longer laps.
    #[cold]
    pub fn find_space(&mut self, needed: u64, may_extend: bool) -> Result<Space, Corrupted> {
        let head = self.memory.head().load(Ordering::Acquire).wrapping_add(CONTROL_GRANULES);
        if head < self.consumed || head > self.position {
            return Err(Corrupted { what: "the head", value: head });
        }
        self.consumed = head;
        self.update_limit();
        let max_granules = self.find(needed, may_extend && self.end < self.memory.granules);
        self.space_needed = if max_granules == Space::Found { 0 } else { needed };
        if max_granules == Space::Found {
            self.clear_waiting();
        }
        Ok(max_granules)
    }

    fn clear_waiting(&mut self) {
        if self.waiting_set {
            self.waiting_set = false;
            self.memory.producer_waiting().store(0, Ordering::Relaxed);
        }
    }

    fn find(&mut self, needed: u64, may_extend: bool) -> Space {
        if self.has_space(needed) {
            return Space::Found;
        }
        let lap = self.memory.lap(self.position);
        let start = lap + self.memory.granules + CONTROL_GRANULES;
        let is_free = start + needed < self.consumed + self.memory.granules
            && CONTROL_GRANULES + needed < self.end;
        if self.position + needed >= lap + self.end && is_free {
            self.next_lap(start);
            return Space::Found;
        }
        let least = (self.position - lap).max(self.end) + needed + 1;
        if !may_extend || least > self.memory.granules {
            return Space::None;
        }
        Space::Extend(least.next_power_of_two().max(2 * self.end).min(self.memory.granules))
    }

    fn next_lap(&mut self, start: u64) {
        self.skip_to(start);
        self.on_new_lines = false;
        self.update_limit();
    }

    /// Moves to `position`, which the next frame will have.
    fn skip_to(&mut self, position: u64) {
        self.memory.first_word(position).store(0, Ordering::Relaxed);
        // Release: a consumer that follows finds the 0.
        self.memory
            .first_word(self.position)
            .store(SKIP | self.memory.offset(position), Ordering::Release);
        self.position = position;
        self.cleared = position + 1;
        self.prefetched = position;
    }

    /// Extends laps to `end` granules, which have memory now.
    pub fn extend_lap(&mut self, end: u64) {
        assert!(end <= self.memory.granules);
        let old = self.memory.lap(self.position) + self.end;
        self.end = end;
        // Frames of the last lap that the consumer has not read are in the way.
        if !self.on_new_lines && self.consumed + self.memory.granules < old {
            self.skip_to(old);
            self.on_new_lines = true;
        }
        self.update_limit();
    }

    /// Returns the consumer's position after the next frame, if that carries a descriptor of
    /// `bytes`.
    #[cfg(not(loom))]
    pub(crate) fn head_after_descriptor(&self, bytes: usize) -> u64 {
        self.position + layout(self.position, FULL_PREFIX, bytes).1
    }

    /// Returns whether the consumer has read all frames up to `position`.
    pub(crate) fn has_passed(&mut self, position: u64) -> bool {
        if self.consumed < position {
            let head = self.memory.head().load(Ordering::Acquire).wrapping_add(CONTROL_GRANULES);
            // `find_space` reports an impossible head.
            if head > self.consumed && head <= self.position {
                self.consumed = head;
                self.update_limit();
            }
        }
        self.consumed >= position
    }

    /// Returns the read cost that the consumer stored last ([`super::Consumer::has_read`]).
    #[cfg(not(loom))]
    pub(crate) fn poll_read_cost(&self) -> u64 {
        self.memory.read_cost().load(Ordering::Relaxed)
    }

    /// Returns the classes of bodies that the consumer wants to have announced.
    pub(crate) fn wanted_classes(&self) -> u64 {
        self.memory.wanted_classes().load(Ordering::Relaxed)
    }

    /// Returns the granules of a lap.
    pub fn end(&self) -> u64 {
        self.end
    }

    fn update_limit(&mut self) {
        let end = self.memory.lap(self.position) + self.end;
        self.limit =
            if self.on_new_lines { end } else { end.min(self.consumed + self.memory.granules) };
    }

    /// Returns whether the last frame found no space.
    pub fn is_waiting(&self) -> bool {
        self.space_needed > 0 || self.head_needed > 0
    }

    /// Notes that the last frame's body finds space in the bounce pool once the head is at
    /// `position`.
    #[cfg(not(loom))]
    pub(crate) fn wait_for_head(&mut self, position: u64) {
        self.head_needed = position;
    }

    /// Sets the producer-waiting word until this side has found space. The caller then looks once
    /// more, after the fence of `event_count`.
    pub fn set_waiting(&mut self) {
        self.waiting_set = true;
        self.memory.producer_waiting().store(1, Ordering::Relaxed);
    }

    /// Returns whether a frame of `needed` granules fits sooner or later although laps cannot
    /// become longer: not counting the consumer's unreturned batch and a lap's unused end.
    pub fn fits_eventually(&self, needed: u64) -> bool {
        2 * needed + RETURN_BATCH.max(self.end / 4) + CONTROL_GRANULES < self.end
    }

    /// Returns whether the last frame found no space and would find some now.
    pub fn has_space_again(&mut self) -> bool {
        if self.head_needed > 0 {
            let found = self.has_passed(self.head_needed);
            if found {
                self.head_needed = 0;
                self.clear_waiting();
            }
            return found;
        }
        // An impossible head is found again, and reported, when the frame is posted.
        self.is_waiting() && !matches!(self.find_space(self.space_needed, false), Ok(Space::None))
    }

    /// Publishes a frame, for which the caller has found space. `non_temporal`: `fill` stores past
    /// the cache.
    #[inline]
    pub fn publish(
        &mut self,
        header: &Header,
        body: usize,
        non_temporal: bool,
        fill: impl FnOnce(&mut Slot),
    ) {
        self.publish_as(0, header, body, |bytes, late| {
            fill(&mut Slot::new(bytes, non_temporal).with_late_bytes(late));
            if non_temporal {
                nt_fence();
            }
        });
    }

    /// Sets whether the next frames form a stream, rather than replies to the peer's frames.
    #[inline(always)]
    pub(crate) fn set_streaming(&mut self, streaming: bool) {
        self.streaming = streaming;
    }

    /// Publishes a frame whose body lies outside the ring, at `descriptor`.
    #[inline]
    pub fn publish_descriptor(&mut self, header: &Header, descriptor: &[u8]) {
        self.publish_as(EXTERNAL, header, descriptor.len(), |bytes, _| {
            bytes.copy_from_slice(descriptor)
        });
    }

    /// Takes the transfer lock, to be held while a piece of a large message is published; `None`
    /// while the consumer holds it.
    pub(crate) fn lock_transfers(&self) -> Result<Option<TransferLock>, Corrupted> {
        TransferLock::of(&self.memory)
    }

    /// Takes the consumer's offer; false if it has taken it back.
    pub(crate) fn take_offer(&self, number: u64) -> bool {
        self.memory.take_offer(number)
    }

    /// Returns the watermark of the next pipelined body.
    #[cfg(not(loom))]
    pub(crate) fn watermark(&self) -> Watermark<'static> {
        Watermark::new(self.memory.watermark_word(), self.body_bytes)
    }

    /// Ends a pipelined body, all of whose `bytes` are written.
    #[cfg(not(loom))]
    pub(crate) fn finish_body(&mut self, bytes: usize) {
        self.watermark().advance(bytes);
        self.body_bytes = self.body_bytes.wrapping_add(bytes as u32);
    }

    #[inline(always)]
    fn publish_as(
        &mut self,
        mark: u64,
        header: &Header,
        body: usize,
        fill: impl FnOnce(&mut [u8], usize),
    ) {
        let short = mark == 0 && is_short(header, body, self.me);
        let (mark, prefix) = if short { (SHORT, SHORT_PREFIX) } else { (mark, FULL_PREFIX) };
        let (at, needed) = layout(self.position, prefix, body);
        let next = self.position + needed;
        assert!(next < self.limit, "a frame was published without room for it");
        if next >= self.cleared {
            self.clear_end(next);
        }
        let (frame, word) = (self.memory.at(self.position), self.memory.first_word(self.position));
        let late = self.late_bytes(at, body);
        #[cfg(loom)]
        self.memory.model.write(self.memory.offset(self.position), needed);
        // SAFETY: the frame's granules are contiguous (it ends before the lap does) and returned by
        // the consumer (it ends before the limit). The consumer does not read them before the
        // commit word below is stored. The body ends inside them.
        unsafe {
            if late.is_none() {
                write_header(frame, header, short);
            }
            fill(std::slice::from_raw_parts_mut(frame.add(at), body), late.unwrap_or(0));
            if late.is_some() {
                write_header_last(frame, header, short);
            }
        }
        word.store(mark | (body as u64 + 1), Ordering::Release);
        self.position = next;
        if self.cleared < next + LINE_GRANULES && self.cleared < self.limit {
            self.clear(self.cleared);
        }
        if !self.streaming {
            self.clear_expected(next + needed);
        }
        if body >= LINE_ALIGNED_MIN && next + needed >= self.limit {
            self.begin_lap(needed);
        }
        let distance = if self.streaming {
            (PREFETCH_FRAMES * needed).clamp(PREFETCH_RANGE.0, PREFETCH_RANGE.1)
        } else {
            PREFETCH_RANGE.0
        };
        if (body >= LINE_ALIGNED_MIN || self.streaming) && self.prefetched < next + distance {
            self.prefetch_ahead(distance);
        }
    }

    /// Returns how many bytes of the body are in the line of the commit word, if the frame is a
    /// reply of several lines. The consumer polls that line, and takes it away whenever it is
    /// there: therefore it is written last, all at once.
    #[inline(always)]
    fn late_bytes(&self, at: usize, body: usize) -> Option<usize> {
        let begin = (self.position % LINE_GRANULES) as usize * GRANULE + at;
        (!self.streaming && begin + body > LINE).then(|| LINE.saturating_sub(begin))
    }

    /// Clears the commit word after a frame that ends at `next`, unless that was done before.
    #[inline(always)]
    fn clear_end(&mut self, next: u64) {
        if next == self.expected_end {
            self.cleared = next + 1;
        } else {
            self.clear(next);
        }
    }

    /// Clears the commit word at the end of the next frame, if that is like the last: a reply then
    /// touches no line but its own before it is published.
    #[inline(always)]
    fn clear_expected(&mut self, end: u64) {
        if end >= self.cleared && end < self.limit {
            self.memory.first_word(end).store(0, Ordering::Relaxed);
            self.expected_end = end;
        }
    }

    /// Begins the next lap now, if it is free, because the rest of this one is too short for a
    /// frame like the last. The consumer then follows before the next frame comes.
    #[cold]
    fn begin_lap(&mut self, needed: u64) {
        self.has_passed(self.position);
        self.find(needed, false);
    }

    /// Clears the commit words from `from`, where all later ones are stale, to the end of its line.
    #[inline]
    fn clear(&mut self, from: u64) {
        self.cleared = ((from / LINE_GRANULES + 1) * LINE_GRANULES).min(self.limit);
        self.memory.clear(from, self.cleared);
    }

    /// Prefetches the lines of the next frames, each once. Not between a request and its reply: the
    /// consumer prefetches them meanwhile ([`super::Consumer::prefetch_next`]).
    #[inline(always)]
    fn prefetch_ahead(&mut self, distance: u64) {
        let until = (self.position + distance).min(self.limit);
        self.prefetched = self.prefetched.max(self.position);
        while self.prefetched < until {
            self.memory.prefetch_write(self.prefetched);
            self.prefetched += LINE_GRANULES;
        }
    }
}

/// Writes the header of a frame.
///
/// # Safety
/// The frame has space for it, and no process reads it.
#[inline(always)]
unsafe fn write_header(frame: *mut u8, header: &Header, short: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if short {
            frame.add(8).cast::<[u32; 2]>().write([header.context as u32, header.tag as u32]);
        } else {
            frame.add(8).cast::<[u8; Header::SIZE]>().write(header.encode());
        }
    }
}

/// As [`write_header`], out of line, so that frames of one line have no cost.
#[inline(never)]
unsafe fn write_header_last(frame: *mut u8, header: &Header, short: bool) {
    // SAFETY: the caller's promise.
    unsafe { write_header(frame, header, short) }
}

/// Returns whether the short header expresses all of this header.
#[inline(always)]
fn is_short(header: &Header, body: usize, me: u32) -> bool {
    let Header { kind, flags, collective, source, root, context, length, .. } = *header;
    kind == Kind::Eager
        && source == me
        && (u32::from(flags) | u32::from(collective) | root) == 0
        && context <= u64::from(u32::MAX)
        && length == body as u64
}
