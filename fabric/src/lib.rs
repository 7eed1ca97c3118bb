//! Types that protocols and transports share: peers, the wire header, the Transport trait, the
//! endpoint that owns a process's transports, request ids, and a simulated transport for tests.
//!
//! Nothing here accesses a device. The crate has no global state but the numbers that messages call
//! ranks (`world`).

#![deny(unsafe_code)] // allowed in `copy`, `user_buf` and `valgrind`

mod allocation;
pub mod body;
pub mod coll_segment;
pub mod copy;
pub mod endpoint;
pub mod header;
mod local_ranks;
pub mod membarrier;
pub mod protocol;
mod reports;
pub mod request_id;
pub mod sim;
pub mod store;
mod timer;
pub mod transport;
pub mod user_buf;
pub mod valgrind;
pub mod world;

pub use allocation::allocate;
pub use body::{Body, Cut};
pub use coll_segment::CollSegment;
pub use endpoint::Endpoint;
pub use header::{Collective, CollectiveKind, Header, Kind};
pub use local_ranks::LocalRanks;
pub use protocol::Protocol;
pub use reports::Reports;
pub use request_id::{ProtocolId, RequestId, Token};
pub use store::{InProcessStore, Store};
pub use timer::Timer;
pub use transport::{
    Atomic, AtomicFailure, Caps, Chunks, GetOrPush, GiveUp, HybridGet, Offload, OneSided,
    OwnAtomics, Peer, PeerFailed, Placed, Post, Region, Rights, Sink, Slot, Transfer, Transport,
    WaitOn,
};
pub use user_buf::UserBuf;
