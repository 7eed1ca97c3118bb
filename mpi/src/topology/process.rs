//! Processes of a communicator: one by its rank, or any.

#![allow(unsafe_code)]

use super::Rank;
use super::handle::{AsHandle, CommunicatorHandle, give_handles};

/// A process of a communicator, by its rank. On an inter-communicator it is one of the other group.
#[derive(Copy, Clone, Debug)]
pub struct Process<'a> {
    pub(super) comm: AnyProcess<'a>,
    rank: Rank,
}

impl<'a> Process<'a> {
    /// Makes a process of a rank, which is not checked.
    pub(crate) fn by_rank_unchecked<C: AsHandle + ?Sized>(comm: &'a C, rank: Rank) -> Self {
        Process { comm: AnyProcess::of(comm), rank }
    }

    /// Returns the process's rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns whether the rank is that of the calling process in the communicator.
    pub fn is_self(&self) -> bool {
        self.comm.0.rank() == self.rank
    }
}

/// Any process of a communicator: the source of a receive that takes messages from all.
#[derive(Copy, Clone, Debug)]
pub struct AnyProcess<'a>(&'a CommunicatorHandle);

impl<'a> AnyProcess<'a> {
    pub(crate) fn of<C: AsHandle + ?Sized>(comm: &'a C) -> Self {
        AnyProcess(comm.as_handle())
    }
}

give_handles! {
    Process<'_>: comm, false;
    AnyProcess<'_>: 0, false;
}
