//! Collective operations among neighbours (MPI-5.0 §8.6). rsmpi does not have them.

#![allow(unsafe_code)]

use super::buffers::{
    Elements, Parts, Start, lent, lent_parts, received, received_parts, sent, sent_parts, start,
    started,
};
use crate::Count;
use crate::datatype::{Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut};
use crate::ffi::MPI_Comm;
use crate::request::{Request, Scope};
use crate::topology::{
    CartesianCommunicator, Communicator, DistributedGraphCommunicator, GraphCommunicator,
};

/// Collective operations in which each process exchanges data with its neighbours (MPI-5.0 §8.6).
///
/// The neighbours of a grid are, for each dimension, the process before and the one after. Where
/// the grid ends, there is none: nothing is sent, and that part of the receive buffer stays as it
/// is. Those of a graph are in the order in which its edges were given.
///
/// # Panics
/// All methods panic unless the buffers have as many elements for each neighbour, or a part for
/// each.
pub trait NeighborhoodCollectives: Communicator {
    /// Returns the number of neighbours that send to this process, and of those that it sends to.
    fn neighbor_counts(&self) -> (Count, Count);

    /// Sends the send buffer to all neighbours, and receives a block of each (MPI-5.0 §8.6.1).
    #[track_caller]
    fn neighbor_all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { all_gather(comm, counts, *sent(sendbuf), *received(recvbuf), None) };
    }

    /// Sends the send buffer to all neighbours, and receives a part of each (MPI-5.0 §8.6.1).
    #[track_caller]
    fn neighbor_all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        let (send, recv) = (sent(sendbuf), received_parts(recvbuf));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { all_gather_varcount(comm, counts, *send, *recv, None) };
    }

    /// Sends a block of the send buffer to each neighbour, and receives one of each
    /// (MPI-5.0 §8.6.2).
    #[track_caller]
    fn neighbor_all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { all_to_all(comm, counts, *sent(sendbuf), *received(recvbuf), None) };
    }

    /// Sends a part of the send buffer to each neighbour, and receives one of each
    /// (MPI-5.0 §8.6.2).
    #[track_caller]
    fn neighbor_all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: PartitionedBuffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        let (send, recv) = (sent_parts(sendbuf), received_parts(recvbuf));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { all_to_all_varcount(comm, counts, *send, *recv, None) };
    }

    /// Starts [`neighbor_all_gather_into`](Self::neighbor_all_gather_into) (MPI-5.0 §8.7.1).
    fn immediate_neighbor_all_gather_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe { started(scope, data, |request| all_gather(comm, counts, *send, *recv, request)) }
    }

    /// Starts [`neighbor_all_gather_varcount_into`](Self::neighbor_all_gather_varcount_into)
    /// (MPI-5.0 §8.7.1).
    fn immediate_neighbor_all_gather_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + PartitionedBufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        let (send, (data, recv)) = (sent(sendbuf), lent_parts(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| all_gather_varcount(comm, counts, *send, *recv, request))
        }
    }

    /// Starts [`neighbor_all_to_all_into`](Self::neighbor_all_to_all_into) (MPI-5.0 §8.7.2).
    fn immediate_neighbor_all_to_all_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe { started(scope, data, |request| all_to_all(comm, counts, *send, *recv, request)) }
    }

    /// Starts [`neighbor_all_to_all_varcount_into`](Self::neighbor_all_to_all_varcount_into)
    /// (MPI-5.0 §8.7.2).
    fn immediate_neighbor_all_to_all_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + PartitionedBuffer + ?Sized,
        R: 'a + PartitionedBufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, counts) = (self.as_raw(), self.neighbor_counts());
        let (send, (data, recv)) = (sent_parts(sendbuf), lent_parts(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| all_to_all_varcount(comm, counts, *send, *recv, request))
        }
    }
}

impl NeighborhoodCollectives for CartesianCommunicator {
    fn neighbor_counts(&self) -> (Count, Count) {
        let both = 2 * self.num_dimensions();
        (both, both)
    }
}

impl NeighborhoodCollectives for GraphCommunicator {
    fn neighbor_counts(&self) -> (Count, Count) {
        let both = self.neighbors(self.rank()).len() as Count;
        (both, both)
    }
}

impl NeighborhoodCollectives for DistributedGraphCommunicator {
    fn neighbor_counts(&self) -> (Count, Count) {
        let (sources, destinations, _) = self.degrees();
        (sources, destinations)
    }
}

/// # Safety
/// The communicator has so many neighbours. The buffers are valid until the operation is complete,
/// and nothing else uses the second.
#[track_caller]
unsafe fn all_gather(
    comm: MPI_Comm,
    (sources, _): (Count, Count),
    send: Elements,
    recv: Elements,
    start: Start,
) {
    let count = recv.per_neighbor(sources);
    // SAFETY: the receive buffer holds `count` elements of each neighbour; the rest as the caller
    // promises.
    unsafe {
        start!(
            start,
            MPI_Neighbor_allgather_c or MPI_Ineighbor_allgather_c,
            send.pointer,
            send.count,
            send.datatype,
            recv.pointer,
            count,
            recv.datatype,
            comm,
        );
    }
}

/// # Safety
/// As for `all_gather`.
#[track_caller]
unsafe fn all_gather_varcount(
    comm: MPI_Comm,
    (sources, _): (Count, Count),
    send: Elements,
    recv: Parts<'_>,
    start: Start,
) {
    recv.check_neighbors(sources);
    // SAFETY: there is a part for each neighbour, and all lie within the receive buffer; the rest
    // as the caller promises.
    unsafe {
        start!(
            start,
            MPI_Neighbor_allgatherv or MPI_Ineighbor_allgatherv,
            send.pointer,
            send.int_count(),
            send.datatype,
            recv.pointer,
            recv.counts(),
            recv.displacements(),
            recv.datatype,
            comm,
        );
    }
}

/// # Safety
/// As for `all_gather`.
#[track_caller]
unsafe fn all_to_all(
    comm: MPI_Comm,
    (sources, destinations): (Count, Count),
    send: Elements,
    recv: Elements,
    start: Start,
) {
    let (sent, received) = (send.per_neighbor(destinations), recv.per_neighbor(sources));
    // SAFETY: both buffers hold that many elements for each neighbour; the rest as the caller
    // promises.
    unsafe {
        start!(
            start,
            MPI_Neighbor_alltoall_c or MPI_Ineighbor_alltoall_c,
            send.pointer,
            sent,
            send.datatype,
            recv.pointer,
            received,
            recv.datatype,
            comm,
        );
    }
}

/// # Safety
/// As for `all_gather`.
#[track_caller]
unsafe fn all_to_all_varcount(
    comm: MPI_Comm,
    (sources, destinations): (Count, Count),
    send: Parts<'_>,
    recv: Parts<'_>,
    start: Start,
) {
    send.check_neighbors(destinations);
    recv.check_neighbors(sources);
    // SAFETY: there is a part for each neighbour, and all lie within the buffers; the rest as the
    // caller promises.
    unsafe {
        start!(
            start,
            MPI_Neighbor_alltoallv or MPI_Ineighbor_alltoallv,
            send.pointer,
            send.counts(),
            send.displacements(),
            send.datatype,
            recv.pointer,
            recv.counts(),
            recv.displacements(),
            recv.datatype,
            comm,
        );
    }
}
