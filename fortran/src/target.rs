//! The ABI of the MPI library below: the standard's, that of MPICH with the feature `mpich`, or
//! that of Open MPI with the feature `openmpi`.
//!
//! All that differs between them is here: handles, the status, constants that are passed by
//! reference, numbers of constants, and names for the linker. All targets have the same items.

#[cfg(all(feature = "mpich", feature = "openmpi"))]
compile_error!("the library is built for one ABI: that of MPICH or that of Open MPI");

#[cfg(not(any(feature = "mpich", feature = "openmpi")))]
mod standard;
#[cfg(not(any(feature = "mpich", feature = "openmpi")))]
pub(crate) use standard::*;

#[cfg(feature = "mpich")]
mod mpich;
#[cfg(feature = "mpich")]
pub(crate) use mpich::*;

#[cfg(feature = "openmpi")]
mod openmpi;
#[cfg(feature = "openmpi")]
pub(crate) use openmpi::*;

// What two of the targets share.
#[cfg(any(feature = "mpich", feature = "openmpi"))]
mod common;
#[cfg(any(feature = "mpich", feature = "openmpi"))]
mod converted;
#[cfg(not(feature = "mpich"))]
mod described;
#[cfg(any(feature = "mpich", feature = "openmpi"))]
mod modules;
#[cfg(not(feature = "mpich"))]
pub(crate) use described::*;

/// What C's address of a predefined attribute's value leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predefined {
    /// The address is the value.
    Address,
    /// An `int`.
    Int,
    /// An `MPI_Aint`.
    Aint,
}
