//! The status page: what every rank of the host is doing right now.
//!
//! ```text
//!   0 .. 128            header: magic, version, local size, job number, failed ranks
//!   128 .. 128 * (n+1)  one entry of 128 bytes for each local rank
//!   then zeros up to the next page; after that the segment of the shm transport
//! ```
//!
//! The page lies in a memory file: it has no name, needs no /dev/shm, and ends with the last
//! process that holds it. Where a sandbox refuses memfd_create, a file without a name in /dev/shm
//! or in TMPDIR takes its place. Every field is an atomic. A rank writes its own entry with relaxed
//! stores; the launcher reads all entries when it reports. No value read here is trusted for
//! memory safety. A mapping is never undone: entries are `&'static`, so that any thread may
//! record its call until the process ends. A mapping keeps the file's memory, also that of the
//! transport; therefore observers of other jobs map nothing ([`StatusReader`]).

#![allow(unsafe_code)]

use std::fmt;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fs::{MemfdFlags, Mode, OFlags, fstat, ftruncate, memfd_create, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use crate::inherited_fd;
use crate::status_entry::StatusEntry;

const MAGIC: u64 = u64::from_le_bytes(*b"Verbena\x01");
const VERSION: u32 = 2;
const PAGE: u64 = 4096;

/// The status page of one host, mapped into this process.
#[derive(Debug)]
pub struct StatusPage {
    header: &'static Header,
    entries: &'static [StatusEntry],
    file: Option<OwnedFd>,
    /// The folder of the file, where memfd_create was refused.
    folder: Option<PathBuf>,
}

#[derive(Debug)]
#[repr(C, align(128))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    local_size: AtomicU32,
    job: AtomicU64,
    /// 0 if a failure ends the job; otherwise 1, and the number of failed ranks.
    failures: AtomicU32,
    /// The version of what ranks exchange, of the first rank that has joined; 0 until then.
    peers: AtomicU32,
    /// Bits of the [`HostNotice`]s that a rank of this host has printed.
    notices: AtomicU32,
    /// How often processes of other jobs have ended.
    other_ends: AtomicU32,
    /// The [`OwnLauncher`] of the ranks.
    own_launcher: AtomicU32,
}

/// The launcher that ranks of this host have started for themselves, since another one has started
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OwnLauncher {
    /// There is none.
    None = 0,
    /// A rank starts it.
    Starting = 1,
    /// All ranks may join its job.
    Running = 2,
}

/// A line that one rank of a host prints for all.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum HostNotice {
    /// A peer with an RDMA device is reached by TCP.
    Fallback = 1,
}

const _: () = assert!(size_of::<Header>() == 128);

