//! Collective operations: calls that all processes of a communicator make, in the same order
//! (MPI-5.0 §6).
//!
//! [`CommunicatorCollectives`] has those in which all processes do the same, [`Root`] those with a
//! root, [`NeighborhoodCollectives`] those among neighbours, and
//! [`Operation`] is the operation of a reduction: one of MPI ([`SystemOperation`]), a closure
//! ([`UserOperation`]) or a function of C ([`UnsafeUserOperation`]).
//!
//! Methods whose names start with `immediate_` start an operation and return a
//! [`Request`](crate::request::Request), which completes it.
//!
//! Each method checks that the buffers of its process are large enough for the operation, and
//! panics if they are not, before MPI is called. The library checks the data of
//! other processes.

mod buffers;
mod communicator;
mod communicator_calls;
mod neighborhood;
mod operation;
mod root;
mod root_calls;
mod spawn;
mod user_operation;

pub use self::communicator::CommunicatorCollectives;
pub use self::neighborhood::NeighborhoodCollectives;
pub use self::operation::{
    Operation, SystemOperation, UnsafeUserFunction, UnsafeUserOperation, reduce_local_into,
};
pub use self::root::Root;
pub use self::user_operation::UserOperation;

/// The traits of this module.
pub mod traits {
    pub use super::{CommunicatorCollectives, NeighborhoodCollectives, Operation, Root};
}
