//! Memory of the library between the file and a user's buffer that is not one run.

#![allow(unsafe_code)]

use fabric::UserBuf;
use objects::{Class, Error, Result};

/// A block of memory that the system's calls and the copy kernels use in turn.
pub(crate) struct Staging(Vec<u8>);

impl Staging {
    /// Returns a block of zeros. MPI_ERR_NO_MEM if the system has no memory.
    pub(crate) fn new(bytes: u64) -> Result<Staging> {
        let mut block = Vec::new();
        let len = usize::try_from(bytes).ok();
        let reserved = len.filter(|&len| block.try_reserve_exact(len).is_ok());
        let Some(len) = reserved else {
            let text = format!("no memory for a buffer of {bytes} bytes");
            return Err(Error::new(Class::NoMem, text));
        };
        block.resize(len, 0);
        Ok(Staging(block))
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes for changes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Runs `work` on the block as user memory, which must not be kept.
    pub(crate) fn lend<R>(&mut self, work: impl FnOnce(UserBuf) -> R) -> R {
        // SAFETY: the block is borrowed exclusively until `work` returns.
        work(unsafe { UserBuf::new(self.0.as_mut_ptr(), self.0.len()) })
    }
}
