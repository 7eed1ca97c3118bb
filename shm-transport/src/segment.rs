//! The memory that the ranks of one host share: a part of the memory file that
//! the launcher made.
//!
//! ```text
//! 0             agreement   64 B: what the layout depends on
//! 64            control     for each rank:
//!                 64 B  doorbell (see `wake`)
//!                 64 B  arrivals (count of first-time talkers), trial (see `single_copy`),
//!                       a word for each arena of its own: is there memory for it?
//!                 n/8 B bitmap of those talkers, rounded up to 64
//! next page     arenas      for each rank, so many that are its own: see `arena`
//! next page     rings       for each receiver, for each sender: ring_bytes
//! next page     pools       for each sender: bounce_bytes, and twice as much for its shuttles
//! ```
//!
//! Everything starts as zero and that is its valid first state, so nobody has to
//! set anything up for anybody. The file is as long as all rings together, but a
//! hole: memory is taken (`fallocate`, so that a lack of it is an error with a
//! sentence and never a SIGBUS) for a ring's first page when its sender first
//! uses it, and for more when that is too short. Address space is taken for rings
//! in use alone, so that RLIMIT_AS does not matter. A pair that never talks costs
//! one bit of memory.
//!
//! The length makes sure that even a word that a broken peer wrote leads to
//! memory, if only to zeros. What is mapped stays mapped for the life of the
//! process: control blocks are `&'static`.

#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Resource, getrlimit};

use crate::body::BodyMemory;
use crate::coll_segment::{self, SyncKind};
use crate::event_count::EventCount;
use crate::ring::{self, GRANULE, LINE};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Why shared memory can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The system has no room, or a limit is in the way.
    #[error("no shared memory for {what} ({bytes} bytes): {errno}{}", advice(*errno))]
    System {
        /// For what.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// What the system said.
        errno: Errno,
    },
    /// Ranks of one job were given different sizes.
    #[error(
        "the ranks of this host do not agree on their shared memory: {} ranks, shm.ring_bytes = {} and shm.bounce_bytes = {} here, {}, {} and {} elsewhere. Give all of them the same",
        ours.0, ours.1, ours.2, theirs.0, theirs.1, theirs.2
    )]
    Disagreement {
        /// Ranks of the host and bytes of a ring and a pool, as this rank was told.
        ours: (u32, u64, u64),
        /// As the first rank was told.
        theirs: (u32, u64, u64),
    },
}

fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOMEM | Errno::NOSPC => {
            ". Use fewer ranks on this host, a smaller shm.ring_bytes, or raise the memory limit (RLIMIT_AS, the container's)"
        }
        Errno::FBIG => {
            ". The limit of file sizes (ulimit -f) is too small for memory files: raise it, or use a smaller shm.ring_bytes"
        }
        Errno::DQUOT => ". A quota is used up: raise it, or use a smaller shm.ring_bytes",
        Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP => {
            ". A filter refuses memfd_create or fallocate (seccomp, a container's profile): allow both"
        }
        _ => "",
    }
}

/// One rank's control block, but for its bitmap.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Control {
    pub event_count: EventCount,
    /// How many ranks have talked to this one for the first time. Not on the
    /// doorbell's line: the owner reads it with each poll, and hardly ever changes it.
    pub connects: AtomicU64,
    pub probe: Probe,
    /// Whether its arenas have got memory: [`UNKNOWN`] until a member has tried.
    coll_segments: [AtomicU32; COLL_SEGMENTS as usize],
}

/// What others try to read before they read more; see `single_copy`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Probe {
    pub addr: AtomicU64,
    pub number: AtomicU64,
    /// Of XPMEM; 0 without it.
    pub segment: AtomicU64,
    /// Process id; 0 while the others say nothing.
    pub pid: AtomicU32,
}

const _: () = assert!(size_of::<Control>() == 2 * LINE);

/// Where a collective segment begins in this process.
#[derive(Clone, Copy, Debug)]
struct Base(*mut u8);

// SAFETY: the address of shared memory that stays mapped for the life of the process; what is there
// is accessed as `coll_segment` says.
unsafe impl Send for Base {}

/// Arenas that each rank has for communicators.
pub const COLL_SEGMENTS: u32 = 4;
const UNKNOWN: u32 = 0;
const TAKEN: u32 = 1;
const REFUSED: u32 = 2;

