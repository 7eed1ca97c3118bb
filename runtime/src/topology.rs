//! The collective parts of process topologies (MPI-5.0 §8.5.4).
//!
//! Each process may give any edges of a distributed graph; [`distribute`] sends each edge to its
//! two ends. To reorder ranks, [`place_ranks`] exchanges where all processes are on the machine.
//! The order itself is chosen in `objects::topology::placement`.

#![allow(unsafe_code)]

use collectives::RankLocation;
use collectives::operation::{Blocks, Data, Operation, Types};
use fabric::CollectiveKind;
use objects::buffer::Area;
use objects::topology::placement::{self, Location, Traffic};
use objects::topology::{Cartesian, DistGraph, Edges};
use objects::{Datatype, Error, Result};

use crate::collective::{exchange, run};
use crate::hardware::{self, Resource};
use crate::lock::with;
use crate::process::Core;

/// An edge of a distributed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The rank at its source.
    pub source: u32,
    /// The rank at its destination.
    pub destination: u32,
    /// Its weight; unused in an unweighted graph.
    pub weight: i32,
}

impl Edge {
    const SIZE: usize = 12;

    fn encode(self) -> [u8; Edge::SIZE] {
        let mut out = [0; Edge::SIZE];
        out[..4].copy_from_slice(&self.source.to_ne_bytes());
        out[4..8].copy_from_slice(&self.destination.to_ne_bytes());
        out[8..].copy_from_slice(&self.weight.to_ne_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Edge {
        let word = |at: usize| std::array::from_fn(|i| bytes[at + i]);
        Edge {
            source: u32::from_ne_bytes(word(0)),
            destination: u32::from_ne_bytes(word(4)),
            weight: i32::from_ne_bytes(word(8)),
        }
    }
}

/// Returns this process's part of the graph whose edges the members of `comm` give. Edges are in
/// the order of the rank that gave them, then as given. Collective.
pub fn distribute(comm: usize, edges: &[Edge], weighted: bool) -> Result<DistGraph> {
    let (size, rank) = with(|p| p.comm(comm).map(|comm| (comm.size() as usize, comm.rank())))?;
    let mut outgoing = vec![Vec::new(); size];
    for edge in edges {
        outgoing[edge.source as usize].extend(edge.encode());
        if edge.destination != edge.source {
            outgoing[edge.destination as usize].extend(edge.encode());
        }
    }
    let incoming = exchange_lists(comm, &outgoing)?;
    let mut graph = DistGraph { weighted, ..DistGraph::default() };
    let add = |to: &mut Edges, rank: u32, weight: i32| {
        to.ranks.push(rank);
        if weighted {
            to.weights.push(weight);
        }
    };
    for edge in incoming.chunks_exact(Edge::SIZE).map(Edge::decode) {
        if edge.destination == rank {
            add(&mut graph.sources, edge.source, edge.weight);
        }
        if edge.source == rank {
            add(&mut graph.destinations, edge.destination, edge.weight);
        }
    }
    Ok(graph)
}

/// Returns for each node of a topology the rank in `comm` of its process, chosen by where the
/// processes are; see [`placement`]. Collective.
pub fn place_ranks(comm: usize, traffic: &Traffic, grid: Option<&Cartesian>) -> Result<Vec<u32>> {
    let mine = with(|p| p.core().map(|core| core.location()))?;
    let bytes: Vec<u8> = mine.iter().flat_map(|part| part.to_ne_bytes()).collect();
    let all = exchange(comm, &bytes)?;
    let part = |location: &[u8], level: usize| {
        i64::from_ne_bytes(std::array::from_fn(|i| location[8 * level + i]))
    };
    let locations: Vec<Location> = all
        .chunks_exact(bytes.len())
        .map(|location| std::array::from_fn(|level| part(location, level)))
        .collect();
    record_locations(comm, &locations)?;
    Ok(placement::place(&locations, traffic, grid))
}

/// Gives the planner of collectives the locations of all members.
fn record_locations(comm: usize, members: &[Location]) -> Result<()> {
    let known = |part: i64| u64::try_from(part).ok();
    let locations: Vec<RankLocation> = members
        .iter()
        .map(|&[host, package, numa, l3]| {
            RankLocation([None, known(host), known(package), known(numa), known(l3), None])
        })
        .collect();
    with(|p| {
        let core = p.core.as_deref().ok_or_else(|| Error::internal("MPI is not running"))?;
        core.planner.borrow_mut().set_locations(p.comm(comm)?, &locations);
        Ok(())
    })
}

/// Reorders a distributed graph of which this process has the part of the node with its rank.
/// Returns the rank of each node's process, and the part of this process's new node. Collective.
pub fn reorder_graph(comm: usize, mine: &DistGraph) -> Result<(Vec<u32>, DistGraph)> {
    let (size, rank) = with(|p| p.comm(comm).map(|comm| (comm.size(), comm.rank())))?;
    let all = exchange_lists(comm, &vec![encode(mine); size as usize])?;
    let mut words =
        all.chunks_exact(4).map(|word| i32::from_ne_bytes(std::array::from_fn(|i| word[i])));
    let parts: Option<Vec<DistGraph>> = (0..size).map(|_| decode(&mut words)).collect();
    let mut parts = parts.ok_or_else(|| Error::internal("a part of a graph is truncated"))?;
    let edges = (0..size).zip(&parts).flat_map(|(node, part)| {
        let weights = part.destinations.weights.iter().copied().chain(std::iter::repeat(1));
        part.destinations
            .ranks
            .iter()
            .zip(weights)
            .map(move |(&to, weight)| (node, to, weight.max(0) as u64))
    });
    let order = place_ranks(comm, &Traffic::of_edges(size, edges), None)?;
    let node = order.iter().position(|&process| process == rank);
    let node = node.ok_or_else(|| Error::internal("a process has no node"))?;
    Ok((order, parts.swap_remove(node)))
}

/// Encodes whether the graph has weights, then for both directions lengths, ranks and weights.
fn encode(graph: &DistGraph) -> Vec<u8> {
    let mut words = vec![i32::from(graph.weighted)];
    for edges in [&graph.sources, &graph.destinations] {
        words.extend([edges.ranks.len() as i32, edges.weights.len() as i32]);
        words.extend(edges.ranks.iter().map(|&rank| rank as i32));
        words.extend(&edges.weights);
    }
    words.into_iter().flat_map(i32::to_ne_bytes).collect()
}

fn decode(words: &mut impl Iterator<Item = i32>) -> Option<DistGraph> {
    let weighted = words.next()? != 0;
    let mut list = || {
        let (ranks, weights) = (words.next()?, words.next()?);
        let mut take = |count: i32| (0..count).map(|_| words.next()).collect::<Option<Vec<i32>>>();
        let ranks = take(ranks)?.into_iter().map(|rank| rank as u32).collect();
        Some(Edges { ranks, weights: take(weights)? })
    };
    Some(DistGraph { sources: list()?, destinations: list()?, weighted })
}

impl Core {
    /// Returns where this process is: host, package, NUMA node, cache.
    fn location(&self) -> Location {
        let host = self.color_of(Resource::Host, 0);
        if self.pretend_packages > 0 {
            return [host, i64::from(self.job.local_rank) % self.pretend_packages as i64, 0, 0];
        }
        let instances = hardware::instances();
        let kinds = [Resource::Host, Resource::Package, Resource::NumaNode, Resource::L3Cache];
        kinds.map(|kind| {
            instances[kind as usize].map_or(UNKNOWN, |instance| self.color_of(kind, instance))
        })
    }
}

/// In a [`Location`]: the process is not bound to one instance of this kind.
const UNKNOWN: i64 = -1;

/// Sends `outgoing[rank]` to each rank; returns what the ranks have sent here, in order of rank.
/// Collective.
fn exchange_lists(comm: usize, outgoing: &[Vec<u8>]) -> Result<Vec<u8>> {
    let counts: Vec<u64> = outgoing.iter().map(|list| list.len() as u64).collect();
    let expected = exchange_counts(comm, &counts)?;
    let mut sent = outgoing.concat();
    let mut received = vec![0; expected.iter().sum::<u64>() as usize];
    let (from, to) = (starts(&counts), starts(&expected));
    let ty = Datatype::byte();
    let operation = Operation::Alltoallv {
        send: Some(Blocks {
            area: area_of(&mut sent),
            counts: &counts,
            displs: &from,
            types: Types::One(ty),
        }),
        recv: Blocks {
            area: area_of(&mut received),
            counts: &expected,
            displs: &to,
            types: Types::One(ty),
        },
    };
    run_as_comm_create(comm, &operation)?;
    Ok(received)
}

/// Sends one number to each rank; returns theirs in order of rank. Collective.
fn exchange_counts(comm: usize, counts: &[u64]) -> Result<Vec<u64>> {
    let mut sent: Vec<u8> = counts.iter().flat_map(|count| count.to_ne_bytes()).collect();
    let mut received = vec![0; sent.len()];
    let each = size_of::<u64>() as u64;
    let data = |bytes: &mut [u8]| Data { area: area_of(bytes), count: each, ty: Datatype::byte() };
    run_as_comm_create(
        comm,
        &Operation::Alltoall { send: Some(data(&mut sent)), recv: data(&mut received) },
    )?;
    Ok(received
        .chunks_exact(each as usize)
        .map(|word| u64::from_ne_bytes(std::array::from_fn(|i| word[i])))
        .collect())
}

fn run_as_comm_create(comm: usize, operation: &Operation<'_>) -> Result<()> {
    let plan = with(|p| p.plan(p.comm(comm)?, operation))?.of_kind(CollectiveKind::CommCreate);
    run(comm, plan)
}

fn area_of(bytes: &mut [u8]) -> Area {
    // SAFETY: the callers keep the bytes where they are until `run_as_comm_create` has returned,
    // and the collective has ended by then.
    unsafe { Area::new(bytes.as_mut_ptr(), 0, bytes.len() as i64) }
}

/// Returns where each block begins if the blocks lie one after the other.
fn starts(counts: &[u64]) -> Vec<i64> {
    let ends = counts.iter().scan(0, |end, &count| {
        *end += count as i64;
        Some(*end)
    });
    std::iter::once(0).chain(ends).take(counts.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_survives_the_wire() {
        let edge = Edge { source: 7, destination: u32::MAX, weight: -3 };
        assert_eq!(Edge::decode(&edge.encode()), edge);
    }

    #[test]
    fn parts_of_graphs_survive_the_wire_one_after_the_other() {
        let edges = |ranks: &[u32], weights: &[i32]| Edges {
            ranks: ranks.to_vec(),
            weights: weights.to_vec(),
        };
        let first = DistGraph {
            sources: edges(&[3, 1], &[5, 0]),
            destinations: edges(&[2], &[7]),
            weighted: true,
        };
        let second = DistGraph {
            sources: edges(&[], &[]),
            destinations: edges(&[0, 0], &[]),
            weighted: false,
        };
        let bytes = [encode(&first), encode(&second)].concat();
        let mut words =
            bytes.chunks_exact(4).map(|word| i32::from_ne_bytes(std::array::from_fn(|i| word[i])));
        assert_eq!((decode(&mut words), decode(&mut words)), (Some(first), Some(second)));
        assert_eq!(decode(&mut words), None);
    }

    #[test]
    fn each_block_begins_at_the_end_of_the_previous_one() {
        assert_eq!(starts(&[3, 0, 5]), [0, 3, 3]);
    }
}
