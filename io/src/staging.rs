//! Memory of the library between the file and a user's buffer that is not one run.

#![allow(unsafe_code)]

use fabric::UserBuf;
use objects::{Class, Error, Result};

/// Addresses of blocks are multiples of this, as direct access needs.
const ALIGN: usize = 4096;

/// A block of memory that the system's calls and the copy kernels use in turn.
pub(crate) struct Staging {
    memory: Vec<u8>,
    /// The first byte with an aligned address.
    start: usize,
}

impl Staging {
    /// Returns a block of zeros. MPI_ERR_NO_MEM if the system has no memory.
    pub(crate) fn new(bytes: u64) -> Result<Staging> {
        let mut memory: Vec<u8> = Vec::new();
        let len = usize::try_from(bytes).ok().and_then(|len| len.checked_add(ALIGN));
        let reserved = len.filter(|&len| memory.try_reserve_exact(len).is_ok());
        let Some(len) = reserved else {
            let text = format!("no memory for a buffer of {bytes} bytes");
            return Err(Error::new(Class::NoMem, text));
        };
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGN;
        memory.resize(start + len - ALIGN, 0);
        Ok(Staging { memory, start })
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// Returns the bytes for changes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }

    /// Runs `work` on the block as user memory, which must not be kept.
    pub(crate) fn lend<R>(&mut self, work: impl FnOnce(UserBuf) -> R) -> R {
        let block = self.bytes_mut();
        // SAFETY: the block is borrowed exclusively until `work` returns.
        work(unsafe { UserBuf::new(block.as_mut_ptr(), block.len()) })
    }
}
