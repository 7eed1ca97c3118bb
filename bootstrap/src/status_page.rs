//! The board: what every rank of the host is doing right now.
//!
//! ```text
//!   0 .. 128            header: magic, version, local size, job id
//!   128 .. 128 * (n+1)  one entry of 128 bytes for each local rank
//!   then up to the next page: zero;  behind it: the transport's own
//! ```
//!
//! It lies in a memory file, so it has no name, needs no /dev/shm, and is gone
//! with the last process that holds it. Every field is an atomic. A rank writes
//! its own entry, with relaxed stores; the launcher reads all of them whenever
//! it has something to explain. Nothing here is trusted for memory safety.
//!
//! A mapping is never undone: entries are `&'static`, so that any thread may
//! record its call until the process ends.

#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use serde::{Deserialize, Serialize};

const MAGIC: u64 = u64::from_le_bytes(*b"Verbena\x01");
const VERSION: u32 = 2;
const PAGE: u64 = 4096;

/// The board of one host, mapped into this process.
#[derive(Debug)]
pub struct StatusPage {
    header: &'static Header,
    entries: &'static [StatusEntry],
    file: Option<OwnedFd>,
}

#[derive(Debug)]
#[repr(C, align(128))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    local_size: AtomicU32,
    job: AtomicU64,
}

/// One rank's line on the board. All zero means: started, not in MPI yet.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct StatusEntry {
    pid: AtomicU32,
    state: AtomicU32,
    call: AtomicU32,
    rank: AtomicU32,
    kind: AtomicU32,
    peer: AtomicI32,
    world_rank: AtomicI32,
    tag: AtomicI32,
    comm_size: AtomicU32,
    outer: AtomicU32,
    context: AtomicU64,
    since: AtomicU64,
}

const _: () = assert!(size_of::<Header>() == 128 && size_of::<StatusEntry>() == 128);

/// How far a rank is in its life, as the launcher judges its end by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum RankState {
    /// Has not called MPI_Init (and may be a program without MPI).
    Starting = 0,
    /// Between MPI_Init and MPI_Finalize.
    Running = 1,
    /// Inside MPI_Finalize.
    Finalizing = 2,
    /// MPI_Finalize has returned.
    Finalized = 3,
}

/// What a rank waits for inside a call. Fields that say nothing are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedOn {
    /// What of the other side.
    pub kind: BlockedKind,
    /// Rank of the other side in the communicator; `None` for any or several.
    pub peer: Option<i32>,
    /// Its rank in MPI_COMM_WORLD.
    pub world_rank: Option<i32>,
    /// The tag; `None` for any. Of a collective, which one of its communicator it is.
    pub tag: Option<i32>,
    /// Context id of the communicator.
    pub context: u64,
    /// Number of ranks in the communicator.
    pub comm_size: u32,
    /// Since when nothing has come that the rank could go on with: nanoseconds of the monotonic
    /// clock, never 0.
    pub since: u64,
}

/// The kinds of things to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockedKind {
    /// The rank did not say.
    #[default]
    Unknown,
    /// A message from the other side.
    Message,
    /// The rest of a message from the other side.
    RestOfMessage,
    /// That the other side takes a message.
    MatchingReceive,
    /// The other side's part of a collective operation, by its number on the wire.
    Collective(u8),
}

impl BlockedKind {
    fn to_raw(self) -> u32 {
        match self {
            BlockedKind::Unknown => 0,
            BlockedKind::Message => 1,
            BlockedKind::MatchingReceive => 2,
            BlockedKind::RestOfMessage => 3,
            BlockedKind::Collective(kind) => 256 | u32::from(kind),
        }
    }

    fn from_raw(raw: u32) -> BlockedKind {
        match raw {
            1 => BlockedKind::Message,
            2 => BlockedKind::MatchingReceive,
            3 => BlockedKind::RestOfMessage,
            256..512 => BlockedKind::Collective(raw as u8),
            _ => BlockedKind::Unknown,
        }
    }
}

/// The time now, as in [`BlockedOn::since`]. By libc: rustix reads the vDSO itself, which is not there under
/// valgrind.
pub fn monotonic_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call, which writes nothing else. This clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The context id of MPI_COMM_WORLD.
pub const WORLD_CONTEXT: u64 = 1;

