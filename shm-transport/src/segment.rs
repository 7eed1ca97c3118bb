//! The memory that the ranks of one host share: a part of the launcher's memory file.
//!
//! `layout` defines where each part lies. All of it is zero at first, which is the valid first
//! state of each part; therefore no rank sets anything up for another. The file is sparse: it is as
//! long as all rings together, but memory is taken only for what is used. `fallocate` takes it, so
//! that a lack of memory is an error with a sentence and never a SIGBUS. A ring takes a page when
//! its sender first uses it, and more when that is too short. Only parts in use are mapped, so that
//! RLIMIT_AS does not matter. A pair that never communicates costs one bit of memory.
//!
//! The file's length makes any offset that a corrupted word leads to memory, if only to zeros. The
//! mappings of this file last for the life of the process: control blocks are `&'static`. Those of
//! an outsider's segment last until the outsider is forgotten (`meet`), when nothing refers to
//! them.

#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use fabric::Peer;
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, fstat, memfd_create, open};
use rustix::io::Errno;

use crate::body::BodyMemory;
use crate::coll_segment::memory::{self, LongSlots};
use crate::coll_segment::{self, SyncKind};
use crate::control::{Control, Shared};
use crate::home::Home;
use crate::layout::{Layout, WINDOW_ALIGN};
use crate::memory_file::{allocate, map, page, unmap};
use crate::ring::{self, GRANULE, LINE};
use crate::single_copy::{self, SingleCopy};
use crate::sync::{AtomicU64, Ordering};

/// Why there is no shared memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The system lacks memory, or a limit is in the way.
    #[error("no shared memory for {what} ({bytes} bytes): {errno}{}", advice(*errno))]
    System {
        /// The purpose of the memory.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// The system's error.
        errno: Errno,
    },
    /// The segment of a process of another job is not there any more.
    #[error("its shared memory {path} is gone: it has ended, or has closed all of its files")]
    Gone {
        /// Where it was looked for.
        path: String,
    },
    /// The segment of a process of another job cannot be opened.
    #[error(
        "cannot open the shared memory of another job, {path}: {why}; `--set shm.other_jobs=off` \
         for both jobs uses TCP"
    )]
    OtherJob {
        /// Where it was looked for.
        path: String,
        /// The reason.
        why: String,
    },
    /// Ranks of one job were given different sizes.
    #[error(
        "the ranks of this host do not agree on their shared memory: {} ranks, shm.ring_bytes = {} \
         and shm.bounce_bytes = {} here, {}, {} and {} elsewhere. Give all of them the same",
        ours.0, ours.1, ours.2, theirs.0, theirs.1, theirs.2
    )]
    Disagreement {
        /// Ranks of the host and bytes of a ring and a bounce pool, as configured in this rank.
        ours: (u32, u64, u64),
        /// As configured in the first rank.
        theirs: (u32, u64, u64),
    },
}

fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOMEM | Errno::NOSPC => {
            ". Use fewer ranks on this host, a smaller shm.ring_bytes, or raise the memory limit \
             (RLIMIT_AS, the container's)"
        }
        Errno::FBIG => {
            ". The limit of file sizes (ulimit -f) is too small for memory files: raise it, or use \
             a smaller shm.ring_bytes"
        }
        Errno::DQUOT => ". A quota is used up: raise it, or use a smaller shm.ring_bytes",
        Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP => {
            ". A filter refuses what stands in for fallocate, too (seccomp, a container's profile): \
             allow fallocate"
        }
        _ => "",
    }
}

/// Where a ring lies.
#[derive(Clone, Debug)]
pub(crate) struct RingPlace {
    file: Arc<OwnedFd>,
    /// Its offset in the file.
    at: u64,
    bytes: u64,
}

impl RingPlace {
    const WHAT: &str = "a message ring";

    /// Maps the ring.
    pub(crate) fn map(&self) -> Result<ring::RingMemory, SegmentError> {
        let &RingPlace { at, bytes, .. } = self;
        let base = map(&self.file, at, bytes).map_err(|errno| self.failed(errno))?;
        // SAFETY: freshly mapped, page-aligned, never unmapped; the file was zero where no process
        // had used the ring. The caller is its only producer or consumer.
        Ok(unsafe { ring::RingMemory::new(base, bytes / LINE as u64) })
    }

