//! A body that the receiver reads while the sender still writes it.
//!
//! Sender and receiver share a word that counts the bytes of such bodies, one after the
//! other, and wraps. The sender publishes the frame first, then writes part after part and
//! counts each. The receiver takes what is counted, so both copies of a message go on
//! side by side, and finding its receive goes on beside the first of them.
//!
//! Invariants:
//! - The sender counts all of a body before it publishes the next frame: the count is never
//!   below the `base` of a body that was published.
//! - Nothing here trusts the other side: a count that can't be reads as the whole body, whose bytes
//!   are memory all the same.
//!
//! What it does not do: wait for a sender that has stopped, other than by giving way to it. Who dies
//! in the middle takes the job with it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Looks before a reader lets others run, and before it sleeps between looks.
const SPIN: u32 = 1 << 10;
const YIELD: u32 = 1 << 12;
/// How long it sleeps then.
const NAP: Duration = Duration::from_millis(1);

/// How much of a body is there.
#[derive(Clone, Copy, Debug)]
pub struct Watermark<'a> {
    word: &'a AtomicU32,
    base: u32,
}

impl<'a> Watermark<'a> {
    /// `base`: what the word held before the body.
    #[inline]
    pub fn new(word: &'a AtomicU32, base: u32) -> Watermark<'a> {
        Watermark { word, base }
    }

    /// What the word held before.
    #[inline]
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Says that the first `bytes` are written.
    #[inline]
    pub fn advance(&self, bytes: usize) {
        // Release: who reads the count finds the bytes.
        self.word.store(self.base.wrapping_add(bytes as u32), Ordering::Release);
    }

    /// How many bytes are there, once these are more than `have`.
    #[inline]
    fn wait(&self, have: usize) -> usize {
        let mut looks = 0;
        loop {
            let there = self.word.load(Ordering::Acquire).wrapping_sub(self.base) as usize;
            if there > have {
                return there;
            }
            looks += 1;
            match looks {
                ..SPIN => std::hint::spin_loop(),
                SPIN..YIELD => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
    }
}

/// The bytes of a message or of a piece of one: all at once, or as they come.
pub trait Body {
    /// Bytes in all.
    fn len(&self) -> usize;
    /// True when there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Hands over the first `len` bytes, in parts and in order, each with its offset.
    fn for_each_chunk(&self, len: usize, take: impl FnMut(usize, &[u8]));
    /// All of them.
    fn wait_all(&self) -> &[u8];
    /// Whether they are best copied line by line ([`crate::UserBuf::write_lines`]).
    fn by_lines(&self) -> bool {
        false
    }
}

impl Body for [u8] {
    #[inline(always)]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn for_each_chunk(&self, len: usize, mut take: impl FnMut(usize, &[u8])) {
        take(0, &self[..len]);
    }

    #[inline(always)]
    fn wait_all(&self) -> &[u8] {
        self
    }
}

/// One that may still grow.
#[derive(Debug)]
pub struct PipelinedBody<'a> {
    bytes: &'a [u8],
    count: Watermark<'a>,
    by_lines: bool,
}

impl<'a> PipelinedBody<'a> {
    /// `bytes` is the whole body, of which `count` says how much is there; see [`Body::by_lines`].
    #[inline]
    pub fn new(bytes: &'a [u8], count: Watermark<'a>, by_lines: bool) -> PipelinedBody<'a> {
        PipelinedBody { bytes, count, by_lines }
    }
}

impl Body for PipelinedBody<'_> {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn for_each_chunk(&self, len: usize, mut take: impl FnMut(usize, &[u8])) {
        let mut done = 0;
        while done < len {
            let there = self.count.wait(done).min(len);
            take(done, &self.bytes[done..there]);
            done = there;
        }
    }

    fn wait_all(&self) -> &[u8] {
        if let Some(last) = self.bytes.len().checked_sub(1) {
            self.count.wait(last);
        }
        self.bytes
    }

    fn by_lines(&self) -> bool {
        self.by_lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slot;

    #[test]
    fn parts_are_taken_as_they_are_counted_also_where_the_count_wraps() {
        let (bytes, word) = ([7; 100], AtomicU32::new(u32::MAX - 10));
        let count = Watermark::new(&word, u32::MAX - 10);
        let body = PipelinedBody::new(&bytes, count, false);
        count.advance(30);
        let mut parts = Vec::new();
        body.for_each_chunk(80, |at, part| {
            parts.push((at, part.len()));
            count.advance(at + part.len() + 25);
        });
        assert_eq!(parts, [(0, 30), (30, 25), (55, 25)]);
        count.advance(100);
        assert_eq!(body.wait_all(), [7; 100]);
        assert!(PipelinedBody::new(&[], Watermark::new(&word, 0), true).wait_all().is_empty());
    }

    #[test]
    fn a_slot_counts_what_is_written_part_by_part() {
        let (mut to, word) = ([0; 100], AtomicU32::new(5));
        let mut seen = Vec::new();
        Slot::pipelined(&mut to, false, Watermark::new(&word, 5), 40).fill_chunks(|at, part| {
            seen.push((at, part.len(), word.load(Ordering::Relaxed)));
            part.fill(3);
        });
        assert_eq!(seen, [(0, 40, 5), (40, 40, 45), (80, 20, 85)]);
        assert_eq!((to, word.load(Ordering::Relaxed)), ([3; 100], 105));
    }
}
