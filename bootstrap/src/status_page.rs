//! The status page: what every rank of the host is doing right now.
//!
//! ```text
//!   0 .. 128            header: magic, version, local size, job number
//!   128 .. 128 * (n+1)  one entry of 128 bytes for each local rank
//!   then zeros up to the next page; after that the segment of the shm transport
//! ```
//!
//! The page lies in a memory file: it has no name, needs no /dev/shm, and ends with the last
//! process that holds it. Every field is an atomic. A rank writes its own entry with relaxed
//! stores; the launcher reads all entries when it reports. No value read here is trusted for
//! memory safety. A mapping is never undone: entries are `&'static`, so that any thread may
//! record its call until the process ends.

#![allow(unsafe_code)]

use std::fmt;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use serde::{Deserialize, Serialize};

const MAGIC: u64 = u64::from_le_bytes(*b"Verbena\x01");
const VERSION: u32 = 2;
const PAGE: u64 = 4096;

/// The status page of one host, mapped into this process.
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

/// The entry of one rank. All zeros: started, not in MPI yet.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct StatusEntry {
    pid: AtomicU32,
    state: AtomicU32,
    call: AtomicU32,
    rank: AtomicU32,
    blocked_kind: AtomicU32,
    peer: AtomicI32,
    world_rank: AtomicI32,
    tag: AtomicI32,
    comm_size: AtomicU32,
    outer: AtomicU32,
    context: AtomicU64,
    since: AtomicU64,
}

const _: () = assert!(size_of::<Header>() == 128 && size_of::<StatusEntry>() == 128);

/// The state of MPI in a rank's process. It decides what the rank's end means for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum RankState {
    /// MPI_Init was not called; the program may not use MPI.
    Starting = 0,
    /// Between MPI_Init and MPI_Finalize.
    Running = 1,
    /// Inside MPI_Finalize.
    Finalizing = 2,
    /// MPI_Finalize has returned.
    Finalized = 3,
}

/// What a rank is blocked on inside a call. Unknown fields are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedOn {
    /// The kind of event.
    pub kind: BlockedKind,
    /// The peer's rank in the communicator; `None` for any or several.
    pub peer: Option<i32>,
    /// The peer's rank in MPI_COMM_WORLD.
    pub world_rank: Option<i32>,
    /// The tag, `None` for any; for a collective its sequence number in the communicator.
    pub tag: Option<i32>,
    /// The context id of the communicator.
    pub context: u64,
    /// The number of ranks in the communicator.
    pub comm_size: u32,
    /// The time since which the rank has made no progress, by [`monotonic_nanos`]; never 0.
    pub since: u64,
}

/// The kinds of events that a rank waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockedKind {
    /// The rank gave no kind.
    #[default]
    Unknown,
    /// A message from the peer.
    Message,
    /// The rest of a message from the peer.
    RestOfMessage,
    /// A receive by the peer that matches a message of this rank.
    MatchingReceive,
    /// The peer's part of a collective operation, by its number on the wire.
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

/// Returns the time of the monotonic clock in nanoseconds. Calls libc: rustix reads the vDSO
/// itself, which is absent under valgrind.
pub fn monotonic_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call, which writes nothing else; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The context id of MPI_COMM_WORLD.
pub const WORLD_CONTEXT: u64 = 1;

/// An entry as the launcher read it at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The process that called MPI_Init, 0 while none has.
    pub pid: u32,
    /// The state of MPI.
    pub state: RankState,
    /// The index of the current MPI call in the table of calls; 0 outside of MPI.
    pub call: u32,
    /// What the rank is blocked on, once it has waited for some time.
    pub blocked: Option<BlockedOn>,
}

/// The reason why a memory file is not a usable status page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// A system call failed.
    System(Errno),
    /// The file is another one, or too short.
    Foreign,
    /// The page has another version.
    Version(u32),
}

impl StatusPage {
    /// Creates the page for `local_size` ranks. The descriptor is close-on-exec.
    pub fn create(local_size: u32, job: u64) -> Result<StatusPage, Errno> {
        let length = StatusPage::transport_offset(local_size);
        let file = memory_file()?;
        ftruncate(&file, length)?;
        let status_page = StatusPage::map(file, length, local_size).map_err(|_| Errno::NOMEM)?;
        status_page.write_header(local_size, job);
        Ok(status_page)
    }