/// What the launcher reads of a rank, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The process that called MPI_Init, 0 while none has.
    pub pid: u32,
    /// How far it is.
    pub state: RankState,
    /// Index of the current MPI call in the table of calls; 0 outside of MPI.
    pub call: u32,
    /// What it waits for, once it has said so.
    pub waiting: Option<BlockedOn>,
}

/// Why a memory file is not the board of our job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// The system refused to look at it or to map it.
    System(Errno),
    /// It is some other file, or cut short.
    Foreign,
    /// It is a board of another version of Verbena.
    Version(u32),
}

impl StatusPage {
    /// A new board for `local_size` ranks. The descriptor is close-on-exec.
    pub fn create(local_size: u32, job: u64) -> Result<StatusPage, Errno> {
        let length = StatusPage::transport_offset(local_size);
        let file = memory_file()?;
        ftruncate(&file, length)?;
        let status_page = StatusPage::map(file, length, local_size).map_err(|_| Errno::NOMEM)?;
        status_page.describe(local_size, job);
        Ok(status_page)
    }

    /// A board that nobody else sees, for a process that is alone in its job.
    pub fn private(job: u64) -> Result<StatusPage, Errno> {
        let length = StatusPage::transport_offset(1);
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory that exists.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // SAFETY: just mapped with `length` bytes, page-aligned, zeroed, and
        // never unmapped.
        let (header, entries) = unsafe { lay_out(base.cast(), 1) };
        let status_page = StatusPage { header, entries, file: None };
        status_page.describe(1, job);
        Ok(status_page)
    }

    /// The board behind a descriptor that the launcher handed down.
    pub fn attach(file: OwnedFd) -> Result<StatusPage, AttachError> {
        let length = fstat(&file).map_err(AttachError::System)?.st_size as u64;
        if length < PAGE {
            return Err(AttachError::Foreign);
        }
        let probe = read_header(&file).ok_or(AttachError::Foreign)?;
        if probe.magic != MAGIC {
            return Err(AttachError::Foreign);
        }
        if probe.version != VERSION {
            return Err(AttachError::Version(probe.version));
        }
        let mapped = StatusPage::transport_offset(probe.local_size);
        if probe.local_size == 0 || length < mapped {
            return Err(AttachError::Foreign);
        }
        StatusPage::map(file, mapped, probe.local_size)
    }

    /// Where the transport's part of the memory file begins, in bytes: a
    /// multiple of the page size. Its owner sizes the file beyond it.
    pub const fn transport_offset(local_size: u32) -> u64 {
        (128 * (local_size as u64 + 1)).next_multiple_of(PAGE)
    }

    /// Ranks on this host.
    pub fn local_size(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The job's number, the same on all of its ranks.
    pub fn job(&self) -> u64 {
        self.header.job.load(Relaxed)
    }

    /// The line of a local rank. Panics if there is no such rank.
    #[inline]
    pub fn entry(&self, local_rank: u32) -> &'static StatusEntry {
        &self.entries[local_rank as usize]
    }

    /// The memory file; `None` for a private board.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    fn map(file: OwnedFd, length: u64, local_size: u32) -> Result<StatusPage, AttachError> {
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory that exists.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                length as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .map_err(AttachError::System)?;
        // SAFETY: just mapped with room for the header and `local_size`
        // entries, page-aligned, and never unmapped.
        let (header, entries) = unsafe { lay_out(base.cast(), local_size as usize) };
        Ok(StatusPage { header, entries, file: Some(file) })
    }

    fn describe(&self, local_size: u32, job: u64) {
        self.header.magic.store(MAGIC, Relaxed);
        self.header.version.store(VERSION, Relaxed);
        self.header.local_size.store(local_size, Relaxed);
        self.header.job.store(job, Relaxed);
    }
}

