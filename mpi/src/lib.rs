//! The Message Passing Interface for Rust.

#![allow(unused_macros, unused_imports, dead_code, reason = "while the crate is built")]

use std::os::raw::c_int;

pub mod datatype;
pub mod error;
pub mod ffi;
pub mod point_to_point;
pub mod raw;
pub mod request;

/// The traits of all modules.
pub mod traits {
    #[cfg(feature = "derive")]
    pub use mpi_derive::Equivalence;

    pub use crate::datatype::traits::*;
    pub use crate::raw::traits::*;
}

/// A number of elements.
pub type Count = c_int;
/// A message's tag.
pub type Tag = c_int;
/// A rank of a communicator.
pub type Rank = c_int;
/// An address, or the difference of two, in bytes.
pub type Address = ffi::MPI_Aint;
