//! What a completed operation says about itself.

#![allow(unsafe_code)]

use std::fmt;

use crate::datatype::{Datatype, Equivalence, small_count};
use crate::error::call;
use crate::ffi::{MPI_Count, MPI_Status};
use crate::{Count, Rank, Tag};

/// The result of a receive or a probe (MPI-5.0 §3.2.5).
#[derive(Copy, Clone)]
pub struct Status(MPI_Status);

impl Status {
    /// Makes a status of the C interface's.
    pub fn from_raw(status: MPI_Status) -> Status {
        Status(status)
    }

    /// Returns the sender's rank.
    pub fn source_rank(&self) -> Rank {
        self.0.MPI_SOURCE
    }

    /// Returns the message's tag.
    pub fn tag(&self) -> Tag {
        self.0.MPI_TAG
    }

    /// Returns the number of elements of the datatype `d` in the message, or `MPI_UNDEFINED`, which
    /// is negative, if it is not a whole number.
    ///
    /// # Panics
    /// If the number is larger than 2^31 - 1; [`large_count`](Self::large_count) has no such limit.
    pub fn count<D: Datatype>(&self, d: D) -> Count {
        small_count(self.large_count(d))
    }

    /// Returns the number of elements of the datatype `d` in the message, or `MPI_UNDEFINED`, which
    /// is negative, if it is not a whole number.
    pub fn large_count<D: Datatype>(&self, d: D) -> MPI_Count {
        let mut count = 0;
        // SAFETY: the status is one that MPI wrote or an empty one, and the datatype is borrowed.
        unsafe { call!(MPI_Get_count_c(&self.0, d.as_raw(), &mut count)) };
        count
    }

    /// Returns whether the operation was cancelled, and nothing sent or received (MPI-5.0 §3.8.4).
    pub fn is_cancelled(&self) -> bool {
        let mut flag = 0;
        // SAFETY: the status is one that MPI wrote or an empty one.
        unsafe { call!(MPI_Test_cancelled(&self.0, &mut flag)) };
        flag != 0
    }

    /// Returns the number of values of `T` in the message.
    ///
    /// # Panics
    /// If it is not a whole number.
    #[track_caller]
    pub(super) fn values<T: Equivalence>(&self) -> usize {
        let count = self.large_count(T::equivalent_datatype());
        usize::try_from(count).unwrap_or_else(|_| self.refuse::<T>("a part of one"))
    }

    /// Panics unless the message brought a value of `T`, or `T` has no bytes to bring.
    #[track_caller]
    pub(super) fn expect_value<T: Equivalence>(&self) {
        match self.values::<T>() {
            1 => (),
            0 if size_of::<T>() == 0 => (),
            count => self.refuse::<T>(&count.to_string()),
        }
    }

    #[cold]
    #[track_caller]
    fn refuse<T>(&self, found: &str) -> ! {
        let (name, source, tag) = (std::any::type_name::<T>(), self.source_rank(), self.tag());
        panic!(
            "the message from rank {source} with tag {tag} has {found} where {name} is received: \
             it must have whole values, and one if one is received"
        );
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Status")
            .field("source_rank", &self.source_rank())
            .field("tag", &self.tag())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_shows_source_and_tag() {
        let status =
            Status::from_raw(MPI_Status { MPI_SOURCE: 3, MPI_TAG: 7, ..MPI_Status::default() });
        assert_eq!(format!("{status:?}"), "Status { source_rank: 3, tag: 7 }");
    }
}
