//! MPI's Fortran procedures, for `mpif.h`, `use mpi` and `use mpi_f08` (MPI-5.0 §19).
//!
//! One library serves all compilers: each procedure has the four usual names of external
//! procedures, and calls functions of the standard ABI alone. It therefore runs on every MPI that
//! has this ABI. With the feature `mpich` it is `libmpifort.so.12`, which calls functions of the
//! MPICH ABI, with the feature `openmpi` `libmpi_mpifh.so.40` and the libraries of Open MPI's
//! modules; `target` is all that differs.
//!
//! A handle in Fortran is the integer that MPI_X_toint gives, unless that cannot be turned back; a
//! status is the C status as INTEGERs. Entry points are generated from `fortran/abi`; those
//! that need more than conversions of their arguments call a body in the chapters below. A body
//! takes Fortran's arguments as they came. `P` is true for PMPI_ names: they call PMPI_ functions,
//! so that tools see each call once.

#![allow(clippy::too_many_arguments, reason = "procedures have as many as MPI gives them")]

mod array;
mod copy;
mod descriptor;
mod handle;
mod logical;
mod names;
mod pending;
mod prelude;
mod removed;
mod section;
mod sentinel;
mod target;
mod text;

// Chapters: the generator looks for bodies in these.
mod attribute;
mod completion;
mod datatype;
mod environment;
mod grequest;
mod info;
mod inquiry;
mod partitioned;
mod spawn;
mod user_function;

#[rustfmt::skip] // as the generator writes it
mod generated;

/// A symbol for each function of the standard ABI, since unit tests are linked to no MPI.
#[cfg(test)]
#[allow(non_snake_case, clashing_extern_declarations, reason = "never called")]
mod stand_in {
    include!(concat!(env!("OUT_DIR"), "/stand_in.rs"));
}
