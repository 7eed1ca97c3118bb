//! How communicators and groups compare.

use std::os::raw::c_int;

use crate::ffi;

/// How two communicators compare (MPI-5.0 §7.4.1).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CommunicatorRelation {
    /// The same communicator.
    Identical,
    /// The same processes in the same order, in another context.
    Congruent,
    /// The same processes in another order.
    Similar,
    /// Other processes.
    Unequal,
}

impl From<c_int> for CommunicatorRelation {
    /// Panics unless the number is one that MPI_Comm_compare returns.
    fn from(relation: c_int) -> CommunicatorRelation {
        match relation {
            ffi::MPI_IDENT => CommunicatorRelation::Identical,
            ffi::MPI_CONGRUENT => CommunicatorRelation::Congruent,
            ffi::MPI_SIMILAR => CommunicatorRelation::Similar,
            ffi::MPI_UNEQUAL => CommunicatorRelation::Unequal,
            _ => panic!("unknown relation of communicators {relation}"),
        }
    }
}

/// How two groups compare (MPI-5.0 §7.3.1).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum GroupRelation {
    /// The same processes in the same order.
    Identical,
    /// The same processes in another order.
    Similar,
    /// Other processes.
    Unequal,
}

impl From<c_int> for GroupRelation {
    /// Panics unless the number is MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
    fn from(relation: c_int) -> GroupRelation {
        match relation {
            ffi::MPI_IDENT => GroupRelation::Identical,
            ffi::MPI_SIMILAR => GroupRelation::Similar,
            ffi::MPI_UNEQUAL => GroupRelation::Unequal,
            _ => panic!("unknown relation of groups {relation}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_have_names() {
        assert_eq!(CommunicatorRelation::from(ffi::MPI_CONGRUENT), CommunicatorRelation::Congruent);
        assert_eq!(GroupRelation::from(ffi::MPI_SIMILAR), GroupRelation::Similar);
    }

    #[test]
    #[should_panic(expected = "unknown relation of groups")]
    fn two_groups_are_never_congruent() {
        let _ = GroupRelation::from(ffi::MPI_CONGRUENT);
    }
}