    /// Takes memory for these granules.
    pub(crate) fn allocate(&self, granules: Range<u64>) -> Result<(), SegmentError> {
        let [start, end] = [granules.start, granules.end].map(|at| at * GRANULE as u64);
        allocate(&self.file, self.at + start, end - start).map_err(|errno| self.failed(errno))
    }

    /// Gives back the memory of the ring, which reads as zeros then.
    pub(crate) fn give_back(&self) {
        deallocate(&self.file, self.at, self.bytes);
    }

    fn failed(&self, errno: Errno) -> SegmentError {
        SegmentError::System { what: RingPlace::WHAT, bytes: self.bytes, errno }
    }
}

/// Gives back the memory of a part of a memory file, which reads as zeros then.
fn deallocate(file: &OwnedFd, at: u64, bytes: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // An error leaves the memory taken until the job ends.
    let _ = fallocate(file, flags, at, bytes);
}

/// Where a collective segment begins in this process.
#[derive(Clone, Copy, Debug)]
struct Base(*mut u8);

// SAFETY: the address of shared memory that is mapped for the life of the process; it is accessed
// by the rules of `coll_segment`.
unsafe impl Send for Base {}

/// No rank.
const NOBODY: u32 = u32::MAX;

/// One host's shared memory, as one rank sees it.
#[derive(Debug)]
pub struct Segment {
    file: Arc<OwnedFd>,
    /// Where the segment begins in the file.
    offset: u64,
    /// The shared line and all control blocks.
    control: *const u8,
    /// This process's rank; `NOBODY` in the segment of another job.
    me: u32,
    layout: Layout,
    /// The collective segments that are mapped here, by their offset.
    coll_segments: Mutex<Vec<(u64, Base)>>,
}

// SAFETY: `control` points to shared memory that is mapped for the life of the process and is
// accessed through atomics alone.
unsafe impl Send for Segment {}

// SAFETY: as above; its methods take `&self` and lock what else they change.
unsafe impl Sync for Segment {}

impl Segment {
    /// Joins the segment at `offset` (page-aligned) of `file` as rank `me` of `size`. All ranks
    /// give the same `size`, `ring_bytes` and `bounce_bytes` (powers of two; a page is the least).
    pub fn attach(
        file: BorrowedFd<'_>,
        offset: u64,
        me: u32,
        size: u32,
        ring_bytes: u64,
        bounce_bytes: u64,
    ) -> Result<Segment, SegmentError> {
        assert!(me < size && offset.is_multiple_of(page()));
        assert!(ring_bytes.is_power_of_two() && bounce_bytes.is_power_of_two());
        let [ring_bytes, bounce_bytes] = [ring_bytes, bounce_bytes].map(|bytes| bytes.max(page()));
        let layout = Layout { size, ring_bytes, bounce_bytes, page: page() };
        let bytes = layout.control_bytes();
        let failed =
            |errno| SegmentError::System { what: "the ranks' control blocks", bytes, errno };
        let file = rustix::io::fcntl_dupfd_cloexec(file, 3).map_err(failed)?;
        allocate(&file, offset, bytes).map_err(failed)?;
        let control = map(&file, offset, bytes).map_err(failed)?.cast_const();
        let coll_segments = Mutex::new(Vec::new());
        let file = Arc::new(file);
        let segment = Segment { file, offset, control, me, layout, coll_segments };
        segment.agree()?;
        segment.stretch()?;
        Ok(segment)
    }

