//! Pipelined bodies: the receiver reads a body while the sender still writes it.
//!
//! Both sides share one word, the watermark, which counts the bytes of such bodies and wraps. The
//! sender publishes the frame, then writes the body chunk by chunk and advances the watermark after
//! each. The receiver takes what lies below the watermark; therefore both copies of a message
//! overlap, and matching overlaps with the first of them.
//!
//! Invariants:
//! - The sender finishes a body before it publishes the next frame. The watermark is therefore
//!   never below the `base` of a published body.
//! - The other side is not trusted: an impossible watermark reads as the whole body, all of which
//!   is memory.
//!
//! A reader that has waited for long looks whether the sender's process has ended, where the job
//! goes on without it. Otherwise the launcher ends the job.

use std::cell::Cell;
use std::time::{Duration, Instant};

use fabric::{Body, Cut};

use crate::sync::{AtomicU32, Ordering};

#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_tests;

/// Polls of the watermark before the reader yields its processor.
const SPIN_POLLS: u32 = 1 << 10;
/// Polls of the watermark before the reader sleeps between polls.
const YIELD_POLLS: u32 = 1 << 12;
/// How long it sleeps then.
const SLEEP: Duration = Duration::from_millis(1);

/// How much of a body is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermark<'a> {
    word: &'a AtomicU32,
    base: u32,
}

impl<'a> Watermark<'a> {
    /// `base` is the value of the word before the body.
    #[inline]
    pub(crate) fn new(word: &'a AtomicU32, base: u32) -> Watermark<'a> {
        Watermark { word, base }
    }

    /// Returns the value of the word before the body.
    #[inline]
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// Publishes that the first `bytes` are written.
    #[inline]
    pub(crate) fn advance(&self, bytes: usize) {
        // Release: a reader that sees the count finds the bytes.
        self.word.store(self.base.wrapping_add(bytes as u32), Ordering::Release);
    }

    /// Returns how many bytes are written, at least. Not for reading them.
    pub(crate) fn written(&self) -> usize {
        self.word.load(Ordering::Relaxed).wrapping_sub(self.base) as usize
    }

    /// Waits until more than `have` bytes are written; returns how many are. An error if the
    /// process that writes them has ended, as `ended` says.
    #[inline]
    fn wait(&self, have: usize, ended: Option<&AtomicU32>) -> Result<usize, Cut> {
        let (mut polls, mut has_ended) = (0, false);
        loop {
            // Acquire: the bytes below the count are written.
            let written = self.word.load(Ordering::Acquire).wrapping_sub(self.base) as usize;
            if written > have {
                return Ok(written);
            }
            if has_ended {
                return Err(Cut);
            }
            polls += 1;
            back_off(polls);
            // Acquire: the next look at the watermark finds what the process has written last.
            has_ended = polls >= YIELD_POLLS
                && ended.is_some_and(|ended| ended.load(Ordering::Acquire) != 0);
        }
    }
}

#[cfg(not(loom))]
#[inline]
fn back_off(polls: u32) {
    match polls {
        ..SPIN_POLLS => std::hint::spin_loop(),
        SPIN_POLLS..YIELD_POLLS => std::thread::yield_now(),
        _ => std::thread::sleep(SLEEP),
    }
}

/// The same wait, with the only back-off that loom knows.
#[cfg(loom)]
fn back_off(_: u32) {
    let _ = (SPIN_POLLS, YIELD_POLLS, SLEEP);
    loom::thread::yield_now();
}

/// A body that the sender may still write.
#[derive(Debug)]
pub(crate) struct PipelinedBody<'a> {
    bytes: &'a [u8],
    watermark: Watermark<'a>,
    by_lines: bool,
    /// Time of waiting for the sender; `None`: it is not taken.
    waited: Cell<Option<Duration>>,
    /// Not 0 once the sender's process has ended, if that is known.
    ended: Option<&'a AtomicU32>,
    is_cut: Cell<bool>,
}

