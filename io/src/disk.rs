//! The system's calls on one open file: the only code that reads and writes it.
//!
//! Reads and writes are at explicit offsets, so that threads share a descriptor. A call that is
//! interrupted or moves less than it was asked for is continued. Offsets and lengths are checked to
//! fit 63 bits. Every error names the call, offset, path and rank.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use fabric::UserBuf;
use objects::{Class, Error, Result};

use crate::errno::failed;

/// Most bytes of one call of the system, which refuses more than 2 GiB.
const MAX_CALL_BYTES: usize = 1 << 30;

/// An open file.
#[derive(Debug)]
pub(crate) struct Disk {
    fd: OwnedFd,
    path: String,
    rank: u32,
    /// Reads of the system.
    reads: AtomicU64,
    /// Writes of the system.
    writes: AtomicU64,
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenHow {
    /// Flags of open(2).
    pub(crate) flags: i32,
    /// Permissions of a file that is created.
    pub(crate) mode: u32,
}

/// A lock on a range of the file, released when it is dropped.
pub(crate) struct RangeLock<'a> {
    disk: &'a Disk,
    start: i64,
    len: i64,
}

fn c_path(path: &str) -> Result<CString> {
    CString::new(path)
        .map_err(|_| Error::new(Class::BadFile, "invalid file name: it contains a zero byte"))
}

/// Repeats a call that a signal interrupted.
fn retry(mut call: impl FnMut() -> i64) -> io::Result<i64> {
    loop {
        match call() {
            result if result >= 0 => return Ok(result),
            _ => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => std::thread::yield_now(),
                    _ => return Err(error),
                }
            }
        }
    }
}

/// Deletes a file by name.
pub(crate) fn unlink(path: &str, rank: u32) -> Result<()> {
    let name = c_path(path)?;
    // SAFETY: a terminated string.
    let done = retry(|| unsafe { libc::unlink(name.as_ptr()) }.into());
    done.map(|_| ()).map_err(|error| failed("delete", path, rank, &error))
}

impl Disk {
    /// Opens a file.
    pub(crate) fn open(path: &str, how: OpenHow, rank: u32) -> Result<Disk> {
        let name = c_path(path)?;
        let flags = how.flags | libc::O_CLOEXEC;
        // SAFETY: a terminated string.
        let fd = retry(|| unsafe { libc::open(name.as_ptr(), flags, how.mode) }.into());
        let fd = fd.map_err(|error| failed("open", path, rank, &error))?;
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let (reads, writes) = Default::default();
        Ok(Disk { fd, path: path.to_owned(), rank, reads, writes })
    }

