//! Memory of other processes in this one's address space, through the XPMEM kernel module
//! (<https://github.com/hpc/xpmem>; part of Cray's and NVIDIA's systems).
//!
//! ```text
//! the owner       make (all of its memory, its user alone) -> segment id, published with the probe
//! the reader      get (segment id)                         -> access id      [`Remote`]
//!                 attach (access id, range)                -> address        a [`Part`] of it
//! ```
//!
//! An attached part is the owner's memory, not a copy. Its pages come with the first touch and go
//! when the owner frees them; the next touch finds the owner's new page. The [`MAX_PARTS`] parts
//! used last are therefore kept attached, and need no news about memory that the owner frees.
//!
//! Touching a page that the owner lacks raises SIGBUS. A sender keeps its memory until it was read
//! (MPI-5.0 §3.7), but may be killed meanwhile. The launcher should then report that and not its
//! receiver's bus error. A read is therefore [guarded]: missing pages become zeros and the read
//! fails.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

use fabric::UserBuf;

/// Most parts of one owner's memory that are kept attached.
const MAX_PARTS: usize = 32;
/// Alignment of parts, bytes, so that nearby buffers share one.
const PART_ALIGN: u64 = 1 << 20;
/// Permission of segments, as a file mode: processes of the same user.
const OWNER_ALONE: u64 = 0o600;

/// The module's device.
const PATH: &str = "/dev/xpmem";
const MAKE: libc::c_ulong = command(1);
const GET: libc::c_ulong = command(3);
const RELEASE: libc::c_ulong = command(4);
const ATTACH: libc::c_ulong = command(5);
const DETACH: libc::c_ulong = command(6);
const PERMIT_MODE: i32 = 1;
const READ_WRITE: i32 = 2;

const fn command(number: libc::c_ulong) -> libc::c_ulong {
    (b'x' as libc::c_ulong) << 8 | number
}

#[repr(C)]
struct Make {
    addr: u64,
    size: usize,
    permit_type: i32,
    permit_value: u64,
    segment: i64,
}

#[repr(C)]
struct Get {
    segment: i64,
    flags: i32,
    permit_type: i32,
    permit_value: u64,
    access: i64,
}

#[repr(C)]
struct Attach {
    access: i64,
    offset: i64,
    size: usize,
    addr: u64,
    fd: i32,
    flags: i32,
}

/// Returns the device if this process may use it. Segments last as long as it is open.
fn device() -> Option<&'static File> {
    static DEVICE: OnceLock<Option<File>> = OnceLock::new();
    DEVICE.get_or_init(|| File::options().read(true).write(true).open(PATH).ok()).as_ref()
}

/// # Safety
/// `argument` is what `command` takes.
unsafe fn ioctl<T>(command: libc::c_ulong, argument: &mut T) -> Option<()> {
    let device = device()?;
    // SAFETY: as promised; the kernel writes at most the argument.
    let code = unsafe { libc::ioctl(device.as_raw_fd(), command, std::ptr::from_mut(argument)) };
    (code == 0).then_some(())
}

/// Lets processes of the same user attach all of this one's memory. Returns the segment's id, 0
/// without XPMEM.
pub(super) fn offer() -> i64 {
    static SEGMENT: OnceLock<i64> = OnceLock::new();
    *SEGMENT.get_or_init(|| {
        let (permit_type, permit_value) = (PERMIT_MODE, OWNER_ALONE);
        let mut make = Make { addr: 0, size: usize::MAX, permit_type, permit_value, segment: 0 };
        // SAFETY: what the command takes.
        unsafe { ioctl(MAKE, &mut make) }.map_or(0, |()| make.segment)
    })
}

/// The memory of another process.
#[derive(Debug)]
pub(crate) struct Remote {
    access: i64,
    /// The one used last is the last.
    parts: Vec<Part>,
}

/// A range of the owner's addresses, and its address here.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: u64,
    until: u64,
    here: NonNull<u8>,
}

