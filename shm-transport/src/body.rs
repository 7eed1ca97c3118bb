//! Bodies outside the rings: the memory that they lie in and how frames describe them.
//!
//! Each rank has one range of the segment for the bodies that it sends ([`BodyMemory`]): first its
//! bounce pool (`bounce`), then its recycled blocks (`recycle`). The frame of an external body
//! carries a [`Descriptor`] in place of the data.
//!
//! A receiver checks each descriptor against the mapping: a corrupted one leads to memory, if not
//! to a message.

#![allow(unsafe_code)]

use std::ops::Range;
use std::time::Instant;

use fabric::copy::nt_fence;
use fabric::{Chunks, Slot};
use rustix::mm::{Advice, madvise};

use crate::copy_cost::CopyCost;
use crate::memory_file::unmap;
use crate::method;
use crate::pipeline::Watermark;
use crate::ring::LINE;
use crate::store_tuner::{StoreKind, StoreTuner};

/// Where an external body lies and how it is written: the body of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// First line of the body in its owner's range.
    pub line: u32,
    /// Bytes of the body.
    pub len: u32,
    /// The receiver reports the cost of reading; the body was stored this way.
    pub timed: Option<StoreKind>,
    /// The body is pipelined: the watermark before it.
    pub base: Option<u32>,
    /// The body lies in a recycled block, which is the receiver's from now on.
    pub tag: Option<BlockTag>,
}

/// Which recycled block a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockTag {
    /// The block lies in the range of the descriptor's sender, otherwise in its receiver's.
    pub of_sender: bool,
    /// Binary logarithm of the bytes that have memory.
    pub end: u8,
}

impl BlockTag {
    fn encode(self) -> [u8; 2] {
        [1 + u8::from(self.of_sender), self.end]
    }

    /// Returns `None` for a body in the bounce pool.
    pub(crate) fn decode([kind, end]: [u8; 2]) -> Option<BlockTag> {
        (kind != 0).then_some(BlockTag { of_sender: kind == 2, end })
    }
}

impl Descriptor {
    /// Bytes of a descriptor.
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

    /// Returns the offset of the body, bytes.
    pub(crate) fn start(self) -> usize {
        self.line as usize * LINE
    }
}

/// The mapped range of one rank's external bodies: its bounce pool, then its recycled blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyMemory {
    base: *mut u8,
    /// Bytes of the bounce pool.
    bounce_bytes: usize,
}

// SAFETY: an address of shared memory that is mapped as long as it is used. Which thread may access
// which part is the concern of the unsafe code that does.
unsafe impl Send for BodyMemory {}

impl BodyMemory {
    /// # Safety
    /// `base` is aligned to a page and mapped for [`BodyMemory::length`] until
    /// [`BodyMemory::unmap`].
    pub(crate) unsafe fn new(base: *mut u8, bounce_bytes: usize) -> BodyMemory {
        BodyMemory { base, bounce_bytes }
    }

    /// Unmaps the range.
    ///
    /// # Safety
    /// Nothing uses the range any more.
    pub(crate) unsafe fn unmap(self) {
        // SAFETY: the caller's promise; so many bytes were mapped, by the promise of `new`.
        unsafe { unmap(self.base, BodyMemory::length(self.bounce_bytes as u64)) }
    }

    /// Returns the bytes of a range whose bounce pool has `bounce_bytes`.
    pub(crate) fn length(bounce_bytes: u64) -> u64 {
        3 * bounce_bytes
    }

    /// Returns the bytes of the bounce pool, which begins the range.
    pub(crate) fn bounce_bytes(&self) -> usize {
        self.bounce_bytes
    }

    /// Returns the part of the recycled blocks.
    pub(crate) fn recycled(&self) -> Range<usize> {
        self.bounce_bytes..BodyMemory::length(self.bounce_bytes as u64) as usize
    }

