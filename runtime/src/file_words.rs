//! Words at rank 0 of a file whose processes are on several hosts: the shared file pointer.
//!
//! They are a window of their own, with memory at rank 0 only. Every process keeps it locked from
//! its creation until it is freed, so that an access is one fetch-and-op and a flush. Rank 0
//! answers those of other hosts whenever it makes progress.

#![allow(unsafe_code)]

use fabric::{CollectiveKind, UserBuf};
use io::RemoteWords;
use objects::op::BuiltinOp;
use objects::{Buffer, Datatype, Error, Info, Result};
use rma::{Access, Place};

use crate::collective;
use crate::win::Flavor;
use crate::window::{access, create, sync};

/// MPI_INT64_T in the ABI.
const INT64: usize = 0x258;
/// Number of words.
const WORDS: usize = 2;
/// Bytes of a word.
const WORD_BYTES: u64 = 8;

/// The words of one file.
pub(crate) struct FileWords {
    window: usize,
}

impl FileWords {
    /// Makes words of 0 at rank 0 of a communicator. Collective.
    pub(crate) fn create(comm: usize, rank: u32) -> Result<FileWords> {
        let size = if rank == 0 { WORDS as u64 * WORD_BYTES } else { 0 };
        // SAFETY: no bytes.
        let memory = unsafe { UserBuf::new(std::ptr::null_mut(), 0) };
        let (flavor, unit, info) = (Flavor::Allocate, WORD_BYTES, Info::new());
        let (window, _) =
            create::create(comm, &create::Request { flavor, memory, size, unit, info })?;
        let words = FileWords { window };
        let mut ready = sync::lock_all(window, true);
        if rank == 0 {
            ready = ready.and_then(|()| (0..WORDS).try_for_each(|index| words.store(index, 0)));
        }
        // No rank uses the words before they are 0.
        let failed = [u8::from(ready.is_err())];
        let all = collective::exchange_as(CollectiveKind::Internal, comm, &failed)?;
        ready?;
        match all.iter().position(|&failed| failed != 0) {
            None => Ok(words),
            Some(rank) => Err(Error::new(
                objects::Class::Other,
                format!("rank {rank} cannot make the shared file pointer"),
            )),
        }
    }

    /// Applies an operation to a word; returns what it was.
    fn fetch(&self, index: usize, op: BuiltinOp, value: i64) -> Result<i64> {
        // The value and the result.
        let memory = Box::into_raw(Box::new([value, 0i64]));
        let word = |at: usize| {
            // SAFETY: inside the box, which is freed after the operation has ended, or never.
            Buffer::contiguous(unsafe {
                UserBuf::new(memory.cast::<i64>().wrapping_add(at).cast(), WORD_BYTES as usize)
            })
        };
        let origin = if op == BuiltinOp::NoOp { Buffer::EMPTY } else { word(0) };
        let access = Access::Fetch(op, origin, word(1));
        let datatype = Datatype::predefined(INT64).unwrap_or_else(Datatype::byte).clone();
        let place = Place { target: 0, disp: index as i64, count: 1, datatype };
        access::start(self.window, false, |_| Ok(Some((access, place))))?;
        // After an error the operation may still run: its memory then stays for ever.
        sync::flush(self.window, Some(0), "the shared file pointer")?;
        // SAFETY: it was made of a box, and the operation that used it has ended.
        Ok(unsafe { Box::from_raw(memory) }[1])
    }
}

impl RemoteWords for FileWords {
    fn fetch_add(&self, index: usize, value: i64) -> Result<i64> {
        self.fetch(index, BuiltinOp::Sum, value).map_err(sync::of_window)
    }

    fn load(&self, index: usize) -> Result<i64> {
        self.fetch(index, BuiltinOp::NoOp, 0).map_err(sync::of_window)
    }

    fn store(&self, index: usize, value: i64) -> Result<()> {
        self.fetch(index, BuiltinOp::Replace, value).map(|_| ()).map_err(sync::of_window)
    }

    fn free(&self) -> Result<()> {
        let unlocked = sync::unlock(self.window, None);
        let freed = create::free(self.window);
        unlocked.and(freed).map_err(sync::of_window)
    }
}
