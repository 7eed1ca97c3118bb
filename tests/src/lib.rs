//! Programs and suites that cross rooms.

#![deny(unsafe_code)] // allowed in `bytes` and `idle`

pub mod bytes;
pub mod conformance;
pub mod folder;
pub mod idle;
