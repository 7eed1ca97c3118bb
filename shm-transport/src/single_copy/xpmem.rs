//! Memory of other processes in our own address space (XPMEM), where the kernel has
//! that module (<https://github.com/hpc/xpmem>; with Cray's and NVIDIA's systems it comes along).
//!
//! ```text
//! the owner       make (all of its memory, its user alone) -> segment id, published with the trial
//! the reader      get (segment id)                         -> access id      [`Window`]
//!                 attach (access id, range)                -> address        a part of the window
//! ```
//!
//! An attached part is the owner's memory, not a copy: pages come with the first touch and go when the owner
//! gives them back, after which the next touch finds what is there then. So parts are kept for the messages to come,
//! the [`KEPT`] that were used last, and need no news about what the owner frees.
//!
//! The kernel has no other answer to the touch of a page that its owner does not have than SIGBUS. A
//! sender keeps its memory until it has heard that it was read (MPI-5.0 §3.7), but it may be killed
//! meanwhile, and then that is what the launcher should say, not that its receiver had a bus error. So a read is
//! [guarded](guarded): what is missing becomes zeros, and the read has failed.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

use fabric::UserBuf;

/// Parts of each owner's memory that stay attached.
const KEPT: usize = 32;
/// Parts begin and end at multiples of this, so that neighbours fall into one.
const PART_ALIGN: u64 = 1 << 20;
/// Segments are for processes of the same user, as the mode of a file says it.
const OWNER_ALONE: u64 = 0o600;

/// The module's device and what `ioctl` takes there.
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

/// The device, if there is one that this process may use: segments last as long as it is open.
fn device() -> Option<&'static File> {
    static DEVICE: OnceLock<Option<File>> = OnceLock::new();
    DEVICE.get_or_init(|| File::options().read(true).write(true).open(PATH).ok()).as_ref()
}

/// # Safety
/// `argument` is what `command` takes.
unsafe fn tell<T>(command: libc::c_ulong, argument: &mut T) -> Option<()> {
    let device = device()?;
    // SAFETY: as promised; the kernel writes at most the argument.
    let code = unsafe { libc::ioctl(device.as_raw_fd(), command, std::ptr::from_mut(argument)) };
    (code == 0).then_some(())
}

/// Lets processes of the same user attach all of this one's memory; the segment's id, 0 without XPMEM.
pub(super) fn offer() -> i64 {
    static SEGMENT: OnceLock<i64> = OnceLock::new();
    *SEGMENT.get_or_init(|| {
        let (permit_type, permit_value) = (PERMIT_MODE, OWNER_ALONE);
        let mut make = Make { addr: 0, size: usize::MAX, permit_type, permit_value, segment: 0 };
        // SAFETY: what the command takes.
        unsafe { tell(MAKE, &mut make) }.map_or(0, |()| make.segment)
    })
}

/// Another process's memory.
#[derive(Debug)]
pub(crate) struct Window {
    access: i64,
    /// The one that was used last stands last.
    parts: Vec<Part>,
}

/// A range of the owner's addresses, and where it is here.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: u64,
    until: u64,
    here: NonNull<u8>,
}

// SAFETY: the parts are memory of this process, whichever thread uses it.
unsafe impl Send for Window {}

impl Window {
    /// Of the process that offered this segment.
    pub(super) fn open(segment: i64) -> Option<Window> {
        let (permit_type, permit_value) = (PERMIT_MODE, 0);
        let mut get = Get { segment, flags: READ_WRITE, permit_type, permit_value, access: 0 };
        // SAFETY: what the command takes.
        (segment != 0 && unsafe { tell(GET, &mut get) }.is_some())
            .then(|| Window { access: get.access, parts: Vec::new() })
    }

