//! Watches the user's memory with userfaultfd: which ranges still have the pages they had.
//!
//! A registration names pages. After an unmap, other pages may come to the same addresses although
//! the device still has the old ones. The kernel reports what is unmapped, moved or emptied
//! (MADV_DONTNEED, MADV_FREE), and lets the caller continue only when the reader thread has read
//! the report. Whole mappings are watched, in the mode for write protection, but nothing is ever
//! protected: page faults do not get slower, and `mremap` still works.
//!
//! Invariant (the proof): `sequence` is odd from before a report is read until its range is marked.
//! The kernel counts a change as under way from before it changes a mapping until its report was
//! read. If nothing is under way and then `sequence` is even, every change is marked. There are no
//! locks: the reader must never wait for a thread that waits for the kernel, which waits for the
//! reader. For the same reason the reader does not allocate or free.
//!
//! Not watched is memory that changes without a report, see `docs/verbs.md`.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Most ranges of a process that are tracked at once.
const MAX_RANGES: usize = 16 << 10;
/// Most reads of an odd sequence before the answer is that changes may be unmarked.
const MAX_READS: usize = 100;

/// Constants of the kernel (`linux/userfaultfd.h`).
mod kernel {
    use libc::c_ulong;
    pub(super) const USER_MODE_ONLY: libc::c_int = 1;
    pub(super) const VERSION: u64 = 0xaa;
    pub(super) const EVENTS: u64 = REMAP_EVENT | REMOVE_EVENT | UNMAP_EVENT;
    const REMAP_EVENT: u64 = 1 << 2;
    const REMOVE_EVENT: u64 = 1 << 3;
    const UNMAP_EVENT: u64 = 1 << 6;
    /// A feature of Linux 5.18. Before 5.15 the kernel did not count changes under way.
    pub(super) const EXACT_ADDRESS: u64 = 1 << 11;
    pub(super) const API: c_ulong = 0xc018_aa3f;
    pub(super) const REGISTER: c_ulong = 0xc020_aa00;
    pub(super) const WRITE_PROTECT: c_ulong = 0xc018_aa06;
    pub(super) const MODE_WRITE_PROTECT: u64 = 2;
    /// An operation that a range allows, unless it has huge pages.
    pub(super) const ZERO_PAGE: u64 = 1 << 4;
    pub(super) const REMAP: u8 = 0x14;
    pub(super) const REMOVE: u8 = 0x15;
    pub(super) const UNMAP: u8 = 0x16;
}

/// A report of the kernel (`struct uffd_msg`): an event and up to three words.
#[repr(C)]
#[derive(Clone, Copy)]
struct UffdMsg {
    event: u8,
    _reserved: [u8; 7],
    words: [u64; 3],
}

/// A range of addresses that is tracked.
#[derive(Debug, Default)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Nothing of the range has left its address.
    valid: AtomicBool,
}

/// The userfaultfd of this process.
#[derive(Debug)]
pub(crate) struct Uffd {
    fd: OwnedFd,
    /// Odd while reports are read.
    sequence: AtomicU64,
    slots: Box<[Slot]>,
    /// Slots that were used before and are free, and the number that was ever used.
    free: Mutex<(Vec<u32>, usize)>,
    used: AtomicUsize,
}

/// A tracked range, until dropped.
#[derive(Debug)]
pub(crate) struct WatchedRange {
    uffd: &'static Uffd,
    slot: u32,
}

/// An even value of the sequence; see [`Uffd::generation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// Returns the userfaultfd of this process, made by the first call; the error is the reason if
/// there is none.
pub(crate) fn uffd() -> Result<&'static Uffd, &'static io::Error> {
    static UFFD: OnceLock<io::Result<Uffd>> = OnceLock::new();
    static READER: OnceLock<io::Result<()>> = OnceLock::new();
    let uffd = UFFD.get_or_init(Uffd::open).as_ref()?;
    READER.get_or_init(|| start(uffd)).as_ref()?;
    Ok(uffd)
}

