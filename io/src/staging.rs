//! Memory of the library between the file and a user's buffer that is not one run.

#![allow(unsafe_code)]

use fabric::UserBuf;
use objects::{Class, Error, Result};

use crate::spare;

/// Addresses of blocks are multiples of this, as direct access needs.
const ALIGN: usize = 4096;

/// A block of memory that the system's calls and the copy kernels use in turn.
pub(crate) struct Staging {
    memory: Vec<u8>,
    /// The first byte with an aligned address.
    start: usize,
}

impl Staging {
    /// Returns a block of bytes of any value. MPI_ERR_NO_MEM if the system has no memory.
    pub(crate) fn new(bytes: u64) -> Result<Staging> {
        let len = usize::try_from(bytes).ok().and_then(|len| len.checked_add(ALIGN));
        let Some((len, mut memory)) = len.and_then(|len| Some((len, spare::try_take(len)?))) else {
            let text = format!("no memory for a buffer of {bytes} bytes");
            return Err(Error::new(Class::NoMem, text));
        };
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGN;
        memory.truncate(start + len - ALIGN);
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

impl Drop for Staging {
    fn drop(&mut self) {
        spare::give_back(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_long_block_is_used_again() {
        spare::clear();
        let first = Staging::new(1 << 20).unwrap();
        let address = first.bytes().as_ptr();
        assert!(address.addr().is_multiple_of(ALIGN) && first.bytes().len() == 1 << 20);
        drop(first);
        let second = Staging::new(1 << 20).unwrap();
        assert_eq!((second.bytes().as_ptr(), second.bytes().len()), (address, 1 << 20));
        assert!(Staging::new(u64::MAX).is_err() && Staging::new(1 << 62).is_err());
    }
}
