//! Virtual topologies: the neighbours of each process (MPI-5.0 chapter 8).
//!
//! Computations on ranks of one communicator, without communication. The runtime collects the edges
//! of a distributed graph before it makes one.

mod cartesian;
mod dims;
mod graph;
pub mod placement;

pub use cartesian::{Cartesian, Sub};
pub use dims::dims_create;
pub use graph::{DistGraph, Edges, Graph};

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A grid, periodic or not in each dimension.
    Cartesian(Cartesian),
    /// A graph that every process knows in full.
    Graph(Graph),
    /// A graph of which each process knows its own edges.
    DistGraph(DistGraph),
}

impl Topology {
    /// Returns the sources of process `rank` in a neighborhood collective, in the order of the
    /// receive buffer (MPI-5.0 §8.6). `None` is MPI_PROC_NULL.
    pub fn sources(&self, rank: u32) -> Vec<Option<u32>> {
        match self {
            Topology::Cartesian(grid) => grid.neighbours(rank),
            Topology::Graph(graph) => {
                graph.neighbours(rank).iter().map(|&rank| Some(rank)).collect()
            }
            Topology::DistGraph(graph) => {
                graph.sources.ranks.iter().map(|&rank| Some(rank)).collect()
            }
        }
    }

    /// Returns the destinations, in the order of the send buffer.
    pub fn destinations(&self, rank: u32) -> Vec<Option<u32>> {
        match self {
            Topology::DistGraph(graph) => {
                graph.destinations.ranks.iter().map(|&rank| Some(rank)).collect()
            }
            Topology::Cartesian(_) | Topology::Graph(_) => self.sources(rank),
        }
    }
}
