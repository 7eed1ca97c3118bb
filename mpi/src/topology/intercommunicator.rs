//! Inter-communicators: the processes of two disjoint groups (MPI-5.0 §7.6).

#![allow(unsafe_code)]

use std::os::raw::c_int;

use super::handle::{CommunicatorHandle, give_handles};
use super::{Rank, SimpleCommunicator, UserGroup};
use crate::error::call;
use crate::ffi::{self, MPI_Comm};
use crate::raw::{AsRaw, FromRaw};

/// A communicator between the processes of two disjoint groups (MPI-5.0 §7.6): the ranks that a
/// process sends to are those of the other group.
///
/// One that the program has made is disconnected when it is dropped (MPI-5.0 §11.10.4). That is
/// collective over both groups, and waits until all communication is complete. The one of
/// [`parent`](super::Communicator::parent) is disconnected with the universe.
#[derive(Debug)]
pub struct InterCommunicator(pub(super) CommunicatorHandle);

give_handles! {
    InterCommunicator: 0, true;
}

impl InterCommunicator {
    /// Takes over an inter-communicator. Returns `None` for MPI_COMM_NULL, and for a communicator
    /// of another kind, which is freed.
    ///
    /// # Safety
    /// The handle is MPI_COMM_NULL or valid, and belongs to the result.
    pub unsafe fn try_from_raw(raw: MPI_Comm) -> Option<Self> {
        // SAFETY: as the caller promises.
        unsafe { CommunicatorHandle::try_from_raw(raw) }
            .filter(CommunicatorHandle::is_inter_comm)
            .map(InterCommunicator)
    }

    /// Returns the number of processes in the other group (MPI-5.0 §7.6.1).
    pub fn remote_size(&self) -> Rank {
        self.0.remote_size()
    }

    /// Returns the other group (MPI-5.0 §7.6.1).
    pub fn remote_group(&self) -> UserGroup {
        let mut group = ffi::MPI_GROUP_NULL;
        // SAFETY: the handle is that of a valid inter-communicator. The group belongs to the
        // result.
        unsafe {
            call!(MPI_Comm_remote_group(self.as_raw(), &mut group));
            UserGroup::from_raw(group)
        }
    }

    /// Makes an intra-communicator of both groups (MPI-5.0 §7.6.2). Collective over both.
    ///
    /// All processes of a group give the same order.
    pub fn merge(&self, merge_order: MergeOrder) -> SimpleCommunicator {
        let mut raw = ffi::MPI_COMM_NULL;
        // SAFETY: the handle is that of a valid inter-communicator. The new communicator belongs to
        // the result.
        unsafe {
            call!(MPI_Intercomm_merge(self.as_raw(), merge_order.as_raw(), &mut raw));
            SimpleCommunicator::from_raw(raw)
        }
    }

    /// Makes an inter-communicator of the same groups with a context of its own (MPI-5.0 §7.4.2).
    /// Collective over both groups.
    pub fn duplicate(&self) -> InterCommunicator {
        let mut raw = ffi::MPI_COMM_NULL;
        // SAFETY: the handle is valid, and the new communicator belongs to the result.
        unsafe {
            call!(MPI_Comm_dup(self.as_raw(), &mut raw));
            InterCommunicator::from_raw(raw)
        }
    }
}

impl FromRaw for InterCommunicator {
    /// Takes over an inter-communicator.
    ///
    /// # Safety
    /// The handle is that of a valid inter-communicator other than the parent's, and belongs to the
    /// result.
    unsafe fn from_raw(handle: <Self as AsRaw>::Raw) -> Self {
        // SAFETY: as the caller promises.
        InterCommunicator(unsafe { CommunicatorHandle::inter_comm_from_raw(handle) })
    }
}

/// The order of two groups that are merged (MPI-5.0 §7.6.2). If both groups give the same, the
/// library chooses.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MergeOrder {
    /// The ranks of this group come first.
    Low,
    /// The ranks of this group come last.
    High,
}

impl MergeOrder {
    fn as_raw(self) -> c_int {
        c_int::from(self == MergeOrder::High)
    }
}
