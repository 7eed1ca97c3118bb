//! The conversion of a communicator to the type for its topology.

use super::{
    CartesianCommunicator, DistributedGraphCommunicator, GraphCommunicator, SimpleCommunicator,
    Topology,
};

/// A communicator in the type for its topology.
#[derive(Debug)]
pub enum IntoTopology {
    /// A graph that each process knows whole.
    Graph(GraphCommunicator),
    /// A grid.
    Cartesian(CartesianCommunicator),
    /// A graph of which each process knows its own edges.
    DistributedGraph(DistributedGraphCommunicator),
    /// No topology.
    Undefined(SimpleCommunicator),
}

impl SimpleCommunicator {
    /// Converts the communicator to the type for its topology (MPI-5.0 §8.5.5).
    pub fn into_topology(self) -> IntoTopology {
        match self.topology() {
            Topology::Graph => IntoTopology::Graph(GraphCommunicator(self)),
            Topology::Cartesian => IntoTopology::Cartesian(CartesianCommunicator(self)),
            Topology::DistributedGraph => {
                IntoTopology::DistributedGraph(DistributedGraphCommunicator(self))
            }
            Topology::Undefined => IntoTopology::Undefined(self),
        }
    }
}
