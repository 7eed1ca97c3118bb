//! The ABI of the MPI library below: the standard's, or MPICH's with the feature `mpich`.
//!
//! All that differs between the two is here: handles, the status, constants that are passed by
//! reference, numbers of constants, and names for the linker. Both targets have the same items.

#[cfg(not(feature = "mpich"))]
mod standard;
#[cfg(not(feature = "mpich"))]
pub(crate) use standard::*;

#[cfg(feature = "mpich")]
mod mpich;
#[cfg(feature = "mpich")]
pub(crate) use mpich::*;

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
