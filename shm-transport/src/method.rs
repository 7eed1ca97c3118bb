//! Chooses how a body travels: one table from its size and the traffic to a [`Method`].
//!
//! A body goes in the ring next to its header, or outside the ring: in a recycled block (`recycle`)
//! or in the bounce pool (`bounce`). An external body may be pipelined, so that the receiver reads
//! it while the sender writes it. Each row of [`TABLE`] holds from its size up to the next row's. A
//! block or pool without space falls back to the next choice, last to the ring.
//!
//! All functions are pure; their inputs are counted elsewhere: traffic in `outbound`, the kind of
//! stores in `store_tuner`. The choice between eager and rendezvous is `pt2pt`'s.

use crate::ring::LINE;
use crate::store_tuner::StoreKind;

/// Smallest body that a reply sends in a recycled block, bytes.
pub(crate) const REPLY_RECYCLE_MIN: usize = 768;
/// Smallest body of a stream that goes through the bounce pool, bytes.
pub(crate) const STREAM_BOUNCE_MIN: usize = 1024;
/// Smallest body that leaves the ring with any traffic, bytes.
const BOUNCE_MIN: usize = 2048;
/// Bodies of a stream that are written before their frame: from, bytes. Meanwhile the receiver
/// copies the one before.
const UNPIPELINED_MIN: usize = 3 << 10;
/// Bodies of a stream that are written before their frame: below, bytes.
const UNPIPELINED_END: usize = 64 << 10;
/// Smallest body that waits for a block that the peer holds, bytes.
const SWAP_MIN: usize = 256 << 10;
/// Frames in a row, with none received in between, that make a stream.
pub(crate) const STREAM_LEN: u32 = 3;
/// Smallest body in a ring that may be stored past the cache, bytes.
const NON_TEMPORAL_MIN: usize = 2048;
/// Smallest pipelined body in a recycled block that is read with the C library's memcpy, bytes.
/// Shorter ones are copied line by line.
const MEMCPY_MIN: usize = 32 << 10;

/// The traffic with the peer around a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// The first frame since one was received: perhaps its reply.
    Reply,
    /// A later one.
    Request,
    /// One of more than [`STREAM_LEN`] in a row.
    Stream,
}

/// The properties of the route to the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Both ranks have a processor of their own; therefore both sides of a copy can run at once.
    pub pipelines: bool,
    /// It leads to a process of another job, which may go on without this one: blocks are not
    /// lent, and no body is read before it is written.
    pub is_of_other_job: bool,
}

/// Whether a body is read while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipelining {
    /// Written, then published.
    Never,
    /// Published, then written.
    Always,
    /// As `Always`, unless a frame of the peer waits to be read: then no rank waits for this one.
    UnlessUnread,
}

/// How a body travels. With neither `recycle` nor `bounce` it goes in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// In a recycled block, if there is one.
    pub recycle: bool,
    /// Without one, wait for those that the peer holds.
    pub swap: bool,
    /// Otherwise in the bounce pool.
    pub bounce: bool,
    pub pipelining: Pipelining,
}

impl Method {
    const RING: Method =
        Method { recycle: false, swap: false, bounce: false, pipelining: Pipelining::Never };
    const RECYCLE: Method = Method { recycle: true, ..Method::RING };
    const BOUNCE: Method = Method { bounce: true, ..Method::RING };
    const BLOCK: Method = Method { recycle: true, bounce: true, ..Method::RING };
    const PIPELINED: Method = Method { pipelining: Pipelining::Always, ..Method::BLOCK };
    const STREAMED: Method = Method { pipelining: Pipelining::UnlessUnread, ..Method::BLOCK };
    const SWAPPED: Method = Method { swap: true, ..Method::PIPELINED };
    const SWAP_STREAM: Method = Method { swap: true, ..Method::STREAMED };

    /// Returns whether the body goes in the ring.
    #[inline(always)]
    pub(crate) fn is_ring(self) -> bool {
        !self.recycle && !self.bounce
    }
}

/// Methods from a size on.
struct Row {
    min: usize,
    reply: Method,
    request: Method,
    stream: Method,
}

const fn row(min: usize, reply: Method, request: Method, stream: Method) -> Row {
    Row { min, reply, request, stream }
}

/// The table, by size.
#[rustfmt::skip]
const TABLE: [Row; 7] = [
    //  from, bytes        reply               request             stream
    row(0,                 Method::RING,       Method::RING,       Method::RING),
    row(REPLY_RECYCLE_MIN, Method::RECYCLE,    Method::RING,       Method::RING),
    row(STREAM_BOUNCE_MIN, Method::RECYCLE,    Method::RING,       Method::BOUNCE),
    row(BOUNCE_MIN,        Method::PIPELINED,  Method::PIPELINED,  Method::STREAMED),
    row(UNPIPELINED_MIN,   Method::PIPELINED,  Method::PIPELINED,  Method::BLOCK),
    row(UNPIPELINED_END,   Method::PIPELINED,  Method::PIPELINED,  Method::STREAMED),
    row(SWAP_MIN,          Method::SWAPPED,    Method::SWAPPED,    Method::SWAP_STREAM),
];

