//! One-sided communication (MPI-5.0 chapter 12): windows, epochs, operations and their frames.
//!
//! A client of the endpoint, beside `pt2pt`. It opens no device, reads no clock and runs no
//! collective: `runtime` makes windows and synchronises their ranks.
//!
//! Ways: where this process maps the target's memory, an operation is a copy or a processor atomic
//! within its call. Memory that another process of the host has brought is read and written by
//! single copy (`transfer`). On another host a device reads and writes it (`rdma`). Otherwise an
//! operation travels in frames (`wire`), which the target serves whenever it makes progress.
//! Completion: frames of a pair stay in order; therefore one acknowledged frame after them shows
//! that all operations before it are done. Operations that return data and those of a device are
//! counted as well. Puts of a device that places late are confirmed by a read (`confirm`).
//! Accumulates are executed by processors of the target's host, and single words of 8 bytes by a
//! device (`device_atomic`) in windows where all accesses agree on that; for each element by the
//! same method on every way (`element`). Therefore they are atomic towards each other, and in the
//! order posted.
//!
//! Invariants: nothing that a peer sends can panic the engine or make it touch memory outside of
//! the window. Memory grows with the targets used and the operations under way.

// Allowed in `atomic`, `attached`, `confirmation`, `control`, `device_atomic`, `mailbox` and
// `steps`.
#![deny(unsafe_code)]

mod active;
mod atomic;
mod attached;
mod blocked_on;
mod check;
mod combine;
mod confirm;
mod confirmation;
mod conflict;
mod control;
mod deferred;
mod describe;
mod device_atomic;
mod direct;
mod element;
mod engine;
mod epoch;
mod export;
mod guard;
mod ledger;
mod lock_queue;
mod mailbox;
mod offers;
mod operations;
mod origin;
mod outgoing;
mod rdma;
mod recent;
mod records;
mod segment;
mod steps;
mod sync;
mod target;
mod transfer;
mod window;
mod windows;
mod wire;

pub use attached::Attached;
pub use blocked_on::WaitsFor;
pub use conflict::{Conflict, Hooks};
pub use control::Control;
pub use direct::Unlocked;
pub use engine::Engine;
pub use fabric::RequestId;
pub use mailbox::Mailbox;
pub use offers::Deferral;
pub use origin::{Access, Place};
pub use recent::Recent;
pub use steps::StepRow;
pub use window::{AtomicsBy, LockBy, Memory, Remote, Window};
