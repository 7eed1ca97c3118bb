//! `MPI_Status`: 32 bytes laid out as in the standard ABI (MPI-5.0 §3.2.5).
//!
//! Of the implementation's 20 bytes the first 8 hold the byte count of the message (63 bits). Their
//! top bit shows whether the operation was cancelled. They are two 32-bit words, because a status
//! is aligned to 4 bytes only.

/// MPI_ANY_SOURCE, the source of the empty status.
const ANY_SOURCE: i32 = -1;
/// MPI_ANY_TAG, the tag of the empty status.
const ANY_TAG: i32 = -2;
const CANCELLED: u32 = 1 << 31;

/// The result of a completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Status {
    /// MPI_SOURCE.
    pub source: i32,
    /// MPI_TAG.
    pub tag: i32,
    /// MPI_ERROR: an error code, set only by calls that return several statuses.
    pub error: i32,
    count_low: u32,
    /// Bit 31: cancelled.
    count_high: u32,
    unused: [u32; 3],
}

const _: () = assert!(size_of::<Status>() == 32 && align_of::<Status>() == 4);
const _: () = assert!(std::mem::offset_of!(Status, count_low) == 12);

impl Status {
    /// The largest byte count that a status can hold.
    pub const MAX_BYTES: u64 = (1 << 63) - 1;

    /// Makes the status of a message of `bytes` from `source` with `tag`.
    #[inline]
    pub fn new(source: i32, tag: i32, bytes: u64) -> Status {
        let mut status = Status { source, tag, ..Status::empty() };
        status.set_bytes(bytes);
        status
    }

    /// Returns the empty status (MPI-5.0 §3.7.3): any source, any tag, no data.
    #[inline]
    pub const fn empty() -> Status {
        Status {
            source: ANY_SOURCE,
            tag: ANY_TAG,
            error: 0,
            count_low: 0,
            count_high: 0,
            unused: [0; 3],
        }
    }

    /// Returns the packed bytes of the message.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        ((self.count_high & !CANCELLED) as u64) << 32 | self.count_low as u64
    }

    /// Sets the byte count, limited to [`Status::MAX_BYTES`].
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        let bytes = bytes.min(Status::MAX_BYTES);
        self.count_low = bytes as u32;
        self.count_high = (self.count_high & CANCELLED) | (bytes >> 32) as u32;
    }

    /// Returns true if the operation was cancelled; the other fields are then undefined.
    #[inline]
    pub const fn is_cancelled(&self) -> bool {
        self.count_high & CANCELLED != 0
    }

    /// Marks the operation as cancelled or not.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.count_high = (self.count_high & !CANCELLED) | if cancelled { CANCELLED } else { 0 };
    }

    /// Returns how many items of `size` bytes the message has (MPI_Get_count); `None` if it is not
    /// a whole number (MPI_UNDEFINED). Items of no bytes count 0 in an empty message.
    pub fn items(&self, size: u64) -> Option<u64> {
        let bytes = self.bytes();
        match size {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }
}

impl Default for Status {
    fn default() -> Status {
        Status::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_and_cancelled_do_not_disturb_each_other() {
        let mut status = Status::empty();
        assert_eq!((status.source, status.tag, status.error), (-1, -2, 0));
        for bytes in [0, 1, u64::from(u32::MAX), 1 << 40, Status::MAX_BYTES] {
            status.set_bytes(bytes);
            assert_eq!((status.bytes(), status.is_cancelled()), (bytes, false));
            status.set_cancelled(true);
            assert_eq!((status.bytes(), status.is_cancelled()), (bytes, true));
            status.set_bytes(5);
            assert_eq!((status.bytes(), status.is_cancelled()), (5, true));
            status.set_cancelled(false);
        }
        status.set_bytes(u64::MAX);
        assert_eq!((status.bytes(), status.is_cancelled()), (Status::MAX_BYTES, false));
    }

    #[test]
    fn items_are_whole() {
        let status = Status::new(3, 7, 24);
        assert_eq!((status.items(8), status.items(7), status.items(0)), (Some(3), None, None));
        assert_eq!((Status::empty().items(8), Status::empty().items(0)), (Some(0), Some(0)));
    }
}
