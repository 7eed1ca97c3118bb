//! A ring of bytes from one producer to one consumer, in memory that two processes
//! share, used in grains of 16 bytes.
//!
//! ```text
//! line 0        head: grains consumed so far; a word    written by the consumer
//!               about the bodies it reads
//! line 1        wanted: the producer waits for room;    written by the producer
//!               bytes written of bodies elsewhere that
//!               are read while they are written
//!               claim                                   written by both
//! line 2 ..     frames, each a run of consecutive grains
//!
//! a frame, byte 0        8                16                     40
//!               [ word  ][ context ][ tag][ body ...                         most messages
//!               [ word  ][ header (32)                          ][ body ...  all others
//! ```
//!
//! The word says everything: 0, nothing is here yet; `SKIP`, the next frame is
//! elsewhere; else the length of the body plus one, and two bits: `SHORT`, the header is the
//! short one; `EXTERNAL`, the body is a reference to the `pool`, where large bodies
//! are. The short header does for an eager message of point-to-point whose sender has
//! the same rank in the communicator as in the job and whose context is below 2^32: what
//! most messages are. With it up to 48 bytes of body share a line with their header, and
//! of 16 bytes two messages do: a cache line that changes hands is what a message costs. A
//! frame of more than half a line ends with one, so that the next spans as few lines as it can and
//! its sender writes none that the receiver still reads. A body of `LINE_ALIGNED_MIN` bytes and more has its
//! lines for itself, so that both copies run on whole lines.
//!
//! Positions count grains and never wrap; the low bits are the place in the ring,
//! the high bits count laps. Each lap begins at line 2 and may end early, at
//! `end`: a pair that says little never touches (nor pays for) more than the
//! first page of its ring. The producer lengthens its laps when the consumer
//! can't keep up, also in the middle of one: then it goes on behind the old end, in lines
//! that no lap has touched. The consumer need not know: it follows the words.
//!
//! Invariants:
//! - The word at the producer's position is 0 until a frame is published there.
//!   Before it publishes a frame of k grains at p, the producer makes sure that
//!   the word of p + k is 0. So the consumer finds either 0 or a whole frame, and
//!   there is no shared tail.
//! - All words from the producer's position up to `cleared` are 0. The producer
//!   clears a line at a time and, after a frame was published, keeps one in
//!   front: it is then owned before the next small message needs it.
//! - The consumer never writes into the frames' lines. It returns room by storing
//!   its position in `head`, a quarter of a lap at a time.
//! - Grains from the consumer's position up to one lap later are never written, but
//!   for those that no lap before had: `limit` is where the producer's next frame
//!   must have ended.
//! - All zero bytes are an empty ring: fresh shared memory needs no set-up.
//!
//! Orderings:
//! - A word is stored with Release after the frame's other bytes and after the 0
//!   behind it, and loaded with Acquire before they are read. Clearing itself is
//!   Relaxed: only the Release that follows makes it matter.
//! - `head` is stored with Release after the consumer's last read of the lines it
//!   gives back, and loaded with Acquire before the producer writes them again.
//! - `producer_waiting` takes part in the protocol of `wake`, whose barriers order it.
//! - `lock_transfers` is a lock that nobody waits for: the producer has it while it publishes a piece of a large message,
//!   the consumer while it reads such a message out of the producer's memory instead ([`TransferLock`]).
//!
//! Nothing here trusts the other process: a word or head that can't be is an
//! error ([`Corrupted`]), and every place is masked. A process that scribbles over a
//! frame while it is read spoils the data, as it could have before publishing it.
//!
//! What it does not do: allocate the memory (`segment`), sleep or wake (`wake`).

#![allow(unsafe_code)]

#[cfg(not(loom))]
use fabric::Watermark;
use fabric::user_buf::nt_fence;
use fabric::{Header, Kind, Slot};

pub use self::memory::RingMemory;
pub(crate) use self::memory::TransferLock;
use crate::sync::Ordering;