    /// Returns the bytes `start .. start + len`. Panics if they are not all in the range.
    ///
    /// # Safety
    /// No process writes them as long as they are borrowed.
    pub(crate) unsafe fn bytes<'a>(&self, start: usize, len: usize) -> &'a [u8] {
        assert!(start.saturating_add(len) <= self.recycled().end);
        // SAFETY: inside the mapping; not written, by the caller's promise. Any bytes are valid.
        unsafe { std::slice::from_raw_parts(self.base.add(start), len) }
    }

    /// Returns the bytes `start .. start + len` for writing. Panics if they are not all in the
    /// range.
    ///
    /// # Safety
    /// No process accesses them as long as they are borrowed, other than by a watermark's rules.
    pub(crate) unsafe fn bytes_mut<'a>(&self, start: usize, len: usize) -> &'a mut [u8] {
        assert!(start.saturating_add(len) <= self.recycled().end);
        // SAFETY: inside the mapping; exclusive, by the caller's promise. Any bytes are valid.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(start), len) }
    }

    /// Maps the pages of a part at once; an old kernel maps them one by one, on first touch.
    /// Populating for reading is enough: shared pages are mapped writable.
    pub(crate) fn populate(&self, part: Range<usize>) {
        // SAFETY: inside the mapping, whose contents the call leaves as they are.
        let _ = unsafe {
            madvise(self.base.add(part.start).cast(), part.len(), Advice::LinuxPopulateRead)
        };
    }
}

/// Space for one body.
#[derive(Debug)]
pub(crate) struct BodySlot<'a> {
    /// The space.
    pub bytes: &'a mut [u8],
    /// Its first line.
    pub line: u32,
    /// How it is stored.
    pub kind: StoreKind,
    /// Writing and reading are timed.
    pub is_timed: bool,
    /// It is a recycled block.
    pub tag: Option<BlockTag>,
}

impl BodySlot<'_> {
    /// Returns the bytes of the body.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the descriptor of the body; `base` is the watermark before it if it is pipelined.
    pub(crate) fn descriptor(&self, base: Option<u32>) -> Descriptor {
        let (len, timed) = (self.bytes.len() as u32, self.is_timed.then_some(self.kind));
        Descriptor { line: self.line, len, timed, base, tag: self.tag }
    }

    /// Has `fill` write the body, chunk by chunk if it is pipelined, that is has a watermark.
    pub(crate) fn fill(
        self,
        watermark: Option<Watermark<'_>>,
        tuner: &mut StoreTuner,
        fill: impl FnOnce(&mut Slot),
    ) {
        let (len, kind) = (self.bytes.len(), self.kind);
        let non_temporal = kind == StoreKind::NonTemporal;
        let begun = self.is_timed.then(Instant::now);
        match watermark {
            None => fill(&mut Slot::new(self.bytes, non_temporal)),
            Some(watermark) => {
                let written = |bytes| watermark.advance(bytes);
                let chunks = Chunks { bytes: method::chunk_bytes(kind, len), written: &written };
                fill(&mut Slot::chunked(self.bytes, non_temporal, chunks));
            }
        }
        nt_fence();
        if let Some(begun) = begun {
            tuner.record_write_cost(kind, CopyCost::since(begun, len));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a range whose bounce pool has `bounce_bytes`, and the memory that it lies in.
    pub(crate) fn memory(bounce_bytes: usize) -> (Vec<[u64; 512]>, BodyMemory) {
        let bytes = BodyMemory::length(bounce_bytes as u64) as usize;
        let mut pages = vec![[0; 512]; bytes / 4096 + 1];
        let base = pages.as_mut_ptr().cast::<u8>();
        // SAFETY: aligned, inside what was allocated with a page to spare, which the test keeps.
        let memory = unsafe { BodyMemory::new(base.add(base.align_offset(4096)), bounce_bytes) };
        (pages, memory)
    }

    #[test]
    fn descriptors_survive_the_wire() {
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
}
