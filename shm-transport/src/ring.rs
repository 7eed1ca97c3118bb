//! A ring of 64-byte lines from one producer to one consumer, in memory that two
//! processes share.
//!
//! A frame is a run of consecutive lines:
//!
//! ```text
//! byte 0        8                      40
//!      [ word  ][ header (32)          ][ body ... up to the end of the last line ]
//! ```
//!
//! The word says everything: 0, nothing is here yet; else the length of the body
//! plus one; or `SKIP`, the frame continues to the end of the ring and means nothing.
//!
//! Invariants:
//! - The word at the producer's position is 0 until a frame is published there.
//!   Before it publishes a frame of k lines at p, the producer writes 0 into the
//!   word of p + k. So the consumer finds either 0 or a whole frame, the ring
//!   needs no shared tail, and a small message is one line that changes hands.
//! - The consumer never writes into the lines. It returns room by storing how
//!   many lines it has consumed in all (`head`), now and then.
//! - The line at p + k must be free as well, so a frame of k lines needs k + 1.
//! - All zero bytes are an empty ring: fresh shared memory needs no set-up.
//!
//! Orderings: the word is stored with Release after body and header, and loaded
//! with Acquire before them. The terminator is stored before that Release by the
//! same thread, so whoever sees the frame sees the 0 behind it. `head` is stored
//! with Release after the consumer's last read of the lines, and loaded with
//! Acquire before the producer writes them again.
//!
//! Nothing here trusts the other process: a word or head that can't be is an
//! error ([`Broken`]), and every index is masked.

#![allow(unsafe_code)]

use fabric::Header;

use crate::sync::{AtomicU64, Ordering};

/// Bytes of a line.
pub const LINE: usize = 64;
/// Bytes in front of the body.
const PREFIX: usize = 8 + Header::SIZE;
/// The word of a frame that only fills up the ring.
const SKIP: u64 = u64::MAX;

/// Lines of a frame with `body` bytes of body.
#[inline]
pub const fn lines(body: usize) -> u64 {
    ((PREFIX + body).div_ceil(LINE)) as u64
}

/// The other process has written what it never may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shared ring holds {what} {value:#x}, which can't be: its other side has overwritten memory")]
pub struct Broken {
    what: &'static str,
    value: u64,
}

/// Where a ring lies: `lines` (a power of two) of them from `base`, and the
/// consumer's count of consumed lines in another line.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    base: *mut u8,
    head: *const AtomicU64,
    lines: u64,
}

impl Memory {
    /// # Safety
    /// `base` is aligned to a line and valid for `lines` lines, `head` is valid;
    /// both for the life of the process. All of it was zero when the ring was
    /// first used, and only one producer and one consumer ever use it.
    pub unsafe fn new(base: *mut u8, head: *const AtomicU64, lines: u64) -> Memory {
        assert!(lines.is_power_of_two() && lines >= 4);
        Memory { base, head, lines }
    }

    #[inline]
    fn line(&self, position: u64) -> *mut u8 {
        // SAFETY: masked, so inside the ring.
        unsafe { self.base.add((position & (self.lines - 1)) as usize * LINE) }
    }

    #[inline]
    fn word(&self, position: u64) -> &AtomicU64 {
        // SAFETY: inside the ring, aligned to a line; words are only ever
        // accessed as atomics while both sides may touch them.
        unsafe { &*self.line(position).cast::<AtomicU64>() }
    }

    #[inline]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: valid by the promise of `new`.
        unsafe { &*self.head }
    }

    /// Lines from `position` to the end of the ring.
    #[inline]
    fn to_end(self, position: u64) -> u64 {
        self.lines - (position & (self.lines - 1))
    }
}

/// The sending side.
#[derive(Debug)]
pub struct Producer {
    memory: Memory,
    /// Lines written in all; the next frame starts here.
    position: u64,
    /// The consumer's head as last seen.
    consumed: u64,
    /// Lines that the last push found no room for; 0 after one that did.
    wanted: u64,
}

// SAFETY: the pointers are to shared memory that lives as long as the process;
// a producer is used by one thread at a time.
unsafe impl Send for Producer {}

impl Producer {
    /// The only producer of that ring.
    pub fn new(memory: Memory) -> Producer {
        Producer { memory, position: 0, consumed: 0, wanted: 0 }
    }

    /// The largest body of a frame: half of the ring, so that it always fits
    /// somewhere once the ring has drained.
    pub const fn max_body(lines: u64) -> usize {
        (lines / 2 - 1) as usize * LINE - PREFIX
    }