    /// Opens the segment of a process of another job, which has made it known by `home`.
    pub(crate) fn open(home: &Home) -> Result<Segment, SegmentError> {
        let path = home.path();
        let file = open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let failed = |why: String| SegmentError::OtherJob { path: path.clone(), why };
        let system = |errno: Errno| match errno {
            Errno::NOENT | Errno::SRCH => SegmentError::Gone { path: path.clone() },
            errno => failed(errno.to_string()),
        };
        let (file, offset) = (Arc::new(file.map_err(system)?), home.offset);
        if !offset.is_multiple_of(page()) {
            return Err(failed("it is no segment".into()));
        }
        let first = map(&file, offset, page()).map_err(system)?;
        // SAFETY: the first line of a mapping, aligned; any bytes are valid. Nothing refers to it
        // after this block.
        let (agreement, nonce) = unsafe {
            let Shared { agreement, nonce, .. } = &*first.cast::<Shared>();
            let words = [agreement, nonce].map(|word| word.load(Ordering::Relaxed));
            unmap(first, page());
            words.into()
        };
        let (size, ring_bytes, bounce_bytes) = Layout::agreed(agreement);
        let is_it = nonce == home.nonce && home.rank < size;
        if !is_it || !ring_bytes.is_power_of_two() || !bounce_bytes.is_power_of_two() {
            return Err(failed("it is another file".into()));
        }
        let layout = Layout { size, ring_bytes, bounce_bytes, page: page() };
        let control = map(&file, offset, layout.control_bytes()).map_err(system)?.cast_const();
        let coll_segments = Mutex::new(Vec::new());
        Ok(Segment { file, offset, control, me: NOBODY, layout, coll_segments })
    }

    /// Closes the segment of a process of another job.
    ///
    /// # Safety
    /// Nothing uses its control blocks any more.
    pub(crate) unsafe fn close(self) {
        // SAFETY: the caller's promise; `open` has mapped it.
        unsafe { unmap(self.control.cast_mut(), self.layout.control_bytes()) }
    }

    /// Makes a memory file, for tests and for jobs without a launcher.
    pub fn file() -> Result<OwnedFd, SegmentError> {
        memfd_create("verbena", MemfdFlags::CLOEXEC).map_err(|errno| SegmentError::System {
            what: "a memory file",
            bytes: 0,
            errno,
        })
    }

    /// Returns this rank.
    pub fn me(&self) -> u32 {
        self.me
    }

    /// Returns the ranks of the segment.
    pub fn size(&self) -> u32 {
        self.layout.size
    }

    /// Returns where the segment is found while this process lives, but for what tells the host.
    pub(crate) fn place(&self) -> (u32, u64) {
        (self.file.as_raw_fd() as u32, self.offset)
    }

    /// Returns the bytes of each ring.
    pub fn ring_bytes(&self) -> u64 {
        self.layout.ring_bytes
    }

