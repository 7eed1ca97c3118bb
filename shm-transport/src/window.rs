//! Windows: ranges of the segment that hold user memory and that every rank of the host can map.
//!
//! A window is a range of the memory file after all fixed parts. [`Segment::reserve_window`] moves
//! one shared word forward, which needs no agreement and no message. The range itself is 16 bytes
//! ([`WindowRange`]), which the ranks of a window exchange. Each of them maps it as one contiguous
//! piece. A range has no memory at first: a page is taken when it is first touched, on the touching
//! rank's NUMA node. [`Segment::commit_window`] takes pages ahead, where a lack of memory is an
//! error. A rank with zero bytes costs nothing. Ranges begin on huge pages.
//!
//! MPI_Win_allocate_shared on a host is thus: one rank reserves the sum, all map it, each commits
//! its part. Another rank's part is the mapping's base plus its offset. MPI_Win_allocate reserves
//! the same way. [`Segment::free_window`] gives the memory back.
//!
//! Invariants:
//! - Offsets are never reused: a stale mapping or region leads to zeros, not to another window. The
//!   space of offsets is 2^62 bytes.
//! - A range is mapped only if it lies inside the file; therefore access to it raises no SIGBUS
//!   while memory lasts.
//! - Mappings of [`WindowMaps::pin`] last until `unpin`; those made for one-sided access may go
//!   after each access.
//!
//! This module does not synchronise ranks: epochs and locks belong to its users.

#![allow(unsafe_code)]

use std::ops::Range;

use fabric::{Region, UserBuf};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise, munmap};

use crate::layout::WINDOW_ALIGN;
use crate::segment::{Segment, SegmentError};
use crate::sync::Ordering;

/// Most mappings that are kept only for one-sided access to peers' memory.
const MAX_CACHED: usize = 64;
/// End of the space of offsets.
const MAX_OFFSET: u64 = 1 << 62;
/// First key of a region in a window.
pub(crate) const WINDOW_KEY: u32 = 1;

/// The purpose of a window's memory, in errors.
const WHAT: &str = "a window";

/// The range of a window in the segment; the same on all ranks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRange {
    /// Offset in the segment, bytes.
    at: u64,
    bytes: u64,
}

impl WindowRange {
    /// Bytes of an encoded range.
    pub const SIZE: usize = 16;

    /// Returns the bytes of the window.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Encodes offset (8) and bytes (8), little-endian.
    pub fn encode(&self) -> [u8; WindowRange::SIZE] {
        let mut out = [0; WindowRange::SIZE];
        out[..8].copy_from_slice(&self.at.to_le_bytes());
        out[8..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// Decodes a range; `None` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<WindowRange> {
        let bytes: &[u8; WindowRange::SIZE] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let range = WindowRange { at: word(0), bytes: word(8) };
        (range.at.checked_add(range.bytes)? <= MAX_OFFSET).then_some(range)
    }

    fn contains(&self, other: WindowRange) -> bool {
        self.at <= other.at && other.at + other.bytes <= self.at + self.bytes
    }

    fn part(&self, part: &Range<u64>) -> WindowRange {
        assert!(part.start <= part.end && part.end <= self.bytes, "a part outside its window");
        WindowRange { at: self.at + part.start, bytes: part.end - part.start }
    }
}

impl Segment {
    /// Reserves a range of `bytes`, which any rank of the host can map. It has no memory yet.
    pub fn reserve_window(&self, bytes: u64) -> Result<WindowRange, SegmentError> {
        let failed = |errno| SegmentError::System { what: WHAT, bytes, errno };
        let begin = self.windows();
        let word = &self.shared().window_bytes;
        // Relaxed: the word orders nothing else.
        let reserve = |reserved: u64| {
            let end = reserved.checked_add(bytes)?.checked_next_multiple_of(WINDOW_ALIGN)?;
            (begin.checked_add(end)? <= MAX_OFFSET).then_some(end)
        };
        let reserved = word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve)
            .map_err(|_| failed(Errno::NOMEM))?;
        let range = WindowRange { at: begin + reserved, bytes };
        if bytes > 0 {
            // Taking the last byte's page makes the file long enough and never shorter.
            self.allocate(range.at + bytes - 1, 1, WHAT)?;
        }
        Ok(range)
    }

