//! A ring of 64-byte lines from one producer to one consumer, in memory that two
//! processes share.
//!
//! ```text
//! line 0        head: lines consumed so far; a word     written by the consumer
//!               about the bodies it reads
//! line 1        wanted: the producer waits for room     written by the producer
//! line 2 ..     frames, each a run of consecutive lines
//!
//! a frame, byte 0        8                40                       64
//!               [ word  ][ header (32)   ][ body, if it is short  ][ body, if it is long ...
//! ```
//!
//! The word says everything: 0, nothing is here yet; `SKIP`, go on at line 2;
//! else the length of the body plus one, and a bit that says that the body is a
//! reference to the `pool`, where large bodies are. A body of up to 24 bytes shares the
//! header's line, so that a small message is one line that changes hands; a body
//! of `ALIGNED` bytes and more begins on a line of its own, so that both copies
//! run on whole lines.
//!
//! Positions count lines and never wrap; the low bits are the place in the ring,
//! the high bits count laps. Each lap begins at line 2 and may end early, at
//! `end`: a pair that says little never touches (nor pays for) more than the
//! first page of its ring, and the producer lengthens its laps when the
//! consumer can't keep up. The consumer need not know: it follows the words.
//!
//! Invariants:
//! - The word at the producer's position is 0 until a frame is published there.
//!   Before it publishes a frame of k lines at p, the producer makes sure that
//!   the word of p + k is 0. So the consumer finds either 0 or a whole frame, and
//!   there is no shared tail.
//! - All words from the producer's position up to `cleared` are 0. The producer
//!   keeps one spare, cleared after a frame was published: on the way of the next
//!   small message there is then one line to own, not two.
//! - The consumer never writes into the frames' lines. It returns room by storing
//!   its position in `head`, a quarter of a lap at a time.
//! - Lines from the consumer's position up to one lap later are never written:
//!   `limit` is where the producer's next frame must have ended.
//! - All zero bytes are an empty ring: fresh shared memory needs no set-up.
//!
//! Orderings:
//! - A word is stored with Release after the frame's other bytes and after the 0
//!   behind it, and loaded with Acquire before they are read. Clearing itself is
//!   Relaxed: only the Release that follows makes it matter.
//! - `head` is stored with Release after the consumer's last read of the lines it
//!   gives back, and loaded with Acquire before the producer writes them again.
//! - `wanted` takes part in the protocol of `wake`, whose barriers order it.
//!
//! Nothing here trusts the other process: a word or head that can't be is an
//! error ([`Broken`]), and every place is masked. A process that scribbles over a
//! frame while it is read spoils the data, as it could have before publishing it.
//!
//! What it does not do: allocate the memory (`segment`), sleep or wake (`wake`).

#![allow(unsafe_code)]

use fabric::{Header, Slot};

use crate::sync::{AtomicU64, Ordering};

#[cfg(loom)]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

/// Bytes of a line.
pub const LINE: usize = 64;
/// Bytes in front of a body that shares the header's line.
const PREFIX: usize = 8 + Header::SIZE;
/// Bodies from this size on begin on a line of their own, bytes. The 24
/// bytes that it loses are less than what copies of whole lines gain.
const ALIGNED: usize = 512;
/// Each stands for a large body, so fewer of them are gathered.
const REFERENCES: u32 = 4;
/// In the word: the body only says where the body is.
const REFERENCE: u64 = 1 << 62;
/// The word of the end of a lap.
const SKIP: u64 = u64::MAX;
/// Lines in front of the frames.
const FIRST: u64 = 2;
/// Lines that the consumer gathers at least before it gives them back.
const GATHER: u64 = 16;

/// Where the body of a frame begins, in bytes from the frame's first line.
#[inline]
const fn body_at(body: usize) -> usize {
    if body < ALIGNED { PREFIX } else { LINE }
}

/// Lines of a frame with `body` bytes of body.
#[inline]
pub const fn lines(body: usize) -> u64 {
    ((body_at(body) + body).div_ceil(LINE)) as u64
}

/// The other process has written what it never may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in its shared ring is {value:#x}, which can't be: one of the two has overwritten memory")]
pub struct Broken {
    what: &'static str,
    value: u64,
}

/// What a producer without room may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room after all.
    Found,
    /// The consumer has to give some back first.
    None,
    /// Laps may be longer once the lines up to this one have memory.
    Lengthen(u64),
}

/// Where a ring lies: a power of two of lines, zero at the start.
#[derive(Clone, Debug)]
pub struct Memory {
    base: *mut u8,
    lines: u64,
    #[cfg(loom)]
    model: loom_tests::Model,
}

