//! The transport over InfiniBand and RoCE, through libibverbs, which is opened when the first
//! transport is made. `docs/verbs.md` describes the protocol.
//!
//! [`transport`](VerbsTransport) holds the state as parts: `adapter`, `endpoints` with
//! `endpoint/`, `wireup`, `recv_queue`, `buffers`, `completions`, `eager_rdma/`, `registration`
//! with `uffd`, and others. `open`, `connect` and `queue_pair` are set-up; `post`, `recv` and
//! `poll` are the data path; `seam` implements the trait; `rails` puts several ports
//! together, which `selection` chooses.
//!
//! Invariants: a frame is kept until the peer has acknowledged it, and is replayed when its
//! connection breaks. The frames of an endpoint are delivered once and in order. Nothing that a
//! peer sends leads outside of the slot that it arrived in.

#![deny(unsafe_code)] // allowed in `endpoint/send_queue`, `ibv`, `memory`, `own_atomics`, `uffd`

mod adapter;
mod buffers;
mod coalesce;
mod completions;
mod connect;
mod control;
mod credit;
mod datagram;
mod datagrams;
pub mod device;
mod device_events;
mod device_list;
mod dynamic;
mod dynamic_rma;
mod eager_rdma;
mod endpoint;
mod endpoints;
mod explain;
mod flush;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
pub mod ibv;
mod limits;
mod locality;
mod memory;
mod notice;
mod one_sided;
mod open;
mod own_atomics;
mod path_mtu;
mod poll;
mod post;
mod promotion;
mod queue_pair;
mod rails;
mod recovery;
mod recv;
mod recv_queue;
mod registration;
mod rma;
mod seam;
mod selection;
mod settings;
mod shares;
mod sleep;
mod store;
mod stripes;
mod transport;
mod ud;
mod uffd;
mod unavailable;
mod wait_set;
mod wireup;
mod wireup_msg;
mod wireup_send;

pub use device::Port;
pub use rails::Rails;
pub use selection::Selection;
pub use settings::Settings;
pub use store::{InProcessStore, Store};
pub use transport::VerbsTransport;
pub use unavailable::Unavailable;