/// Returns the time of the monotonic clock in nanoseconds. Calls libc: rustix reads the vDSO
/// itself, which is absent under valgrind.
pub fn monotonic_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call, which writes nothing else; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
        let (file, folder) = memory_file()?;
        ftruncate(&file, length)?;
        let mut status_page =
            StatusPage::map(file, length, local_size).map_err(|_| Errno::NOMEM)?;
        status_page.folder = folder;
        status_page.write_header(local_size, job);
        Ok(status_page)
    }

    /// Creates a page without a file, for a process that is alone in its job.
    pub fn private(job: u64) -> Result<StatusPage, Errno> {
        let length = StatusPage::transport_offset(1);
        // SAFETY: the address is the kernel's choice, so that no existing mapping changes.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // SAFETY: just mapped, therefore page-aligned and zeroed; `length` covers the header and
        // one entry, and it is never unmapped.
        let (header, entries) = unsafe { views(base.cast(), 1) };
        let status_page = StatusPage { header, entries, file: None, folder: None };
        status_page.write_header(1, job);
        Ok(status_page)
    }

    /// Maps the page of a descriptor of this process, which stays open.
    pub fn attach_number(descriptor: RawFd) -> Result<StatusPage, AttachError> {
        let file = inherited_fd::duplicate(descriptor);
        StatusPage::attach(file.ok_or(AttachError::System(Errno::BADF))?)
    }

    /// Maps the page of a descriptor that the launcher handed down.
    pub fn attach(file: OwnedFd) -> Result<StatusPage, AttachError> {
        let local_size = checked_size(&file)?;
        StatusPage::map(file, StatusPage::transport_offset(local_size), local_size)
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

    /// Records that the job goes on when ranks fail. For the launcher.
    pub fn set_survives_failures(&self) {
        self.header.failures.store(1, Relaxed);
    }

    /// Counts a failed rank, after the ranks of this host were sent its name. For the launcher.
    pub fn count_failure(&self) {
        self.header.failures.fetch_add(1, Relaxed);
    }

    /// Returns 0 if a failure ends the job; otherwise 1, and the number of failed ranks so far.
    pub fn failures(&self) -> u32 {
        self.header.failures.load(Relaxed)
    }

    /// Counts processes of another job that have ended, after the ranks of this host were sent
    /// their numbers. For the launcher.
    pub fn count_other_end(&self) {
        self.header.other_ends.fetch_add(1, Relaxed);
    }

    /// Returns how often processes of other jobs have ended.
    pub fn other_ends(&self) -> u32 {
        self.header.other_ends.load(Relaxed)
    }

    /// Returns what is true once on this host: for the first rank that asks for the notice.
    pub fn first_notice(&self, notice: HostNotice) -> impl Fn() -> bool + Send + use<> {
        let (notices, bit) = (&self.header.notices, notice as u32);
        move || notices.fetch_or(bit, Relaxed) & bit == 0
    }

    /// Returns the state of the launcher that the ranks have started for themselves.
    pub fn own_launcher(&self) -> OwnLauncher {
        match self.header.own_launcher.load(Relaxed) {
            0 => OwnLauncher::None,
            1 => OwnLauncher::Starting,
            _ => OwnLauncher::Running,
        }
    }

    /// Returns true for the one rank of this host that is to start the launcher. It must call
    /// [`StatusPage::own_launcher_started`].
    pub fn begin_own_launcher(&self) -> bool {
        let (none, starting) = (OwnLauncher::None as u32, OwnLauncher::Starting as u32);
        self.header.own_launcher.compare_exchange(none, starting, Relaxed, Relaxed).is_ok()
    }

    /// Records whether the launcher runs. If it does not, another rank may try.
    pub fn own_launcher_started(&self, runs: bool) {
        let state = if runs { OwnLauncher::Running } else { OwnLauncher::None };
        self.header.own_launcher.store(state as u32, Relaxed);
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

    /// Returns the folder of the file that stands in for a memory file in the creator; `None` for
    /// a memory file.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn map(file: OwnedFd, length: u64, local_size: u32) -> Result<StatusPage, AttachError> {
        // SAFETY: the address is the kernel's choice, so that no existing mapping changes; the
        // arguments are valid for any descriptor.
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
        // SAFETY: just mapped, therefore page-aligned; `length` covers the header and `local_size`
        // entries (all callers take it from `transport_offset`), and it is never unmapped.
        let (header, entries) = unsafe { views(base.cast(), local_size as usize) };
        Ok(StatusPage { header, entries, file: Some(file), folder: None })
    }

    /// Sets the version of what ranks exchange, if no rank has. The error is that of another rank.
    pub fn agree_on_peers(&self, version: u32) -> Result<(), u32> {
        match self.header.peers.compare_exchange(0, version, Relaxed, Relaxed) {
            Ok(_) => Ok(()),
            Err(known) if known == version => Ok(()),
            Err(known) => Err(known),
        }
    }

    fn write_header(&self, local_size: u32, job: u64) {
        self.header.magic.store(MAGIC, Relaxed);
        self.header.version.store(VERSION, Relaxed);
        self.header.local_size.store(local_size, Relaxed);
        self.header.job.store(job, Relaxed);
    }
}

/// The status page of a job that this process is no part of. It is read by system calls, and the
/// job's memory ends with the job and this reader.
#[derive(Debug)]
pub struct StatusReader {
    file: OwnedFd,
    local_size: u32,
    job: u64,
}

impl StatusReader {
    /// Opens the page of a descriptor that another process holds.
    pub fn open(file: OwnedFd) -> Result<StatusReader, AttachError> {
        let local_size = checked_size(&file)?;
        let job: [u8; 8] =
            read_array(&file, offset_of!(Header, job) as u64).ok_or(AttachError::Foreign)?;
        Ok(StatusReader { file, local_size, job: u64::from_ne_bytes(job) })
    }

    /// Returns the number of ranks on this host.
    pub fn local_size(&self) -> u32 {
        self.local_size
    }

    /// Returns the job's number, the same on all of its ranks and in all jobs that it spawns.
    pub fn job(&self) -> u64 {
        self.job
    }

    /// Returns a number that no other page of this host has while this one exists.
    pub fn file_number(&self) -> u64 {
        fstat(&self.file).map_or(0, |stat| stat.st_ino)
    }

