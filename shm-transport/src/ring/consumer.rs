//! The receiving side of a ring; the parent module has the layout and the orderings.

#![allow(unsafe_code)]

use fabric::{Header, Kind};

use super::memory::{RingMemory, TransferLock};
use super::{
    CONTROL_GRANULES, Corrupted, EXTERNAL, FULL_PREFIX, GRANULE, LINE_ALIGNED_MIN, LINE_GRANULES,
    RETURN_BATCH, RETURN_BATCH_BYTES, SHORT, SHORT_PREFIX, SKIP, layout,
};
use crate::sync::Ordering;

/// A frame as it stands in the ring.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Expanded if the ring holds a short one.
    pub header: Header,
    /// The data, or its descriptor.
    pub body: &'a [u8],
}

/// The commit word of a published frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit(u64);

impl Commit {
    /// Returns whether the body is a descriptor of data outside the ring.
    #[inline(always)]
    pub(crate) fn is_external(self) -> bool {
        self.0 & EXTERNAL != 0
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Consumer {
    memory: RingMemory,
    /// The producer's rank in the job.
    from: u32,
    /// The next frame begins here.
    pub(super) position: u64,
    /// The frame after it begins here, once [`Consumer::frame`] has looked.
    next: u64,
    /// Granules of the last frame.
    last: u64,
    /// Position that `head` holds.
    released: u64,
    /// Granules to read before their space is returned.
    return_batch: u64,
    /// Bytes of external bodies of the frames that were not returned.
    external_bytes: u32,
}

// SAFETY: the pointers lead to shared memory that is mapped as long as the ring is used. `&mut
// self` keeps changes of the position to one thread at a time.
unsafe impl Send for Consumer {}

impl Consumer {
    /// Makes the only consumer of a ring; `from` is the producer's rank in the job.
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

    /// Returns the memory of the ring, which this side uses no more.
    #[cfg(not(loom))]
    pub(crate) fn into_memory(self) -> RingMemory {
        self.memory
    }

    /// Returns whether a frame waits.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.memory.first_word(self.position).load(Ordering::Acquire) != 0
    }

    /// Takes the transfer lock, to be held while data that the producer has not published is read
    /// from its memory. `None` while the producer holds it or a frame waits.
    pub(crate) fn lock_transfers(&self) -> Option<TransferLock> {
        // The producer reports an impossible value.
        TransferLock::of(&self.memory).ok()?.filter(|_| !self.is_ready())
    }

    /// Offers memory, which is known by that number, to the producer. No offer is open.
    pub(crate) fn offer(&self, number: u64) {
        self.memory.offer().store(number, Ordering::Release);
    }

    /// Takes the offer back; false if the producer has taken it.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        self.memory.take_offer(number)
    }

    /// Returns the commit word of the next frame, if there is one.
    #[inline(always)]
    pub(crate) fn next_commit(&mut self) -> Result<Option<Commit>, Corrupted> {
        let mut word = self.memory.first_word(self.position).load(Ordering::Acquire);
        if word & SKIP != 0 {
            word = self.skip_to(word)?;
        }
        // One skip per call: a corrupted cycle of skips must not loop here.
        Ok((word != 0 && word & SKIP == 0).then_some(Commit(word)))
    }

