//! Which of the user's memory is still what it was, as the kernel tells (userfaultfd).
//!
//! A registration names pages. When the user unmaps them, other pages come to the same
//! addresses, and the device goes on with the old ones. So whoever keeps a registration
//! has its mappings watched: the kernel reports what is unmapped (also under a new mapping,
//! and by a heap that shrinks), moved, or emptied (MADV_DONTNEED, MADV_FREE), and lets the
//! caller go on only when its report has been read.
//!
//! Mappings are watched in the mode for write protection, and nothing is ever protected:
//! no page fault of the user comes our way or becomes slower. Whole mappings are
//! watched, not parts: a part would be a mapping of its own, and `mremap` over both would fail.
//! Memory that changes without a report is not watched: what has a file or an object behind it
//! (others may truncate it), shared memory, huge pages of the huge page file system, and what
//! somebody else watches. A child of `fork` is not watched, and has copies of what the device uses.
//!
//! The proof. A report is taken within a *window*: [`Uffd::windows`] is odd from before it is
//! read until what it names is invalid. The kernel counts changes under way from before a
//! mapping changes until its report was read. So when the kernel has none under way, and then no
//! window is open, everything that has left its address is marked. Nobody locks
//! anything: the reader must never wait for one who waits for the kernel, who waits for the reader.
//! For the same reason it neither allocates nor frees.
//!
//! What the kernel (6.18) does not report: `shmat` with SHM_REMAP over private memory, and
//! MADV_GUARD_INSTALL. Who does that to message buffers must set `verbs.registration` to `none`.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Ranges that a process can have watched at once.
const SLOTS: usize = 16 << 10;
/// How often a window is waited for before the answer is "perhaps not".
const PATIENCE: usize = 100;

/// The kernel's words (`linux/userfaultfd.h`).
mod word {
    use libc::c_ulong;
    pub(super) const USER_MODE_ONLY: libc::c_int = 1;
    pub(super) const VERSION: u64 = 0xaa;
    pub(super) const EVENTS: u64 = REMAP_EVENT | REMOVE_EVENT | UNMAP_EVENT;
    const REMAP_EVENT: u64 = 1 << 2;
    const REMOVE_EVENT: u64 = 1 << 3;
    const UNMAP_EVENT: u64 = 1 << 6;
    /// Of Linux 5.18. Before 5.15 changes under way were not counted, only known.
    pub(super) const EXACT_ADDRESS: u64 = 1 << 11;
    pub(super) const API: c_ulong = 0xc018_aa3f;
    pub(super) const REGISTER: c_ulong = 0xc020_aa00;
    pub(super) const WRITE_PROTECT: c_ulong = 0xc018_aa06;
    pub(super) const MODE_WRITE_PROTECT: u64 = 2;
    /// Of the operations that a range allows; not where there are huge pages.
    pub(super) const ZERO_PAGE: u64 = 1 << 4;
    pub(super) const REMAP: u8 = 0x14;
    pub(super) const REMOVE: u8 = 0x15;
    pub(super) const UNMAP: u8 = 0x16;
}

/// A report: what, and up to three addresses.
#[repr(C)]
#[derive(Clone, Copy)]
struct Report {
    event: u8,
    _reserved: [u8; 7],
    words: [u64; 3],
}

/// A range of addresses that somebody relies on, if `valid`.
#[derive(Debug, Default)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    valid: AtomicBool,
}

/// All that is watched in this process.
#[derive(Debug)]
pub(crate) struct Uffd {
    fd: OwnedFd,
    /// Odd while reports are taken.
    windows: AtomicU64,
    slots: Box<[Slot]>,
    /// Slots that were used before and are free, and how many were ever used.
    free: Mutex<(Vec<u32>, usize)>,
    used: AtomicUsize,
}

/// A range that is watched, until dropped.
#[derive(Debug)]
pub(crate) struct WatchedRange {
    watch: &'static Uffd,
    slot: u32,
}

/// When there was no window; see [`Uffd::moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// The one of this process, which its first user makes; the error says why there is none.
pub(crate) fn watch() -> Result<&'static Uffd, &'static io::Error> {
    static WATCH: OnceLock<io::Result<Uffd>> = OnceLock::new();
    static READER: OnceLock<io::Result<()>> = OnceLock::new();
    let watch = WATCH.get_or_init(Uffd::open).as_ref()?;
    READER.get_or_init(|| start(watch)).as_ref()?;
    Ok(watch)
}

