//! A memory file: taking memory for parts of it, and mapping them.

#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fcntl_lock, fstat, ftruncate};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use crate::sync::Ordering;

/// Returns the bytes of a page, at least 4,096.
pub(crate) fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// fallocate was refused in this process.
static FALLOCATE_REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns true if the system has refused fallocate, so that pages are touched instead.
pub fn fallocate_is_refused() -> bool {
    FALLOCATE_REFUSED.load(Ordering::Relaxed)
}

/// Takes memory for a part of the file, which grows if need be.
pub(crate) fn allocate(file: &OwnedFd, at: u64, bytes: u64) -> Result<(), Errno> {
    // Beyond RLIMIT_FSIZE the system sends a signal in place of an error.
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < at + bytes => return Err(Errno::FBIG),
        _ => {}
    }
    let allocated = fabric::allocate(bytes, |start, len| {
        Ok(fallocate(file, FallocateFlags::empty(), at + start, len)?)
    });
    match allocated.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => {
            FALLOCATE_REFUSED.store(true, Ordering::Relaxed);
            populate(file, at, bytes)
        }
        outcome => outcome,
    }
}

/// Does what [`allocate`] does where a filter or the file system refuses fallocate: grows the file
/// and touches each page. A kernel before 5.14 cannot report a lack of memory here.
fn populate(file: &OwnedFd, at: u64, bytes: u64) -> Result<(), Errno> {
    // Another rank may grow the file at the same time, and must not see it shrink.
    retry_on_intr(|| fcntl_lock(file, FlockOperation::LockExclusive))?;
    let grown = fstat(file).and_then(|stat| {
        let is_short = (stat.st_size as u64) < at + bytes;
        if is_short { ftruncate(file, at + bytes) } else { Ok(()) }
    });
    fcntl_lock(file, FlockOperation::Unlock)?;
    grown?;
    let begin = at - at % page();
    let length = at + bytes - begin;
    let base = map(file, begin, length)?;
    // SAFETY: the range was mapped by this function, and nothing refers to it. Populating changes
    // no byte.
    unsafe {
        let populated = madvise(base.cast(), length as usize, Advice::LinuxPopulateWrite);
        unmap(base, length);
        match populated {
            Err(Errno::INVAL) | Ok(()) => Ok(()),
            Err(Errno::FAULT) => Err(Errno::NOMEM),
            Err(errno) => Err(errno),
        }
    }
}

/// Maps a part of the file. It is mapped until the caller unmaps it.
pub(crate) fn map(file: &OwnedFd, at: u64, bytes: u64) -> Result<*mut u8, Errno> {
    let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes as usize, access, shared, file, at) }?;
    Ok(base.cast())
}

/// Unmaps what [`map`] has mapped.
///
/// # Safety
/// Nothing uses the memory any more.
pub(crate) unsafe fn unmap(base: *mut u8, bytes: u64) {
    // SAFETY: the caller's promise.
    let unmapped = unsafe { munmap(base.cast(), bytes as usize) };
    debug_assert!(unmapped.is_ok(), "{unmapped:?}");
}
