//! The transport between ranks of one host: rings in shared memory, and a single
//! copy for large messages.
//!
//! [`segment`] is the memory, [`ring`] moves frames from one rank to another,
//! `connect` makes rings when two ranks first talk, `data_path` is what runs for
//! each message, `single_copy` reads a peer's memory, `wake` sleeps and wakes.

#![deny(unsafe_code)] // allowed in `ring`, `segment`, `single_copy` and `wake`

mod connect;
mod data_path;
pub mod ring;
pub mod segment;
mod single_copy;
mod sync;
mod wake;

pub use connect::{Settings, ShmTransport, SingleCopy};
pub use segment::{Segment, SegmentError};
