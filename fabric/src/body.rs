//! The bytes of a frame's body as a receiver sees them.
//!
//! Most bodies are slices. A transport may also hand over a body that its sender still writes:
//! such a type hands out chunks as they arrive. A protocol takes any [`Body`] and does not know
//! the difference.

/// The sender has ended before it wrote all of a body; its transport reports the failure next.
/// What has come is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// The body of a frame: all there, or still arriving.
pub trait Body {
    /// Returns the number of bytes, of which some may still be missing.
    fn len(&self) -> usize;

    /// Returns true when there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands over the first `len` bytes, in chunks and in order, each with its offset. Waits for
    /// those that are missing.
    fn for_each_chunk(&self, len: usize, take: impl FnMut(usize, &[u8])) -> Result<(), Cut>;

    /// Waits until all bytes are there, and returns them.
    fn wait_all(&self) -> Result<&[u8], Cut>;

    /// Returns true if some bytes may still be missing.
    fn is_arriving(&self) -> bool {
        false
    }

    /// Returns true if the body is best copied line by line ([`crate::UserBuf::write_lines`]).
    fn by_lines(&self) -> bool {
        false
    }
}

impl Body for [u8] {
    #[inline(always)]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn for_each_chunk(&self, len: usize, mut take: impl FnMut(usize, &[u8])) -> Result<(), Cut> {
        take(0, &self[..len]);
        Ok(())
    }

    #[inline(always)]
    fn wait_all(&self) -> Result<&[u8], Cut> {
        Ok(self)
    }
}
