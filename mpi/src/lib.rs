//! The Message Passing Interface (MPI) for Rust: processes that exchange messages, on one machine
//! or many.
//!
//! A program is built without an MPI. It finds the library when it runs: Verbena's, or any other
//! with the standard ABI of MPI 5.0. `mpiexec -n 4 ./program` runs it as four processes.
//!
//! ```no_run
//! use mpi::collective::SystemOperation;
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let rank = world.rank();
//! let mut sum = 0;
//! world.all_reduce_into(&rank, &mut sum, SystemOperation::sum());
//! println!("rank {rank} of {}: the ranks add up to {sum}", world.size());
//! ```
//!
//! The modules follow the standard: [`environment`] starts MPI, [`topology`] has communicators and
//! groups, [`collective`] has operations of all processes together, [`window`] has one-sided
//! communication, and [`mod@file`] has files. [`traits`] has all traits. What has no safe interface
//! here is called through [`ffi`], which has every function of MPI 5.0; types give and take handles
//! by the traits of [`raw`].
//!
//! By default an error of MPI ends the job with an explanation. [`error`] says what happens under
//! other error handlers. If a rank panics, the job is aborted: the other ranks would wait for it.

#![deny(unsafe_code)]

use std::os::raw::c_int;

pub mod attribute;
pub mod collective;
pub mod datatype;
pub mod environment;
pub mod error;
pub mod ffi;
pub mod file;
mod info;
pub mod plain;
pub mod point_to_point;
pub mod raw;
pub mod request;
pub mod topology;
pub mod window;

/// All traits of this crate.
pub mod traits {
    #[cfg(feature = "derive")]
    pub use mpi_derive::Equivalence;

    pub use crate::attribute::traits::*;
    pub use crate::collective::traits::*;
    pub use crate::datatype::traits::*;
    pub use crate::point_to_point::traits::*;
    pub use crate::raw::traits::*;
    pub use crate::topology::traits::*;
}

#[doc(inline)]
pub use crate::environment::{
    Threading, initialize, initialize_with_threading, time, time_resolution,
};
#[doc(inline)]
pub use crate::error::MpiError;
#[doc(inline)]
pub use crate::topology::Rank;

/// The return code of a function of C (MPI-5.0 §9.4).
pub type Error = c_int;
/// A number of elements.
pub type Count = c_int;
/// A message's tag.
pub type Tag = c_int;
/// An address, or the difference of two, in bytes.
pub type Address = ffi::MPI_Aint;

/// The examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct Page;
