//! A single-producer, single-consumer ring of bytes in memory that two processes share.
//!
//! ```text
//! line 0        head: granules consumed so far          written by the consumer
//!               read cost: see `store_tuner`
//!               wanted classes: see `copy_tuner`
//! line 1        producer waiting: 1 while it lacks      written by the producer
//!               space
//!               watermark: see `crate::pipeline`
//!               transfer lock                           written by both
//!               offer: number of the memory that the    written by both
//!               producer may write, or 0
//! line 2 ..     frames, each a run of consecutive 16-byte granules
//!
//! a frame, byte 0        8                16                     40
//!               [ commit ][ context ][ tag][ body ...                         short header
//!               [ commit ][ header (32)                         ][ body ...   full header
//! ```
//!
//! The commit word is 0 while no frame is there. [`SKIP`] in it sends the consumer to another
//! granule. Otherwise it holds the length of the body plus one, [`SHORT`] and [`EXTERNAL`]. The
//! short header serves eager messages whose sender has the same rank in communicator and job.
//! A frame of more than half a line ends with a line; a body of [`LINE_ALIGNED_MIN`] bytes or
//! more has its lines for itself.
//!
//! Positions count granules and never wrap: the low bits are the offset in the ring, the high
//! bits count laps. A lap begins at line 2 and may end early, at `end`; therefore a quiet pair
//! touches one page. The producer extends its laps while the consumer lags, also in the middle of a
//! lap.
//!
//! Invariants:
//! - The commit word at the producer's position is 0 until a frame is published there. Before the
//!   producer publishes k granules at p, the commit word of p + k is 0. The consumer therefore
//!   finds either 0 or a whole frame, and both sides share no tail.
//! - All commit words from the producer's position to `cleared` are 0. The producer clears a line
//!   at a time, one line ahead, and the word after a frame like the last.
//! - The consumer never writes to the lines of frames. It returns space through `head`, a quarter
//!   of a lap at a time.
//! - Granules from the consumer's position to one lap later are not written, except those that no
//!   earlier lap had: the producer's next frame ends before `limit`.
//! - All zero bytes are an empty ring.
//!
//! Orderings:
//! - A commit word is stored with Release after the frame's other bytes and the 0 after it. It is
//!   loaded with Acquire before they are read. Clearing is Relaxed: the Release that follows orders
//!   it.
//! - `head` is stored with Release after the consumer's last read of the lines that it returns. It
//!   is loaded with Acquire before the producer writes them again.
//! - The producer-waiting word belongs to the protocol of `event_count`, whose fences order it.
//! - The transfer lock is a try-lock; see [`TransferLock`].
//!
//! The other process is not trusted: an impossible commit word or head is [`Corrupted`], and each
//! offset is masked. This module does not allocate memory (`segment`), park or wake
//! (`event_count`).

use fabric::Header;

#[cfg(not(loom))]
pub(crate) use self::consumer::Commit;
pub use self::consumer::{Consumer, Frame};
pub use self::memory::RingMemory;
#[cfg(not(loom))]
pub(crate) use self::memory::TransferLock;
pub use self::producer::{Producer, Space};

mod consumer;
#[cfg(loom)]
#[allow(unsafe_code)]
mod loom_tests;
mod memory;
mod producer;
#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of a granule, the unit of allocation.
pub const GRANULE: usize = 16;
/// Granules of a line.
pub const LINE_GRANULES: u64 = (LINE / GRANULE) as u64;
/// Bytes before a body with a short header.
const SHORT_PREFIX: usize = 16;
/// Bytes before a body with a full header.
const FULL_PREFIX: usize = 8 + Header::SIZE;
/// Smallest body that begins and ends with a line, bytes: both copies then run on whole lines.
const LINE_ALIGNED_MIN: usize = 512;
/// External bytes that the consumer reads before it returns their space.
const RETURN_BATCH_BYTES: u32 = 64 << 10;
/// Commit word bit: the body is a descriptor of data outside the ring.
const EXTERNAL: u64 = 1 << 62;
/// Commit word bit: the header is the short one.
const SHORT: u64 = 1 << 61;
/// Commit word bit: the next frame begins at the granule that the other bits name, in this lap if
/// that lies ahead, otherwise in the next lap.
const SKIP: u64 = 1 << 63;
/// Granules before the frames.
const CONTROL_GRANULES: u64 = 2 * LINE_GRANULES;
/// Frames whose lines the producer prefetches for writing.
const PREFETCH_FRAMES: u64 = 4;
/// Bounds of the prefetch distance, granules. Farther loses: the reader prefetches too and steals
/// the lines before they are written.
const PREFETCH_RANGE: (u64, u64) = (4 * LINE_GRANULES, 16 * LINE_GRANULES);
/// Granules that the consumer reads, at least, before it returns their space.
const RETURN_BATCH: u64 = 16 * LINE_GRANULES;

/// Returns the offset of the body of a frame at `position`, bytes, and the granules of the frame.
#[inline]
const fn layout(position: u64, prefix: usize, body: usize) -> (usize, u64) {
    if body < LINE_ALIGNED_MIN {
        let granules = ((prefix + body).div_ceil(GRANULE)) as u64;
        let end = position + granules;
        return (
            prefix,
            if granules > LINE_GRANULES / 2 {
                end.next_multiple_of(LINE_GRANULES) - position
            } else {
                granules
            },
        );
    }
    let offset = (position % LINE_GRANULES) as usize * GRANULE;
    let at = (offset + prefix).next_multiple_of(LINE) - offset;
    (at, ((at + body.next_multiple_of(LINE)) / GRANULE) as u64)
}

/// Returns the most granules that a frame with `body` bytes of body takes, wherever it begins.
#[inline]
pub const fn max_granules(body: usize) -> u64 {
    if body < LINE_ALIGNED_MIN {
        // Worst case: the frame begins late enough in a line to spill into one more.
        return (FULL_PREFIX + body).div_ceil(GRANULE) as u64 + LINE_GRANULES - 1;
    }
    // Worst case: the header just misses the end of the line.
    layout(LINE_GRANULES - 2, FULL_PREFIX, body).1
}

/// The other process has written an impossible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} in the shared ring is {value:#x}, which is impossible: a process has overwritten memory"
)]
pub struct Corrupted {
    what: &'static str,
    value: u64,
}
