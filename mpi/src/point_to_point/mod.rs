//! Point-to-point communication: messages from one process to another (MPI-5.0 §3).
//!
//! A [`Destination`] sends and a [`Source`] receives. A process of a communicator is both, and
//! [`AnyProcess`](crate::topology::AnyProcess) is a source. Functions without a tag send with tag 0
//! and receive with any tag.
//!
//! Invariant: a value that a function returns is initialised. A receive of values therefore panics
//! if the message did not bring as many as it should.

pub use self::status::Status;

mod status;
