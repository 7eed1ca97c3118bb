//! The point-to-point engine: matching, eager and rendezvous messages, requests and progress
//! (MPI-5.0 chapter 3).
//!
//! It opens no device, reads no clock and no environment. It is a client of the endpoint: calls
//! come in from above and take the endpoint, frames go out and come in through
//! [`fabric::Transport`]. One engine serves one process; `docs/protocol.md` draws its frames.
//! Each protocol event has a file; [`Engine`] is defined in `engine` and its parts below that.
//!
//! Invariants: nothing a peer sends can panic the engine or make it touch memory outside the
//! buffers of requests that this peer takes part in. Memory follows the messages in flight, and
//! eager data without a receive is bounded.

#![forbid(unsafe_code)]

mod cancel;
mod cooperation;
mod credit;
mod credited;
mod eager;
mod engine;
mod fault;
mod index;
mod key;
mod lists;
mod matching;
mod message;
mod notice;
mod peer_failure;
mod peers;
mod probe;
mod progress;
mod receive;
mod rendezvous;
mod requests;
mod self_send;
mod send;
mod spare_regions;
mod unexpected;

pub use engine::{Engine, Settings};
pub use fabric::RequestId;
pub use fault::{CollectiveCall, Fault, LateReady, REMOTE_SOURCE, SequenceName, SourceName, Types};
pub use message::{
    Completion, Envelope, MessageId, MessageWait, Mode, Notice, Pattern, Seen, Unfinished,
    Unreceived,
};
