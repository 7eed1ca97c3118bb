//! The ABI of the programs: MPICH's, or Open MPI's with the feature `openmpi`.
//!
//! All that differs between the two is here and in the tables of constants: handles, the status,
//! error codes, addresses that stand for something else, and symbols that only one of them has.
//! Both targets have the same items.

#[cfg(not(feature = "openmpi"))]
mod mpich;
#[cfg(not(feature = "openmpi"))]
pub(crate) use mpich::*;

#[cfg(feature = "openmpi")]
mod openmpi;
#[cfg(feature = "openmpi")]
pub(crate) use openmpi::*;
