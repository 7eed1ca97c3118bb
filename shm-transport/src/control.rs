//! The control block of a rank: the words that other ranks of the host read and write.
//!
//! All words are zero at first, which is their valid first state. The file of each states which
//! rank accesses it and in which order.

use crate::event_count::EventCount;
use crate::ring::LINE;
use crate::sync::{AtomicU32, AtomicU64};

/// Collective segments that each rank has for communicators.
pub const COLL_SEGMENTS: u32 = 4;

/// One rank's control block, without its connect bits, which follow.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Control {
    pub event_count: EventCount,
    /// How many ranks have connected to this one. It is not in the event count's line: the owner
    /// reads it in each poll, and it seldom changes.
    pub connects: AtomicU64,
    /// Of the outsiders that have connected, a bit for each process number modulo 64.
    pub outsiders: AtomicU64,
    pub probe: Probe,
    /// Whether each collective segment of this rank has memory; see `segment`.
    pub coll_segments: [AtomicU32; COLL_SEGMENTS as usize],
}

/// The words that other ranks read to probe single copies; see `single_copy`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Probe {
    /// Address of a number in this rank's memory.
    pub addr: AtomicU64,
    /// The number.
    pub number: AtomicU64,
    /// XPMEM's segment id; 0 without XPMEM.
    pub segment: AtomicU64,
    /// Process id; 0 until the probe is published.
    pub pid: AtomicU32,
}

const _: () = assert!(size_of::<Control>() == 2 * LINE);

/// The words that the ranks of a host share as a whole: the first line of the segment.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Shared {
    /// The inputs of the layout; the first rank stores them.
    pub agreement: AtomicU64,
    /// Bytes reserved for windows so far; see `window`.
    pub window_bytes: AtomicU64,
    /// A random number, by which processes of other jobs know the segment; see `outsiders`.
    pub nonce: AtomicU64,
}

const _: () = assert!(size_of::<Shared>() == LINE);
