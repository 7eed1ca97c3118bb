//! Processes of a communicator: one by its rank, or any.

#![allow(unsafe_code)]

use super::handle::{CommunicatorHandle, communicators};
use super::{AsCommunicator, Communicator, Rank};

/// A process of a communicator, by its rank. On an inter-communicator it is one of the other group.
#[derive(Copy, Clone, Debug)]
pub struct Process<'a> {
    comm: AnyProcess<'a>,
    rank: Rank,
}

impl<'a> Process<'a> {
    /// Makes a process of a rank, which is not checked.
    pub(crate) fn by_rank_unchecked<C: Communicator + ?Sized>(comm: &'a C, rank: Rank) -> Self {
        Process { comm: AnyProcess::of(comm), rank }
    }

    /// Returns the process's rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns whether the rank is that of the calling process in the communicator.
    pub fn is_self(&self) -> bool {
        self.comm.rank() == self.rank
    }
}

/// Any process of a communicator: the source of a receive that takes messages from all.
#[derive(Copy, Clone, Debug)]
pub struct AnyProcess<'a>(&'a CommunicatorHandle);

impl<'a> AnyProcess<'a> {
    pub(crate) fn of<C: Communicator + ?Sized>(comm: &'a C) -> Self {
        AnyProcess(comm.as_handle())
    }
}

communicators! {
    Process<'_>: comm, false;
    AnyProcess<'_>: 0, false;
}

impl<'a> AsCommunicator for Process<'a> {
    type Out = AnyProcess<'a>;

    fn as_communicator(&self) -> &Self::Out {
        &self.comm
    }
}

impl AsCommunicator for AnyProcess<'_> {
    type Out = Self;

    fn as_communicator(&self) -> &Self::Out {
        self
    }
}
