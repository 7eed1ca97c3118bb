//! Offsets of the parts of a segment. Pure arithmetic.
//!
//! ```text
//! 0             shared        64 B: see `control::Shared`
//! 64            control       for each rank: its control block and, rounded up to 64 B, a connect
//!                             bit for each rank
//! next page     collective    for each rank, COLL_SEGMENTS of its own: see `coll_segment`
//! next page     rings         for each receiver, for each sender: ring_bytes
//! next page     bodies        for each sender: its bounce pool and its recycled blocks
//! next 2 MiB    windows       grows as windows are reserved: see `window`
//! 4 PiB         outsiders     for each receiver, for each process number: ring_bytes. Only what is
//!                             used is part of the file: see `outsiders`
//! ```

use fabric::Peer;

use crate::body::BodyMemory;
use crate::coll_segment::{self, SyncKind};
use crate::control::{COLL_SEGMENTS, Control, Shared};

/// Alignment of the windows and of each of them, bytes: a huge page.
pub(crate) const WINDOW_ALIGN: u64 = 2 << 20;

/// Where the rings of outsiders begin: no window reaches so far.
const OUTSIDERS_BEGIN: u64 = 1 << 52;
/// One past the largest process number of an outsider.
pub(crate) const OUTSIDERS_END: u32 = 1 << 20;

/// The inputs of the offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Ranks of the host.
    pub size: u32,
    /// Bytes of a ring.
    pub ring_bytes: u64,
    /// Bytes of a bounce pool.
    pub bounce_bytes: u64,
    /// Bytes of a page.
    pub page: u64,
}

impl Layout {
    /// Returns the word by which ranks compare their inputs.
    pub(crate) fn agreement(&self) -> u64 {
        let bits = |bytes: u64| u64::from(bytes.trailing_zeros());
        u64::from(self.size) << 32 | bits(self.bounce_bytes) << 8 | bits(self.ring_bytes)
    }

    /// Returns the ranks and the bytes of a ring and of a bounce pool of such a word.
    pub(crate) fn agreed(word: u64) -> (u32, u64, u64) {
        let bytes = |bits: u32| 1u64.checked_shl(bits & 0xFF).unwrap_or(0);
        ((word >> 32) as u32, bytes(word as u32), bytes(word as u32 >> 8))
    }

    /// Returns the offset of a rank's control block.
    pub(crate) fn control(&self, rank: u32) -> u64 {
        assert!(rank < self.size);
        size_of::<Shared>() as u64 + u64::from(rank) * self.control_stride()
    }

    /// Returns the bytes of all control blocks and what is before them.
    pub(crate) fn control_bytes(&self) -> u64 {
        let blocks = u64::from(self.size) * self.control_stride();
        (size_of::<Shared>() as u64 + blocks).next_multiple_of(self.page)
    }

    /// Returns the offset of collective segment `index` of those that a rank owns.
    pub(crate) fn coll_segment(&self, owner: u32, index: u32) -> u64 {
        assert!(owner < self.size && index < COLL_SEGMENTS);
        self.control_bytes() + u64::from(owner * COLL_SEGMENTS + index) * self.coll_segment_stride()
    }

    /// Returns the offset of the ring that `from` writes and `to` reads.
    pub(crate) fn ring(&self, from: u32, to: u32) -> u64 {
        assert!(from < self.size && to < self.size);
        let index = u64::from(to) * u64::from(self.size) + u64::from(from);
        self.rings() + index * self.ring_bytes
    }

    /// Returns the offset of the ring that a process of another job writes and `to` reads.
    pub(crate) fn outsider_ring(&self, from: Peer, to: u32) -> u64 {
        assert!(from.0 < OUTSIDERS_END && to < self.size);
        let index = u64::from(to) * u64::from(OUTSIDERS_END) + u64::from(from.0);
        OUTSIDERS_BEGIN + index * self.ring_bytes
    }

    /// Returns the offset of a rank's external bodies.
    pub(crate) fn bodies(&self, from: u32) -> u64 {
        assert!(from < self.size);
        self.bodies_begin() + u64::from(from) * BodyMemory::length(self.bounce_bytes)
    }

    /// Returns the offset after all parts but the windows.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.bodies_begin() + u64::from(self.size) * BodyMemory::length(self.bounce_bytes)
    }

    fn control_stride(&self) -> u64 {
        size_of::<Control>() as u64 + u64::from(self.size.div_ceil(64)).next_multiple_of(8) * 8
    }

    fn coll_segment_stride(&self) -> u64 {
        let bytes = |sync| coll_segment::bytes(self.size, sync);
        bytes(SyncKind::Counter).max(bytes(SyncKind::Flags)).next_multiple_of(self.page)
    }

    fn rings(&self) -> u64 {
        self.control_bytes() + u64::from(self.size * COLL_SEGMENTS) * self.coll_segment_stride()
    }

    fn bodies_begin(&self) -> u64 {
        self.rings() + u64::from(self.size) * u64::from(self.size) * self.ring_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another_without_overlap() {
        for size in [1, 2, 7, 64, 65, 200] {
            let layout = Layout { size, ring_bytes: 1 << 16, bounce_bytes: 1 << 20, page: 4096 };
            let last = size - 1;
            let begins = [
                layout.control(0),
                layout.control(last) + layout.control_stride(),
                layout.coll_segment(0, 0),
                layout.coll_segment(last, COLL_SEGMENTS - 1) + layout.coll_segment_stride(),
                layout.ring(0, 0),
                layout.ring(last, last) + layout.ring_bytes,
                layout.bodies(0),
                layout.bodies(last) + BodyMemory::length(layout.bounce_bytes),
                layout.fixed_bytes(),
                layout.outsider_ring(Peer(0), 0),
                layout.outsider_ring(Peer(OUTSIDERS_END - 1), last) + layout.ring_bytes,
            ];
            assert!(begins.is_sorted(), "{size} ranks: {begins:?}");
            for at in [layout.coll_segment(last, 0), layout.ring(0, last), layout.bodies(last)] {
                assert!(at.is_multiple_of(layout.page));
            }
            assert!(layout.control_stride().is_multiple_of(64));
        }
    }
}
