//! Requests: operations that have started and complete later (MPI-5.0 §3.7).
//!
//! A [`Request`] borrows the buffer of its operation. States: open, from the call that starts the
//! operation; complete, after [`Request::wait`] or a successful [`Request::test`], which take the
//! request and end the borrow.
//!
//! Invariant: a buffer outlives the operation on it. A request alone cannot ensure that, since a
//! program can forget values. Therefore each request belongs to a scope, which counts the open
//! ones:
//!
//! - A [`LocalScope`] exists during a call of [`scope()`], and buffers must outlive that call. If
//!   it ends with open requests, the process aborts, since MPI cannot give a buffer back.
//! - The [`StaticScope`] is for buffers that are never freed.
//!
//! A [`WaitGuard`] or a [`CancelGuard`] completes its request when it is dropped. A
//! [`RequestCollection`] completes several at once.

pub use self::collection::{RequestCollection, multiple_scope};
pub use self::guard::{CancelGuard, WaitGuard};
pub use self::scope::{LocalScope, Scope, StaticScope, scope};
pub use self::single::{Request, wait_any};

mod collection;
mod guard;
mod scope;
mod single;