    /// Creates a page without a file, for a process that is alone in its job.
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
        let (header, entries) = unsafe { views(base.cast(), 1) };
        let status_page = StatusPage { header, entries, file: None };
        status_page.write_header(1, job);
        Ok(status_page)
    }

    /// Maps the page behind a descriptor that the launcher handed down.
    pub fn attach(file: OwnedFd) -> Result<StatusPage, AttachError> {
        let length = fstat(&file).map_err(AttachError::System)?.st_size as u64;
        if length < PAGE {
            return Err(AttachError::Foreign);
        }
        let local_size = decode_header(&read_header(&file).ok_or(AttachError::Foreign)?)?;
        let mapped = StatusPage::transport_offset(local_size);
        if length < mapped {
            return Err(AttachError::Foreign);
        }
        StatusPage::map(file, mapped, local_size)
    }

    /// Returns the offset of the transport's part of the memory file, in bytes: a multiple of
    /// the page size. The transport sizes the file beyond it.
    pub const fn transport_offset(local_size: u32) -> u64 {
        (128 * (local_size as u64 + 1)).next_multiple_of(PAGE)
    }

    /// Returns the number of ranks on this host.
    pub fn local_size(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns the job's number, the same on all of its ranks.
    pub fn job(&self) -> u64 {
        self.header.job.load(Relaxed)
    }

    /// Returns the entry of a local rank. Panics if there is no such rank.
    #[inline]
    pub fn entry(&self, local_rank: u32) -> &'static StatusEntry {
        &self.entries[local_rank as usize]
    }

    /// Returns the memory file; `None` for a private page.
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
        let (header, entries) = unsafe { views(base.cast(), local_size as usize) };
        Ok(StatusPage { header, entries, file: Some(file) })
    }

    fn write_header(&self, local_size: u32, job: u64) {
        self.header.magic.store(MAGIC, Relaxed);
        self.header.version.store(VERSION, Relaxed);
        self.header.local_size.store(local_size, Relaxed);
        self.header.job.store(job, Relaxed);
    }
}

impl StatusEntry {
    /// Returns an entry outside of any page, for calls made before MPI_Init.
    pub const fn detached() -> StatusEntry {
        StatusEntry {
            pid: AtomicU32::new(0),
            state: AtomicU32::new(0),
            call: AtomicU32::new(0),
            rank: AtomicU32::new(0),
            blocked_kind: AtomicU32::new(0),
            peer: AtomicI32::new(0),
            world_rank: AtomicI32::new(0),
            tag: AtomicI32::new(0),
            comm_size: AtomicU32::new(0),
            outer: AtomicU32::new(0),
            context: AtomicU64::new(0),
            since: AtomicU64::new(0),
        }
    }

    /// Records that an MPI call begins: its index in the table of calls.
    #[inline]
    pub fn enter(&self, call: u32) {
        self.call.store(call, Relaxed);
    }

    /// Returns the index of the current call; not 0 while the rank is in a call.
    pub fn current_call(&self) -> &AtomicU32 {
        &self.call
    }

    /// Records that the call returns: to the program, or to a user callback of the outer call.
    #[inline]
    pub fn leave(&self) {
        self.call.store(self.outer.load(Relaxed), Relaxed);
    }

    /// Runs a user callback of the current call. It may call MPI; afterwards the rank is in
    /// the current call again.
    pub fn user_callback(&self, function: &mut dyn FnMut()) {
        let (call, outer) = (self.call.load(Relaxed), self.outer.load(Relaxed));
        self.outer.store(call, Relaxed);
        function();
        self.outer.store(outer, Relaxed);
        self.call.store(call, Relaxed);
    }

