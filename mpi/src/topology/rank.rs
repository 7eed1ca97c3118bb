//! Ranks: their checks and conversions.

use std::os::raw::c_int;

use crate::ffi;

/// The number of a process within a communicator or a group, counted from 0.
pub type Rank = c_int;

/// Panics unless a communicator of `size` processes has the rank.
#[track_caller]
pub(crate) fn check_rank(rank: Rank, size: Rank) {
    assert!((0..size).contains(&rank), "invalid rank {rank}: must be 0 to {}", size - 1);
}

/// Returns a rank that the library gives, or `None` for MPI_UNDEFINED.
pub(super) fn defined(rank: Rank) -> Option<Rank> {
    (rank != ffi::MPI_UNDEFINED).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_rank_is_none() {
        assert_eq!(defined(ffi::MPI_UNDEFINED), None);
        assert_eq!(defined(3), Some(3));
    }
}