    /// Returns the frame of a commit word. It is kept in the ring until [`Consumer::advance`].
    #[inline(always)]
    pub(crate) fn frame(&mut self, Commit(word): Commit) -> Result<Frame<'_>, Corrupted> {
        let is_short = word & SHORT != 0;
        // 61 bits, so that the sums in `layout` do not overflow.
        let body = ((word & !(EXTERNAL | SHORT)).wrapping_sub(1) & (SHORT - 1)) as usize;
        let (at, needed) =
            layout(self.position, if is_short { SHORT_PREFIX } else { FULL_PREFIX }, body);
        // No frame reaches the last granule of the ring.
        if needed >= self.memory.granules - self.memory.offset(self.position) {
            return Err(Corrupted { what: "a commit word", value: word });
        }
        let frame = self.memory.at(self.position);
        #[cfg(loom)]
        self.memory.model.read(self.memory.offset(self.position), needed);
        self.next = self.position + needed;
        // SAFETY: the check above keeps the frame inside the ring. The producer does not touch
        // these granules until `head` has passed them, and `advance`, which lets that happen, ends
        // the borrow.
        unsafe {
            let header = if is_short {
                let [context, tag] = frame.add(8).cast::<[u32; 2]>().read();
                self.expand_header(context, tag, body)
            } else {
                let header = Header::decode(&*frame.add(8).cast::<[u8; Header::SIZE]>());
                header
                    .map_err(|_| Corrupted {
                        what: "the kind of the frame with commit word",
                        value: word,
                    })?
                    .0
            };
            Ok(Frame { header, body: std::slice::from_raw_parts(frame.add(at), body) })
        }
    }

    /// Moves past the frame that [`Consumer::frame`] returned.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.last = self.next - self.position;
        self.position = self.next;
    }

    /// Prefetches all lines but the first of a frame like the last, between two polls. They then
    /// arrive together with the first line. Lines of a long body would arrive before it is written.
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

    /// Hands the next frame to `take` and moves past it; `None` if there is no frame.
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

    /// Returns the full header of a short one.
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

    /// Follows a `SKIP`; at the end of a lap learns how long laps are.
    #[cold]
    fn skip_to(&mut self, word: u64) -> Result<u64, Corrupted> {
        let (offset, to) = (self.memory.offset(self.position), word & !SKIP);
        if !(CONTROL_GRANULES..self.memory.granules).contains(&to) {
            return Err(Corrupted { what: "a commit word", value: word });
        }
        self.position = self.memory.lap(self.position) + to;
        if to <= offset {
            self.position += self.memory.granules;
            self.return_batch = (offset / 4).max(RETURN_BATCH.min(self.memory.granules / 8));
        }
        Ok(self.memory.first_word(self.position).load(Ordering::Acquire))
    }

    /// Returns the word of the producer's watermark ([`super::Producer::watermark`]).
    #[cfg(not(loom))]
    pub(crate) fn watermark_word(&self) -> &'static std::sync::atomic::AtomicU32 {
        self.memory.watermark_word()
    }

    /// Notes that the external body of the next frame, `len` bytes, was read, and stores the read
    /// cost for the producer if it was measured.
    #[cfg(not(loom))]
    pub(crate) fn has_read(&mut self, len: u32, word: Option<u64>) {
        self.external_bytes = self.external_bytes.saturating_add(len);
        let Some(word) = word else { return };
        self.memory.read_cost().store(word, Ordering::Relaxed);
    }

    /// Tells the producer which classes of bodies the consumer wants to have announced.
    pub(crate) fn want_classes(&mut self, classes: u64) {
        self.memory.wanted_classes().store(classes, Ordering::Relaxed);
    }

    /// Returns whether enough was read to return its space.
    #[inline]
    pub fn is_release_due(&self) -> bool {
        self.position - self.released >= self.return_batch
            || self.external_bytes >= RETURN_BATCH_BYTES
    }

    /// Returns whether external bodies were read whose space was not returned.
    #[inline]
    pub fn has_external(&self) -> bool {
        self.external_bytes > 0
    }

    /// Returns the space of all frames read.
    pub fn release(&mut self) {
        // Release: these lines were read before.
        self.memory.head().store(self.position - CONTROL_GRANULES, Ordering::Release);
        self.released = self.position;
        self.external_bytes = 0;
    }

    /// Returns whether the producer waits for space. To be called after [`Consumer::release`] and
    /// the fence of `event_count`.
    pub fn is_producer_waiting(&self) -> bool {
        self.memory.producer_waiting().load(Ordering::Relaxed) != 0
    }
}
