//! The transport between ranks of one host: rings in shared memory, a single copy for large
//! messages, and collective segments.
//!
//! `segment` is the memory that the ranks share and `ring` moves frames from one rank to another.
//! Large bodies leave the ring: `method` chooses how, `blocks` allocates their space (`bounce`,
//! `recycle`), `body` describes it. `connect` makes rings when two ranks first communicate; `post`
//! and `poll` run for each message. `single_copy` reads a peer's memory where `copy_tuner` finds
//! that faster; `event_count` parks and wakes.
//!
//! A message of up to 24 bytes costs one cache line that moves from sender to receiver: no
//! read-modify-write, no lock, no system call, and a fence only where ranks share processors.
//! Memory follows the pairs that communicate: a page for each ordered pair, more for busy ones.
//! Processes of other jobs on the host are reached alike (`outsiders`).
//!
//! This crate does not detect that a peer has died: the launcher ends the job.

#![deny(unsafe_code)] // each file that needs it allows it
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
mod blocks;
#[cfg(not(loom))]
mod body;
#[cfg(not(loom))]
mod bounce;
mod coll_segment;
#[cfg(not(loom))]
mod connect;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod copy_cost;
#[cfg(not(loom))]
mod copy_tuner;
mod event_count;
#[cfg(not(loom))]
mod home;
#[cfg(not(loom))]
mod inbound;
#[cfg(not(loom))]
mod layout;
#[cfg(all(test, loom))]
mod loom_harness;
#[cfg(not(loom))]
mod meet;
#[cfg(not(loom))]
mod memory_file;
#[cfg(not(loom))]
mod method;
#[cfg(not(loom))]
mod outbound;
#[cfg(not(loom))]
mod outsiders;
#[cfg(not(loom))]
mod peers;
mod pipeline;
#[cfg(not(loom))]
mod poll;
#[cfg(not(loom))]
mod post;
#[cfg(not(loom))]
mod recycle;
pub mod ring;
#[cfg(not(loom))]
mod rma;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
mod single_copy;
#[cfg(not(loom))]
mod store_tuner;
mod sync;
#[cfg(not(loom))]
mod transport;
#[cfg(not(loom))]
mod window;

#[cfg(not(loom))]
pub use coll_segment::SyncKind;
#[cfg(not(loom))]
pub use connect::{Settings, ShmTransport};
#[cfg(not(loom))]
pub use control::COLL_SEGMENTS;
#[cfg(not(loom))]
pub use home::Home;
#[cfg(not(loom))]
pub use memory_file::fallocate_is_refused;
#[cfg(not(loom))]
pub use segment::{Segment, SegmentError};
#[cfg(not(loom))]
pub use single_copy::{SingleCopy, permit_descendants_of};
#[cfg(not(loom))]
pub use window::WindowRange;