/// One host's shared memory, as one rank sees it.
#[derive(Debug)]
pub struct Segment {
    file: OwnedFd,
    offset: u64,
    control: *const u8,
    me: u32,
    size: u32,
    ring_bytes: u64,
    bounce_bytes: u64,
    /// Where the arenas are that were used here, by their address in the file.
    coll_segments: Mutex<Vec<(u64, Base)>>,
}

// SAFETY: `control` points to shared memory that stays mapped for the life of the
// process and is accessed through atomics alone.
unsafe impl Send for Segment {}

impl Segment {
    /// Joins the segment at `offset` (page-aligned) of `file` as rank `me` of
    /// `size`. All ranks give the same `size`, and the same `ring_bytes` and
    /// `bounce_bytes` (powers of two, at least a page).
    pub fn attach(
        file: BorrowedFd<'_>,
        offset: u64,
        me: u32,
        size: u32,
        ring_bytes: u64,
        bounce_bytes: u64,
    ) -> Result<Segment, SegmentError> {
        assert!(me < size && offset.is_multiple_of(page()));
        assert!(
            [ring_bytes, bounce_bytes]
                .iter()
                .all(|bytes| bytes.is_power_of_two() && *bytes >= page())
        );
        let bytes = control_bytes(size);
        let failed =
            |errno| SegmentError::System { what: "the ranks' control blocks", bytes, errno };
        let file = rustix::io::fcntl_dupfd_cloexec(file, 3).map_err(failed)?;
        allocate(&file, offset, bytes).map_err(failed)?;
        let control = map(&file, offset, bytes).map_err(failed)?.cast_const();
        let coll_segments = Mutex::new(Vec::new());
        let segment =
            Segment { file, offset, control, me, size, ring_bytes, bounce_bytes, coll_segments };
        segment.agree()?;
        segment.stretch()?;
        Ok(segment)
    }

    /// A memory file for tests and for jobs without a launcher.
    pub fn file() -> Result<OwnedFd, SegmentError> {
        memfd_create("verbena", MemfdFlags::CLOEXEC).map_err(|errno| SegmentError::System {
            what: "a memory file",
            bytes: 0,
            errno,
        })
    }

    /// This rank.
    pub fn me(&self) -> u32 {
        self.me
    }