impl Uffd {
    fn open() -> io::Result<Uffd> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | kernel::USER_MODE_ONLY;
        // SAFETY: the call takes flags and returns a descriptor; it accesses no memory.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let mut api = [kernel::VERSION, kernel::EVENTS, 0];
        ioctl(&fd, kernel::API, &mut api)?;
        if api[1] & kernel::EXACT_ADDRESS == 0 {
            return Err(io::Error::other("it needs Linux 5.18 or later"));
        }
        let slots = (0..MAX_RANGES).map(|_| Slot::default()).collect();
        Ok(Uffd {
            fd,
            sequence: AtomicU64::new(0),
            slots,
            free: Mutex::default(),
            used: AtomicUsize::new(0),
        })
    }

    /// Watches the mappings that hold `range`. Returns false if any of it could change without a
    /// report. The user must not change them during the call.
    pub(crate) fn watch(&self, range: &Range<usize>) -> bool {
        let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return false };
        let mut mappings = private_mappings(&maps, range);
        !mappings.is_empty()
            && mappings.drain(..).all(|mapping| {
                let length = mapping.len() as u64;
                let mut registration =
                    [mapping.start as u64, length, kernel::MODE_WRITE_PROTECT, 0];
                ioctl(&self.fd, kernel::REGISTER, &mut registration).is_ok()
                    && registration[3] & kernel::ZERO_PAGE != 0
            })
    }

    /// Returns the current generation, if no report is being read or the reader finishes soon.
    pub(crate) fn generation(&self) -> Option<Generation> {
        (0..MAX_READS).find_map(|round| {
            if round > 0 {
                std::thread::yield_now();
            }
            // SeqCst with the reader's: what it marked under earlier values is seen.
            let sequence = self.sequence.load(SeqCst);
            sequence.is_multiple_of(2).then_some(Generation(sequence))
        })
    }

    /// Returns the current generation, if everything that has left its address is marked. Makes
    /// one system call.
    pub(crate) fn settled(&self) -> Option<Generation> {
        // The order matters, see the proof above.
        if self.is_changing() {
            return None;
        }
        self.generation()
    }

    /// Returns whether the kernel has changes whose reports were not read. It answers that before
    /// it looks at the request, which is invalid.
    fn is_changing(&self) -> bool {
        let mut nothing = [1, 0, 0];
        let answer = ioctl(&self.fd, kernel::WRITE_PROTECT, &mut nothing);
        answer.is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN))
    }

    /// Tracks a watched range from now on. Returns `None` if anything was reported since that
    /// generation, so that a registration of the range may be of other memory.
    pub(crate) fn track(
        &'static self,
        range: &Range<usize>,
        since: Generation,
    ) -> Option<WatchedRange> {
        let slot = self.take_slot()?;
        let range_guard = WatchedRange { uffd: self, slot };
        let tracked = &self.slots[slot as usize];
        tracked.start.store(range.start, SeqCst);
        tracked.end.store(range.end, SeqCst);
        tracked.valid.store(true, SeqCst);
        // A change from before this was reported by now, which `since` shows, or is under way.
        // Reports that are read later find the slot.
        (self.settled() == Some(since)).then_some(range_guard)
    }

    fn take_slot(&self) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (again, fresh) = &mut *free;
        again.pop().or_else(|| {
            (*fresh < MAX_RANGES).then(|| {
                *fresh += 1;
                self.used.store(*fresh, SeqCst);
                *fresh as u32 - 1
            })
        })
    }

    /// Reads the reports that there are. Only the reader thread calls it.
    fn read_reports(&self) {
        self.sequence.fetch_add(1, SeqCst);
        let mut reports = MaybeUninit::<[UffdMsg; 16]>::uninit();
        loop {
            // SAFETY: the buffer has the length that is passed.
            let read = unsafe {
                libc::read(
                    self.fd.as_raw_fd(),
                    reports.as_mut_ptr().cast(),
                    size_of::<[UffdMsg; 16]>(),
                )
            };
            let Ok(read @ 1..) = usize::try_from(read) else { break };
            for at in 0..read / size_of::<UffdMsg>() {
                // SAFETY: `at` is below the number of reports read, and a report is integers alone,
                // valid for any bytes.
                let report = unsafe { reports.as_ptr().cast::<UffdMsg>().add(at).read() };
                self.invalidate(&removed_range(&report));
            }
        }
        self.sequence.fetch_add(1, SeqCst);
    }

    fn invalidate(&self, removed: &Range<usize>) {
        for slot in &self.slots[..self.used.load(SeqCst)] {
            if slot.valid.load(SeqCst)
                && slot.start.load(SeqCst) < removed.end
                && removed.start < slot.end.load(SeqCst)
            {
                slot.valid.store(false, SeqCst);
            }
        }
    }
}

impl WatchedRange {
    /// Returns whether the whole range is still at its address. Valid after [`Uffd::settled`].
    pub(crate) fn is_valid(&self) -> bool {
        self.uffd.slots[self.slot as usize].valid.load(SeqCst)
    }
}

impl Drop for WatchedRange {
    fn drop(&mut self) {
        self.uffd.slots[self.slot as usize].valid.store(false, SeqCst);
        self.uffd.free.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.slot);
    }
}

/// Returns the range that has left its address by a report.
fn removed_range(report: &UffdMsg) -> Range<usize> {
    let [first, second, third] = report.words.map(|word| word as usize);
    match report.event {
        kernel::REMAP => first..first.saturating_add(third),
        kernel::REMOVE | kernel::UNMAP => first..second,
        _ => 0..0,
    }
}

/// Returns the mappings that hold `range`, from the text of `/proc/self/maps`; none if there are
/// holes, or anything but private memory without a file.
fn private_mappings(maps: &str, range: &Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut next = range.start;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let addresses = words.next().and_then(|addresses| addresses.split_once('-'));
        let address = |text: &str| usize::from_str_radix(text, 16).ok();
        let Some((Some(start), Some(end))) =
            addresses.map(|(start, end)| (address(start), address(end)))
        else {
            return Vec::new();
        };
        if end <= next {
            continue;
        }
        let is_private = words.next().is_some_and(|rights| rights.ends_with('p'));
        if start > next || !is_private || words.nth(2) != Some("0") {
            return Vec::new();
        }
        found.push(start..end);
        next = end;
        if next >= range.end {
            return found;
        }
    }
    Vec::new()
}

/// Starts the reader thread, with all signals blocked: they are the program's.
fn start(uffd: &'static Uffd) -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that the second call reads, and that call writes
    // the other set. Both sets live for the calls.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = std::thread::Builder::new().name("verbena-memory".into()).stack_size(64 << 10);
    let started = thread.spawn(move || {
        loop {
            let mut polled =
                libc::pollfd { fd: uffd.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the array is one valid `pollfd`, for the length of the call.
            unsafe { libc::poll(&raw mut polled, 1, -1) };
            uffd.read_reports();
        }
    });
    // SAFETY: the first call has initialised `before`, and the old set is not requested.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.map(|_| ())
}

fn ioctl<const N: usize>(
    fd: &OwnedFd,
    request: libc::c_ulong,
    words: &mut [u64; N],
) -> io::Result<()> {
    // SAFETY: each request of this file reads and writes no more words than its caller passes, and
    // the array lives for the call.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request as _, words.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
#[path = "uffd_tests.rs"]
mod tests;
