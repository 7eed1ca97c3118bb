//! Graphs that every process knows (MPI-5.0 §8.5.3), and graphs of which each process knows its
//! part (§8.5.4).

use crate::{Class, Error, Result};

/// A graph as MPI_Graph_create takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// `index[i]` is the number of edges of the nodes `0 ..= i`.
    index: Vec<u32>,
    edges: Vec<u32>,
}

/// One direction of a process's edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// The neighbours' ranks, in the order of their blocks.
    pub ranks: Vec<u32>,
    /// The weight of each edge; empty for an unweighted graph.
    pub weights: Vec<i32>,
}

/// The part of a distributed graph that one process knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistGraph {
    /// Edges that end here.
    pub sources: Edges,
    /// Edges that begin here.
    pub destinations: Edges,
    /// False if the graph was made with MPI_UNWEIGHTED.
    pub weighted: bool,
}

impl Graph {
    /// Makes a graph of `index.len()` nodes. MPI_ERR_ARG unless the index never falls, all edges
    /// end at nodes, and there are at most `processes` nodes.
    pub fn new(index: &[i32], edges: &[i32], processes: u32) -> Result<Graph> {
        let refused = |why: String| Err(Error::new(Class::Arg, why));
        if index.len() as u64 > processes.into() {
            return refused(format!(
                "graph too large: {} nodes, the communicator has {processes} processes",
                index.len()
            ));
        }
        let mut before = 0;
        for (node, &end) in index.iter().enumerate() {
            if end < before || end as usize > edges.len() {
                return refused(format!(
                    "invalid index {end} of node {node}: must be {before} to {}",
                    edges.len()
                ));
            }
            before = end;
        }
        let edges = &edges[..before as usize];
        if let Some((at, &edge)) =
            edges.iter().enumerate().find(|&(_, &edge)| edge < 0 || edge as usize >= index.len())
        {
            return refused(format!(
                "invalid node {edge} at edge {at} of a graph of {} nodes",
                index.len()
            ));
        }
        let unsigned = |numbers: &[i32]| numbers.iter().map(|&number| number as u32).collect();
        Ok(Graph { index: unsigned(index), edges: unsigned(edges) })
    }

    /// Returns the number of nodes.
    pub fn size(&self) -> u32 {
        self.index.len() as u32
    }

    /// Returns the index as it was given.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// Returns the edges as they were given.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// Returns the neighbours of node `rank`; none for a rank that is no node.
    pub fn neighbours(&self, rank: u32) -> &[u32] {
        let rank = rank as usize;
        let Some(&end) = self.index.get(rank) else { return &[] };
        let start = if rank == 0 { 0 } else { self.index[rank - 1] };
        &self.edges[start as usize..end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    #[test]
    fn the_standards_example() {
        // MPI-5.0 §8.5.3: 0: 1 3; 1: 0; 2: 3; 3: 0 2.
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2], 4).unwrap();
        let neighbours: Vec<&[u32]> = (0..5).map(|rank| graph.neighbours(rank)).collect();
        assert_eq!(neighbours, [&[1, 3][..], &[0], &[3], &[0, 2], &[]]);
        assert_eq!(Topology::Graph(graph).sources(3), [Some(0), Some(2)]);
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        for (index, edges) in [
            (&[2, 1][..], &[0, 1][..]),
            (&[-1], &[]),
            (&[1], &[]),
            (&[1], &[1]),
            (&[1], &[-1]),
            (&[0; 5], &[]),
        ] {
            assert_eq!(
                Graph::new(index, edges, 4).unwrap_err().class(),
                Class::Arg,
                "{index:?} {edges:?}"
            );
        }
        assert_eq!(Graph::new(&[], &[], 4).unwrap().size(), 0);
    }

    #[test]
    fn a_distributed_graph_has_two_directions() {
        let edges = |ranks: &[u32]| Edges { ranks: ranks.to_vec(), weights: vec![] };
        let graph =
            DistGraph { sources: edges(&[3, 1]), destinations: edges(&[2]), weighted: false };
        let topology = Topology::DistGraph(graph);
        assert_eq!(topology.sources(0), [Some(3), Some(1)]);
        assert_eq!(topology.destinations(0), [Some(2)]);
    }
}