    /// Takes memory for a part of a window, on this rank's NUMA node. A later touch of it cannot
    /// fail for lack of memory. The part is in bytes from the window's begin.
    pub fn commit_window(&self, range: WindowRange, part: Range<u64>) -> Result<(), SegmentError> {
        let part = range.part(&part);
        if part.bytes == 0 {
            return Ok(());
        }
        self.allocate(part.at, part.bytes, WHAT)
    }

    /// Gives back the memory of a window that no rank uses. Where it is still mapped it reads as
    /// zeros.
    pub fn free_window(&self, range: WindowRange) {
        if range.bytes > 0 {
            self.deallocate(range.at, range.bytes.next_multiple_of(WINDOW_ALIGN));
        }
    }
}

/// Returns the bytes of a region, which its last two keys hold.
#[inline]
fn region_bytes(region: &Region) -> u64 {
    u64::from(region.keys[2]) | u64::from(region.keys[3]) << 32
}

/// Returns whether `len` bytes at `at` lie inside a region.
#[inline]
pub(crate) fn region_holds(region: &Region, at: u64, len: usize) -> bool {
    at.checked_add(len as u64).is_some_and(|end| end <= region_bytes(region))
}

/// The windows that are mapped in this process.
#[derive(Debug, Default)]
pub(crate) struct WindowMaps {
    /// The one used last is the first.
    maps: Vec<Map>,
}

/// One mapping.
#[derive(Debug)]
struct Map {
    range: WindowRange,
    base: *mut u8,
    /// Users of [`WindowMaps::pin`]; 0 for a mapping made for one-sided access.
    pins: u32,
}

// SAFETY: an address of shared memory that is mapped for the whole process; `WindowMaps` alone
// unmaps it.
unsafe impl Send for Map {}

impl WindowMaps {
    /// Maps a window and keeps it mapped; returns its memory.
    pub(crate) fn pin(
        &mut self,
        segment: &Segment,
        range: WindowRange,
    ) -> Result<UserBuf, SegmentError> {
        if range.bytes == 0 {
            return Ok(UserBuf::EMPTY);
        }
        let found = self.maps.iter().position(|map| map.pins > 0 && map.range == range);
        let at = match found {
            Some(at) => at,
            None => {
                self.maps.push(Map::new(segment, range)?);
                self.maps.len() - 1
            }
        };
        self.maps[at].pins += 1;
        Ok(self.maps[at].memory(range))
    }

    /// Ends one [`WindowMaps::pin`]; the last one unmaps the window.
    ///
    /// # Safety
    /// The caller's pin is the memory's last use here: no `UserBuf` of it is used again.
    pub(crate) unsafe fn unpin(&mut self, range: WindowRange) {
        let pinned = |map: &Map| map.pins > 0 && map.range == range;
        if let Some(at) = self.maps.iter().position(pinned) {
            self.maps[at].pins -= 1;
            if self.maps[at].pins == 0 {
                self.maps.remove(at);
            }
        }
    }

    /// Describes memory for one-sided access by peers; `None` if it is in no pinned window.
    pub(crate) fn describe(&self, memory: UserBuf) -> Option<Region> {
        let map = self.maps.iter().find(|map| map.pins > 0 && map.holds(memory))?;
        let (addr, len) = (map.range.at + map.offset(memory), memory.len() as u64);
        Some(Region { addr, keys: [WINDOW_KEY, 0, len as u32, (len >> 32) as u32] })
    }

