//! The system's calls on one open file: the only code that reads and writes it.
//!
//! Reads and writes are at explicit offsets, so that threads share a descriptor. A call that is
//! interrupted or moves less than it was asked for is continued. Offsets and lengths are checked to
//! fit 63 bits. Every error names the call, offset and path.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fabric::{UserBuf, allocate};
use objects::{Class, Error, Result};

use crate::access::Direction;
use crate::direct;
use crate::errno::failed;
use crate::lustre;
use crate::staging::Staging;

/// Most bytes of one call of the system, which refuses more than 2 GiB.
const MAX_CALL_BYTES: usize = 1 << 30;
/// Bytes of aligned memory for direct accesses of memory that is not.
const DIRECT_STAGING_BYTES: usize = 1 << 20;

/// An open file.
#[derive(Debug)]
pub(crate) struct Disk {
    fd: OwnedFd,
    /// The same file, opened for direct access.
    direct_fd: Option<OwnedFd>,
    direct: Direct,
    path: PathBuf,
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
    /// What goes past the cache.
    pub(crate) direct: Direct,
}

/// Which accesses go past the cache of the system, as far as it lets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Direct {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// A lock on a range of the file, released when it is dropped.
pub(crate) struct RangeLock<'a> {
    disk: &'a Disk,
    start: i64,
    len: i64,
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::new(Class::BadFile, "invalid file name: it contains a zero byte"))
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry(mut call: impl FnMut() -> i64) -> io::Result<i64> {
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

/// Returns the number of the file system of a path, if the system tells.
pub(crate) fn file_system_of(path: &Path) -> Option<i64> {
    let name = c_path(path).ok()?;
    // SAFETY: all zeros are a valid `statfs`, which the call fills.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a terminated string and a valid place.
    retry(|| unsafe { libc::statfs(name.as_ptr(), &mut found) }.into()).ok()?;
    Some(found.f_type as i64)
}

/// Opens an open file once more, for direct access; `None` if its file system has none.
fn open_direct(fd: &OwnedFd, flags: i32) -> Option<OwnedFd> {
    let name = CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    let flags = flags & libc::O_ACCMODE | libc::O_CLOEXEC | libc::O_DIRECT;
    // SAFETY: a terminated string.
    let direct = retry(|| unsafe { libc::open(name.as_ptr(), flags) }.into()).ok()?;
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    Some(unsafe { OwnedFd::from_raw_fd(direct as i32) })
}

/// Deletes a file by name.
pub(crate) fn unlink(path: &Path) -> Result<()> {
    let name = c_path(path)?;
    // SAFETY: a terminated string.
    let done = retry(|| unsafe { libc::unlink(name.as_ptr()) }.into());
    done.map(|_| ()).map_err(|error| failed("delete", path, &error))
}

impl Disk {
    /// Opens a file.
    pub(crate) fn open(path: &Path, how: OpenHow) -> Result<Disk> {
        let name = c_path(path)?;
        let flags = how.flags | libc::O_CLOEXEC;
        // SAFETY: a terminated string.
        let fd = retry(|| unsafe { libc::open(name.as_ptr(), flags, how.mode) }.into());
        let fd = fd.map_err(|error| failed("open", path, &error))?;
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let direct = how.direct;
        let direct_fd =
            if direct.reads || direct.writes { open_direct(&fd, how.flags) } else { None };
        let (reads, writes) = Default::default();
        Ok(Disk { fd, direct_fd, direct, path: path.to_owned(), reads, writes })
    }

    /// Returns which accesses go past the cache.
    pub(crate) fn direct(&self) -> Direct {
        if self.direct_fd.is_some() { self.direct } else { Direct::default() }
    }

    /// Returns the numbers of reads and of writes of the system.
    pub(crate) fn calls(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed))
    }

    /// Returns the path that was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn fail<T>(&self, what: &str, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| failed(what, &self.path, &error))
    }

    /// Reads until the memory is full or the file ends; returns the bytes read, also with an error.
    #[inline]
    pub(crate) fn read(&self, offset: i64, into: UserBuf) -> (usize, Result<()>) {
        self.access(Direction::Read, offset, into)
    }

    /// Writes all of the memory; returns the bytes written, also with an error.
    #[inline]
    pub(crate) fn write(&self, offset: i64, from: UserBuf) -> (usize, Result<()>) {
        self.access(Direction::Write, offset, from)
    }

    fn access(&self, direction: Direction, offset: i64, memory: UserBuf) -> (usize, Result<()>) {
        if offset.checked_add(memory.len() as i64).is_none() {
            return (0, Err(too_far()));
        }
        let (done, result) = match self.direct_fd(direction) {
            None => self.move_all(&self.fd, direction, offset, memory),
            Some(direct) => self.move_parts(direct, direction, offset, memory),
        };
        (
            done,
            result.map_err(|error| {
                self.access_error(direction, offset, (memory.len(), done), &error)
            }),
        )
    }

    /// Returns the error of an access of `len` bytes that failed after `done` of them.
    pub(crate) fn access_error(
        &self,
        direction: Direction,
        offset: i64,
        (len, done): (usize, usize),
        error: &io::Error,
    ) -> Error {
        let verb = if direction == Direction::Read { "read" } else { "write" };
        let (left, at) = ((len - done).min(MAX_CALL_BYTES), offset + done as i64);
        failed(&format!("{verb} {left} bytes at offset {at} of"), &self.path, error)
    }

    /// Returns the descriptor by which one call of the system could move a run of memory, and the
    /// descriptor for what it refuses to move past its cache. `None` if an access takes several.
    pub(crate) fn single_call(
        &self,
        direction: Direction,
        offset: i64,
        memory: UserBuf,
    ) -> Option<(RawFd, Option<RawFd>)> {
        offset.checked_add(memory.len() as i64)?;
        let cached = self.cached_fd();
        let Some(direct) = self.direct_fd(direction) else { return Some((cached, None)) };
        let is_whole = direct::is_whole(offset, memory.addr(), memory.len());
        is_whole.then(|| (direct.as_raw_fd(), Some(cached)))
    }

    /// Counts a call of the system that another part makes.
    pub(crate) fn count_call(&self, direction: Direction) {
        let calls = if direction == Direction::Read { &self.reads } else { &self.writes };
        calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if accesses go past the cache of the system.
    pub(crate) fn is_direct(&self, direction: Direction) -> bool {
        self.direct_fd(direction).is_some()
    }

    /// Returns the descriptor whose accesses go through the cache of the system.
    pub(crate) fn cached_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Returns the descriptor for direct access, if it is wanted and possible.
    fn direct_fd(&self, direction: Direction) -> Option<&OwnedFd> {
        let is_wanted = match direction {
            Direction::Read => self.direct.reads,
            Direction::Write => self.direct.writes,
        };
        self.direct_fd.as_ref().filter(|_| is_wanted)
    }

    /// Moves bytes by one descriptor, until the memory is full or empty, or the file ends.
    fn move_all(
        &self,
        fd: &OwnedFd,
        direction: Direction,
        offset: i64,
        memory: UserBuf,
    ) -> (usize, io::Result<()>) {
        let fd = fd.as_raw_fd();
        let mut done = 0;
        while done < memory.len() {
            let part = memory.slice(done, (memory.len() - done).min(MAX_CALL_BYTES));
            let (address, len, at) = (part.as_ptr(), part.len(), offset + done as i64);
            self.count_call(direction);
            let moved = retry(|| match direction {
                // SAFETY: `part` is valid for writes by its maker's promise.
                Direction::Read => unsafe { libc::pread(fd, address.cast(), len, at) as i64 },
                // SAFETY: `part` is valid for reads by its maker's promise.
                Direction::Write => unsafe { libc::pwrite(fd, address.cast(), len, at) as i64 },
            });
            match moved {
                Ok(0) if direction == Direction::Read => break,
                Ok(0) => return (done, Err(io::Error::from_raw_os_error(libc::ENOSPC))),
                Ok(bytes) => done += bytes as usize,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Moves whole blocks by a direct descriptor, and the rest through the cache; see [`direct`].
    fn move_parts(
        &self,
        direct: &OwnedFd,
        direction: Direction,
        offset: i64,
        memory: UserBuf,
    ) -> (usize, io::Result<()>) {
        let mut done = 0;
        for part in direct::parts(offset, memory.len()) {
            let (at, piece) = (offset + part.start as i64, memory.slice(part.start, part.len));
            let (moved, result) = match part.is_direct {
                false => self.move_all(&self.fd, direction, at, piece),
                true if (piece.addr() as usize).is_multiple_of(direct::BLOCK) => {
                    self.move_blocks(direct, direction, at, piece)
                }
                true => self.move_staged(direct, direction, at, piece),
            };
            done += moved;
            if result.is_err() || moved < part.len {
                return (done, result);
            }
        }
        (done, Ok(()))
    }

    /// Moves whole blocks from or to aligned memory. What the system refuses to move directly, as
    /// behind the end of the file or where it cannot, goes through its cache.
    fn move_blocks(
        &self,
        direct: &OwnedFd,
        direction: Direction,
        offset: i64,
        memory: UserBuf,
    ) -> (usize, io::Result<()>) {
        let (done, result) = self.move_all(direct, direction, offset, memory);
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let rest = memory.slice(done, memory.len() - done);
                let (more, result) = self.move_all(&self.fd, direction, offset + done as i64, rest);
                (done + more, result)
            }
            other => (done, other),
        }
    }

    /// Moves whole blocks from or to memory that is not aligned, by way of memory that is.
    fn move_staged(
        &self,
        direct: &OwnedFd,
        direction: Direction,
        offset: i64,
        memory: UserBuf,
    ) -> (usize, io::Result<()>) {
        let Ok(mut staging) = Staging::new(memory.len().min(DIRECT_STAGING_BYTES) as u64) else {
            return self.move_all(&self.fd, direction, offset, memory);
        };
        let mut done = 0;
        while done < memory.len() {
            let len = (memory.len() - done).min(DIRECT_STAGING_BYTES);
            if direction == Direction::Write {
                memory.read(done, &mut staging.bytes_mut()[..len]);
            }
            let at = offset + done as i64;
            let (moved, result) =
                staging.lend(|all| self.move_blocks(direct, direction, at, all.slice(0, len)));
            if direction == Direction::Read {
                memory.write(done, &staging.bytes()[..moved]);
            }
            done += moved;
            if result.is_err() || moved < len {
                return (done, result);
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

    /// Gives a file of Lustre that has no objects yet its layout; false if that is refused.
    pub(crate) fn set_layout(&self, layout: &[u8]) -> bool {
        let fd = self.fd.as_raw_fd();
        // SAFETY: a layout, which the call reads.
        retry(|| unsafe { libc::ioctl(fd, lustre::SET_STRIPE as _, layout.as_ptr()) }.into())
            .is_ok()
    }

    /// Sets the size in bytes.
    pub(crate) fn set_size(&self, size: i64) -> Result<()> {
        // SAFETY: takes no pointers.
        let done = retry(|| unsafe { libc::ftruncate(self.fd.as_raw_fd(), size) }.into());
        self.fail(&format!("set the size to {size} bytes of"), done).map(|_| ())
    }

    /// Reserves space for the first `size` bytes; the file grows if it is shorter.
    pub(crate) fn preallocate(&self, size: i64) -> Result<()> {
        let fd = self.fd.as_raw_fd();
        let done = allocate(u64::try_from(size).unwrap_or(0), |start, len| {
            // SAFETY: takes no pointers.
            match unsafe { libc::posix_fallocate(fd, start as i64, len as i64) } {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(code)),
            }
        });
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
pub(crate) fn too_far() -> Error {
    Error::new(Class::Arg, "invalid file offset: the access ends beyond 2^63 bytes")
}
