//! Other ABIs on the standard's (MPI-5.0 §20): that of MPICH, Intel MPI, MVAPICH and Cray MPICH,
//! `libmpi.so.12`, or with the feature `openmpi` that of Open MPI, `libmpi.so.40`.
//!
//! A program that was built for one of these runs unchanged. Each entry point converts its
//! arguments, calls the standard ABI's PMPI_ function, and converts what comes back. The library
//! below may be any MPI that has the standard ABI. Entry points, constants and the table of the
//! functions below are generated from `foreign-abi/abi` and `mpi-abi/abi`; the kind of each
//! parameter is in one table of the generator. Functions that need more call a body in the
//! chapters. What differs between the two ABIs is in `target`.
//!
//! MPI_X jumps to PMPI_X, and both call PMPI_ names below: an MPI_X in front of this library is a
//! tool's for this ABI, and a tool for the standard ABI cannot stand in front of such a program.

#![allow(clippy::too_many_arguments, reason = "functions have as many as MPI gives them")]

mod abi;
mod array;
mod code;
mod handle;
mod library;
mod prelude;
mod sentinel;
mod status;
mod symbols;
mod target;
mod text;

// Chapters: the generator looks for bodies in these.
mod attribute;
mod bsend;
mod callback;
mod completion;
mod contents;
mod datarep;
mod environment;
mod grequest;
mod language;
mod spawn;
mod tool;

#[rustfmt::skip] // as the generator writes it
mod generated;
