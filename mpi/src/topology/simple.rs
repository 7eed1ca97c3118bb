//! Intra-communicators, and the kinds of topologies that one can have.

#![allow(unsafe_code)]

use super::handle::{CommunicatorHandle, give_handles};
use crate::error::call;
use crate::ffi::{self, MPI_Comm};
use crate::raw::{AsRaw, FromRaw};

/// An intra-communicator: MPI_COMM_WORLD, MPI_COMM_SELF, or one that the program has made.
///
/// One that the program has made is freed when it is dropped (MPI-5.0 §7.4.3). Dropping is
/// collective. Nothing is freed after MPI is finalised, or while the thread panics.
#[derive(Debug)]
pub struct SimpleCommunicator(pub(super) CommunicatorHandle);

give_handles! {
    SimpleCommunicator: 0, true;
}

impl SimpleCommunicator {
    /// Returns MPI_COMM_WORLD, the communicator of all processes that started together
    /// (MPI-5.0 §7.4.1).
    pub fn world() -> SimpleCommunicator {
        SimpleCommunicator(CommunicatorHandle::World)
    }

    /// Returns MPI_COMM_SELF, the communicator of the calling process alone (MPI-5.0 §7.4.1).
    pub fn self_comm() -> SimpleCommunicator {
        SimpleCommunicator(CommunicatorHandle::SelfComm)
    }

    /// Takes over an intra-communicator that a call has made; `None` for MPI_COMM_NULL.
    ///
    /// # Safety
    /// The handle is MPI_COMM_NULL, or that of a valid intra-communicator that belongs to the
    /// result.
    pub(super) unsafe fn try_from_raw(raw: MPI_Comm) -> Option<SimpleCommunicator> {
        // SAFETY: as the caller promises.
        (raw != ffi::MPI_COMM_NULL).then(|| unsafe { SimpleCommunicator::from_raw(raw) })
    }

    /// Returns the kind of the communicator's topology (MPI-5.0 §8.5.5).
    pub fn topology(&self) -> Topology {
        let mut kind = 0;
        // SAFETY: the handle is valid.
        unsafe { call!(MPI_Topo_test(self.as_raw(), &mut kind)) };
        match kind {
            ffi::MPI_GRAPH => Topology::Graph,
            ffi::MPI_CART => Topology::Cartesian,
            ffi::MPI_DIST_GRAPH => Topology::DistributedGraph,
            ffi::MPI_UNDEFINED => Topology::Undefined,
            _ => panic!("unknown topology {kind}"),
        }
    }
}

impl FromRaw for SimpleCommunicator {
    /// Takes over an intra-communicator.
    ///
    /// # Safety
    /// The handle is that of a valid intra-communicator other than MPI_COMM_WORLD and
    /// MPI_COMM_SELF, and belongs to the result.
    unsafe fn from_raw(handle: <Self as AsRaw>::Raw) -> Self {
        // SAFETY: as the caller promises.
        SimpleCommunicator(unsafe { CommunicatorHandle::simple_comm_from_raw(handle) })
    }
}

/// The kinds of topologies (MPI-5.0 §8.2).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A graph that each process knows whole.
    Graph,
    /// A grid.
    Cartesian,
    /// A graph of which each process knows its own edges.
    DistributedGraph,
    /// No topology.
    Undefined,
}
