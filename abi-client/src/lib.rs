//! What the libraries on top of the standard ABI share: those of Fortran, and those with the ABIs
//! of MPICH and Open MPI.
//!
//! They call functions of the standard ABI alone, and run on every MPI that has it. This crate
//! calls none: its users pass the functions of their library. Macros here write unsafe code.

#![forbid(unsafe_code)]

pub mod integers;
pub mod jump;
pub mod probe;
pub mod slots;
