//! The words that every room shares: who a peer is, what a frame on the wire
//! looks like, what a transport must do, which knobs there are.
//!
//! Nothing here talks to a device. The crate has no state of its own.

#![deny(unsafe_code)] // allowed in `memory` alone

pub mod arena;
pub mod growing;
pub mod header;
pub mod memory;
pub mod sim;
pub mod transport;

pub use arena::Arena;
pub use growing::{Body, Count, Growing};
pub use header::{Collective, CollectiveKind, Header, Kind};
pub use memory::Memory;
pub use transport::{
    Atomic, Limits, Lost, OneSided, Peer, Post, Region, Rights, Sink, Slot, Transfer, Transport, WaitOn,
};
