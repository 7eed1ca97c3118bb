//! The transport between ranks of one host: rings in shared memory, and a single
//! copy for large messages; and arenas in which ranks meet.
//!
//! [`segment`] is the memory, [`ring`] moves frames from one rank to another, `bounce`
//! carries their bodies where these are large, and `recycle` those that are answered,
//! `connect` makes rings when two ranks first talk, `post` and `poll` are what runs
//! for each message, `single_copy` reads a peer's memory, `event_count` sleeps and wakes,
//! `arena` is where the members of a communicator meet.
//!
//! What a message of up to 24 bytes costs: one cache line that moves from the
//! sender to the receiver, no read-modify-write, no lock, no system call, and a
//! fence only where ranks share processors. Memory follows who talks to whom: a
//! page for each ordered pair that has, more for those that say much.
//!
//! What it does not do: notice that a peer has died. The launcher ends the job.

#![deny(unsafe_code)]
// allowed in `arena`, `flat`, `bounce`, `ring`, `segment`, `recycle`, `single_copy` and `event_count`
#![cfg_attr(loom, allow(dead_code))]

mod arena;
#[cfg(not(loom))]
mod bounce;
#[cfg(not(loom))]
mod connect;
mod event_count;
mod flat;
mod lease;
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
pub use connect::{Settings, ShmTransport};
#[cfg(not(loom))]
pub use segment::{COLL_SEGMENTS, Segment, SegmentError, SyncKind};
#[cfg(not(loom))]
pub use single_copy::SingleCopy;