    /// Returns a rank's control block.
    pub(crate) fn control(&self, rank: u32) -> &'static Control {
        // SAFETY: inside the mapping, which is never unmapped, and aligned; all fields are atomics
        // or never read, and any bytes are valid for them.
        unsafe { &*self.block(rank).cast::<Control>() }
    }

    /// Returns the words of a rank's connect bits.
    pub(crate) fn connect_bits(&self, rank: u32) -> &'static [AtomicU64] {
        let words = self.layout.size.div_ceil(64) as usize;
        // SAFETY: after the control block of the same rank, inside the mapping, which is never
        // unmapped; any bytes are valid atomics.
        unsafe {
            std::slice::from_raw_parts(
                self.block(rank).add(size_of::<Control>()).cast::<AtomicU64>(),
                words,
            )
        }
    }

    fn block(&self, rank: u32) -> *const u8 {
        self.control.wrapping_add(self.layout.control(rank) as usize)
    }

    /// Returns the lines of each ring.
    pub(crate) fn ring_lines(&self) -> u64 {
        self.layout.ring_bytes / LINE as u64
    }

    /// Returns the granules of each ring.
    pub(crate) fn ring_granules(&self) -> u64 {
        self.layout.ring_bytes / GRANULE as u64
    }

    /// Returns the granules of the shortest lap of a ring: those of its first page.
    pub(crate) fn first_lap_granules(&self) -> u64 {
        page() / GRANULE as u64
    }

    /// Returns the ring that `from` writes and `to` reads.
    pub(crate) fn ring(&self, from: u32, to: u32) -> RingPlace {
        self.ring_at(self.layout.ring(from, to))
    }

    /// Returns the ring that a process of another job writes and `to` reads.
    pub(crate) fn outsider_ring(&self, from: Peer, to: u32) -> RingPlace {
        self.ring_at(self.layout.outsider_ring(from, to))
    }

    fn ring_at(&self, at: u64) -> RingPlace {
        let bytes = self.layout.ring_bytes;
        RingPlace { file: self.file.clone(), at: self.offset + at, bytes }
    }

    /// Maps the range of a rank's external bodies.
    pub(crate) fn bodies(&self, from: u32) -> Result<BodyMemory, SegmentError> {
        let bytes = self.layout.bounce_bytes;
        let length = BodyMemory::length(bytes);
        let base = self.map(self.layout.bodies(from), length, "message bodies")?;
        // SAFETY: freshly mapped, page-aligned, never unmapped.
        Ok(unsafe { BodyMemory::new(base, bytes as usize) })
    }

    /// Takes memory for a part of that range; returns false if there is none.
    pub(crate) fn allocate_bodies(&self, of: u32, part: Range<usize>) -> bool {
        let at = self.layout.bodies(of) + part.start as u64;
        self.allocate(at, part.len() as u64, "message bodies").is_ok()
    }

    /// Wakes a local rank if it sleeps: it sees what this process stored before.
    /// `has_membarrier`: this process is registered.
    #[inline]
    pub(crate) fn wake(&self, local: u32, has_membarrier: bool) {
        let event_count = &self.control(local).event_count;
        event_count.publish_fence(has_membarrier);
        event_count.notify();
    }

    /// Lets the ranks of the host probe single copies of these kinds from this process's memory.
    pub fn permit_single_copy(&self, allowed: SingleCopy) {
        single_copy::publish_probe(&self.control(self.me).probe, allowed);
    }

    /// Leases the collective segment `index` of those that `owner` has to member `me` of a
    /// communicator. `members` are local ranks in the order of their ranks, at most
    /// [`fabric::coll_segment::MAX_FLAGS_RANKS`] for [`SyncKind::Flags`]. Returns `None`, for all
    /// members, if there is no memory.
    pub fn coll_segment(
        &self,
        sync: SyncKind,
        owner: u32,
        index: u32,
        members: &[u32],
        me: u32,
    ) -> Result<Option<Arc<dyn fabric::CollSegment>>, SegmentError> {
        let controls = || members.iter().map(|&member| self.control(member)).collect();
        let long_slots = || {
            let parts = self.coll_segment_parts(sync, owner, index, true);
            let word = &self.control(owner).coll_segments[index as usize];
            LongSlots::new(self.file.clone(), parts, word)
        };
        let location = self.location(sync, owner, index)?;
        Ok(location.map(|at| at.lease(me, controls(), long_slots())))
    }

    /// Makes this rank's own collective segment `index` ready for a communicator. Returns false if
    /// fewer than `leases` leases were returned, or if its memory was refused.
    pub fn renew_coll_segment(&self, sync: SyncKind, index: u32, leases: u64) -> bool {
        // Unused, it is in its first state, and its members find out whether there is memory.
        let word = &self.control(self.me).coll_segments[index as usize];
        word.load(Ordering::Relaxed) == memory::UNKNOWN
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
        let base = self.base(sync, owner, index)?;
        Ok(base.map(|Base(base)| {
            // SAFETY: `base` maps so many bytes, page-aligned and never unmapped. The file was zero
            // where no rank had used the segment, and all ranks of a job have one kind.
            unsafe { coll_segment::Location::new(base, self.layout.size, sync) }
        }))
    }

    /// The parts of the file that a collective segment uses only for long slots, or always.
    fn coll_segment_parts(
        &self,
        sync: SyncKind,
        owner: u32,
        index: u32,
        is_long: bool,
    ) -> Vec<Range<u64>> {
        let at = self.offset + self.layout.coll_segment(owner, index);
        let parts = coll_segment::parts(self.layout.size, sync, is_long);
        parts.map(|part| at + part.start..at + part.end).collect()
    }

    /// Takes memory for a collective segment and maps it; `None` if there is none.
    fn base(&self, sync: SyncKind, owner: u32, index: u32) -> Result<Option<Base>, SegmentError> {
        let (what, bytes) = ("a collective segment", coll_segment::bytes(self.layout.size, sync));
        let at = self.layout.coll_segment(owner, index);
        let word = &self.control(owner).coll_segments[index as usize];
        let parts = self.coll_segment_parts(sync, owner, index, false);
        if !memory::take(&self.file, &parts, word) {
            return Ok(None);
        }
        let mut known = self.coll_segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, base)) = known.iter().find(|(there, _)| *there == at) {
            return Ok(Some(*base));
        }
        let base = Base(self.map(at, bytes, what)?);
        known.push((at, base));
        Ok(Some(base))
    }

    /// Behaves from now on as if there had been no memory for that collective segment.
    #[cfg(test)]
    pub(crate) fn refuse_coll_segment(&self, owner: u32, index: u32) {
        self.control(owner).coll_segments[index as usize].store(memory::REFUSED, Ordering::Relaxed);
    }

    /// Behaves from now on as if there had been no memory for long slots of a collective segment.
    #[cfg(test)]
    pub(crate) fn refuse_long_slots(&self, owner: u32, index: u32) {
        self.control(owner).coll_segments[index as usize]
            .store(memory::LONG_REFUSED, Ordering::Relaxed);
    }

    /// Returns the shared line.
    pub(crate) fn shared(&self) -> &'static Shared {
        // SAFETY: the first line of the mapping, aligned, never unmapped; any bytes are valid.
        unsafe { &*self.control.cast::<Shared>() }
    }

    /// Returns the offset at which windows begin. In the file it is a multiple of `WINDOW_ALIGN`.
    pub(crate) fn windows(&self) -> u64 {
        (self.offset + self.layout.fixed_bytes()).next_multiple_of(WINDOW_ALIGN) - self.offset
    }

    /// Takes memory for a part of the segment; the file grows if need be.
    pub(crate) fn allocate(
        &self,
        at: u64,
        bytes: u64,
        what: &'static str,
    ) -> Result<(), SegmentError> {
        allocate(&self.file, self.offset + at, bytes).map_err(|errno| SegmentError::System {
            what,
            bytes,
            errno,
        })
    }

    /// Gives back the memory of a part of the segment, which reads as zeros then.
    pub(crate) fn deallocate(&self, at: u64, bytes: u64) {
        deallocate(&self.file, self.offset + at, bytes);
    }

    /// Returns the bytes from the segment's begin to the end of the file.
    pub(crate) fn file_bytes(&self) -> Result<u64, SegmentError> {
        let failed = |errno| SegmentError::System { what: "the memory file", bytes: 0, errno };
        Ok((fstat(&self.file).map_err(failed)?.st_size as u64).saturating_sub(self.offset))
    }

    /// Returns the memory that the file has, in units of 512 bytes.
    #[cfg(test)]
    pub(crate) fn file_blocks(&self) -> u64 {
        fstat(&self.file).map_or(0, |stat| stat.st_blocks as u64)
    }

    /// Maps a part of the segment. It is mapped until the caller unmaps it.
    pub(crate) fn map(
        &self,
        at: u64,
        bytes: u64,
        what: &'static str,
    ) -> Result<*mut u8, SegmentError> {
        map(&self.file, self.offset + at, bytes).map_err(|errno| SegmentError::System {
            what,
            bytes,
            errno,
        })
    }

    /// The first rank stores what the layout depends on; the others compare.
    fn agree(&self) -> Result<(), SegmentError> {
        let Layout { size, ring_bytes, bounce_bytes, .. } = self.layout;
        let ours = self.layout.agreement();
        // Relaxed: the word orders nothing else.
        let agreement = &self.shared().agreement;
        match agreement.compare_exchange(0, ours, Ordering::Relaxed, Ordering::Relaxed) {
            Err(theirs) if theirs != ours => Err(SegmentError::Disagreement {
                ours: (size, ring_bytes, bounce_bytes),
                theirs: Layout::agreed(theirs),
            }),
            _ => Ok(()),
        }
    }

    /// Makes the file as long as all parts but the windows. Taking the last page does that without
    /// ever making the file shorter, whichever rank comes first.
    fn stretch(&self) -> Result<(), SegmentError> {
        let what = "the message rings of all ranks";
        let (begin, bytes) = (self.offset, self.layout.fixed_bytes());
        let failed = |errno| SegmentError::System { what, bytes, errno };
        if (fstat(&self.file).map_err(failed)?.st_size as u64) < begin + bytes {
            allocate(&self.file, begin + bytes - page(), page()).map_err(failed)?;
        }
        Ok(())
    }
}
