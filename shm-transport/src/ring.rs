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
//! The word says everything: 0, nothing is here yet; `GO_ON`, the next frame is
//! elsewhere; else the length of the body plus one, and two bits: `SHORT`, the header is the
//! short one; `REFERENCE`, the body is a reference to the `pool`, where large bodies
//! are. The short header does for an eager message of point-to-point whose sender has
//! the same rank in the communicator as in the job and whose context is below 2^32: what
//! most messages are. With it up to 48 bytes of body share a line with their header, and
//! of 16 bytes two messages do: a cache line that changes hands is what a message costs. A
//! frame of more than half a line ends with one, so that the next spans as few lines as it can and
//! its sender writes none that the receiver still reads. A body of `ALIGNED` bytes and more has its
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
//! - `wanted` takes part in the protocol of `wake`, whose barriers order it.
//! - `claim` is a lock that nobody waits for: the producer has it while it publishes a piece of a large message,
//!   the consumer while it reads such a message out of the producer's memory instead ([`Claim`]).
//!
//! Nothing here trusts the other process: a word or head that can't be is an
//! error ([`Broken`]), and every place is masked. A process that scribbles over a
//! frame while it is read spoils the data, as it could have before publishing it.
//!
//! What it does not do: allocate the memory (`segment`), sleep or wake (`wake`).

#![allow(unsafe_code)]

#[cfg(not(loom))]
use fabric::Watermark;
use fabric::user_buf::nt_fence;
use fabric::{Header, Kind, Slot};

pub(crate) use self::memory::Claim;
pub use self::memory::Memory;
use crate::sync::Ordering;

#[cfg(loom)]
mod loom_tests;
mod memory;
#[cfg(all(test, not(loom)))]
mod tests;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of a grain.
pub const GRAIN: usize = 16;
/// Grains of a line.
pub const GRAINS: u64 = (LINE / GRAIN) as u64;
/// Bytes in front of a body behind a short header.
const SHORT_PREFIX: usize = 16;
/// Bytes in front of a body behind a whole header.
const PREFIX: usize = 8 + Header::SIZE;
/// Bodies from this size on have their lines for themselves, bytes. What
/// that loses is less than what copies of whole lines gain.
const ALIGNED: usize = 512;
/// Bytes of bodies elsewhere that are gathered before they are given back.
const REFERRED: u32 = 64 << 10;
/// In the word: the body only says where the body is.
const REFERENCE: u64 = 1 << 62;
/// In the word: the header is the short one.
const SHORT: u64 = 1 << 61;
/// In the word: the next frame is at the place that the rest says, in this lap if
/// that is farther on, else in the next.
const GO_ON: u64 = 1 << 63;
/// Grains in front of the frames.
const FIRST: u64 = 2 * GRAINS;
/// Frames whose lines the producer asks for before it needs them. With fewer the time to own a line shows in the rate of
/// small messages.
const AS_MANY: u64 = 4;
/// The fewest grains that these are taken for, and the most. More lines for frames that share one, and their reader, which
/// asks for lines ahead of it as well, takes them away before they are written.
const AHEAD: (u64, u64) = (4 * GRAINS, 16 * GRAINS);
/// Grains that the consumer gathers at least before it gives them back.
const GATHER: u64 = 16 * GRAINS;

/// Where the body of a frame at `position` begins, in bytes from there, and the
/// grains of the frame.
#[inline]
const fn layout(position: u64, prefix: usize, body: usize) -> (usize, u64) {
    if body < ALIGNED {
        let grains = ((prefix + body).div_ceil(GRAIN)) as u64;
        let end = position + grains;
        return (
            prefix,
            if grains > GRAINS / 2 { end.next_multiple_of(GRAINS) - position } else { grains },
        );
    }
    let place = (position % GRAINS) as usize * GRAIN;
    let at = (place + prefix).next_multiple_of(LINE) - place;
    (at, ((at + body.next_multiple_of(LINE)) / GRAIN) as u64)
}

/// Grains that a frame with `body` bytes of body takes at most.
#[inline]
pub const fn room(body: usize) -> u64 {
    if body < ALIGNED {
        // From one place in the line on it just goes beyond the end of one.
        return (PREFIX + body).div_ceil(GRAIN) as u64 + GRAINS - 1;
    }
    // From here on the header just misses the end of the line.
    layout(GRAINS - 2, PREFIX, body).1
}

