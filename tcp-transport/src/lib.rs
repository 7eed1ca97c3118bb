//! The transport over TCP, for hosts that share no RDMA fabric. `docs/tcp.md` describes the
//! protocol.
//!
//! Two processes exchange a stream of records in each direction, and more for large gets
//! (`stripes`) where one connection does not fill the path. A stream outlives
//! connections: a sender keeps what the peer has not acknowledged, and a new connection goes on at
//! the byte where the last one ended. Therefore nothing is lost or doubled.
//!
//! `dial`, `accept`, `handshake` and `link` are set-up; `post`, `one_sided`, `read`, `records` and
//! `poll` are the data path; `seam` implements the trait. Large messages are read from the
//! sender's buffer into the receiver's (`Get` records), without a copy of ours.
//!
//! Invariants: a connection carries records only after both sides have proved the job's secret.
//! Nothing that a peer sends is trusted as a length, an address or an index.

#![deny(unsafe_code)] // allowed in `ifaddrs` and `sys`

mod accept;
mod candidates;
mod congestion;
mod dial;
mod dial_state;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod handshakes;
mod hot;
mod ifaddrs;
pub mod key_pair;
mod link;
mod listener;
mod one_sided;
mod peer;
mod poll;
mod post;
mod read;
mod records;
mod regions;
mod scratch;
mod seam;
mod send_queue;
mod settings;
mod sleep;
mod socket;
mod stripes;
mod sys;
mod tls;
mod transport;
mod wait_set;
mod wire;

pub use candidates::{Filter, InvalidFilter};
pub use listener::open_listener;
pub use settings::Settings;
pub use transport::{TcpTransport, Unavailable};