impl Uffd {
    fn open() -> io::Result<Uffd> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | word::USER_MODE_ONLY;
        // SAFETY: takes flags alone.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let mut api = [word::VERSION, word::EVENTS, 0];
        ioctl(&fd, word::API, &mut api)?;
        if api[1] & word::EXACT_ADDRESS == 0 {
            return Err(io::Error::other("this needs Linux 5.18"));
        }
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        Ok(Uffd {
            fd,
            windows: AtomicU64::new(0),
            slots,
            free: Mutex::default(),
            used: AtomicUsize::new(0),
        })
    }

    /// Watches the mappings that hold `range`. False when any of it could change without a
    /// report. The user must not change them during the call.
    pub(crate) fn cover(&self, range: &Range<usize>) -> bool {
        let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return false };
        let mut mappings = private_mappings(&maps, range);
        !mappings.is_empty()
            && mappings.drain(..).all(|mapping| {
                let length = mapping.len() as u64;
                let mut asked = [mapping.start as u64, length, word::MODE_WRITE_PROTECT, 0];
                ioctl(&self.fd, word::REGISTER, &mut asked).is_ok()
                    && asked[3] & word::ZERO_PAGE != 0
            })
    }

    /// Now, if no window is open or it closes soon.
    pub(crate) fn moment(&self) -> Option<Generation> {
        (0..PATIENCE).find_map(|round| {
            if round > 0 {
                std::thread::yield_now();
            }
            // SeqCst with the reader's: what it marked in windows before is seen.
            let windows = self.windows.load(SeqCst);
            windows.is_multiple_of(2).then_some(Generation(windows))
        })
    }

    /// Now, if everything that has left its address is marked. One call of the system.
    pub(crate) fn settled(&self) -> Option<Generation> {
        // In this order: see above.
        if self.is_changing() {
            return None;
        }
        self.moment()
    }

    /// True while the kernel has changes whose reports were not read. It answers before it
    /// looks at what it is asked to do, which is nothing.
    fn is_changing(&self) -> bool {
        let mut nothing = [1, 0, 0];
        let answer = ioctl(&self.fd, word::WRITE_PROTECT, &mut nothing);
        answer.is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN))
    }

    /// Relies on a covered range from now on; `None` if anything was reported since then, so
    /// that what was made of the range may be of other memory.
    pub(crate) fn keep(
        &'static self,
        range: &Range<usize>,
        since: Generation,
    ) -> Option<WatchedRange> {
        let slot = self.take_slot()?;
        let ticket = WatchedRange { watch: self, slot };
        let place = &self.slots[slot as usize];
        place.start.store(range.start, SeqCst);
        place.end.store(range.end, SeqCst);
        place.valid.store(true, SeqCst);
        // Changes from before this are reported by now, which `since` shows, or under way;
        // reports that are taken later find the slot.
        (self.settled() == Some(since)).then_some(ticket)
    }

    fn take_slot(&self) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (again, fresh) = &mut *free;
        again.pop().or_else(|| {
            (*fresh < SLOTS).then(|| {
                *fresh += 1;
                self.used.store(*fresh, SeqCst);
                *fresh as u32 - 1
            })
        })
    }

    /// Takes the reports that are there. Only the reader calls it.
    fn take_reports(&self) {
        self.windows.fetch_add(1, SeqCst);
        let mut reports = MaybeUninit::<[Report; 16]>::uninit();
        loop {
            // SAFETY: room for as many bytes as are said.
            let read = unsafe {
                libc::read(
                    self.fd.as_raw_fd(),
                    reports.as_mut_ptr().cast(),
                    size_of::<[Report; 16]>(),
                )
            };
            let Ok(read @ 1..) = usize::try_from(read) else { break };
            for at in 0..read / size_of::<Report>() {
                // SAFETY: so many were read, and they are integers alone.
                let report = unsafe { reports.as_ptr().cast::<Report>().add(at).read() };
                self.invalidate(&gone(&report));
            }
        }
        self.windows.fetch_add(1, SeqCst);
    }

    fn invalidate(&self, gone: &Range<usize>) {
        for slot in &self.slots[..self.used.load(SeqCst)] {
            if slot.valid.load(SeqCst)
                && slot.start.load(SeqCst) < gone.end
                && gone.start < slot.end.load(SeqCst)
            {
                slot.valid.store(false, SeqCst);
            }
        }
    }
}

impl WatchedRange {
    /// False when any of the range has left its address. To be asked after [`Uffd::settled`].
    pub(crate) fn is_valid(&self) -> bool {
        self.watch.slots[self.slot as usize].valid.load(SeqCst)
    }
}

impl Drop for WatchedRange {
    fn drop(&mut self) {
        self.watch.slots[self.slot as usize].valid.store(false, SeqCst);
        self.watch.free.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.slot);
    }
}

/// What a report says has left its address.
fn gone(report: &Report) -> Range<usize> {
    let [first, second, third] = report.words.map(|word| word as usize);
    match report.event {
        word::REMAP => first..first.saturating_add(third),
        word::REMOVE | word::UNMAP => first..second,
        _ => 0..0,
    }
}

/// The mappings that hold `range`, from the text of `/proc/self/maps`: none when it has holes
/// or anything but private memory without a file.
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

/// Starts the reader, with all signals blocked: they are the program's.
fn start(watch: &'static Uffd) -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that the call reads; the call writes the other.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = std::thread::Builder::new().name("verbena-memory".into()).stack_size(64 << 10);
    let started = thread.spawn(move || {
        loop {
            let mut polled =
                libc::pollfd { fd: watch.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid `pollfd`, for the length of the call.
            unsafe { libc::poll(&raw mut polled, 1, -1) };
            watch.take_reports();
        }
    });
    // SAFETY: as the first call has left it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.map(|_| ())
}

fn ioctl<const N: usize>(
    fd: &OwnedFd,
    request: libc::c_ulong,
    words: &mut [u64; N],
) -> io::Result<()> {
    // SAFETY: each request of this file reads and writes as many words as its caller passes.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request as _, words.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
#[path = "uffd_tests.rs"]
mod tests;
