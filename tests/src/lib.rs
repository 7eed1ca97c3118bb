//! Programs and suites that cross rooms.

#![deny(unsafe_code)] // allowed in `bytes` alone

pub mod bytes;
pub mod conformance;