// SAFETY: the parts are mapped for the whole process, whichever thread reads them.
unsafe impl Send for Remote {}

impl Remote {
    /// Opens the memory of the process that offered this segment.
    pub(super) fn open(segment: i64) -> Option<Remote> {
        let (permit_type, permit_value) = (PERMIT_MODE, 0);
        let mut get = Get { segment, flags: READ_WRITE, permit_type, permit_value, access: 0 };
        // SAFETY: what the command takes.
        (segment != 0 && unsafe { ioctl(GET, &mut get) }.is_some())
            .then(|| Remote { access: get.access, parts: Vec::new() })
    }

    /// Fills `into` from the owner's address `from`; `None` if that range cannot be attached or is
    /// missing. The owner has promised to keep it until it was read.
    pub(super) fn read(&mut self, from: u64, into: UserBuf) -> Option<()> {
        self.with(from, into.len(), |start| {
            // SAFETY: `with` passes as many mapped bytes. The owner's memory overlaps with this
            // process's only through this mapping. The sender promises not to change it meanwhile.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    start.cast::<MaybeUninit<u8>>(),
                    into.as_ptr().cast(),
                    into.len(),
                );
            }
        })
    }

    /// Copies `from` to the owner's address `to`, as [`Remote::read`] the other way.
    pub(super) fn write(&mut self, to: u64, from: UserBuf) -> Option<()> {
        self.with(to, from.len(), |start| {
            // SAFETY: as in `read`; the owner has registered the range for writes.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    from.as_ptr().cast::<MaybeUninit<u8>>(),
                    start.cast(),
                    from.len(),
                );
            }
        })
    }

    /// Runs `access` on `len` bytes at the owner's address `at`, mapped for reads and writes
    /// meanwhile. Returns `None` if that range cannot be attached or is missing.
    pub(super) fn with(&mut self, at: u64, len: usize, access: impl FnOnce(*mut u8)) -> Option<()> {
        let part = self.attached(at, at.checked_add(len as u64)?)?;
        let start = part.here.as_ptr().wrapping_add((at - part.from) as usize);
        let is_whole = guarded(part, || access(start));
        if !is_whole {
            self.parts.pop();
        }
        is_whole.then_some(())
    }

    fn attached(&mut self, from: u64, until: u64) -> Option<Part> {
        let known = self.parts.iter().position(|part| part.from <= from && until <= part.until);
        let part = match known {
            Some(at) => self.parts.remove(at),
            None => self.attach(
                from / PART_ALIGN * PART_ALIGN,
                until.checked_next_multiple_of(PART_ALIGN)?,
            )?,
        };
        self.parts.push(part);
        Some(part)
    }

    fn attach(&mut self, from: u64, until: u64) -> Option<Part> {
        if self.parts.len() == MAX_PARTS {
            self.parts.remove(0).detach();
        }
        let (access, offset, size) =
            (self.access, i64::try_from(from).ok()?, usize::try_from(until - from).ok()?);
        let mut attach = Attach { access, offset, size, addr: 0, fd: -1, flags: 0 };
        // SAFETY: what the command takes; it maps memory at a free address.
        unsafe { ioctl(ATTACH, &mut attach) }?;
        let here = NonNull::new(std::ptr::with_exposed_provenance_mut(attach.addr as usize))?;
        Some(Part { from, until, here })
    }
}

impl Part {
    fn detach(self) {
        let mut addr = self.here.as_ptr().expose_provenance() as u64;
        // SAFETY: what the command takes; the part is in no list, therefore no read uses it.
        let _ = unsafe { ioctl(DETACH, &mut addr) };
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.parts.drain(..).for_each(Part::detach);
        // SAFETY: what the command takes.
        let _ = unsafe { ioctl(RELEASE, &mut self.access) };
    }
}