impl Memory {
    /// # Safety
    /// `base` is aligned to a line and valid for `lines` lines for the life of the
    /// process. All of it was zero when the ring was first used, and only one
    /// producer and one consumer ever use it.
    #[cfg(not(loom))]
    pub unsafe fn new(base: *mut u8, lines: u64) -> Memory {
        assert!(lines.is_power_of_two() && lines >= 8);
        Memory { base, lines }
    }

    /// The place of a position.
    #[inline]
    fn place(&self, position: u64) -> u64 {
        position & (self.lines - 1)
    }

    /// Where the lap of a position begins, as a position.
    #[inline]
    fn lap(&self, position: u64) -> u64 {
        position & !(self.lines - 1)
    }

    #[inline]
    fn line(&self, position: u64) -> *mut u8 {
        // SAFETY: masked, so inside the ring.
        unsafe { self.base.add(self.place(position) as usize * LINE) }
    }

    #[cfg(not(loom))]
    #[inline]
    fn word(&self, position: u64) -> &AtomicU64 {
        // SAFETY: inside the ring, aligned to a line. A line's first eight bytes
        // are accessed as anything but an atomic only by the producer, inside a
        // frame that the consumer has not seen or has given back, and by the
        // consumer, inside a frame that it has not given back: each ordered
        // against the other's atomic accesses by the words and the head.
        unsafe { &*self.line(position).cast::<AtomicU64>() }
    }

    #[cfg(loom)]
    fn word(&self, position: u64) -> &AtomicU64 {
        self.model.word(self.place(position))
    }

    /// Position of the consumer less `FIRST`, as it said last.
    #[inline]
    fn head(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// What the consumer says about the bodies that it reads; see `pool`.
    #[cfg(not(loom))]
    #[inline]
    fn says(&self) -> &AtomicU64 {
        // SAFETY: the second word of the head's line, which only ever is an atomic.
        unsafe { &*self.line(0).cast::<AtomicU64>().add(1) }
    }

    /// Not 0: the producer waits for room.
    #[inline]
    fn wanted(&self) -> &AtomicU64 {
        self.word(1)
    }
}

/// The sending side.
#[derive(Debug)]
pub struct Producer {
    memory: Memory,
    /// The next frame starts here.
    position: u64,
    /// The next frame must end before here: the end of the lap or of the room.
    limit: u64,
    /// Words from `position` to here are 0.
    cleared: u64,
    /// The consumer's position as last seen.
    consumed: u64,
    /// Lines of a lap, `FIRST` included. No frame reaches the last one, so that
    /// there is always a place for a `SKIP`.
    end: u64,
    /// Laps that are `end` long were too short.
    pressed: bool,
    /// Lines that the last frame found no room for; 0 when it found some.
    waits_for: u64,
    /// Where the head has to be for the last frame to find room in the pool; 0 when
    /// it does not wait for that.
    waits_until: u64,
    /// `wanted` is 1.
    has_said: bool,
}

// SAFETY: the pointers are to shared memory that lives as long as the process;
// a producer is used by one thread at a time.
unsafe impl Send for Producer {}

impl Producer {
    /// The only producer of that ring, whose first `end` lines have memory.
    pub fn new(memory: Memory, end: u64) -> Producer {
        assert!(end <= memory.lines && end >= 8);
        let start = FIRST;
        let cleared = start + 1; // the whole first lap is; said for the invariant's sake
        Producer {
            memory,
            position: start,
            limit: end,
            cleared,
            consumed: start,
            end,
            pressed: false,
            waits_for: 0,
            waits_until: 0,
            has_said: false,
        }
    }

    /// The largest body that a ring of so many lines carries. A frame of a
    /// quarter of the lines always finds room once all before it is consumed,
    /// although the consumer keeps back up to a quarter and a lap may have to be
    /// cut short.
    pub const fn max_body(lines: u64) -> usize {
        lines as usize / 4 * LINE - LINE
    }

    /// True when a frame of so many lines may be published now.
    #[inline]
    pub fn has_room(&self, needed: u64) -> bool {
        self.position + needed < self.limit
    }

    /// Looks for room after [`Producer::has_room`] has said no. `may_lengthen`:
    /// there may be memory for longer laps.
    #[cold]
    pub fn look_for_room(&mut self, needed: u64, may_lengthen: bool) -> Result<Room, Broken> {
        let head = self.memory.head().load(Ordering::Acquire).wrapping_add(FIRST);
        if head < self.consumed || head > self.position {
            return Err(Broken { what: "the head", value: head });
        }
        self.consumed = head;
        self.update_limit();
        let room = self.find(needed, may_lengthen && self.end < self.memory.lines);
        self.waits_for = if room == Room::Found { 0 } else { needed };
        if room == Room::Found {
            self.want_nothing();
        }
        Ok(room)
    }

