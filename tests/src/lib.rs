//! Suites and harnesses for tests of several crates.

#![deny(unsafe_code)] // allowed in `bytes`, `device` and `idle`

pub mod bytes;
pub mod conformance;
pub mod decoders;
pub mod device;
pub mod folder;
pub mod idle;