impl StatusEntry {
    /// A line that belongs to no board, for calls made before MPI_Init.
    pub const fn detached() -> StatusEntry {
        StatusEntry {
            pid: AtomicU32::new(0),
            state: AtomicU32::new(0),
            call: AtomicU32::new(0),
            rank: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            peer: AtomicI32::new(0),
            world_rank: AtomicI32::new(0),
            tag: AtomicI32::new(0),
            comm_size: AtomicU32::new(0),
            outer: AtomicU32::new(0),
            context: AtomicU64::new(0),
            since: AtomicU64::new(0),
        }
    }

    /// Records that an MPI call begins (its index in the table of calls).
    #[inline]
    pub fn enter(&self, call: u32) {
        self.call.store(call, Relaxed);
    }

    /// Not 0 while the rank is in a call.
    pub fn current_call(&self) -> &AtomicU32 {
        &self.call
    }

    /// Records that the call has returned: into the program, or into a function
    /// of the user's that another call has called.
    #[inline]
    pub fn leave(&self) {
        self.call.store(self.outer.load(Relaxed), Relaxed);
    }

    /// Runs a function of the user's that the current call calls. It may call
    /// MPI; when that returns, the rank is in the current call again.
    pub fn user_callback(&self, function: &mut dyn FnMut()) {
        let (call, outer) = (self.call.load(Relaxed), self.outer.load(Relaxed));
        self.outer.store(call, Relaxed);
        function();
        self.outer.store(outer, Relaxed);
        self.call.store(call, Relaxed);
    }

    /// Records what the current call waits for. For the slow path only.
    pub fn set_blocked(&self, waiting: &BlockedOn) {
        self.kind.store(waiting.kind.to_raw(), Relaxed);
        self.peer.store(waiting.peer.unwrap_or(i32::MIN), Relaxed);
        self.world_rank.store(waiting.world_rank.unwrap_or(i32::MIN), Relaxed);
        self.tag.store(waiting.tag.unwrap_or(i32::MIN), Relaxed);
        self.context.store(waiting.context, Relaxed);
        self.comm_size.store(waiting.comm_size, Relaxed);
        // Last: zero says that there is nothing to read.
        self.since.store(waiting.since, Relaxed);
    }

    /// Records that the wait is over.
    pub fn clear_blocked(&self) {
        self.since.store(0, Relaxed);
    }

    /// Records how far the rank is in its life.
    pub fn set_state(&self, state: RankState) {
        self.state.store(state as u32, Relaxed);
    }

    /// The process that called MPI_Init; `None` while none has.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Relaxed)).filter(|pid| *pid != 0)
    }

    /// Rank in MPI_COMM_WORLD of this line's owner, as the launcher wrote it.
    pub fn rank(&self) -> u32 {
        self.rank.load(Relaxed)
    }

    /// For the launcher: whose line this is.
    pub fn set_rank(&self, rank: u32) {
        self.rank.store(rank, Relaxed);
    }

    /// Takes the line for process `pid`; the first to ask has it.
    pub(crate) fn claim(&self, pid: u32) -> Result<(), u32> {
        self.pid.compare_exchange(0, pid, Relaxed, Relaxed).map(|_| ())
    }

    /// How far the rank is; a value that is none counts as running.
    pub fn state(&self) -> RankState {
        match self.state.load(Relaxed) {
            0 => RankState::Starting,
            2 => RankState::Finalizing,
            3 => RankState::Finalized,
            _ => RankState::Running,
        }
    }

    /// Everything at once. The fields are read one after the other, while the
    /// rank runs on: good enough to explain, not to decide.
    pub fn snapshot(&self) -> Snapshot {
        let named =
            |value: &AtomicI32| Some(value.load(Relaxed)).filter(|value| *value != i32::MIN);
        let waiting = BlockedOn {
            since: self.since.load(Relaxed),
            kind: BlockedKind::from_raw(self.kind.load(Relaxed)),
            peer: named(&self.peer),
            world_rank: named(&self.world_rank),
            tag: named(&self.tag),
            context: self.context.load(Relaxed),
            comm_size: self.comm_size.load(Relaxed),
        };
        Snapshot {
            pid: self.pid.load(Relaxed),
            state: self.state(),
            call: self.call.load(Relaxed),
            waiting: (waiting.since != 0).then_some(waiting),
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::System(errno) => write!(f, "the system refused it ({errno})"),
            AttachError::Foreign => write!(f, "it is another file"),
            AttachError::Version(version) => {
                write!(f, "it is a board of version {version}, this library reads {VERSION}")
            }
        }
    }
}

