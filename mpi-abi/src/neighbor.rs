//! MPI-5.0 §8.6: collectives among the neighbours of a process topology.
//!
//! As in `collective.rs`, one body serves the blocking, the nonblocking and the
//! persistent form.

use std::os::raw::c_void;

use collectives::operation::{Edges, Operation};
use objects::{Class, Comm, Error, Result, Topology};

use crate::abi::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype};
use crate::call_form::CallForm;
use crate::collective::{Lists, data, required, run, types_of};
use crate::convert::{Counts, Displs};

/// The neighbours of this process.
struct Neighbors {
    sources: Vec<Option<u32>>,
    destinations: Vec<Option<u32>>,
    cartesian: bool,
}

impl Neighbors {
    /// Returns the neighbours, or MPI_ERR_TOPOLOGY for a communicator without a topology.
    fn of(comm: &Comm) -> Result<Neighbors> {
        let topology = comm.topology().ok_or_else(|| {
            Error::new(
                Class::Topology,
                format!("no neighbors: {} has no topology", comm.describe()),
            )
        })?;
        Ok(Neighbors {
            sources: topology.sources(comm.rank()),
            destinations: topology.destinations(comm.rank()),
            cartesian: matches!(topology, Topology::Cartesian(_)),
        })
    }

    fn edges(&self) -> Edges<'_> {
        Edges {
            sources: &self.sources,
            destinations: &self.destinations,
            cartesian: self.cartesian,
        }
    }

    fn indegree(&self) -> u32 {
        self.sources.len() as u32
    }

    fn outdegree(&self) -> u32 {
        self.destinations.len() as u32
    }
}

pub(crate) unsafe fn neighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let neighbors = Neighbors::of(object)?;
        // SAFETY: the user's buffers: a block to send, and one for each source.
        let (send, recv) = unsafe {
            let send = required(data(p, sendbuf, sendcount, sendtype, 1)?, "sendbuf")?;
            (
                send,
                required(data(p, recvbuf, recvcount, recvtype, neighbors.indegree())?, "recvbuf")?,
            )
        };
        plan(&Operation::NeighborAllgather { edges: neighbors.edges(), send, recv })
    })
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn neighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displs,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let neighbors = Neighbors::of(object)?;
        // SAFETY: the user's buffers, and arrays with an element for each source.
        unsafe {
            let lists = Lists::read(recvcounts, displs, neighbors.indegree())?;
            let send = required(data(p, sendbuf, sendcount, sendtype, 1)?, "sendbuf")?;
            let recv = lists.blocks(p, recvbuf, recvtype)?;
            plan(&Operation::NeighborAllgatherv { edges: neighbors.edges(), send, recv })
        }
    })
}

pub(crate) unsafe fn neighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let neighbors = Neighbors::of(object)?;
        // SAFETY: the user's buffers: a block for each destination, and one for each source.
        let (send, recv) = unsafe {
            let send =
                required(data(p, sendbuf, sendcount, sendtype, neighbors.outdegree())?, "sendbuf")?;
            (
                send,
                required(data(p, recvbuf, recvcount, recvtype, neighbors.indegree())?, "recvbuf")?,
            )
        };
        plan(&Operation::NeighborAlltoall { edges: neighbors.edges(), send, recv })
    })
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn neighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Displs,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Displs,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let neighbors = Neighbors::of(object)?;
        // SAFETY: the user's buffers, and arrays with an element for each neighbour.
        unsafe {
            let sending = Lists::read(sendcounts, sdispls, neighbors.outdegree())?;
            let receiving = Lists::read(recvcounts, rdispls, neighbors.indegree())?;
            let (send, recv) =
                (sending.blocks(p, sendbuf, sendtype)?, receiving.blocks(p, recvbuf, recvtype)?);
            plan(&Operation::NeighborAlltoallv { edges: neighbors.edges(), send, recv })
        }
    })
}

/// Displacements are in bytes, and MPI_Aint in both forms.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn neighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let neighbors = Neighbors::of(object)?;
        let (outdegree, indegree) = (neighbors.outdegree(), neighbors.indegree());
        // SAFETY: the user's buffers, and arrays with an element for each neighbour.
        unsafe {
            let sending = Lists::read(sendcounts, Displs::Large(sdispls), outdegree)?;
            let receiving = Lists::read(recvcounts, Displs::Large(rdispls), indegree)?;
            let (from, to) =
                (types_of(p, sendtypes, outdegree)?, types_of(p, recvtypes, indegree)?);
            let (send, recv) =
                (sending.blocks_of(sendbuf, &from)?, receiving.blocks_of(recvbuf, &to)?);
            plan(&Operation::NeighborAlltoallv { edges: neighbors.edges(), send, recv })
        }
    })
}
