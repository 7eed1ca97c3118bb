//! The job's store of addresses, under the name that this crate's callers use.

pub use fabric::store::{InProcessStore, Store};