    fn want_nothing(&mut self) {
        if self.has_said {
            self.has_said = false;
            self.memory.wanted().store(0, Ordering::Relaxed);
        }
    }

    fn find(&mut self, needed: u64, may_lengthen: bool) -> Room {
        if self.has_room(needed) {
            return Room::Found;
        }
        let lap = self.memory.lap(self.position);
        if self.position + needed < lap + self.end {
            self.pressed = true;
            return Room::None;
        }
        let start = lap + self.memory.lines + FIRST;
        let is_free = start + needed < self.consumed + self.memory.lines && FIRST + needed < self.end;
        if may_lengthen && (self.pressed || !is_free) {
            let least = (self.position - lap + needed + 1).next_power_of_two();
            return Room::Lengthen(least.max(2 * self.end).min(self.memory.lines));
        }
        if !is_free {
            return Room::None;
        }
        self.next_lap(start);
        Room::Found
    }

    fn next_lap(&mut self, start: u64) {
        self.memory.word(start).store(0, Ordering::Relaxed);
        // Release: whoever sees the skip finds the 0 at its end.
        self.memory.word(self.position).store(SKIP, Ordering::Release);
        self.position = start;
        self.cleared = start + 1;
        self.update_limit();
    }

    /// The lines up to `end` have memory now.
    pub fn lengthen(&mut self, end: u64) {
        assert!(end <= self.memory.lines);
        self.end = end;
        self.pressed = false;
        self.update_limit();
    }