    /// Publishes a frame; false if there is no room, and then nothing happened.
    #[inline]
    pub fn push(&mut self, header: &Header, body: usize, fill: impl FnOnce(&mut [u8])) -> Result<bool, Broken> {
        let needed = lines(body);
        let to_end = self.memory.to_end(self.position);
        if needed > to_end {
            return self.push_after_skip(header, body, fill, needed, to_end);
        }
        if !self.has_room(needed)? {
            return Ok(false);
        }
        self.publish(header, body, fill, needed);
        Ok(true)
    }

    #[cold]
    fn push_after_skip(
        &mut self,
        header: &Header,
        body: usize,
        fill: impl FnOnce(&mut [u8]),
        needed: u64,
        to_end: u64,
    ) -> Result<bool, Broken> {
        assert!(needed < self.memory.lines, "a frame larger than the ring");
        if !self.has_room(to_end + needed)? {
            return Ok(false);
        }
        self.memory.word(self.position + to_end).store(0, Ordering::Relaxed);
        self.memory.word(self.position).store(SKIP, Ordering::Release);
        self.position += to_end;
        self.publish(header, body, fill, needed);
        Ok(true)
    }

    /// Room for `needed` lines and the terminator's.
    #[inline]
    fn has_room(&mut self, needed: u64) -> Result<bool, Broken> {
        if self.position - self.consumed + needed < self.memory.lines {
            return Ok(true);
        }
        self.look_again(needed)
    }

    #[cold]
    fn look_again(&mut self, needed: u64) -> Result<bool, Broken> {
        let head = self.memory.head().load(Ordering::Acquire);
        if head < self.consumed || head > self.position {
            return Err(Broken { what: "a head of", value: head });
        }
        self.consumed = head;
        let fits = self.position - self.consumed + needed < self.memory.lines;
        self.wanted = if fits { 0 } else { needed };
        Ok(fits)
    }

    /// True when the last push found no room and would find some now.
    pub fn has_found_room(&mut self) -> bool {
        self.wanted > 0 && self.look_again(self.wanted).unwrap_or(true)
    }

