//! The transport over InfiniBand and RoCE, through libibverbs, which is opened when
//! the first transport is made. `docs/verbs.md` describes the protocol.
//!
//! - [`ibv`] is libibverbs; [`device`] chooses a port; `unavailable` says why there is none
//! - `connect` makes connections, as `handshake` decides, by datagrams (`hello`)
//!   through the `bell`
//! - `post`, `poll` and `one_sided` are what runs for each message; `pair` is what they share,
//!   `memory` the registered slots
//! - `bundle` puts frames that had to wait into one message
//! - `ring` is how short frames are written into the receiver's memory, `written` does it
//! - `registration` keeps registrations of the user's memory as long as `watch` proves that it stays
//! - `wake` sleeps and wakes; `rails` puts several ports together
//!
//! Invariants: a frame is kept until the peer has consumed it, and goes again when its
//! connection breaks; frames of a pair are handed up once and in order; nothing that a
//! peer sends leads outside of the slot that it arrived in.

#![deny(unsafe_code)] // allowed in `ibv`, `memory`, `post` and `watch`

mod coalesce;
mod connect;
pub mod device;
mod eager_rdma;
mod endpoint;
mod handshake;
pub mod ibv;
mod memory;
mod one_sided;
mod poll;
mod post;
mod rails;
mod recovery;
mod registration;
mod seam;
mod settings;
mod store;
mod ud;
mod uffd;
mod unavailable;
mod wait;
mod wireup_msg;

pub use connect::VerbsTransport;
pub use device::Port;
pub use rails::Rails;
pub use settings::Settings;
pub use store::{InProcessStore, Store};
pub use unavailable::Unavailable;