/// Begin of the part that is being accessed. One thread at a time makes progress; therefore one
/// part at a time.
static FROM: AtomicUsize = AtomicUsize::new(0);
/// End of that part; 0 while none is accessed.
static UNTIL: AtomicUsize = AtomicUsize::new(0);
/// Missing pages of that part were replaced by zeros.
static WAS_TORN: AtomicBool = AtomicBool::new(false);
/// The earlier action of SIGBUS.
static EARLIER: OnceLock<libc::sigaction> = OnceLock::new();

/// Runs `access` on a part; returns false if pages were missing.
fn guarded(part: Part, access: impl FnOnce()) -> bool {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    let here = part.here.as_ptr().addr();
    WAS_TORN.store(false, Ordering::Relaxed);
    FROM.store(here, Ordering::Relaxed);
    UNTIL.store(here + (part.until - part.from) as usize, Ordering::Release);
    access();
    UNTIL.store(0, Ordering::Release);
    !WAS_TORN.load(Ordering::Relaxed)
}

fn install() {
    // SAFETY: all zeros are valid for both structures, and the handler calls only functions that
    // are safe in a signal handler.
    unsafe {
        let (mut action, mut earlier): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut earlier) == 0 {
            let _ = EARLIER.set(earlier);
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    }
}

/// Replaces the rest of the part by zeros; any other bus error gets its earlier action.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `info`. The new mapping replaces nothing but the part,
    // which is not used again once the read has failed.
    unsafe {
        let (at, until) = ((*info).si_addr().addr(), UNTIL.load(Ordering::Acquire));
        let is_ours = FROM.load(Ordering::Relaxed) <= at && at < until;
        let page = at & !(libc::sysconf(libc::_SC_PAGESIZE) as usize - 1);
        let place = std::ptr::without_provenance_mut(page);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        if is_ours && libc::mmap(place, until - page, access, flags, -1, 0) != libc::MAP_FAILED {
            WAS_TORN.store(true, Ordering::Relaxed);
        } else if let Some(earlier) = EARLIER.get() {
            libc::sigaction(libc::SIGBUS, earlier, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a part of so many pages of a file that has one: later pages raise SIGBUS.
    fn torn(pages: usize) -> Part {
        let file = rustix::fs::memfd_create("torn", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        rustix::io::pwrite(&file, &[7; 4096], 0).unwrap();
        let shared = rustix::mm::MapFlags::SHARED;
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let here = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), pages * 4096, access, shared, &file, 0)
        }
        .unwrap();
        Part { from: 0, until: pages as u64 * 4096, here: NonNull::new(here.cast()).unwrap() }
    }

    #[test]
    fn memory_that_is_missing_fails_the_read_and_nothing_else() {
        let (mut remote, mut found) = (Remote { access: 0, parts: Vec::new() }, vec![1; 5 * 4096]);
        for (pages, lengths) in [(1, vec![100, 4096]), (5, vec![4096, 4097, 20_000])] {
            for length in lengths {
                remote.parts = vec![torn(pages)];
                found.fill(1);
                // SAFETY: `found` is as long.
                let into = unsafe { UserBuf::new(found.as_mut_ptr(), length) };
                assert_eq!(
                    remote.read(0, into).is_some(),
                    length <= 4096,
                    "{length} bytes of {pages} pages"
                );
                assert!(found[..length.min(4096)].iter().all(|&byte| byte == 7));
                assert_eq!(
                    remote.parts.len(),
                    usize::from(length <= 4096),
                    "a torn part is not used again"
                );
            }
        }
        for (length, is_whole) in [(8, true), (4096, true), (4097, false)] {
            remote.parts = vec![torn(5)];
            // SAFETY: `found` is as long.
            let from = unsafe { UserBuf::new(found.as_mut_ptr(), length) };
            assert_eq!(remote.write(0, from).is_some(), is_whole, "{length} bytes written");
        }
        remote.parts.clear();
    }
}