    /// Records what the current call is blocked on. For the slow path only.
    pub fn set_blocked(&self, blocked: &BlockedOn) {
        self.blocked_kind.store(blocked.kind.to_raw(), Relaxed);
        self.peer.store(blocked.peer.unwrap_or(i32::MIN), Relaxed);
        self.world_rank.store(blocked.world_rank.unwrap_or(i32::MIN), Relaxed);
        self.tag.store(blocked.tag.unwrap_or(i32::MIN), Relaxed);
        self.context.store(blocked.context, Relaxed);
        self.comm_size.store(blocked.comm_size, Relaxed);
        // Stored last: zero means that the fields above are not valid.
        self.since.store(blocked.since, Relaxed);
    }

    /// Records that the wait is over.
    pub fn clear_blocked(&self) {
        self.since.store(0, Relaxed);
    }

    /// Records the state of MPI.
    pub fn set_state(&self, state: RankState) {
        self.state.store(state as u32, Relaxed);
    }

    /// Returns the process that called MPI_Init, if one has.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Relaxed)).filter(|pid| *pid != 0)
    }

    /// Returns the entry's rank in MPI_COMM_WORLD, as the launcher wrote it.
    pub fn rank(&self) -> u32 {
        self.rank.load(Relaxed)
    }

    /// Records the entry's rank in MPI_COMM_WORLD. For the launcher.
    pub fn set_rank(&self, rank: u32) {
        self.rank.store(rank, Relaxed);
    }

    /// Claims the entry for process `pid`. The first claim succeeds; the error is its owner.
    pub(crate) fn claim(&self, pid: u32) -> Result<(), u32> {
        self.pid.compare_exchange(0, pid, Relaxed, Relaxed).map(|_| ())
    }

    /// Returns the state of MPI; an unknown value counts as running.
    pub fn state(&self) -> RankState {
        decode_state(self.state.load(Relaxed))
    }

    /// Reads all fields, one after the other, while the rank runs on: good enough for a
    /// report, not for a decision.
    pub fn snapshot(&self) -> Snapshot {
        RawEntry {
            since: self.since.load(Relaxed),
            pid: self.pid.load(Relaxed),
            state: self.state.load(Relaxed),
            call: self.call.load(Relaxed),
            blocked_kind: self.blocked_kind.load(Relaxed),
            peer: self.peer.load(Relaxed),
            world_rank: self.world_rank.load(Relaxed),
            tag: self.tag.load(Relaxed),
            context: self.context.load(Relaxed),
            comm_size: self.comm_size.load(Relaxed),
        }
        .decode()
    }
}

/// The fields of an entry as they were read.
struct RawEntry {
    since: u64,
    pid: u32,
    state: u32,
    call: u32,
    blocked_kind: u32,
    peer: i32,
    world_rank: i32,
    tag: i32,
    context: u64,
    comm_size: u32,
}

impl RawEntry {
    fn decode(&self) -> Snapshot {
        let known = |value: i32| Some(value).filter(|value| *value != i32::MIN);
        let blocked = BlockedOn {
            since: self.since,
            kind: BlockedKind::from_raw(self.blocked_kind),
            peer: known(self.peer),
            world_rank: known(self.world_rank),
            tag: known(self.tag),
            context: self.context,
            comm_size: self.comm_size,
        };
        Snapshot {
            pid: self.pid,
            state: decode_state(self.state),
            call: self.call,
            blocked: (self.since != 0).then_some(blocked),
        }
    }
}

/// Decodes the bytes of an entry. Total: any bytes give a snapshot.
pub fn decode_entry(bytes: &[u8; 128]) -> Snapshot {
    let u32_at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let u64_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    RawEntry {
        since: u64_at(offset_of!(StatusEntry, since)),
        pid: u32_at(offset_of!(StatusEntry, pid)),
        state: u32_at(offset_of!(StatusEntry, state)),
        call: u32_at(offset_of!(StatusEntry, call)),
        blocked_kind: u32_at(offset_of!(StatusEntry, blocked_kind)),
        peer: u32_at(offset_of!(StatusEntry, peer)) as i32,
        world_rank: u32_at(offset_of!(StatusEntry, world_rank)) as i32,
        tag: u32_at(offset_of!(StatusEntry, tag)) as i32,
        context: u64_at(offset_of!(StatusEntry, context)),
        comm_size: u32_at(offset_of!(StatusEntry, comm_size)),
    }
    .decode()
}