/// Returns the method for a body of `len` bytes.
#[inline]
pub(crate) fn choose(len: usize, traffic: Traffic, route: Route) -> Method {
    if route.is_of_other_job {
        return if len < BOUNCE_MIN { Method::RING } else { Method::BOUNCE };
    }
    let [smallest, larger @ ..] = &TABLE;
    let row = larger.iter().rev().find(|row| len >= row.min).unwrap_or(smallest);
    let method = match traffic {
        Traffic::Reply => row.reply,
        Traffic::Request => row.request,
        Traffic::Stream => row.stream,
    };
    if route.pipelines {
        method
    } else {
        Method { swap: false, pipelining: Pipelining::Never, ..method }
    }
}

/// Returns whether a body in the ring is stored past the cache, where `best` is the faster kind for
/// large ones.
#[inline(always)]
pub(crate) fn is_ring_non_temporal(len: usize, best: StoreKind) -> bool {
    len >= NON_TEMPORAL_MIN && best == StoreKind::NonTemporal
}

/// Returns the bytes between two advances of the watermark: few enough for both copies to overlap,
/// enough to make the watermark's line cheap in comparison. Past the cache, each advance waits for
/// all stores before it.
pub(crate) fn chunk_bytes(kind: StoreKind, len: usize) -> usize {
    let (chunks, most) = match kind {
        StoreKind::Temporal => (4, 16 << 10),
        StoreKind::NonTemporal => (2, 128 << 10),
    };
    (len / chunks).clamp(2 << 10, most).next_multiple_of(LINE)
}

/// Returns whether the receiver copies a pipelined body line by line. In a stream that copy is
/// faster than the sender, and both then stall on the same lines.
#[inline(always)]
pub(crate) fn copies_by_lines(len: usize, is_recycled: bool) -> bool {
    is_recycled && len < MEMCPY_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Traffic; 3] = [Traffic::Reply, Traffic::Request, Traffic::Stream];
    const OWN: Route = Route { pipelines: true, is_of_other_job: false };

    #[test]
    fn rows_ascend_from_zero() {
        assert_eq!(TABLE[0].min, 0);
        assert!(TABLE.windows(2).all(|rows| rows[0].min < rows[1].min));
    }

    #[test]
    fn each_size_class_has_its_method() {
        let is = |len, expected: [Method; 3]| {
            assert_eq!(ALL.map(|traffic| choose(len, traffic, OWN)), expected, "{len} bytes");
        };
        let (ring, recycle, bounce) = (Method::RING, Method::RECYCLE, Method::BOUNCE);
        let (pipelined, streamed, block) = (Method::PIPELINED, Method::STREAMED, Method::BLOCK);
        for len in [0, 8, 767] {
            is(len, [ring; 3]);
        }
        for len in [768, 1023] {
            is(len, [recycle, ring, ring]);
        }
        for len in [1024, 2047] {
            is(len, [recycle, ring, bounce]);
        }
        for len in [2048, 3071, 64 << 10, (256 << 10) - 1] {
            is(len, [pipelined, pipelined, streamed]);
        }
        for len in [3072, (64 << 10) - 1] {
            is(len, [pipelined, pipelined, block]);
        }
        for len in [256 << 10, 1 << 30, usize::MAX] {
            is(len, [Method::SWAPPED, Method::SWAPPED, Method::SWAP_STREAM]);
        }
    }

    #[test]
    fn ranks_that_share_a_processor_neither_pipeline_nor_wait_for_blocks() {
        for (row, traffic) in TABLE.iter().flat_map(|row| ALL.map(|traffic| (row, traffic))) {
            let (own, shared) = (
                choose(row.min, traffic, OWN),
                choose(row.min, traffic, Route { pipelines: false, ..OWN }),
            );
            assert!(!shared.swap && shared.pipelining == Pipelining::Never);
            assert_eq!((shared.recycle, shared.bounce), (own.recycle, own.bounce));
        }
    }

    #[test]
    fn short_bodies_in_the_ring_are_stored_into_the_cache() {
        for best in [StoreKind::Temporal, StoreKind::NonTemporal] {
            assert!(!is_ring_non_temporal(2047, best));
            assert_eq!(is_ring_non_temporal(2048, best), best == StoreKind::NonTemporal);
        }
    }

    #[test]
    fn chunks_are_whole_lines_within_bounds() {
        for len in [0, 2048, 5000, 40_000, 1 << 20, 64 << 20] {
            let (temporal, non_temporal) =
                (chunk_bytes(StoreKind::Temporal, len), chunk_bytes(StoreKind::NonTemporal, len));
            assert!(temporal.is_multiple_of(LINE) && (2 << 10..=16 << 10).contains(&temporal));
            assert!(
                non_temporal.is_multiple_of(LINE) && (2 << 10..=128 << 10).contains(&non_temporal)
            );
        }
        assert!(copies_by_lines(32_767, true));
        assert!(!copies_by_lines(32_768, true) && !copies_by_lines(2048, false));
    }
}