#[cfg(loom)]
mod loom_tests;
mod memory;
#[cfg(all(test, not(loom)))]
mod tests;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of a grain.
pub const GRANULE: usize = 16;
/// Grains of a line.
pub const LINE_GRANULES: u64 = (LINE / GRANULE) as u64;
/// Bytes in front of a body behind a short header.
const SHORT_PREFIX: usize = 16;
/// Bytes in front of a body behind a whole header.
const FULL_PREFIX: usize = 8 + Header::SIZE;
/// Bodies from this size on have their lines for themselves, bytes. What
/// that loses is less than what copies of whole lines gain.
const LINE_ALIGNED_MIN: usize = 512;
/// Bytes of bodies elsewhere that are gathered before they are given back.
const RETURN_BATCH_BYTES: u32 = 64 << 10;
/// In the word: the body only says where the body is.
const EXTERNAL: u64 = 1 << 62;
/// In the word: the header is the short one.
const SHORT: u64 = 1 << 61;
/// In the word: the next frame is at the place that the rest says, in this lap if
/// that is farther on, else in the next.
const SKIP: u64 = 1 << 63;
/// Grains in front of the frames.
const CONTROL_GRANULES: u64 = 2 * LINE_GRANULES;
/// Frames whose lines the producer asks for before it needs them. With fewer the time to own a line shows in the rate of
/// small messages.
const PREFETCH_FRAMES: u64 = 4;
/// The fewest grains that these are taken for, and the most. More lines for frames that share one, and their reader, which
/// asks for lines ahead of it as well, takes them away before they are written.
const PREFETCH_RANGE: (u64, u64) = (4 * LINE_GRANULES, 16 * LINE_GRANULES);
/// Grains that the consumer gathers at least before it gives them back.
const RETURN_BATCH: u64 = 16 * LINE_GRANULES;

/// Where the body of a frame at `position` begins, in bytes from there, and the
/// grains of the frame.
#[inline]
const fn layout(position: u64, prefix: usize, body: usize) -> (usize, u64) {
    if body < LINE_ALIGNED_MIN {
        let granules = ((prefix + body).div_ceil(GRANULE)) as u64;
        let end = position + granules;
        return (
            prefix,
            if granules > LINE_GRANULES / 2 {
                end.next_multiple_of(LINE_GRANULES) - position
            } else {
                granules
            },
        );
    }
    let offset = (position % LINE_GRANULES) as usize * GRANULE;
    let at = (offset + prefix).next_multiple_of(LINE) - offset;
    (at, ((at + body.next_multiple_of(LINE)) / GRANULE) as u64)
}

/// Grains that a frame with `body` bytes of body takes at most.
#[inline]
pub const fn max_granules(body: usize) -> u64 {
    if body < LINE_ALIGNED_MIN {
        // From one place in the line on it just goes beyond the end of one.
        return (FULL_PREFIX + body).div_ceil(GRANULE) as u64 + LINE_GRANULES - 1;
    }
    // From here on the header just misses the end of the line.
    layout(LINE_GRANULES - 2, FULL_PREFIX, body).1
}

/// The other process has written what it never may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} in its shared ring is {value:#x}, which can't be: one of the two has overwritten memory"
)]
pub struct Corrupted {
    what: &'static str,
    value: u64,
}

/// What a producer without room may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// There is room after all.
    Found,
    /// The consumer has to give some back first.
    None,
    /// Laps may be longer once the grains up to this one have memory.
    Extend(u64),
}

/// The sending side.
#[derive(Debug)]
pub struct Producer {
    memory: RingMemory,
    /// Whose messages these are: the rank in the job.
    me: u32,
    /// What `watermark_word` says.
    #[cfg(not(loom))]
    body_bytes: u32,
    /// The next frame starts here.
    position: u64,
    /// The next frame must end before here: the end of the lap or of the room.
    limit: u64,
    /// Words from `position` to here are 0.
    cleared: u64,
    /// Lines up to here were asked for.
    prefetched: u64,
    /// Frames follow one another, as far as the transport knows.
    streaming: bool,
    /// The consumer's position as last seen.
    consumed: u64,
    /// Grains of a lap, `CONTROL_GRANULES` included. No frame reaches the last one, so that
    /// there is always a place for a `SKIP`.
    end: u64,
    /// This lap goes on in lines that are new.
    on_new_lines: bool,
    /// Grains that the last frame found no room for; 0 when it found some.
    space_needed: u64,
    /// Where the head has to be for the last frame to find room in the pool; 0 when
    /// it does not wait for that.
    head_needed: u64,
    /// `producer_waiting` is 1.
    waiting_set: bool,
}