/// The other process has written what it never may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} in its shared ring is {value:#x}, which can't be: one of the two has overwritten memory"
)]
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
    /// Laps may be longer once the grains up to this one have memory.
    Lengthen(u64),
}

/// The sending side.
#[derive(Debug)]
pub struct Producer {
    memory: Memory,
    /// Whose messages these are: the rank in the job.
    me: u32,
    /// What `written` says.
    #[cfg(not(loom))]
    counted: u32,
    /// The next frame starts here.
    position: u64,
    /// The next frame must end before here: the end of the lap or of the room.
    limit: u64,
    /// Words from `position` to here are 0.
    cleared: u64,
    /// Lines up to here were asked for.
    asked: u64,
    /// Frames follow one another, as far as the transport knows.
    streams: bool,
    /// The consumer's position as last seen.
    consumed: u64,
    /// Grains of a lap, `FIRST` included. No frame reaches the last one, so that
    /// there is always a place for a `GO_ON`.
    end: u64,
    /// This lap goes on in lines that are new.
    is_new: bool,
    /// Grains that the last frame found no room for; 0 when it found some.
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
    /// The only producer of that ring, whose first `end` grains have memory; `me` is
    /// its rank in the job.
    pub fn new(memory: Memory, end: u64, me: u32) -> Producer {
        assert!(end <= memory.grains && end >= 8 * GRAINS);
        let start = FIRST;
        let cleared = start + 1; // the whole first lap is; said for the invariant's sake
        Producer {
            memory,
            me,
            #[cfg(not(loom))]
            counted: 0,
            position: start,
            limit: end,
            cleared,
            asked: start,
            streams: true,
            consumed: start,
            end,
            is_new: false,
            waits_for: 0,
            waits_until: 0,
            has_said: false,
        }
    }

    /// The largest body that a ring of so many lines carries. A frame of three
    /// eighths of the lines but one always finds room once all before it is consumed, although
    /// the consumer keeps back up to a quarter and a lap may have to be cut short by as much.
    pub const fn max_body(lines: u64) -> usize {
        let most = (lines as usize * 3 / 8 - 1) * LINE;
        if most < ALIGNED + 2 * LINE { most - PREFIX - (LINE - GRAIN) } else { most - 2 * LINE }
    }

