//! What the libraries on top of the standard ABI share: `libverbena_fortran.so` and
//! `libmpi.so.12`, whose handles are integers.
//!
//! They call functions of the standard ABI alone, and run on every MPI that has it. This crate
//! calls none: its users pass the conversions of their library.

#![forbid(unsafe_code)]

pub mod integers;
pub mod slots;