    /// Ranks of the segment.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Bytes of each ring.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// A rank's control block.
    pub(crate) fn control(&self, rank: u32) -> &'static Control {
        // SAFETY: inside the mapping, which is never unmapped, and aligned; all
        // fields are atomics or never read, and any bytes are valid for them.
        unsafe { &*self.block(rank).cast::<Control>() }
    }

    /// The words of a rank's bitmap of first-time talkers.
    pub(crate) fn connect_bits(&self, rank: u32) -> &'static [AtomicU64] {
        let words = self.size.div_ceil(64) as usize;
        // SAFETY: behind the control block of the same rank, inside the mapping,
        // which is never unmapped; any bytes are valid atomics.
        unsafe {
            std::slice::from_raw_parts(
                self.block(rank).add(size_of::<Control>()).cast::<AtomicU64>(),
                words,
            )
        }
    }

    fn block(&self, rank: u32) -> *const u8 {
        assert!(rank < self.size);
        self.control.wrapping_add(LINE + rank as usize * block_bytes(self.size) as usize)
    }

    /// Lines of each ring.
    pub(crate) fn ring_lines(&self) -> u64 {
        self.ring_bytes / LINE as u64
    }

    /// Grains of each ring.
    pub(crate) fn ring_granules(&self) -> u64 {
        self.ring_bytes / GRANULE as u64
    }

    /// Grains of the shortest lap of a ring: those of its first page.
    pub(crate) fn first_lap_granules(&self) -> u64 {
        page() / GRANULE as u64
    }

    /// Maps the ring that `from` writes and `to` reads.
    pub(crate) fn ring(&self, from: u32, to: u32) -> Result<ring::RingMemory, SegmentError> {
        let bytes = self.ring_bytes;
        let base = map(&self.file, self.ring_at(from, to), bytes)
            .map_err(|errno| SegmentError::System { what: "a message ring", bytes, errno })?;
        // SAFETY: freshly mapped, page-aligned, never unmapped; the file was zero
        // where nobody has used the ring. The caller is its only producer or consumer.
        Ok(unsafe { ring::RingMemory::new(base, bytes / LINE as u64) })
    }

    /// Takes memory for these granules of the ring that this rank writes and `to` reads.
    pub(crate) fn allocate_ring(&self, to: u32, granules: Range<u64>) -> Result<(), SegmentError> {
        let (at, bytes) =
            (granules.start * GRANULE as u64, (granules.end - granules.start) * GRANULE as u64);
        allocate(&self.file, self.ring_at(self.me, to) + at, bytes)
            .map_err(|errno| SegmentError::System { what: "a message ring", bytes, errno })
    }

    /// Maps the range of a rank's external bodies.
    pub(crate) fn bodies(&self, from: u32) -> Result<BodyMemory, SegmentError> {
        let bytes = self.bounce_bytes;
        let base = map(&self.file, self.bodies_at(from), BodyMemory::length(bytes))
            .map_err(|errno| SegmentError::System { what: "message bodies", bytes, errno })?;
        // SAFETY: freshly mapped, page-aligned, never unmapped.
        Ok(unsafe { BodyMemory::new(base, bytes as usize) })
    }

    /// Takes memory for a part of that range; false if there is none.
    pub(crate) fn allocate_bodies(&self, of: u32, part: Range<usize>) -> bool {
        allocate(&self.file, self.bodies_at(of) + part.start as u64, part.len() as u64).is_ok()
    }

    /// A lease of the arena number `index` of those that are `owner`'s, for a communicator of `members` (local ranks
    /// in the order of their ranks; at most [`fabric::coll_segment::MAX_FLAGS_RANKS`] where arenas are flat), of whom this is `me`. `None`
    /// when there is no memory, for all of them.
    pub fn coll_segment(
        &self,
        sync: SyncKind,
        owner: u32,
        index: u32,
        members: &[u32],
        me: u32,
    ) -> Result<Option<Arc<dyn fabric::CollSegment>>, SegmentError> {
        let event_counts =
            || members.iter().map(|&member| &self.control(member).event_count).collect();
        Ok(self.location(sync, owner, index)?.map(|at| at.lease(me, event_counts())))
    }

    /// Makes this rank's own arena number `index` ready for a communicator. False where one that had it may still use
    /// it, as of `leases` in all some were not given back, and where there was no memory for it.
    pub fn renew_coll_segment(&self, sync: SyncKind, index: u32, leases: u64) -> bool {
        // It is as it was in the beginning, and its members will find out whether there is memory.
        self.control(self.me).coll_segments[index as usize].load(Ordering::Relaxed) == UNKNOWN
            || self
                .location(sync, self.me, index)
                .is_ok_and(|at| at.is_some_and(|at| at.renew(leases)))
    }

    fn location(
        &self,
        sync: SyncKind,
        owner: u32,
        index: u32,
    ) -> Result<Option<coll_segment::Location>, SegmentError> {
        let base = self.base(owner, index, coll_segment::bytes(self.size, sync))?;
        Ok(base.map(|Base(base)| {
            // SAFETY: `base` maps so many bytes, page-aligned and never unmapped; the file was zero
            // where no rank had used the segment, and all ranks of a job have one kind.
            unsafe { coll_segment::Location::new(base, self.size, sync) }
        }))
    }

    /// Takes memory for a collective segment and maps it; `None` when there is none.
    fn base(&self, owner: u32, index: u32, bytes: u64) -> Result<Option<Base>, SegmentError> {
        let at = self.coll_segment_at(owner, index);
        let word = &self.control(owner).coll_segments[index as usize];
        // Relaxed: the word says all by itself.
        if word.load(Ordering::Relaxed) == UNKNOWN {
            let outcome = if allocate(&self.file, at, bytes).is_ok() { TAKEN } else { REFUSED };
            // The first one to know has decided it for all.
            let _ = word.compare_exchange(UNKNOWN, outcome, Ordering::Relaxed, Ordering::Relaxed);
        }
        if word.load(Ordering::Relaxed) != TAKEN {
            return Ok(None);
        }
        let mut known = self.coll_segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, base)) = known.iter().find(|(there, _)| *there == at) {
            return Ok(Some(*base));
        }
        let what = "a place to meet in";
        let base = Base(map(&self.file, at, bytes).map_err(|errno| SegmentError::System {
            what,
            bytes,
            errno,
        })?);
        known.push((at, base));
        Ok(Some(base))
    }

    /// As if there had been no memory.
    #[cfg(test)]
    pub(crate) fn refuse_coll_segment(&self, owner: u32, index: u32) {
        self.control(owner).coll_segments[index as usize].store(REFUSED, Ordering::Relaxed);
    }

    fn coll_segment_at(&self, owner: u32, index: u32) -> u64 {
        assert!(owner < self.size && index < COLL_SEGMENTS);
        self.offset
            + control_bytes(self.size)
            + u64::from(owner * COLL_SEGMENTS + index) * coll_segment_bytes(self.size)
    }

    fn bodies_at(&self, from: u32) -> u64 {
        assert!(from < self.size);
        self.rings_at()
            + self.rings_bytes()
            + u64::from(from) * BodyMemory::length(self.bounce_bytes)
    }

    fn rings_at(&self) -> u64 {
        self.offset
            + control_bytes(self.size)
            + u64::from(self.size * COLL_SEGMENTS) * coll_segment_bytes(self.size)
    }

    /// Bytes of all rings.
    fn rings_bytes(&self) -> u64 {
        u64::from(self.size) * u64::from(self.size) * self.ring_bytes
    }

    fn ring_at(&self, from: u32, to: u32) -> u64 {
        assert!(from < self.size && to < self.size);
        let index = u64::from(to) * u64::from(self.size) + u64::from(from);
        self.rings_at() + index * self.ring_bytes
    }

    /// The first rank writes down what the layout depends on; the others compare.
    fn agree(&self) -> Result<(), SegmentError> {
        // SAFETY: the first line of the mapping, aligned, never unmapped.
        let agreed = unsafe { &*self.control.cast::<AtomicU64>() };
        let bits = |bytes: u64| u64::from(bytes.trailing_zeros());
        let ours =
            u64::from(self.size) << 32 | bits(self.bounce_bytes) << 8 | bits(self.ring_bytes);
        // Relaxed: a number that says all by itself.
        match agreed.compare_exchange(0, ours, Ordering::Relaxed, Ordering::Relaxed) {
            Err(theirs) if theirs != ours => Err(SegmentError::Disagreement {
                ours: (self.size, self.ring_bytes, self.bounce_bytes),
                theirs: (
                    (theirs >> 32) as u32,
                    1u64.checked_shl(theirs as u32 & 0xFF).unwrap_or(0),
                    1u64.checked_shl(theirs as u32 >> 8).unwrap_or(0),
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Makes the file as long as all rings, which takes no memory. All ranks agree
    /// on the length, so it does not matter who comes first and the file never shrinks.
    fn stretch(&self) -> Result<(), SegmentError> {
        let length = self.bodies_at(self.size - 1) + BodyMemory::length(self.bounce_bytes);
        let failed = |errno| SegmentError::System {
            what: "the message rings of all ranks",
            bytes: length,
            errno,
        };
        if (fstat(&self.file).map_err(failed)?.st_size as u64) < length {
            within_limit(length).map_err(failed)?;
            ftruncate(&self.file, length).map_err(failed)?;
        }
        Ok(())
    }
}

/// Bytes of a page, at least 4,096.
fn page() -> u64 {
    rustix::param::page_size() as u64
}

fn block_bytes(size: u32) -> u64 {
    (size_of::<Control>() as u64) + u64::from(size.div_ceil(64)).next_multiple_of(8) * 8
}

fn coll_segment_bytes(size: u32) -> u64 {
    let largest = [SyncKind::Counter, SyncKind::Flags]
        .map(|sync| coll_segment::bytes(size, sync))
        .into_iter()
        .max();
    largest.unwrap_or(0).next_multiple_of(page())
}

fn control_bytes(size: u32) -> u64 {
    (LINE as u64 + u64::from(size) * block_bytes(size)).next_multiple_of(page())
}

/// Beyond RLIMIT_FSIZE the system would not answer with an error but kill us.
fn within_limit(length: u64) -> Result<(), Errno> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < length => Err(Errno::FBIG),
        _ => Ok(()),
    }
}

/// Takes memory for a part of the file, which grows if need be.
fn allocate(file: &OwnedFd, at: u64, bytes: u64) -> Result<(), Errno> {
    within_limit(at + bytes)?;
    loop {
        match fallocate(file, FallocateFlags::empty(), at, bytes) {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

fn map(file: &OwnedFd, at: u64, bytes: u64) -> Result<*mut u8, Errno> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no
    // memory that exists.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            bytes as usize,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            at,
        )
    }?;
    Ok(base.cast())
}
