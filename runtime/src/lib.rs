//! One process of an MPI job: the user's objects, the protocol stack that moves messages, the
//! collectives that run on it, and the connection to the launcher.
//!
//! All state is in one [`Process`], behind the process lock ([`with`]). Blocking calls wait with
//! [`block_on`]. User callbacks always run outside the lock. The files form layers: types of
//! requests and sessions are below `process`, operations on it above, `init` on top.
//!
//! The C ABI is a thin layer over this crate.

#![deny(unsafe_code)]
// allowed in `abort`, `announcement`, `bsend`, `collective`, `control_channel`, `file_words`,
// `generalized`, `guarded`, `status_page`, `topology` and `window::create`

mod abort;
mod addresses;
mod agreement;
mod announcement;
mod blocked_on;
pub mod bsend;
mod coll_segments;
pub mod collective;
pub mod communicator;
mod completion;
mod conflicts;
mod context_id;
mod contexts;
mod control_channel;
mod detached;
mod errhandlers;
mod explain;
mod fault;
mod file_exchange;
mod file_table;
mod file_tasks;
mod file_words;
pub mod files;
pub mod generalized;
mod guarded;
pub mod hardware;
mod homes;
mod host_listener;
mod incidents;
mod init;
mod inter;
pub mod intercomm;
mod late_ranks;
mod launcher_program;
mod lock;
pub mod message;
pub mod other_jobs;
mod outcome;
mod outside_call;
mod own_launcher;
mod partition_requests;
pub mod partitioned;
mod partitions;
pub mod port;
mod process;
mod raise;
pub mod request;
mod request_handle;
pub mod service;
pub mod session;
mod signatures;
pub mod spawn;
pub mod split;
mod stack;
pub mod status_page;
pub mod tools;
pub mod topology;
mod usage;
mod wait_target;
pub mod wait_test;
mod win;
pub mod window;

pub use abort::abort;
pub use init::{THREAD_LEVELS, finalize, init, start_engine};
pub use lock::{block_on, poll, progress_once, with, with_alone};
pub use process::{Core, GroupObject, InitState, Process, bad_handle, bad_predefined, predefined};
pub use raise::{RaiseOn, raise};
pub use request::{Request, SendMode};
pub use request_handle::{request_from_int, request_to_int};
pub use stack::{Endpoint, Protocols, Stack};