    /// Where the next frame begins.
    #[cfg(not(loom))]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// True when the consumer has read all frames up to that position.
    pub(crate) fn has_passed(&mut self, position: u64) -> bool {
        if self.consumed < position {
            let head = self.memory.head().load(Ordering::Acquire).wrapping_add(FIRST);
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
    pub(crate) fn reader_says(&self) -> u64 {
        self.memory.says().load(Ordering::Relaxed)
    }

    /// Lines of a lap.
    pub fn end(&self) -> u64 {
        self.end
    }

    fn update_limit(&mut self) {
        self.limit = (self.memory.lap(self.position) + self.end).min(self.consumed + self.memory.lines);
    }

    /// True when the last frame found no room.
    pub fn is_waiting(&self) -> bool {
        self.waits_for > 0 || self.waits_until > 0
    }

    /// The last frame found no room elsewhere, and will when the head is there.
    #[cfg(not(loom))]
    pub(crate) fn wait_for_head(&mut self, position: u64) {
        self.waits_until = position;
    }

    /// Tells the consumer that this side waits for room, until it has found some.
    /// The caller then has to look once more, behind the barrier of `wake`.
    pub fn say_wanted(&mut self) {
        self.has_said = true;
        self.memory.wanted().store(1, Ordering::Relaxed);
    }

    /// True when a frame of so many lines finds room sooner or later although laps
    /// can't be made longer: next to those that the consumer keeps back and those
    /// at the end of a lap that are too few for it.
    pub fn can_carry(&self, needed: u64) -> bool {
        2 * needed + GATHER.max(self.end / 4) + FIRST < self.end
    }

    /// True when the last frame found no room and would find some now.
    pub fn has_found_room(&mut self) -> bool {
        if self.waits_until > 0 {
            let found = self.has_passed(self.waits_until);
            if found {
                self.waits_until = 0;
                self.want_nothing();
            }
            return found;
        }
        // A head that can't be is found again, and reported, when the frame is posted.
        self.is_waiting() && !matches!(self.look_for_room(self.waits_for, false), Ok(Room::None))
    }

    /// Publishes a frame. The caller has made sure that there is room. `past_cache`:
    /// the processors share no cache.
    #[inline]
    pub fn publish(&mut self, header: &Header, body: usize, past_cache: bool, fill: impl FnOnce(&mut Slot)) {
        self.publish_as(0, header, body, |bytes| {
            fill(&mut Slot::new(bytes, past_cache));
            if past_cache {
                streams_are_done();
            }
        });
    }

    /// Publishes a frame whose body is elsewhere, where `reference` says.
    #[inline]
    pub fn publish_reference(&mut self, header: &Header, reference: &[u8]) {
        self.publish_as(REFERENCE, header, reference.len(), |bytes| bytes.copy_from_slice(reference));
    }

    #[inline(always)]
    fn publish_as(&mut self, mark: u64, header: &Header, body: usize, fill: impl FnOnce(&mut [u8])) {
        let needed = lines(body);
        let next = self.position + needed;
        assert!(next < self.limit, "a frame was published without room for it");
        if next >= self.cleared {
            self.memory.word(next).store(0, Ordering::Relaxed);
            self.cleared = next + 1;
        }
        let line = self.memory.line(self.position);
        #[cfg(loom)]
        self.memory.model.write(self.memory.place(self.position), needed);
        // SAFETY: the frame's lines are contiguous (it ends before the lap does),
        // given back by the consumer (it ends before the limit), and not read by
        // it before the word below is published. The body ends inside of them.
        unsafe {
            line.add(8).cast::<[u8; Header::SIZE]>().write(header.encode());
            fill(std::slice::from_raw_parts_mut(line.add(body_at(body)), body));
        }
        self.memory.word(self.position).store(mark | (body as u64 + 1), Ordering::Release);
        self.position = next;
        if self.cleared == next + 1 && self.cleared < self.limit {
            self.memory.word(self.cleared).store(0, Ordering::Relaxed);
            self.cleared += 1;
        }
    }
}

/// Stores past the cache are before all stores that follow.
#[inline(always)]
pub(crate) fn streams_are_done() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// The receiving side.
#[derive(Debug)]
pub struct Consumer {
    memory: Memory,
    /// The next frame is here.
    position: u64,
    /// What `head` says.
    returned: u64,
    /// Lines to gather before they are given back.
    gather: u64,
    /// References among the frames that were not given back.
    references: u32,
}

// SAFETY: as for `Producer`.
unsafe impl Send for Consumer {}

impl Consumer {
    /// The only consumer of that ring.
    pub fn new(memory: Memory) -> Consumer {
        let gather = GATHER.min(memory.lines / 8);
        Consumer { memory, position: FIRST, returned: FIRST, gather, references: 0 }
    }

    /// True when a frame waits.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.memory.word(self.position).load(Ordering::Acquire) != 0
    }

    /// Hands the next frame to `take`, header and body as they stand in the ring, and
    /// whether the body is a reference; `None` if there is no frame.
    #[inline]
    pub fn pop<R>(&mut self, take: impl FnOnce(&[u8; Header::SIZE], &[u8], bool) -> R) -> Result<Option<R>, Broken> {
        let mut word = self.memory.word(self.position).load(Ordering::Acquire);
        if word == SKIP {
            word = self.next_lap();
        }
        if word == 0 {
            return Ok(None);
        }
        let is_reference = word & REFERENCE != 0;
        word &= !REFERENCE;
        self.references += u32::from(is_reference);
        // A frame never reaches the last line of the ring. The first comparison
        // keeps the sum in `lines` from overflowing.
        let most = self.memory.lines - 1 - self.memory.place(self.position);
        if word == 0 || word > self.memory.lines * LINE as u64 || lines((word - 1) as usize) > most {
            return Err(Broken { what: "a frame's word", value: word });
        }
        let body = (word - 1) as usize;
        let line = self.memory.line(self.position);
        #[cfg(loom)]
        self.memory.model.read(self.memory.place(self.position), lines(body));
        // SAFETY: the length was just checked to stay inside the ring. The producer
        // does not touch these lines until `head` has passed them; the borrows end
        // before that.
        let (header, body_bytes) = unsafe {
            (&*line.add(8).cast::<[u8; Header::SIZE]>(), std::slice::from_raw_parts(line.add(body_at(body)), body))
        };
        let taken = take(header, body_bytes, is_reference);
        self.position += lines(body);
        Ok(Some(taken))
    }

    /// Goes on to the next lap, and learns how long laps are.
    #[cold]
    fn next_lap(&mut self) -> u64 {
        let place = self.memory.place(self.position);
        self.gather = (place / 4).max(GATHER.min(self.memory.lines / 8));
        self.position = self.memory.lap(self.position) + self.memory.lines + FIRST;
        self.memory.word(self.position).load(Ordering::Acquire)
    }

    /// Tells the producer something; a word that says all by itself.
    #[cfg(not(loom))]
    pub(crate) fn say(&self, word: u64) {
        self.memory.says().store(word, Ordering::Relaxed);
    }

    /// True when enough has gathered to be given back, of room or of references.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.position - self.returned >= self.gather || self.references >= REFERENCES
    }

    /// True when bodies elsewhere were read that the producer does not know of.
    #[inline]
    pub fn has_references(&self) -> bool {
        self.references > 0
    }

    /// Gives back all room.
    pub fn give_back(&mut self) {
        // Release: what was read from these lines has been read before.
        self.memory.head().store(self.position - FIRST, Ordering::Release);
        self.returned = self.position;
        self.references = 0;
    }

    /// True when the producer waits for room. To be asked behind the barrier of
    /// `wake`, after room was given back.
    pub fn is_wanted(&self) -> bool {
        self.memory.wanted().load(Ordering::Relaxed) != 0
    }
}