    /// Returns `len` bytes at `at` of a region that [`WindowMaps::describe`] has described in a
    /// peer. Maps the region if it is not; `None` if that fails or the bytes are not in it.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        segment: &Segment,
        region: &Region,
        (at, len): (u64, usize),
    ) -> Option<UserBuf> {
        let bytes = region_bytes(region);
        if !region_holds(region, at, len) || region.addr.checked_add(bytes)? > MAX_OFFSET {
            return None;
        }
        let part = WindowRange { at: region.addr + at, bytes: len as u64 };
        match self.maps.iter().position(|map| map.range.contains(part)) {
            Some(0) => {}
            Some(found) => self.maps.swap(0, found),
            None => self.cache(segment, WindowRange { at: region.addr, bytes })?,
        }
        Some(self.maps.first()?.memory(part))
    }

    /// Maps a region of a peer and puts it first.
    #[cold]
    fn cache(&mut self, segment: &Segment, region: WindowRange) -> Option<()> {
        let cached = || self.maps.iter().enumerate().filter(|(_, map)| map.pins == 0);
        if cached().count() >= MAX_CACHED
            && let Some((oldest, _)) = cached().next_back()
        {
            self.maps.remove(oldest);
        }
        // Mappings begin on pages.
        let begin = region.at / WINDOW_ALIGN * WINDOW_ALIGN;
        let range = WindowRange { at: begin, bytes: region.at + region.bytes - begin };
        self.maps.insert(0, Map::new(segment, range).ok()?);
        Some(())
    }
}

impl Map {
    fn new(segment: &Segment, range: WindowRange) -> Result<Map, SegmentError> {
        let failed = |errno| SegmentError::System { what: WHAT, bytes: range.bytes, errno };
        let end = range.at.checked_add(range.bytes).ok_or_else(|| failed(Errno::INVAL))?;
        if range.at < segment.windows() || end > segment.file_bytes()? {
            return Err(failed(Errno::INVAL));
        }
        let base = segment.map(range.at, range.bytes, WHAT)?;
        // SAFETY: advice about a fresh mapping, which leaves its contents as they are.
        let _ = unsafe { madvise(base.cast(), range.bytes as usize, Advice::LinuxHugepage) };
        Ok(Map { range, base, pins: 0 })
    }

    /// Returns the memory of a part of the segment that lies in this mapping.
    #[inline]
    fn memory(&self, part: WindowRange) -> UserBuf {
        assert!(self.range.contains(part));
        // SAFETY: inside the mapping, which is valid for reads and writes until it is unpinned or,
        // for one-sided access, until the access ends.
        unsafe {
            UserBuf::new(self.base.add((part.at - self.range.at) as usize), part.bytes as usize)
        }
    }

    fn holds(&self, memory: UserBuf) -> bool {
        let (begin, addr) = (self.base as u64, memory.addr());
        begin <= addr && addr + memory.len() as u64 <= begin + self.range.bytes
    }

