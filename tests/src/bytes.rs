//! Memory for a test's messages, as a user of MPI would own it.

#![allow(unsafe_code)]

use fabric::UserBuf;
use objects::{Buffer, Datatype};

/// How the bytes of a message lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One run.
    Run,
    /// Single bytes with a gap of one after each.
    Strided,
}

/// The memory of one message; it must outlive the operation that uses it.
#[derive(Debug)]
pub struct Bytes {
    start: *mut u8,
    /// Bytes of the message.
    len: usize,
    stride: usize,
}

/// The bytes in the gaps and after the end.
const CANARY: u8 = 0xC5;
/// Bytes after the end.
const FENCE: usize = 16;

impl Bytes {
    /// A message of these bytes.
    pub fn new(shape: Shape, bytes: &[u8]) -> Bytes {
        let stride = if shape == Shape::Run { 1 } else { 2 };
        let mut all = vec![CANARY; bytes.len() * stride + FENCE].into_boxed_slice();
        all.iter_mut().step_by(stride).zip(bytes).for_each(|(to, from)| *to = *from);
        Bytes { start: Box::into_raw(all).cast(), len: bytes.len(), stride }
    }

    /// Space for a message.
    pub fn for_receive(shape: Shape, len: usize) -> Bytes {
        Bytes::new(shape, &vec![0; len])
    }

    /// The pointer that the library gets. Keep `self` until the operation is over.
    pub fn buffer(&self) -> Buffer {
        // SAFETY: `self` owns the memory, and tests keep it until the operation
        // has completed.
        unsafe {
            if self.stride == 1 {
                return Buffer::new(self.start, self.len as u64, Datatype::byte());
            }
            let counting = objects::datatype::Counting::Int;
            let with_gap = Datatype::resized(counting, Datatype::byte(), 0, 2)
                .expect("a byte with a gap is a type");
            with_gap.commit();
            Buffer::new(self.start, self.len as u64, &with_gap)
        }
    }

    /// One run, for a transport. Keep `self` until the transfer is over.
    pub fn memory(&self) -> UserBuf {
        assert_eq!(self.stride, 1);
        // SAFETY: as for `buffer`.
        unsafe { UserBuf::new(self.start, self.len) }
    }

    /// The message's bytes. Panics when other bytes were written.
    pub fn read(&self) -> Vec<u8> {
        // SAFETY: the memory that `new` made, which only copies of whole bytes
        // have changed.
        let all = unsafe { std::slice::from_raw_parts(self.start, self.total()) };
        let is_message = |at: usize| at < self.len * self.stride && at.is_multiple_of(self.stride);
        for (at, byte) in all.iter().enumerate() {
            assert!(
                is_message(at) || *byte == CANARY,
                "byte {at} beside a message of {} was overwritten",
                self.len
            );
        }
        all[..self.len * self.stride].iter().step_by(self.stride).copied().collect()
    }

    fn total(&self) -> usize {
        self.len * self.stride + FENCE
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: `new` took it from a box of this length.
        drop(unsafe {
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.total()))
        });
    }
}