fn decode_state(state: u32) -> RankState {
    match state {
        0 => RankState::Starting,
        2 => RankState::Finalizing,
        3 => RankState::Finalized,
        _ => RankState::Running,
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::System(errno) => write!(f, "a system call failed: {errno}"),
            AttachError::Foreign => write!(f, "it is not a status page"),
            AttachError::Version(version) => {
                write!(f, "it has version {version}, this library reads version {VERSION}")
            }
        }
    }
}

/// # Safety
/// `base` must be page-aligned, with a header and `local_size` entries behind
/// it that stay mapped until the process ends.
unsafe fn views(base: *const u8, local_size: usize) -> (&'static Header, &'static [StatusEntry]) {
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

/// Reads the beginning of the header by a system call, before the file is trusted.
fn read_header(file: &OwnedFd) -> Option<[u8; 16]> {
    let mut bytes = [0u8; 16];
    let read = rustix::io::pread(file, &mut bytes[..], 0).ok()?;
    (read == bytes.len()).then_some(bytes)
}

/// Decodes the beginning of a header. Returns the number of local ranks, not 0.
pub fn decode_header(bytes: &[u8; 16]) -> Result<u32, AttachError> {
    let u32_at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    if u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])) != MAGIC {
        return Err(AttachError::Foreign);
    }
    match (u32_at(8), u32_at(12)) {
        (VERSION, 0) => Err(AttachError::Foreign),
        (VERSION, local_size) => Ok(local_size),
        (version, _) => Err(AttachError::Version(version)),
    }
}

/// Creates a memory file, also where the administrator forbids executable ones.
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_one_side_records_the_other_reads() {
        let launcher = StatusPage::create(3, 42).unwrap();
        let rank =
            StatusPage::attach(launcher.file().unwrap().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((rank.local_size(), rank.job()), (3, 42));
        let (peer, world_rank, tag) = (Some(7), Some(9), None);
        let kind = BlockedKind::Collective(3);
        let blocked = BlockedOn { kind, peer, world_rank, tag, context: 4, comm_size: 8, since: 1 };
        let entry = rank.entry(2);
        entry.claim(99).unwrap();
        assert_eq!(entry.claim(100), Err(99));
        entry.set_state(RankState::Running);
        entry.enter(17);
        entry.set_blocked(&blocked);
        let seen = launcher.entry(2).snapshot();
        assert_eq!(
            seen,
            Snapshot { pid: 99, state: RankState::Running, call: 17, blocked: Some(blocked) }
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
    fn a_file_that_is_not_a_status_page_is_refused() {
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
    fn the_transport_begins_on_a_page_after_the_last_entry() {
        for local_size in [1, 30, 31, 32, 63, 1000] {
            let offset = StatusPage::transport_offset(local_size);
            assert!(offset.is_multiple_of(PAGE) && offset >= 128 * (u64::from(local_size) + 1));
        }
    }

    #[test]
    fn the_header_is_decoded_field_by_field() {
        let header = |magic: u64, version: u32, size: u32| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&magic.to_ne_bytes());
            bytes[8..12].copy_from_slice(&version.to_ne_bytes());
            bytes[12..].copy_from_slice(&size.to_ne_bytes());
            decode_header(&bytes)
        };
        assert_eq!(header(MAGIC, VERSION, 3), Ok(3));
        assert_eq!(header(MAGIC, VERSION, 0), Err(AttachError::Foreign));
        assert_eq!(header(MAGIC, 7, 3), Err(AttachError::Version(7)));
        assert_eq!(header(MAGIC + 1, VERSION, 3), Err(AttachError::Foreign));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_snapshot(
            bytes in prop::array::uniform32(any::<u8>()),
            fill in any::<u8>(),
        ) {
            let mut entry = [fill; 128];
            entry[..32].copy_from_slice(&bytes);
            let seen = decode_entry(&entry);
            prop_assert_eq!(seen.blocked.is_some_and(|blocked| blocked.since == 0), false);
            prop_assert_eq!(seen.pid, u32::from_ne_bytes(std::array::from_fn(|i| bytes[i])));
            let mut header = [0; 16];
            header.copy_from_slice(&bytes[..16]);
            let _ = decode_header(&header);
        }
    }
}