/// # Safety
/// `base` must be page-aligned, with a header and `local_size` entries behind
/// it that stay mapped until the process ends.
unsafe fn lay_out(base: *const u8, local_size: usize) -> (&'static Header, &'static [StatusEntry]) {
    // SAFETY: the caller vouches for size, alignment and lifetime; every field
    // is an atomic for which any bits are a value, so other processes may write.
    unsafe {
        let header = &*base.cast::<Header>();
        let entries = std::slice::from_raw_parts(
            base.add(size_of::<Header>()).cast::<StatusEntry>(),
            local_size,
        );
        (header, entries)
    }
}

struct Probe {
    magic: u64,
    version: u32,
    local_size: u32,
}

/// Reads the header by a system call, before anything is known of the file.
fn read_header(file: &OwnedFd) -> Option<Probe> {
    let mut bytes = [0u8; 16];
    let read = rustix::io::pread(file, &mut bytes[..], 0).ok()?;
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    (read == bytes.len()).then(|| Probe {
        magic: u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])),
        version: word(8),
        local_size: word(12),
    })
}

/// A memory file, also where the administrator forbids executable ones.
fn memory_file() -> Result<OwnedFd, Errno> {
    match memfd_create(c"verbena", MemfdFlags::CLOEXEC) {
        Err(Errno::ACCESS) => {
            memfd_create(c"verbena", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_records_the_other_reads() {
        let launcher = StatusPage::create(3, 42).unwrap();
        let rank =
            StatusPage::attach(launcher.file().unwrap().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((rank.local_size(), rank.job()), (3, 42));
        let (peer, world_rank, tag) = (Some(7), Some(9), None);
        let kind = BlockedKind::Collective(3);
        let waiting = BlockedOn { kind, peer, world_rank, tag, context: 4, comm_size: 8, since: 1 };
        let entry = rank.entry(2);
        entry.claim(99).unwrap();
        assert_eq!(entry.claim(100), Err(99));
        entry.set_state(RankState::Running);
        entry.enter(17);
        entry.set_blocked(&waiting);
        let seen = launcher.entry(2).snapshot();
        assert_eq!(
            seen,
            Snapshot { pid: 99, state: RankState::Running, call: 17, waiting: Some(waiting) }
        );
        assert_eq!(launcher.entry(1).snapshot().pid, 0);
    }

    #[test]
    fn a_call_from_a_users_function_leaves_the_outer_call_in_place() {
        let entry = StatusEntry::detached();
        let now = || entry.snapshot().call;
        entry.enter(5);
        entry.user_callback(&mut || {
            assert_eq!(now(), 5);
            entry.enter(6);
            entry.user_callback(&mut || {
                entry.enter(7);
                entry.leave();
                assert_eq!(now(), 6);
            });
            assert_eq!(now(), 6);
            entry.leave();
            assert_eq!(now(), 5);
        });
        assert_eq!(now(), 5);
        entry.leave();
        assert_eq!(now(), 0);
    }

    #[test]
    fn a_file_that_is_no_board_is_refused() {
        let empty = memory_file().unwrap();
        assert_eq!(StatusPage::attach(empty).unwrap_err(), AttachError::Foreign);
        let zeros = memory_file().unwrap();
        ftruncate(&zeros, 8192).unwrap();
        assert_eq!(StatusPage::attach(zeros).unwrap_err(), AttachError::Foreign);
        let cut = StatusPage::create(100, 1).unwrap();
        ftruncate(cut.file().unwrap(), PAGE).unwrap();
        assert_eq!(
            StatusPage::attach(cut.file().unwrap().try_clone_to_owned().unwrap()).unwrap_err(),
            AttachError::Foreign
        );
    }

    #[test]
    fn the_transport_begins_on_a_page_behind_the_last_entry() {
        for local_size in [1, 30, 31, 32, 63, 1000] {
            let offset = StatusPage::transport_offset(local_size);
            assert!(offset.is_multiple_of(PAGE) && offset >= 128 * (u64::from(local_size) + 1));
        }
    }
}