// SAFETY: the pointers are to shared memory that lives as long as the process;
// a producer is used by one thread at a time.
unsafe impl Send for Producer {}

impl Producer {
    /// The only producer of that ring, whose first `end` grains have memory; `me` is
    /// its rank in the job.
    pub fn new(memory: RingMemory, end: u64, me: u32) -> Producer {
        assert!(end <= memory.granules && end >= 8 * LINE_GRANULES);
        let start = CONTROL_GRANULES;
        let cleared = start + 1; // the whole first lap is; said for the invariant's sake
        Producer {
            memory,
            me,
            #[cfg(not(loom))]
            body_bytes: 0,
            position: start,
            limit: end,
            cleared,
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

    /// The largest body that a ring of so many lines carries. A frame of three
    /// eighths of the lines but one always finds room once all before it is consumed, although
    /// the consumer keeps back up to a quarter and a lap may have to be cut short by as much.
    pub const fn max_body(lines: u64) -> usize {
        let most = (lines as usize * 3 / 8 - 1) * LINE;
        if most < LINE_ALIGNED_MIN + 2 * LINE {
            most - FULL_PREFIX - (LINE - GRANULE)
        } else {
            most - 2 * LINE
        }
    }

    /// True when a frame of so many grains may be published now.
    #[inline]
    pub fn has_space(&self, needed: u64) -> bool {
        self.position + needed < self.limit
    }

    /// Looks for room after [`Producer::has_space`] has said no. `may_extend`:
    /// there may be memory for longer laps.
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

    /// The next frame will be there.
    fn skip_to(&mut self, position: u64) {
        self.memory.word(position).store(0, Ordering::Relaxed);
        // Release: whoever goes there finds the 0.
        self.memory
            .word(self.position)
            .store(SKIP | self.memory.offset(position), Ordering::Release);
        self.position = position;
        self.cleared = position + 1;
        self.prefetched = position;
    }

    /// The grains up to `end` have memory now.
    pub fn extend_lap(&mut self, end: u64) {
        assert!(end <= self.memory.granules);
        let old = self.memory.lap(self.position) + self.end;
        self.end = end;
        // What the consumer has not read yet of the lap before is in the way.
        if !self.on_new_lines && self.consumed + self.memory.granules < old {
            self.skip_to(old);
            self.on_new_lines = true;
        }
        self.update_limit();
    }

    /// Where the consumer is when it has read the next frame, if that is a reference of so many bytes.
    #[cfg(not(loom))]
    pub(crate) fn head_after_descriptor(&self, bytes: usize) -> u64 {
        self.position + layout(self.position, FULL_PREFIX, bytes).1
    }

    /// True when the consumer has read all frames up to that position.
    pub(crate) fn has_passed(&mut self, position: u64) -> bool {
        if self.consumed < position {
            let head = self.memory.head().load(Ordering::Acquire).wrapping_add(CONTROL_GRANULES);
            // One that can't be is reported when room is looked for.
            if head > self.consumed && head <= self.position {
                self.consumed = head;
                self.update_limit();
            }
        }
        self.consumed >= position
    }

    /// What the consumer has said last with [`Consumer::say`].
    #[cfg(not(loom))]
    pub(crate) fn poll_read_cost(&self) -> u64 {
        self.memory.read_cost().load(Ordering::Relaxed)
    }

    /// Grains of a lap.
    pub fn end(&self) -> u64 {
        self.end
    }

    fn update_limit(&mut self) {
        let end = self.memory.lap(self.position) + self.end;
        self.limit =
            if self.on_new_lines { end } else { end.min(self.consumed + self.memory.granules) };
    }

    /// True when the last frame found no room.
    pub fn is_waiting(&self) -> bool {
        self.space_needed > 0 || self.head_needed > 0
    }

    /// The last frame found no room elsewhere, and will when the head is there.
    #[cfg(not(loom))]
    pub(crate) fn wait_for_head(&mut self, position: u64) {
        self.head_needed = position;
    }

    /// Tells the consumer that this side waits for room, until it has found some.
    /// The caller then has to look once more, behind the barrier of `wake`.
    pub fn set_waiting(&mut self) {
        self.waiting_set = true;
        self.memory.producer_waiting().store(1, Ordering::Relaxed);
    }

    /// True when a frame of so many grains finds room sooner or later although laps
    /// can't be made longer: next to those that the consumer keeps back and those
    /// at the end of a lap that are too few for it.
    pub fn fits_eventually(&self, needed: u64) -> bool {
        2 * needed + RETURN_BATCH.max(self.end / 4) + CONTROL_GRANULES < self.end
    }

    /// True when the last frame found no room and would find some now.
    pub fn has_space_again(&mut self) -> bool {
        if self.head_needed > 0 {
            let found = self.has_passed(self.head_needed);
            if found {
                self.head_needed = 0;
                self.clear_waiting();
            }
            return found;
        }
        // A head that can't be is found again, and reported, when the frame is posted.
        self.is_waiting() && !matches!(self.find_space(self.space_needed, false), Ok(Space::None))
    }

    /// Publishes a frame. The caller has made sure that there is room. `non_temporal`:
    /// the processors share no cache.
    #[inline]
    pub fn publish(
        &mut self,
        header: &Header,
        body: usize,
        non_temporal: bool,
        fill: impl FnOnce(&mut Slot),
    ) {
        self.publish_as(0, header, body, |bytes| {
            fill(&mut Slot::new(bytes, non_temporal));
            if non_temporal {
                nt_fence();
            }
        });
    }

    /// Whether the next frames follow one another, rather than each the answer to the last.
    #[inline(always)]
    pub(crate) fn set_streaming(&mut self, streaming: bool) {
        self.streaming = streaming;
    }

    /// Publishes a frame whose body is elsewhere, where `reference` says.
    #[inline]
    pub fn publish_descriptor(&mut self, header: &Header, reference: &[u8]) {
        self.publish_as(EXTERNAL, header, reference.len(), |bytes| {
            bytes.copy_from_slice(reference)
        });
    }

    /// To be had while a piece of a large message is published.
    pub(crate) fn lock_transfers(&self) -> Result<Option<TransferLock>, Corrupted> {
        TransferLock::of(&self.memory)
    }

    /// What counts the next body that is read while it is written.
    #[cfg(not(loom))]
    pub(crate) fn watermark(&self) -> Watermark<'static> {
        Watermark::new(self.memory.watermark_word(), self.body_bytes)
    }

    /// So many bytes of such a body are written: all of it.
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
        fill: impl FnOnce(&mut [u8]),
    ) {
        let short = mark == 0 && is_short(header, body, self.me);
        let (mark, prefix) = if short { (SHORT, SHORT_PREFIX) } else { (mark, FULL_PREFIX) };
        let (at, needed) = layout(self.position, prefix, body);
        let next = self.position + needed;
        assert!(next < self.limit, "a frame was published without room for it");
        if next >= self.cleared {
            self.clear(next);
        }
        let (frame, word) = (self.memory.at(self.position), self.memory.word(self.position));
        #[cfg(loom)]
        self.memory.model.write(self.memory.offset(self.position), needed);
        // SAFETY: the frame's grains are contiguous (it ends before the lap does),
        // given back by the consumer (it ends before the limit), and not read by
        // it before the word below is published. The body ends inside of them.
        unsafe {
            if short {
                frame.add(8).cast::<[u32; 2]>().write([header.context as u32, header.tag as u32]);
            } else {
                frame.add(8).cast::<[u8; Header::SIZE]>().write(header.encode());
            }
            fill(std::slice::from_raw_parts_mut(frame.add(at), body));
        }
        word.store(mark | (body as u64 + 1), Ordering::Release);
        self.position = next;
        if self.cleared < next + LINE_GRANULES && self.cleared < self.limit {
            self.clear(self.cleared);
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

    /// Begins the next lap now, if it is free, when the rest of this one is too short for a
    /// frame like the last: the consumer has then gone there before the next frame comes.
    #[cold]
    fn begin_lap(&mut self, needed: u64) {
        self.has_passed(self.position);
        self.find(needed, false);
    }

    /// Clears the words from `from`, behind which none is, to the end of its line.
    #[inline]
    fn clear(&mut self, from: u64) {
        self.cleared = ((from / LINE_GRANULES + 1) * LINE_GRANULES).min(self.limit);
        self.memory.clear(from, self.cleared);
    }

    /// Asks for the lines of the next frames, each once. Not between a question and its answer: the reader
    /// asks for them meanwhile ([`Consumer::prefetch_next`]), and would have to once more.
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

/// Whether the short header says all that this one does.
#[inline(always)]
fn is_short(header: &Header, body: usize, me: u32) -> bool {
    let Header { kind, flags, collective, source, root, context, length, .. } = *header;
    kind == Kind::Eager
        && source == me
        && (u32::from(flags) | u32::from(collective) | root) == 0
        && context <= u64::from(u32::MAX)
        && length == body as u64
}

/// A frame as it stands in the ring.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Also when a short one stands there.
    pub header: Header,
    /// The data, or where it is.
    pub body: &'a [u8],
}

/// The word of a frame that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit(u64);

impl Commit {
    /// The body says where the data is in the pool.
    #[inline(always)]
    pub(crate) fn is_external(self) -> bool {
        self.0 & EXTERNAL != 0
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Consumer {
    memory: RingMemory,
    /// Whose messages these are: the rank in the job.
    from: u32,
    /// The next frame is here.
    position: u64,
    /// The one behind it, once [`Consumer::frame`] has looked.
    next: u64,
    /// Grains of the last frame.
    last: u64,
    /// What `head` says.
    released: u64,
    /// Grains to gather before they are given back.
    return_batch: u64,
    /// Bytes of bodies elsewhere, of the frames that were not given back.
    external_bytes: u32,
}

// SAFETY: as for `Producer`.
unsafe impl Send for Consumer {}

impl Consumer {
    /// The only consumer of that ring; `from` is the producer's rank in the job.
    pub fn new(memory: RingMemory, from: u32) -> Consumer {
        let return_batch = RETURN_BATCH.min(memory.granules / 8);
        Consumer {
            memory,
            from,
            position: CONTROL_GRANULES,
            next: CONTROL_GRANULES,
            last: 0,
            released: CONTROL_GRANULES,
            return_batch,
            external_bytes: 0,
        }
    }

    /// True when a frame waits.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.memory.word(self.position).load(Ordering::Acquire) != 0
    }

    /// To be had while what the producer has not published is read elsewhere; `None` also when
    /// it has published more than was looked at.
    pub(crate) fn lock_transfers(&self) -> Option<TransferLock> {
        // What it can't be the producer finds, too.
        TransferLock::of(&self.memory).ok()?.filter(|_| !self.is_ready())
    }

    /// The word of the next frame, if there is one.
    #[inline(always)]
    pub(crate) fn next_commit(&mut self) -> Result<Option<Commit>, Corrupted> {
        let mut word = self.memory.word(self.position).load(Ordering::Acquire);
        if word & SKIP != 0 {
            word = self.skip_to(word)?;
        }
        // One step at a time: a way without an end is then no end of waiting here.
        Ok((word != 0 && word & SKIP == 0).then_some(Commit(word)))
    }

    /// The frame whose word that is, as it stands in the ring. It stays there until [`Consumer::advance`].
    #[inline(always)]
    pub(crate) fn frame(&mut self, Commit(word): Commit) -> Result<Frame<'_>, Corrupted> {
        let is_short = word & SHORT != 0;
        // Of 61 bits, so that the sums in `layout` don't overflow; a length of 0 has all of them.
        let body = ((word & !(EXTERNAL | SHORT)).wrapping_sub(1) & (SHORT - 1)) as usize;
        let (at, needed) =
            layout(self.position, if is_short { SHORT_PREFIX } else { FULL_PREFIX }, body);
        // A frame never reaches the last grain of the ring.
        if needed >= self.memory.granules - self.memory.offset(self.position) {
            return Err(Corrupted { what: "a frame's word", value: word });
        }
        let frame = self.memory.at(self.position);
        #[cfg(loom)]
        self.memory.model.read(self.memory.offset(self.position), needed);
        self.next = self.position + needed;
        // SAFETY: the length was just checked to stay inside the ring. The producer
        // does not touch these grains until `head` has passed them, and `advance`,
        // which lets that happen, ends the borrow.
        unsafe {
            let header = if is_short {
                let [context, tag] = frame.add(8).cast::<[u32; 2]>().read();
                self.expand_header(context, tag, body)
            } else {
                let header = Header::decode(&*frame.add(8).cast::<[u8; Header::SIZE]>());
                header.map_err(|_| Corrupted { what: "a frame's kind", value: word })?.0
            };
            Ok(Frame { header, body: std::slice::from_raw_parts(frame.add(at), body) })
        }
    }

    /// Goes past the frame that [`Consumer::frame`] has shown.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.last = self.next - self.position;
        self.position = self.next;
    }

    /// Asks for the lines behind the first of a frame like the last, between two looks for it. They then come
    /// together with the first, instead of after it. Those of a long body would come before it is written.
    #[inline(always)]
    pub(crate) fn prefetch_next(&self) {
        if self.last < (LINE_ALIGNED_MIN / GRANULE) as u64 {
            let mut line = LINE_GRANULES;
            while line < self.last {
                self.memory.prefetch_read(self.position + line);
                line += LINE_GRANULES;
            }
        }
    }

    /// Hands the next frame to `take` and goes past it; `None` if there is no frame.
    #[inline]
    pub fn pop<R>(
        &mut self,
        take: impl FnOnce(&Header, &[u8], bool) -> R,
    ) -> Result<Option<R>, Corrupted> {
        let Some(word) = self.next_commit()? else { return Ok(None) };
        let Frame { header, body } = self.frame(word)?;
        let taken = take(&header, body, word.is_external());
        self.advance();
        Ok(Some(taken))
    }

    /// The header that a short one stands for.
    #[inline(always)]
    fn expand_header(&self, context: u32, tag: u32, body: usize) -> Header {
        let (source, tag) = (self.from, tag as i32);
        Header {
            source,
            tag,
            context: context.into(),
            length: body as u64,
            ..Header::new(Kind::Eager)
        }
    }

    /// Goes on where the word says; at the end of a lap learns how long laps are.
    #[cold]
    fn skip_to(&mut self, word: u64) -> Result<u64, Corrupted> {
        let (offset, to) = (self.memory.offset(self.position), word & !SKIP);
        if !(CONTROL_GRANULES..self.memory.granules).contains(&to) {
            return Err(Corrupted { what: "a frame's word", value: word });
        }
        self.position = self.memory.lap(self.position) + to;
        if to <= offset {
            self.position += self.memory.granules;
            self.return_batch = (offset / 4).max(RETURN_BATCH.min(self.memory.granules / 8));
        }
        Ok(self.memory.word(self.position).load(Ordering::Acquire))
    }

    /// What counts a body of the producer's that is read while it is written; see
    /// [`Producer::watermark`].
    #[cfg(not(loom))]
    pub(crate) fn watermark_word(&self) -> &'static std::sync::atomic::AtomicU32 {
        self.memory.watermark_word()
    }