    #[inline]
    fn publish(&mut self, header: &Header, body: usize, fill: impl FnOnce(&mut [u8]), needed: u64) {
        let line = self.memory.line(self.position);
        self.memory.word(self.position + needed).store(0, Ordering::Relaxed);
        // SAFETY: the frame's lines are contiguous (checked against the end of the
        // ring), free (checked against the head), and the consumer does not read
        // them before the word below is published.
        unsafe {
            line.add(8).cast::<[u8; Header::SIZE]>().write(header.encode());
            fill(std::slice::from_raw_parts_mut(line.add(PREFIX), body));
        }
        self.memory.word(self.position).store(body as u64 + 1, Ordering::Release);
        self.position += needed;
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Consumer {
    memory: Memory,
    /// Lines consumed in all.
    position: u64,
    /// What `head` says.
    returned: u64,
    /// Room was returned since [`Consumer::has_returned_room`] was last asked.
    news: bool,
}

// SAFETY: as for `Producer`.
unsafe impl Send for Consumer {}

impl Consumer {
    /// The only consumer of that ring.
    pub fn new(memory: Memory) -> Consumer {
        Consumer { memory, position: 0, returned: 0, news: false }
    }

    /// True when a frame waits.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.memory.word(self.position).load(Ordering::Acquire) != 0
    }

    /// Hands the next frame (header and body, as they stand in the ring) to
    /// `take`; false if there is none.
    #[inline]
    pub fn pop(&mut self, take: impl FnOnce(&[u8])) -> Result<bool, Broken> {
        let mut word = self.memory.word(self.position).load(Ordering::Acquire);
        if word == SKIP {
            self.advance(self.memory.to_end(self.position));
            word = self.memory.word(self.position).load(Ordering::Acquire);
        }
        if word == 0 {
            return Ok(false);
        }
        let body = word - 1;
        if body > self.memory.lines * LINE as u64 || lines(body as usize) > self.memory.to_end(self.position) {
            return Err(Broken { what: "a frame length of", value: body });
        }
        let line = self.memory.line(self.position);
        // SAFETY: the length was just checked to stay inside the ring; the producer
        // does not touch these lines until `head` has passed them.
        take(unsafe { std::slice::from_raw_parts(line.add(8), Header::SIZE + body as usize) });
        self.advance(lines(body as usize));
        Ok(true)
    }

    /// Goes on, and returns room when a quarter of the ring has gathered.
    #[inline]
    fn advance(&mut self, lines: u64) {
        self.position += lines;
        if self.position - self.returned >= self.memory.lines / 4 {
            self.return_room();
        }
    }

    /// True once after room was returned: the producer may sleep for want of it.
    #[inline]
    pub fn has_returned_room(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Tells the producer of all room. Called as well before sleeping.
    pub fn return_room(&mut self) {
        if self.returned != self.position {
            self.returned = self.position;
            self.news = true;
            self.memory.head().store(self.position, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use fabric::Kind;

    /// A ring in ordinary memory, which lives for the rest of the test run.
    fn ring(lines: u64) -> (Producer, Consumer, Memory) {
        #[repr(align(64))]
        #[derive(Clone)]
        struct Line {
            _bytes: [u8; LINE],
        }
        let store = vec![Line { _bytes: [0; LINE] }; lines as usize].leak();
        let head = Box::leak(Box::new(AtomicU64::new(0)));
        // SAFETY: leaked, aligned, zero, and used by this pair alone.
        let memory = unsafe { Memory::new(store.as_mut_ptr().cast(), head, lines) };
        (Producer::new(memory), Consumer::new(memory), memory)
    }

    fn header(tag: i32) -> Header {
        Header { tag, ..Header::new(Kind::Eager) }
    }

    fn body(tag: i32, len: usize) -> Vec<u8> {
        (0..len).map(|at| (at as i32 * 7 + tag) as u8).collect()
    }

    #[test]
    fn frames_of_all_lengths_arrive_in_order_through_many_laps() {
        let (mut producer, mut consumer, _) = ring(64);
        let (mut sent, mut received) = (0, 0);
        while received < 5000 {
            let len = (sent as usize * 37) % Producer::max_body(64);
            if sent < 5000 && producer.push(&header(sent), len, |slot| slot.copy_from_slice(&body(sent, len))).unwrap()
            {
                sent += 1;
                continue;
            }
            let mut burst = 0;
            while consumer
                .pop(|frame| {
                    let (header, data) = Header::decode(frame).unwrap();
                    assert_eq!(header.tag, received);
                    assert_eq!(data, body(received, (received as usize * 37) % Producer::max_body(64)));
                })
                .unwrap()
            {
                received += 1;
                burst += 1;
                if burst == 3 && sent < 5000 {
                    break;
                }
            }
            consumer.return_room();
        }
    }

    #[test]
    fn a_full_ring_has_no_room_until_the_consumer_returns_some() {
        let (mut producer, mut consumer, _) = ring(8);
        let mut sent = 0;
        while producer.push(&header(sent), 0, |_| {}).unwrap() {
            sent += 1;
        }
        assert_eq!(sent, 7);
        assert!(consumer.pop(|_| {}).unwrap());
        consumer.return_room();
        assert!(producer.push(&header(sent), 0, |_| {}).unwrap());
        assert!(!producer.push(&header(sent), 0, |_| {}).unwrap());
    }

    #[test]
    fn words_that_cannot_be_are_refused() {
        let (mut producer, mut consumer, memory) = ring(8);
        memory.word(0).store(10_000, Ordering::Relaxed);
        assert!(consumer.pop(|_| {}).is_err());
        memory.head().store(1 << 40, Ordering::Relaxed);
        for _ in 0..7 {
            let _ = producer.push(&header(0), 0, |_| {});
        }
        assert!(producer.push(&header(0), 0, |_| {}).is_err());
    }

    #[test]
    fn two_threads_lose_nothing() {
        let rounds = if cfg!(miri) { 200 } else { 20_000 };
        let (mut producer, mut consumer, _) = ring(64);
        let sender = std::thread::spawn(move || {
            for tag in 0..rounds {
                let len = (tag as usize * 131) % 900;
                while !producer.push(&header(tag), len, |slot| slot.copy_from_slice(&body(tag, len))).unwrap() {
                    std::thread::yield_now();
                }
            }
        });
        for tag in 0..rounds {
            let check = |frame: &[u8]| {
                let (header, data) = Header::decode(frame).unwrap();
                assert_eq!((header.tag, data), (tag, &body(tag, (tag as usize * 131) % 900)[..]));
            };
            while !consumer.pop(check).unwrap() {
                consumer.return_room();
                std::thread::yield_now();
            }
        }
        sender.join().unwrap();
    }
}