    /// True when a frame of so many grains may be published now.
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
        let room = self.find(needed, may_lengthen && self.end < self.memory.grains);
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
        let start = lap + self.memory.grains + FIRST;
        let is_free =
            start + needed < self.consumed + self.memory.grains && FIRST + needed < self.end;
        if self.position + needed >= lap + self.end && is_free {
            self.next_lap(start);
            return Room::Found;
        }
        let least = (self.position - lap).max(self.end) + needed + 1;
        if !may_lengthen || least > self.memory.grains {
            return Room::None;
        }
        Room::Lengthen(least.next_power_of_two().max(2 * self.end).min(self.memory.grains))
    }

    fn next_lap(&mut self, start: u64) {
        self.go_on(start);
        self.is_new = false;
        self.update_limit();
    }

    /// The next frame will be there.
    fn go_on(&mut self, position: u64) {
        self.memory.word(position).store(0, Ordering::Relaxed);
        // Release: whoever goes there finds the 0.
        self.memory
            .word(self.position)
            .store(GO_ON | self.memory.place(position), Ordering::Release);
        self.position = position;
        self.cleared = position + 1;
        self.asked = position;
    }

    /// The grains up to `end` have memory now.
    pub fn lengthen(&mut self, end: u64) {
        assert!(end <= self.memory.grains);
        let old = self.memory.lap(self.position) + self.end;
        self.end = end;
        // What the consumer has not read yet of the lap before is in the way.
        if !self.is_new && self.consumed + self.memory.grains < old {
            self.go_on(old);
            self.is_new = true;
        }
        self.update_limit();
    }

    /// Where the consumer is when it has read the next frame, if that is a reference of so many bytes.
    #[cfg(not(loom))]
    pub(crate) fn behind_reference(&self, bytes: usize) -> u64 {
        self.position + layout(self.position, PREFIX, bytes).1
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

    /// Grains of a lap.
    pub fn end(&self) -> u64 {
        self.end
    }

    fn update_limit(&mut self) {
        let end = self.memory.lap(self.position) + self.end;
        self.limit = if self.is_new { end } else { end.min(self.consumed + self.memory.grains) };
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

    /// True when a frame of so many grains finds room sooner or later although laps
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
    pub(crate) fn note_stream(&mut self, streams: bool) {
        self.streams = streams;
    }

    /// Publishes a frame whose body is elsewhere, where `reference` says.
    #[inline]
    pub fn publish_reference(&mut self, header: &Header, reference: &[u8]) {
        self.publish_as(REFERENCE, header, reference.len(), |bytes| {
            bytes.copy_from_slice(reference)
        });
    }

    /// To be had while a piece of a large message is published.
    pub(crate) fn claim(&self) -> Result<Option<Claim>, Broken> {
        Claim::of(&self.memory)
    }

    /// What counts the next body that is read while it is written.
    #[cfg(not(loom))]
    pub(crate) fn count(&self) -> Watermark<'static> {
        Watermark::new(self.memory.written(), self.counted)
    }

    /// So many bytes of such a body are written: all of it.
    #[cfg(not(loom))]
    pub(crate) fn has_written(&mut self, bytes: usize) {
        self.count().say(bytes);
        self.counted = self.counted.wrapping_add(bytes as u32);
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
        let (mark, prefix) = if short { (SHORT, SHORT_PREFIX) } else { (mark, PREFIX) };
        let (at, needed) = layout(self.position, prefix, body);
        let next = self.position + needed;
        assert!(next < self.limit, "a frame was published without room for it");
        if next >= self.cleared {
            self.clear(next);
        }
        let (frame, word) = (self.memory.at(self.position), self.memory.word(self.position));
        #[cfg(loom)]
        self.memory.model.write(self.memory.place(self.position), needed);
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
        if self.cleared < next + GRAINS && self.cleared < self.limit {
            self.clear(self.cleared);
        }
        if body >= ALIGNED && next + needed >= self.limit {
            self.begin_lap(needed);
        }
        let ahead = if self.streams { (AS_MANY * needed).clamp(AHEAD.0, AHEAD.1) } else { AHEAD.0 };
        if (body >= ALIGNED || self.streams) && self.asked < next + ahead {
            self.ask_ahead(ahead);
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
        self.cleared = ((from / GRAINS + 1) * GRAINS).min(self.limit);
        self.memory.clear(from, self.cleared);
    }

    /// Asks for the lines of the next frames, each once. Not between a question and its answer: the reader
    /// asks for them meanwhile ([`Consumer::expect`]), and would have to once more.
    #[inline(always)]
    fn ask_ahead(&mut self, ahead: u64) {
        let until = (self.position + ahead).min(self.limit);
        self.asked = self.asked.max(self.position);
        while self.asked < until {
            self.memory.will_write(self.asked);
            self.asked += GRAINS;
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
pub(crate) struct Word(u64);

impl Word {
    /// The body says where the data is in the pool.
    #[inline(always)]
    pub(crate) fn is_reference(self) -> bool {
        self.0 & REFERENCE != 0
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Consumer {
    memory: Memory,
    /// Whose messages these are: the rank in the job.
    from: u32,
    /// The next frame is here.
    position: u64,
    /// The one behind it, once [`Consumer::frame`] has looked.
    next: u64,
    /// Grains of the last frame.
    last: u64,
    /// What `head` says.
    returned: u64,
    /// Grains to gather before they are given back.
    gather: u64,
    /// Bytes of bodies elsewhere, of the frames that were not given back.
    referred: u32,
}

// SAFETY: as for `Producer`.
unsafe impl Send for Consumer {}

impl Consumer {
    /// The only consumer of that ring; `from` is the producer's rank in the job.
    pub fn new(memory: Memory, from: u32) -> Consumer {
        let gather = GATHER.min(memory.grains / 8);
        Consumer {
            memory,
            from,
            position: FIRST,
            next: FIRST,
            last: 0,
            returned: FIRST,
            gather,
            referred: 0,
        }
    }

    /// True when a frame waits.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.memory.word(self.position).load(Ordering::Acquire) != 0
    }

    /// To be had while what the producer has not published is read elsewhere; `None` also when
    /// it has published more than was looked at.
    pub(crate) fn claim(&self) -> Option<Claim> {
        // What it can't be the producer finds, too.
        Claim::of(&self.memory).ok()?.filter(|_| !self.is_ready())
    }

    /// The word of the next frame, if there is one.
    #[inline(always)]
    pub(crate) fn next_word(&mut self) -> Result<Option<Word>, Broken> {
        let mut word = self.memory.word(self.position).load(Ordering::Acquire);
        if word & GO_ON != 0 {
            word = self.go_on(word)?;
        }
        // One step at a time: a way without an end is then no end of waiting here.
        Ok((word != 0 && word & GO_ON == 0).then_some(Word(word)))
    }

    /// The frame whose word that is, as it stands in the ring. It stays there until [`Consumer::advance`].
    #[inline(always)]
    pub(crate) fn frame(&mut self, Word(word): Word) -> Result<Frame<'_>, Broken> {
        let is_short = word & SHORT != 0;
        // Of 61 bits, so that the sums in `layout` don't overflow; a length of 0 has all of them.
        let body = ((word & !(REFERENCE | SHORT)).wrapping_sub(1) & (SHORT - 1)) as usize;
        let (at, needed) =
            layout(self.position, if is_short { SHORT_PREFIX } else { PREFIX }, body);
        // A frame never reaches the last grain of the ring.
        if needed >= self.memory.grains - self.memory.place(self.position) {
            return Err(Broken { what: "a frame's word", value: word });
        }
        let frame = self.memory.at(self.position);
        #[cfg(loom)]
        self.memory.model.read(self.memory.place(self.position), needed);
        self.next = self.position + needed;
        // SAFETY: the length was just checked to stay inside the ring. The producer
        // does not touch these grains until `head` has passed them, and `advance`,
        // which lets that happen, ends the borrow.
        unsafe {
            let header = if is_short {
                let [context, tag] = frame.add(8).cast::<[u32; 2]>().read();
                self.lengthened(context, tag, body)
            } else {
                let header = Header::decode(&*frame.add(8).cast::<[u8; Header::SIZE]>());
                header.map_err(|_| Broken { what: "a frame's kind", value: word })?.0
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
    pub(crate) fn expect(&self) {
        if self.last < (ALIGNED / GRAIN) as u64 {
            let mut line = GRAINS;
            while line < self.last {
                self.memory.will_read(self.position + line);
                line += GRAINS;
            }
        }
    }

    /// Hands the next frame to `take` and goes past it; `None` if there is no frame.
    #[inline]
    pub fn pop<R>(
        &mut self,
        take: impl FnOnce(&Header, &[u8], bool) -> R,
    ) -> Result<Option<R>, Broken> {
        let Some(word) = self.next_word()? else { return Ok(None) };
        let Frame { header, body } = self.frame(word)?;
        let taken = take(&header, body, word.is_reference());
        self.advance();
        Ok(Some(taken))
    }

    /// The header that a short one stands for.
    #[inline(always)]
    fn lengthened(&self, context: u32, tag: u32, body: usize) -> Header {
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
    fn go_on(&mut self, word: u64) -> Result<u64, Broken> {
        let (place, to) = (self.memory.place(self.position), word & !GO_ON);
        if !(FIRST..self.memory.grains).contains(&to) {
            return Err(Broken { what: "a frame's word", value: word });
        }
        self.position = self.memory.lap(self.position) + to;
        if to <= place {
            self.position += self.memory.grains;
            self.gather = (place / 4).max(GATHER.min(self.memory.grains / 8));
        }
        Ok(self.memory.word(self.position).load(Ordering::Acquire))
    }

    /// What counts a body of the producer's that is read while it is written; see
    /// [`Producer::count`].
    #[cfg(not(loom))]
    pub(crate) fn written(&self) -> &'static std::sync::atomic::AtomicU32 {
        self.memory.written()
    }

    /// Notes that the body of the frame in front, so long, was elsewhere and is read; tells the
    /// producer `word`, if there is something to tell.
    #[cfg(not(loom))]
    pub(crate) fn has_read(&mut self, len: u32, word: Option<u64>) {
        self.referred = self.referred.saturating_add(len);
        let Some(word) = word else { return };
        self.memory.says().store(word, Ordering::Relaxed);
    }

    /// True when enough has gathered to be given back, of room or of references.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.position - self.returned >= self.gather || self.referred >= REFERRED
    }

    /// True when bodies elsewhere were read that the producer does not know of.
    #[inline]
    pub fn has_references(&self) -> bool {
        self.referred > 0
    }

    /// Gives back all room.
    pub fn give_back(&mut self) {
        // Release: what was read from these lines has been read before.
        self.memory.head().store(self.position - FIRST, Ordering::Release);
        self.returned = self.position;
        self.referred = 0;
    }

    /// True when the producer waits for room. To be asked behind the barrier of
    /// `wake`, after room was given back.
    pub fn is_wanted(&self) -> bool {
        self.memory.wanted().load(Ordering::Relaxed) != 0
    }
}