    fn offset(&self, memory: UserBuf) -> u64 {
        memory.addr() - self.base as u64
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` and unmapped only here. Unpinned memory is not used again by the
        // promise of `unpin`; cached memory is used only within an access.
        let _ = unsafe { munmap(self.base.cast(), self.range.bytes as usize) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn segments() -> [Segment; 2] {
        let file = Segment::file().unwrap();
        [0, 1].map(|me| Segment::attach(file.as_fd(), 0, me, 2, 1 << 16, 1 << 16).unwrap())
    }

    #[test]
    fn ranks_see_one_contiguous_window() {
        let segments = segments();
        let range = segments[0].reserve_window(3 * MIB + 5).unwrap();
        let range = WindowRange::decode(&range.encode()).unwrap();
        let mut maps = [WindowMaps::default(), WindowMaps::default()];
        let memory = [0, 1].map(|rank| maps[rank].pin(&segments[rank], range).unwrap());
        assert!(memory[0].len() as u64 == range.bytes() && memory[0] != memory[1]);
        segments[1].commit_window(range, MIB..3 * MIB + 5).unwrap();
        memory[0].write(3 * MIB as usize, b"hello");
        let mut found = [1; 6];
        memory[1].read(3 * MIB as usize - 1, &mut found);
        assert_eq!(&found, b"\0hello");
    }

    #[test]
    fn windows_do_not_overlap_and_empty_ones_take_nothing() {
        let segments = segments();
        let sizes = [1, 0, 2 * MIB, 2 * MIB + 1, 0, 7];
        let ranges: Vec<_> = (sizes.iter().zip([0, 1].iter().cycle()))
            .map(|(bytes, rank)| segments[*rank].reserve_window(*bytes).unwrap())
            .collect();
        for pair in ranges.windows(2) {
            assert!(pair[0].at + pair[0].bytes <= pair[1].at);
            assert!(pair[1].at.is_multiple_of(WINDOW_ALIGN));
        }
        assert_eq!(ranges[1].at, ranges[2].at, "an empty window takes no space");
        let empty = WindowMaps::default().pin(&segments[0], ranges[1]).unwrap();
        assert!(empty.is_empty() && WindowMaps::default().describe(empty).is_none());
    }

    #[test]
    fn freed_windows_give_their_memory_back_and_stay_zero() {
        let segments = segments();
        let blocks = || segments[0].file_blocks();
        let before = blocks();
        let range = segments[0].reserve_window(8 * MIB).unwrap();
        assert!(blocks() - before <= 8, "a reserved window takes a page");
        segments[0].commit_window(range, 0..8 * MIB).unwrap();
        assert!(blocks() - before >= 8 * MIB / 512);
        let mut maps = WindowMaps::default();
        let memory = maps.pin(&segments[1], range).unwrap();
        memory.write(100, b"x");
        segments[0].free_window(range);
        assert_eq!(blocks(), before);
        let mut found = [1];
        memory.read(100, &mut found);
        assert_eq!(found, [0]);
        let next = segments[0].reserve_window(1).unwrap();
        assert!(next.at >= range.at + range.bytes, "offsets are not used again");
    }

    #[test]
    fn ranges_outside_the_file_are_refused() {
        let segments = segments();
        let mut maps = WindowMaps::default();
        for range in [
            WindowRange { at: 0, bytes: 4096 },
            WindowRange { at: segments[0].windows(), bytes: 64 * MIB },
            WindowRange { at: MAX_OFFSET - 1, bytes: 1 },
        ] {
            assert!(maps.pin(&segments[0], range).is_err(), "{range:?}");
        }
        let word = |value: u64| value.to_le_bytes();
        assert!(WindowRange::decode(&[word(u64::MAX), word(2)].concat()).is_none());
        assert!(WindowRange::decode(&[0; 3]).is_none());
        assert!(segments[0].reserve_window(u64::MAX - 10).is_err());
        assert!(segments[0].reserve_window(MIB).is_ok(), "a refused window takes no space");
    }

    #[test]
    fn regions_lead_to_their_window_and_nowhere_else() {
        let segments = segments();
        let range = segments[0].reserve_window(4 * MIB).unwrap();
        let (mut owner, mut peer) = (WindowMaps::default(), WindowMaps::default());
        let memory = owner.pin(&segments[0], range).unwrap();
        let part = memory.slice(3 * MIB as usize, 1000);
        let region = owner.describe(part).unwrap();
        part.write(8, b"here");
        for _ in 0..2 {
            let mut found = [0; 4];
            let resolved = peer.resolve(&segments[1], &region, (8, 4)).unwrap();
            resolved.read(0, &mut found);
            assert_eq!(&found, b"here");
        }
        assert_eq!(peer.maps.len(), 1, "the mapping is kept");
        for (at, len) in [(999, 2), (u64::MAX, 1), (0, 1001)] {
            assert!(peer.resolve(&segments[1], &region, (at, len)).is_none());
        }
        let wrong = Region { addr: 0, ..region };
        assert!(peer.resolve(&segments[1], &wrong, (0, 8)).is_none(), "a ring is no window");
        // SAFETY: the memory is not used again.
        unsafe { owner.unpin(range) };
        assert!(owner.maps.is_empty() && owner.describe(part).is_none());
        for _ in 0..2 * MAX_CACHED {
            let range = segments[0].reserve_window(8).unwrap();
            let memory = owner.pin(&segments[0], range).unwrap();
            let region = owner.describe(memory).unwrap();
            assert!(peer.resolve(&segments[1], &region, (0, 8)).is_some());
        }
        assert_eq!(peer.maps.len(), MAX_CACHED);
    }
}
