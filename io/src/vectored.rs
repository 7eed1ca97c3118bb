//! Reads and writes of consecutive bytes of a file from or to many places in memory.

#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::RawFd;

use objects::Result;

use crate::access::Direction;
use crate::disk::{Disk, retry, too_far};

/// Most places of one call: IOV_MAX of Linux.
const MAX_SLICES: usize = 1024;

impl Disk {
    /// Writes all of the parts, one after the other from `offset` on.
    pub(crate) fn write_slices(&self, offset: i64, mut parts: &mut [IoSlice<'_>]) -> Result<()> {
        let len = parts.iter().map(|part| part.len()).sum();
        let moved = self.move_slices(Direction::Write, offset, len, |fd, at| {
            let count = parts.len().min(MAX_SLICES) as i32;
            // SAFETY: an `IoSlice` has the layout of an `iovec`, and its memory is borrowed.
            let moved =
                retry(|| unsafe { libc::pwritev(fd, parts.as_ptr().cast(), count, at) } as _)?;
            IoSlice::advance_slices(&mut parts, moved as usize);
            Ok(moved as usize)
        });
        moved.map(|_| ())
    }

    /// Fills the parts, one after the other from `offset` on, until the file ends; returns the
    /// bytes read.
    pub(crate) fn read_slices(
        &self,
        offset: i64,
        mut parts: &mut [IoSliceMut<'_>],
    ) -> Result<usize> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.move_slices(Direction::Read, offset, len, |fd, at| {
            let count = parts.len().min(MAX_SLICES) as i32;
            // SAFETY: an `IoSliceMut` has the layout of an `iovec`, and its memory is borrowed
            // exclusively.
            let moved =
                retry(|| unsafe { libc::preadv(fd, parts.as_ptr().cast(), count, at) } as _)?;
            IoSliceMut::advance_slices(&mut parts, moved as usize);
            Ok(moved as usize)
        })
    }

    /// Repeats a call, which gets the descriptor and an offset and returns the bytes moved, until
    /// `len` bytes have moved or the file ends.
    fn move_slices(
        &self,
        direction: Direction,
        offset: i64,
        len: usize,
        mut call: impl FnMut(RawFd, i64) -> io::Result<usize>,
    ) -> Result<usize> {
        offset.checked_add(len as i64).ok_or_else(too_far)?;
        let mut done = 0;
        while done < len {
            self.count_call(direction);
            let moved = match call(self.cached_fd(), offset + done as i64) {
                Ok(0) if direction == Direction::Write => {
                    Err(io::Error::from_raw_os_error(libc::ENOSPC))
                }
                other => other,
            };
            match moved {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) => {
                    return Err(self.access_error(direction, offset, (len, done), &error));
                }
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Direct, OpenHow, unlink};

    /// More parts than one call takes, with lengths 1 to 7.
    const PARTS: usize = 2 * MAX_SLICES + 9;

    #[test]
    fn more_parts_than_a_call_takes_come_back_and_end_with_the_file() {
        let path = std::env::temp_dir().join(format!("vectored-{}", std::process::id()));
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        let disk = Disk::open(&path, OpenHow { flags, mode: 0o600, direct: Direct::default() });
        let disk = disk.unwrap();
        unlink(&path).unwrap();
        let parts: Vec<Vec<u8>> = (0..PARTS).map(|at| vec![at as u8; 1 + at % 7]).collect();
        let mut slices: Vec<IoSlice> = parts.iter().map(|part| IoSlice::new(part)).collect();
        disk.write_slices(5, &mut slices).unwrap();
        let len = parts.iter().map(Vec::len).sum::<usize>();
        assert_eq!((disk.size().unwrap(), disk.calls()), (5 + len as i64, (0, 3)));

        let mut back: Vec<Vec<u8>> = parts.iter().map(|part| vec![0; part.len()]).collect();
        back.push(vec![9; 100]);
        let mut slices: Vec<IoSliceMut> =
            back.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        assert_eq!(disk.read_slices(5, &mut slices).unwrap(), len);
        assert_eq!(back[..PARTS], parts[..]);
        assert_eq!(back[PARTS], [9; 100]);
        assert!(disk.write_slices(i64::MAX, &mut [IoSlice::new(&[1])]).is_err());
    }
}