impl<'a> PipelinedBody<'a> {
    /// `bytes` is the whole body, of which `watermark` bytes are written; see [`Body::by_lines`].
    /// `waited`: the time of waiting so far, if it is to be taken.
    #[inline]
    pub(crate) fn new(
        bytes: &'a [u8],
        watermark: Watermark<'a>,
        by_lines: bool,
        waited: Option<Duration>,
    ) -> PipelinedBody<'a> {
        let (waited, is_cut) = (Cell::new(waited), Cell::new(false));
        PipelinedBody { bytes, watermark, by_lines, waited, ended: None, is_cut }
    }

    /// The same body; `ended` is not 0 once the sender's process has ended, if that is known.
    pub(crate) fn until(self, ended: Option<&'a AtomicU32>) -> PipelinedBody<'a> {
        PipelinedBody { ended, ..self }
    }

    /// Returns how long the reader has waited for bytes to be written, if that is taken.
    pub(crate) fn waited(&self) -> Option<Duration> {
        self.waited.get()
    }

    /// Returns whether a wait has found that the sender will not write all of it.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Waits as the watermark does.
    #[inline]
    fn wait(&self, have: usize) -> Result<usize, Cut> {
        let written = match self.waited.get() {
            None => self.watermark.wait(have, self.ended),
            Some(before) => self.wait_timed(have, before),
        };
        written.inspect_err(|Cut| self.is_cut.set(true))
    }

    #[inline(never)]
    fn wait_timed(&self, have: usize, before: Duration) -> Result<usize, Cut> {
        if self.watermark.written() > have {
            return self.watermark.wait(have, self.ended);
        }
        let begun = Instant::now();
        let written = self.watermark.wait(have, self.ended);
        self.waited.set(Some(before + begun.elapsed()));
        written
    }
}

impl Body for PipelinedBody<'_> {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn for_each_chunk(&self, len: usize, mut take: impl FnMut(usize, &[u8])) -> Result<(), Cut> {
        let mut done = 0;
        while done < len {
            let written = self.wait(done)?.min(len);
            take(done, &self.bytes[done..written]);
            done = written;
        }
        Ok(())
    }

    fn wait_all(&self) -> Result<&[u8], Cut> {
        if let Some(last) = self.bytes.len().checked_sub(1) {
            self.wait(last)?;
        }
        Ok(self.bytes)
    }

    fn is_arriving(&self) -> bool {
        true
    }

    fn by_lines(&self) -> bool {
        self.by_lines
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use fabric::{Chunks, Slot};

    #[test]
    fn chunks_are_taken_as_they_are_written_also_where_the_watermark_wraps() {
        let (bytes, word) = ([7; 100], AtomicU32::new(u32::MAX - 10));
        let watermark = Watermark::new(&word, u32::MAX - 10);
        let body = PipelinedBody::new(&bytes, watermark, false, None);
        watermark.advance(30);
        let mut chunks = Vec::new();
        let all = body.for_each_chunk(80, |at, chunk| {
            chunks.push((at, chunk.len()));
            watermark.advance(at + chunk.len() + 25);
        });
        assert_eq!(all, Ok(()));
        assert_eq!(chunks, [(0, 30), (30, 25), (55, 25)]);
        watermark.advance(100);
        assert_eq!(body.wait_all(), Ok(&bytes[..]));
        let empty = PipelinedBody::new(&[], Watermark::new(&word, 0), true, None);
        assert_eq!(empty.wait_all(), Ok(&[][..]));
    }

    #[test]
    fn a_body_whose_sender_has_ended_is_cut_where_it_was_not_written() {
        let (bytes, word, ended) = ([7; 100], AtomicU32::new(40), AtomicU32::new(1));
        let body =
            PipelinedBody::new(&bytes, Watermark::new(&word, 0), false, None).until(Some(&ended));
        assert!(body.for_each_chunk(40, |_, _| ()).is_ok() && !body.is_cut());
        let mut chunks = Vec::new();
        let all = body.for_each_chunk(100, |at, chunk| chunks.push((at, chunk.len())));
        assert!(all == Err(Cut) && body.is_cut() && chunks == [(0, 40)]);
        word.store(100, Ordering::Relaxed);
        assert_eq!(body.wait_all(), Ok(&bytes[..]));
    }

    #[test]
    fn a_slot_advances_the_watermark_after_each_chunk() {
        let (mut to, word) = ([0; 100], AtomicU32::new(5));
        let mut seen = Vec::new();
        let watermark = Watermark::new(&word, 5);
        let chunks = Chunks { bytes: 40, written: &|bytes| watermark.advance(bytes) };
        Slot::chunked(&mut to, false, chunks).fill_chunks(|at, chunk| {
            seen.push((at, chunk.len(), word.load(Ordering::Relaxed)));
            chunk.fill(3);
        });
        assert_eq!(seen, [(0, 40, 5), (40, 40, 45), (80, 20, 85)]);
        assert_eq!((to, word.load(Ordering::Relaxed)), ([3; 100], 105));
    }
}
