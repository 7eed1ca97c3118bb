//! The transport between ranks of one host: rings in shared memory, and a single
//! copy for large messages; and the segments of collectives.
//!
//! [`segment`] is the memory, [`ring`] moves frames from one rank to another, `bounce`
//! carries their bodies where these are large, and `recycle` those that are answered,
//! `connect` makes rings when two ranks first talk, `post` and `poll` are what runs
//! for each message, `single_copy` reads a peer's memory, `event_count` sleeps and wakes,
//! `coll_segment` is the memory that the members of a communicator share.
//!
//! What a message of up to 24 bytes costs: one cache line that moves from the
//! sender to the receiver, no read-modify-write, no lock, no system call, and a
//! fence only where ranks share processors. Memory follows who talks to whom: a
//! page for each ordered pair that has, more for those that say much.
//!
//! What it does not do: notice that a peer has died. The launcher ends the job.

#![deny(unsafe_code)]
// allowed in `bounce`, `coll_segment`, `ring`, `segment`, `recycle`, `single_copy` and `event_count`
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
mod bounce;
mod coll_segment;
#[cfg(not(loom))]
mod connect;
mod event_count;
#[cfg(all(test, loom))]
mod loom_harness;
#[cfg(not(loom))]
mod poll;
#[cfg(not(loom))]
mod post;
#[cfg(not(loom))]
mod recycle;
pub mod ring;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
mod single_copy;
mod sync;
#[cfg(not(loom))]
mod transport;

#[cfg(not(loom))]
pub use coll_segment::SyncKind;
#[cfg(not(loom))]
pub use connect::{Settings, ShmTransport};
#[cfg(not(loom))]
pub use segment::{COLL_SEGMENTS, Segment, SegmentError};
#[cfg(not(loom))]
pub use single_copy::SingleCopy;
