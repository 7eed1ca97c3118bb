//! Communicators whose topology is a graph (MPI-5.0 §8.5.3, §8.5.4).

#![allow(unsafe_code)]

use std::os::raw::c_int;
use std::ptr;

use super::handle::{AsHandle as _, give_handles};
use super::{Rank, SimpleCommunicator, check_rank};
use crate::error::call;
use crate::ffi::{self, MPI_Comm};
use crate::raw::AsRaw;

/// A communicator with a graph that each process knows whole (MPI-5.0 §8.5.3). Programs make one
/// through [`crate::ffi`], and get this type from [`SimpleCommunicator::into_topology`].
#[derive(Debug)]
pub struct GraphCommunicator(pub(super) SimpleCommunicator);

/// A communicator with a graph of which each process knows its own edges (MPI-5.0 §8.5.4), from
/// [`create_graph_communicator`](super::Communicator::create_graph_communicator).
#[derive(Debug)]
pub struct DistributedGraphCommunicator(pub(super) SimpleCommunicator);

give_handles! {
    GraphCommunicator: 0, true;
    DistributedGraphCommunicator: 0, true;
}

impl GraphCommunicator {
    /// Returns the neighbours of a rank (MPI-5.0 §8.5.5).
    ///
    /// # Panics
    /// If the rank is none of the communicator.
    pub fn neighbors(&self, rank: Rank) -> Vec<Rank> {
        check_rank(rank, self.as_handle().size());
        let mut count = 0;
        // SAFETY: the communicator is valid and has a graph, and the array as many elements as the
        // rank has neighbours.
        unsafe {
            call!(MPI_Graph_neighbors_count(self.as_raw(), rank, &mut count));
            let mut neighbors = ranks(count);
            call!(MPI_Graph_neighbors(self.as_raw(), rank, count, neighbors.as_mut_ptr()));
            neighbors
        }
    }
}

impl DistributedGraphCommunicator {
    /// Returns the ranks that have an edge to the calling process, and those that it has an edge
    /// to (MPI-5.0 §8.5.5).
    pub fn neighbors(&self) -> (Vec<Rank>, Vec<Rank>) {
        let (sources, destinations, _) = self.degrees();
        let (mut from, mut to) = (ranks(sources), ranks(destinations));
        let (mut from_weights, mut to_weights) = (ranks(sources), ranks(destinations));
        // SAFETY: the communicator is valid and has a graph, and the arrays have as many elements
        // as the call is given. A graph without weights leaves those arrays as they are.
        unsafe {
            call!(MPI_Dist_graph_neighbors(
                self.as_raw(),
                sources,
                from.as_mut_ptr(),
                from_weights.as_mut_ptr(),
                destinations,
                to.as_mut_ptr(),
                to_weights.as_mut_ptr(),
            ));
        }
        (from, to)
    }

    /// Returns whether the edges have weights (MPI-5.0 §8.5.5).
    pub fn is_weighted(&self) -> bool {
        self.degrees().2
    }

    pub(crate) fn degrees(&self) -> (c_int, c_int, bool) {
        let (mut sources, mut destinations, mut weighted) = (0, 0, 0);
        // SAFETY: the communicator is valid and has a graph.
        unsafe {
            call!(MPI_Dist_graph_neighbors_count(
                self.as_raw(),
                &mut sources,
                &mut destinations,
                &mut weighted,
            ));
        }
        (sources, destinations, weighted != 0)
    }
}

/// Makes a communicator of a graph without weights.
///
/// # Safety
/// The communicator is valid, and a handle can be written to `new`.
pub(super) unsafe fn create(
    comm: MPI_Comm,
    sources: &[Rank],
    destinations: &[Rank],
    reorder: c_int,
    new: *mut MPI_Comm,
) {
    let count = |ranks: &[Rank]| ranks.len().try_into().expect("no process has so many neighbors");
    let unweighted = ptr::without_provenance(ffi::MPI_UNWEIGHTED as usize);
    // SAFETY: each array has as many ranks as the call is given; the rest as the caller promises.
    unsafe {
        call!(MPI_Dist_graph_create_adjacent(
            comm,
            count(sources),
            sources.as_ptr(),
            unweighted,
            count(destinations),
            destinations.as_ptr(),
            unweighted,
            ffi::MPI_INFO_NULL,
            reorder,
            new,
        ));
    }
}

fn ranks(count: c_int) -> Vec<Rank> {
    vec![0; usize::try_from(count).expect("the library gives a negative number of neighbors")]
}
