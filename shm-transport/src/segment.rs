//! The memory that the ranks of one host share: a part of the memory file that
//! the launcher made.
//!
//! ```text
//! offset 0            control: for each rank a block of
//!                       64 B  doorbell  (sleeping, barrier, pid)
//!                       64 B  arrivals  (count of first-time talkers)
//!                       n/8 B bitmap    (who they are), rounded up to 64
//! page-aligned        rings: for each receiver, for each sender
//!                       4 KiB   head line (and room for more)
//!                       ring_bytes of lines
//! ```
//!
//! Everything starts as zero and that is its valid first state, so nobody has to
//! set anything up for anybody. The control part is mapped at the start; a ring
//! is allocated (`fallocate`, so that a lack of memory is an error here and never
//! a SIGBUS later) and mapped by either side when it is first used. A pair that
//! never talks costs one bit.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::ring::{self, LINE};
use crate::sync::{AtomicU32, AtomicU64};

const PAGE: u64 = 4096;

/// Why shared memory can't be had.
#[derive(Clone, Debug, thiserror::Error)]
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
}

fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOMEM | Errno::NOSPC => {
            ". Use fewer ranks on this host, a smaller shm.ring_bytes, or raise the memory limit (RLIMIT_AS, the container's)"
        }
        Errno::FBIG => ". The file size limit (ulimit -f) is too small: raise it",
        _ => "",
    }
}

/// One rank's control block, but for its bitmap.
#[repr(C, align(64))]
pub(crate) struct Control {
    /// See `wake`.
    pub sleeping: AtomicU32,
    /// 1: this rank does the barrier of its sleep itself (see `wake`).
    pub barrier: AtomicU32,
    /// Process id, for single copies.
    pub pid: AtomicU32,
    _pad: [u32; 13],
    /// How many ranks have talked to this one for the first time. On a line of its
    /// own: the owner reads it with each poll, and it hardly ever changes.
    pub arrivals: AtomicU64,
    _rest: [u64; 7],
}

const _: () = assert!(size_of::<Control>() == 2 * LINE);

/// One host's shared memory, as one rank sees it.
#[derive(Debug)]
pub struct Segment {
    file: OwnedFd,
    offset: u64,
    control: *mut u8,
    me: u32,
    size: u32,
    ring_bytes: u64,
}

// SAFETY: `control` points to shared memory that stays mapped for the life of the process.
unsafe impl Send for Segment {}

impl Segment {
    /// Joins the segment at `offset` (page-aligned) of `file` as rank `me` of
    /// `size`. All ranks give the same `size` and `ring_bytes` (a power of two).
    pub fn attach(
        file: BorrowedFd<'_>,
        offset: u64,
        me: u32,
        size: u32,
        ring_bytes: u64,
    ) -> Result<Segment, SegmentError> {
        assert!(me < size && offset.is_multiple_of(PAGE) && ring_bytes.is_power_of_two() && ring_bytes >= PAGE);
        let bytes = control_bytes(size);
        let failed = |errno| SegmentError::System { what: "the ranks' control blocks", bytes, errno };
        let file = rustix::io::fcntl_dupfd_cloexec(file, 3).map_err(failed)?;
        let control = map(&file, offset, bytes).map_err(failed)?;
        Ok(Segment { file, offset, control, me, size, ring_bytes })
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
    #[inline]
    pub(crate) fn control(&self, rank: u32) -> &'static Control {
        assert!(rank < self.size);
        // SAFETY: inside the mapping, which is never unmapped; all fields are
        // atomics, for which any bytes are valid.
        unsafe { &*self.control.add(rank as usize * block_bytes(self.size) as usize).cast::<Control>() }
    }

    /// The words of a rank's bitmap of first-time talkers.
    pub(crate) fn talkers(&self, rank: u32) -> &'static [AtomicU64] {
        assert!(rank < self.size);
        let words = self.size.div_ceil(64) as usize;
        // SAFETY: behind the control block of the same rank, inside the mapping.
        unsafe {
            let block = self.control.add(rank as usize * block_bytes(self.size) as usize);
            std::slice::from_raw_parts(block.add(size_of::<Control>()).cast::<AtomicU64>(), words)
        }
    }

    /// Allocates and maps the ring that `from` writes and `to` reads.
    pub(crate) fn ring(&self, from: u32, to: u32) -> Result<ring::Memory, SegmentError> {
        assert!(from < self.size && to < self.size);
        let stride = PAGE + self.ring_bytes;
        let index = u64::from(to) * u64::from(self.size) + u64::from(from);
        let at = self.offset + control_bytes(self.size) + index * stride;
        let base = map(&self.file, at, stride).map_err(|errno| SegmentError::System {
            what: "a message ring",
            bytes: stride,
            errno,
        })?;
        // SAFETY: freshly mapped, page-aligned, never unmapped; the file was zero
        // where nobody has used the ring. The caller is its only producer or consumer.
        Ok(unsafe {
            ring::Memory::new(base.add(PAGE as usize), base.cast::<AtomicU64>(), self.ring_bytes / LINE as u64)
        })
    }
}

fn block_bytes(size: u32) -> u64 {
    (size_of::<Control>() as u64) + u64::from(size.div_ceil(64)).next_multiple_of(8) * 8
}

fn control_bytes(size: u32) -> u64 {
    (u64::from(size) * block_bytes(size)).next_multiple_of(PAGE)
}

/// Allocates that part of the file (growing it if need be) and maps it.
fn map(file: &OwnedFd, at: u64, bytes: u64) -> Result<*mut u8, Errno> {
    loop {
        match fallocate(file.as_fd(), FallocateFlags::empty(), at, bytes) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    // SAFETY: a new mapping at an address of the kernel's choice touches no
    // memory that exists.
    let base = unsafe {
        mmap(std::ptr::null_mut(), bytes as usize, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, at)
    }?;
    Ok(base.cast())
}