    /// Notes that the body of the frame in front, so long, was elsewhere and is read; tells the
    /// producer `word`, if there is something to tell.
    #[cfg(not(loom))]
    pub(crate) fn has_read(&mut self, len: u32, word: Option<u64>) {
        self.external_bytes = self.external_bytes.saturating_add(len);
        let Some(word) = word else { return };
        self.memory.read_cost().store(word, Ordering::Relaxed);
    }

    /// True when enough has gathered to be given back, of room or of references.
    #[inline]
    pub fn is_release_due(&self) -> bool {
        self.position - self.released >= self.return_batch
            || self.external_bytes >= RETURN_BATCH_BYTES
    }

    /// True when bodies elsewhere were read that the producer does not know of.
    #[inline]
    pub fn has_external(&self) -> bool {
        self.external_bytes > 0
    }

    /// Gives back all room.
    pub fn release(&mut self) {
        // Release: what was read from these lines has been read before.
        self.memory.head().store(self.position - CONTROL_GRANULES, Ordering::Release);
        self.released = self.position;
        self.external_bytes = 0;
    }

    /// True when the producer waits for room. To be asked behind the barrier of
    /// `wake`, after room was given back.
    pub fn is_producer_waiting(&self) -> bool {
        self.memory.producer_waiting().load(Ordering::Relaxed) != 0
    }
}