    /// Fills `into` from the owner's address `from`; nothing if that can't be attached.
    ///
    /// The memory is there: its owner has said so and waits until it was read.
    pub(super) fn read(&mut self, from: u64, into: UserBuf) -> Option<()> {
        let until = from.checked_add(into.len() as u64)?;
        let part = self.attached(from, until)?;
        let is_whole = guarded(part, || {
            // SAFETY: the part has all of the range, which is mapped readable as long as it is in `parts`; another
            // process's memory overlaps with none of ours but through this mapping. That its owner does not change
            // it meanwhile is the promise of who sends.
            unsafe {
                let start = part.here.add((from - part.from) as usize).as_ptr();
                std::ptr::copy_nonoverlapping(
                    start.cast::<MaybeUninit<u8>>(),
                    into.as_ptr().cast(),
                    into.len(),
                );
            }
        });
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
        if self.parts.len() == KEPT {
            self.parts.remove(0).detach();
        }
        let (access, offset, size) =
            (self.access, i64::try_from(from).ok()?, usize::try_from(until - from).ok()?);
        let mut attach = Attach { access, offset, size, addr: 0, fd: -1, flags: 0 };
        // SAFETY: what the command takes; it maps memory where there was none.
        unsafe { tell(ATTACH, &mut attach) }?;
        let here = NonNull::new(std::ptr::with_exposed_provenance_mut(attach.addr as usize))?;
        Some(Part { from, until, here })
    }
}

impl Part {
    fn detach(self) {
        let mut addr = self.here.as_ptr().expose_provenance() as u64;
        // SAFETY: what the command takes; the part is in no list any more.
        let _ = unsafe { tell(DETACH, &mut addr) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.parts.drain(..).for_each(Part::detach);
        // SAFETY: what the command takes.
        let _ = unsafe { tell(RELEASE, &mut self.access) };
    }
}

/// The part that is being read, from its first byte to behind its last: one at a time, as one thread at a time
/// makes progress. Both 0 while none is.
static FROM: AtomicUsize = AtomicUsize::new(0);
static UNTIL: AtomicUsize = AtomicUsize::new(0);
/// What was missing of it has been replaced by zeros.
static LOST: AtomicBool = AtomicBool::new(false);
/// What SIGBUS did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Reads in a part. False if not all of it was there.
fn guarded(part: Part, read: impl FnOnce()) -> bool {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    let here = part.here.as_ptr().addr();
    LOST.store(false, Ordering::Relaxed);
    FROM.store(here, Ordering::Relaxed);
    UNTIL.store(here + (part.until - part.from) as usize, Ordering::Release);
    read();
    UNTIL.store(0, Ordering::Release);
    !LOST.load(Ordering::Relaxed)
}

fn install() {
    // SAFETY: all zeros are valid for both, and the handler keeps to what handlers may do.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut before) == 0 {
            let _ = BEFORE.set(before);
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    }
}

/// Puts zeros where the rest of the part was; a bus error anywhere else is answered as it was before.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `info`. The new mapping replaces nothing but the part, which
    // nobody uses any more once the read has failed.
    unsafe {
        let (at, until) = ((*info).si_addr().addr(), UNTIL.load(Ordering::Acquire));
        let is_ours = FROM.load(Ordering::Relaxed) <= at && at < until;
        let page = at & !(libc::sysconf(libc::_SC_PAGESIZE) as usize - 1);
        let place = std::ptr::without_provenance_mut(page);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        if is_ours
            && libc::mmap(place, until - page, libc::PROT_READ, flags, -1, 0) != libc::MAP_FAILED
        {
            LOST.store(true, Ordering::Relaxed);
        } else if let Some(before) = BEFORE.get() {
            libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of so many pages of a file that has one: what lies behind its end is SIGBUS.
    fn torn(pages: usize) -> Part {
        let file = rustix::fs::memfd_create("torn", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        rustix::io::pwrite(&file, &[7; 4096], 0).unwrap();
        let (read, shared) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        // SAFETY: a new mapping.
        let here =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), pages * 4096, read, shared, &file, 0) }
                .unwrap();
        Part { from: 0, until: pages as u64 * 4096, here: NonNull::new(here.cast()).unwrap() }
    }

    #[test]
    fn memory_that_is_missing_fails_the_read_and_nothing_else() {
        let (mut window, mut found) = (Window { access: 0, parts: Vec::new() }, vec![1; 5 * 4096]);
        for (pages, lengths) in [(1, vec![100, 4096]), (5, vec![4096, 4097, 20_000])] {
            for length in lengths {
                window.parts = vec![torn(pages)];
                found.fill(1);
                // SAFETY: `found` is as long.
                let into = unsafe { UserBuf::new(found.as_mut_ptr(), length) };
                assert_eq!(
                    window.read(0, into).is_some(),
                    length <= 4096,
                    "{length} bytes of {pages} pages"
                );
                assert!(found[..length.min(4096)].iter().all(|&byte| byte == 7));
                assert_eq!(
                    window.parts.len(),
                    usize::from(length <= 4096),
                    "what is torn is not used again"
                );
            }
        }
        window.parts.clear();
    }
}
