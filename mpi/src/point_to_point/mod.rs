//! Point-to-point communication: messages from one process to another (MPI-5.0 §3).
//!
//! A [`Destination`] sends and a [`Source`] receives. A process of a communicator is both, and
//! [`AnyProcess`](crate::topology::AnyProcess) is a source. Functions without a tag send with tag 0
//! and receive with any tag.
//!
//! The four modes of a send (MPI-5.0 §3.4) differ in when it is complete: standard, once the buffer
//! can be reused; buffered, at once, by a copy into the buffer of
//! [`Universe::set_buffer_size`](crate::environment::Universe::set_buffer_size); synchronous, once
//! the receive has started; ready, as standard, if the receive has already started.
//!
//! An immediate function starts an operation and returns a [`Request`](crate::request::Request).
//! `send_init` and `receive_init_into` prepare one that can be started again and again.
//!
//! Invariant: a value that a function returns is initialised. A receive of values therefore panics
//! if the message did not bring as many as it should.

pub use self::destination::Destination;
pub use self::future::ReceiveFuture;
pub use self::message::{MatchedReceiveVec, Message};
pub use self::persistent::PersistentRequest;
pub use self::send_receive::{
    send_receive, send_receive_into, send_receive_into_with_tags, send_receive_replace_into,
    send_receive_replace_into_with_tags, send_receive_with_tags,
};
pub use self::source::Source;
pub use self::status::Status;

mod destination;
mod future;
mod message;
mod persistent;
mod send_receive;
mod source;
mod status;
mod value;

/// The traits of this module.
pub mod traits {
    pub use super::{Destination, MatchedReceiveVec, Source};
}