    /// Reads the entries of all local ranks, in their order.
    pub fn entries(&self) -> Vec<StatusEntry> {
        let mut bytes = vec![0; size_of::<StatusEntry>() * self.local_size as usize];
        let begin = size_of::<Header>() as u64;
        let read = rustix::io::pread(&self.file, bytes.as_mut_slice(), begin).unwrap_or(0);
        bytes[..read].as_chunks().0.iter().map(StatusEntry::from_bytes).collect()
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

/// Returns the header and the entries of a mapped page.
///
/// # Safety
/// `base` must be page-aligned. From there a header and `local_size` entries must be mapped,
/// readable and writable, until the process ends.
unsafe fn views(base: *const u8, local_size: usize) -> (&'static Header, &'static [StatusEntry]) {
    // SAFETY: the caller guarantees size, alignment and lifetime. Every field is an atomic of which
    // any bits are valid, so that other processes may write at any time.
    unsafe {
        let header = &*base.cast::<Header>();
        let entries = std::slice::from_raw_parts(
            base.add(size_of::<Header>()).cast::<StatusEntry>(),
            local_size,
        );
        (header, entries)
    }
}

/// Returns the number of local ranks of a file that is long enough for their entries.
fn checked_size(file: &OwnedFd) -> Result<u32, AttachError> {
    let length = fstat(file).map_err(AttachError::System)?.st_size as u64;
    let local_size = decode_header(&read_array(file, 0).ok_or(AttachError::Foreign)?)?;
    match length < StatusPage::transport_offset(local_size) {
        true => Err(AttachError::Foreign),
        false => Ok(local_size),
    }
}

/// Reads bytes by a system call, before the file is trusted.
fn read_array<const N: usize>(file: &OwnedFd, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let read = rustix::io::pread(file, &mut bytes[..], at).ok()?;
    (read == N).then_some(bytes)
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

/// Creates a memory file, also where the administrator forbids executable ones. If the system
/// refuses it, creates a file without a name; the folder tells that.
pub(crate) fn memory_file() -> Result<(OwnedFd, Option<PathBuf>), Errno> {
    let made = match memfd_create(c"verbena", MemfdFlags::CLOEXEC) {
        Err(Errno::ACCESS) => {
            memfd_create(c"verbena", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        }
        other => other,
    };
    match made {
        Ok(file) => Ok((file, None)),
        Err(refused @ (Errno::PERM | Errno::ACCESS | Errno::NOSYS)) => {
            let folders = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
            let found = folders.into_iter().find_map(|folder| {
                let file = nameless_file(&folder).ok()?;
                Some((file, Some(folder)))
            });
            found.ok_or(refused)
        }
        Err(errno) => Err(errno),
    }
}

/// Creates a file that never has a name, readable and writable by this user alone.
fn nameless_file(folder: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    open(folder, flags, Mode::RUSR | Mode::WUSR)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::status_entry::{BlockedKind, BlockedOn, CommName, Meanwhile, RankState, Snapshot};

    #[test]
    fn pages_of_one_job_are_told_apart() {
        let pages = [StatusPage::create(1, 42), StatusPage::create(1, 42)].map(Result::unwrap);
        let number = |page: &StatusPage| {
            let copy = page.file().unwrap().try_clone_to_owned().unwrap();
            StatusReader::open(copy).unwrap().file_number()
        };
        assert_eq!(number(&pages[0]), number(&pages[0]));
        assert_ne!(number(&pages[0]), number(&pages[1]));
    }

    #[test]
    fn what_one_side_records_the_other_reads() {
        let launcher = StatusPage::create(3, 42).unwrap();
        let rank =
            StatusPage::attach(launcher.file().unwrap().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((rank.local_size(), rank.job()), (3, 42));
        let (peer, world_rank, tag) = (Some(7), Some(9), None);
        let kind = BlockedKind::Collective(3);
        let meanwhile = Meanwhile { other_work: true, ..Meanwhile::default() };
        let (context, comm_size, since, looked) = (4, 8, 1, 2);
        let blocked = BlockedOn {
            kind,
            peer,
            world_rank,
            tag,
            context,
            comm_size,
            comm_name: CommName::new("row"),
            since,
            looked,
            meanwhile,
        };
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
    fn a_reader_maps_nothing() {
        let page = StatusPage::create(3, 42).unwrap();
        let file = page.file().unwrap().try_clone_to_owned().unwrap();
        let inode = format!(" {} ", fstat(&file).unwrap().st_ino);
        let reader = StatusReader::open(file).unwrap();
        assert_eq!((reader.local_size(), reader.job()), (3, 42));
        page.entry(2).set_rank(7);
        page.entry(2).set_file_progress(1, 9);
        let entries = reader.entries();
        assert_eq!((entries.len(), entries[2].rank()), (3, 7));
        assert_eq!(entries[2].file_progress(), Some((1, 9)));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(maps.lines().filter(|line| line.contains(&inode)).count(), 1);
    }

    #[test]
    fn a_file_that_is_not_a_status_page_is_refused() {
        let empty = memory_file().unwrap().0;
        assert_eq!(StatusPage::attach(empty).unwrap_err(), AttachError::Foreign);
        let zeros = memory_file().unwrap().0;
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
    fn a_file_without_a_name_stands_in_for_a_memory_file() {
        let file = nameless_file(&std::env::temp_dir()).unwrap();
        assert_eq!(fstat(&file).unwrap().st_nlink, 0);
        assert!(nameless_file(Path::new("/nowhere")).is_err());
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
        fn any_header_is_a_size_or_an_error(bytes in any::<[u8; 16]>()) {
            prop_assert_ne!(decode_header(&bytes), Ok(0));
        }
    }
}