    /// Returns the numbers of reads and of writes of the system.
    pub(crate) fn calls(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed))
    }

    /// Returns the path that was opened.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn fail<T>(&self, what: &str, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| failed(what, &self.path, self.rank, &error))
    }

    /// Reads until the memory is full or the file ends; returns the bytes read, also with an error.
    pub(crate) fn read(&self, offset: i64, into: UserBuf) -> (usize, Result<()>) {
        let mut done = 0;
        while done < into.len() {
            let part = into.slice(done, (into.len() - done).min(MAX_CALL_BYTES));
            let Some(at) = offset.checked_add(done as i64) else { return (done, Err(too_far())) };
            let fd = self.fd.as_raw_fd();
            self.reads.fetch_add(1, Ordering::Relaxed);
            // SAFETY: `part` is valid for writes by its maker's promise.
            let read =
                retry(|| unsafe { libc::pread(fd, part.as_ptr().cast(), part.len(), at) as i64 });
            match read {
                Ok(0) => break,
                Ok(bytes) => done += bytes as usize,
                Err(error) => {
                    let what = format!("read {} bytes at offset {at} of", part.len());
                    return (done, self.fail(&what, Err(error)));
                }
            }
        }
        (done, Ok(()))
    }

    /// Writes all of the memory; returns the bytes written, also with an error.
    pub(crate) fn write(&self, offset: i64, from: UserBuf) -> (usize, Result<()>) {
        let mut done = 0;
        while done < from.len() {
            let part = from.slice(done, (from.len() - done).min(MAX_CALL_BYTES));
            let end = offset.checked_add(done as i64);
            let Some(at) = end.filter(|at| at.checked_add(part.len() as i64).is_some()) else {
                return (done, Err(too_far()));
            };
            let fd = self.fd.as_raw_fd();
            self.writes.fetch_add(1, Ordering::Relaxed);
            // SAFETY: `part` is valid for reads by its maker's promise.
            let written =
                retry(|| unsafe { libc::pwrite(fd, part.as_ptr().cast(), part.len(), at) as i64 });
            let what = || format!("write {} bytes at offset {at} of", part.len());
            match written {
                Ok(0) => {
                    let error = io::Error::from_raw_os_error(libc::ENOSPC);
                    return (done, self.fail(&what(), Err(error)));
                }
                Ok(bytes) => done += bytes as usize,
                Err(error) => return (done, self.fail(&what(), Err(error))),
            }
        }
        (done, Ok(()))
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> Result<i64> {
        Ok(self.stat()?.st_size)
    }

    /// Returns true for a folder, which can be opened for reading.
    pub(crate) fn is_folder(&self) -> Result<bool> {
        Ok(self.stat()?.st_mode & libc::S_IFMT == libc::S_IFDIR)
    }

    fn stat(&self) -> Result<libc::stat> {
        // SAFETY: all zeros are a valid `stat`, which the call fills.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a valid descriptor and place.
        let done = retry(|| unsafe { libc::fstat(self.fd.as_raw_fd(), &mut stat) }.into());
        self.fail("get the size of", done)?;
        Ok(stat)
    }

    /// Returns number and block size of the file system, if the system tells.
    pub(crate) fn file_system(&self) -> Option<(i64, u64)> {
        // SAFETY: all zeros are a valid `statfs`, which the call fills.
        let mut found: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: a valid descriptor and place.
        retry(|| unsafe { libc::fstatfs(self.fd.as_raw_fd(), &mut found) }.into()).ok()?;
        Some((found.f_type as i64, found.f_bsize as u64))
    }

    /// Returns an extended attribute, if the file has it; at most 256 bytes of it.
    pub(crate) fn attribute(&self, name: &CStr) -> Option<Vec<u8>> {
        let mut value = vec![0u8; 256];
        let fd = self.fd.as_raw_fd();
        let (place, room) = (value.as_mut_ptr().cast(), value.len());
        // SAFETY: a terminated name, and a place of that length.
        let read = retry(|| unsafe { libc::fgetxattr(fd, name.as_ptr(), place, room) as i64 });
        value.truncate(read.ok()? as usize);
        Some(value)
    }

    /// Sets the size in bytes.
    pub(crate) fn set_size(&self, size: i64) -> Result<()> {
        // SAFETY: takes no pointers.
        let done = retry(|| unsafe { libc::ftruncate(self.fd.as_raw_fd(), size) }.into());
        self.fail(&format!("set the size to {size} bytes of"), done).map(|_| ())
    }

    /// Reserves space for the first `size` bytes; the file grows if it is shorter.
    pub(crate) fn preallocate(&self, size: i64) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        // SAFETY: takes no pointers. It returns the error instead of storing it.
        let code = unsafe { libc::posix_fallocate(self.fd.as_raw_fd(), 0, size) };
        let done = if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) };
        self.fail(&format!("preallocate {size} bytes of"), done)
    }

    /// Writes all data to the device.
    pub(crate) fn sync(&self) -> Result<()> {
        // SAFETY: takes no pointers.
        let done = retry(|| unsafe { libc::fsync(self.fd.as_raw_fd()) }.into());
        match done {
            // A pipe or a device without storage.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EROFS)) => {
                Ok(())
            }
            other => self.fail("synchronise", other).map(|_| ()),
        }
    }

    /// Locks a range against other opens of the file, also those of other processes and hosts.
    /// Waits until the range is free.
    pub(crate) fn lock(&self, start: i64, len: i64, exclusive: bool) -> Result<RangeLock<'_>> {
        let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
        self.set_lock(kind, start, len)?;
        Ok(RangeLock { disk: self, start, len })
    }

    fn set_lock(&self, kind: i32, start: i64, len: i64) -> Result<()> {
        // SAFETY: all zeros are a valid `flock`.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = kind as _;
        range.l_whence = libc::SEEK_SET as _;
        (range.l_start, range.l_len) = (start, len);
        let fd = self.fd.as_raw_fd();
        // SAFETY: the command takes a valid `flock`.
        let done =
            retry(|| unsafe { libc::fcntl(fd, libc::F_OFD_SETLKW, &raw const range) }.into());
        self.fail(&format!("lock {len} bytes at offset {start} of"), done).map(|_| ())
    }
}

impl Drop for RangeLock<'_> {
    fn drop(&mut self) {
        // A lock that cannot be released ends with the descriptor.
        let _ = self.disk.set_lock(libc::F_UNLCK, self.start, self.len);
    }
}

#[cold]
fn too_far() -> Error {
    Error::new(Class::Arg, "invalid file offset: the access ends beyond 2^63 bytes")
}
