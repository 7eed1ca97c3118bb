//! One process of an MPI job, put together: the objects that the user holds,
//! the engine that moves messages, the collectives that run on it, and the way
//! to the launcher.
//!
//! Everything goes through the [`with`] gate. Blocking calls are in [`wait`]'s
//! terms: say what is awaited, progress until it is there. User callbacks are
//! always called outside the gate.
//!
//! The C ABI and the Rust API are thin layers over this crate.

#![deny(unsafe_code)] // allowed in `gate`, `attendant`, `bed`, `waiters`, `watcher`, `status_page`, `abort`, `generalized`, `bsend`, `collective`, `letters`, `thread`, `topology`

mod abort;
mod addresses;
mod attendant;
mod bed;
mod blocked_on;
pub mod bsend;
mod coll_segments;
pub mod collective;
pub mod communicator;
pub mod complete;
mod fault;
mod gate;
pub mod generalized;
pub mod hardware;
mod home;
mod idle;
mod init;
pub mod intercomm;
mod letters;
mod lost;
pub mod message;
mod named;
mod process;
mod raise;
pub mod request;
mod restless;
pub mod session;
pub mod split;
mod stack;
pub mod status_page;
mod thread;
pub mod topology;
mod wait;
mod waiters;
mod watcher;
mod ways;
mod word;

pub use abort::abort;
pub use gate::with;
pub use init::{THREAD_LEVELS, finalize, init, start_engine};
pub use message::SendMode;
pub use process::{Core, InitState, Process, Progress, bad_handle, bad_predefined, predefined};
pub use raise::{RaiseOn, raise};
pub use request::Request;
pub use stack::{Endpoint, Protocols, Stack};
pub use wait::{block_on, progress_once};
