//! What topologies need of others: each process may name any edges of a
//! distributed graph, and each is to know those that begin or end at it
//! (MPI-5.0 §8.5.4); and where everybody is on the machine, to reorder ranks.

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
    /// The rank where it begins.
    pub source: u32,
    /// The rank where it ends.
    pub destination: u32,
    /// Its weight; of no meaning in an unweighted graph.
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

/// This process's part of the graph whose edges the members of `comm` name,
/// ordered by who names them, then as they are named. Collective.
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

/// For each node of a topology the rank in `comm` of the process that is to be
/// it, by where they all are; see [`placement`]. Collective.
pub fn placed(comm: usize, traffic: &Traffic, grid: Option<&Cartesian>) -> Result<Vec<u32>> {
    let mine = with(|p| p.core().map(|core| core.place()))?;
    let bytes: Vec<u8> = mine.iter().flat_map(|part| part.to_ne_bytes()).collect();
    let all = exchange(comm, &bytes)?;
    let part = |place: &[u8], level: usize| {
        i64::from_ne_bytes(std::array::from_fn(|i| place[8 * level + i]))
    };
    let places: Vec<Location> = all
        .chunks_exact(bytes.len())
        .map(|place| std::array::from_fn(|level| part(place, level)))
        .collect();
    record_locations(comm, &places)?;
    Ok(placement::place(&places, traffic, grid))
}

/// Gives the planner of collectives the places of all members, which each of them has now.
fn record_locations(comm: usize, places: &[Location]) -> Result<()> {
    let known = |part: i64| u64::try_from(part).ok();
    let locations: Vec<RankLocation> = places
        .iter()
        .map(|&[host, package, numa, l3]| {
            RankLocation([known(host), known(package), known(numa), known(l3), None])
        })
        .collect();
    with(|p| {
        let core = p.core.as_deref().ok_or_else(|| Error::internal("MPI is not running"))?;
        core.planner.borrow_mut().set_locations(p.comm(comm)?, &locations);
        Ok(())
    })
}

/// Reorders a distributed graph of which this process knows the part of the node
/// of its rank: the rank of each node's process, and the part of the node that
/// this process is to be. Collective.
pub fn reordered(comm: usize, mine: &DistGraph) -> Result<(Vec<u32>, DistGraph)> {
    let (size, rank) = with(|p| p.comm(comm).map(|comm| (comm.size(), comm.rank())))?;
    let all = exchange_lists(comm, &vec![encode(mine); size as usize])?;
    let mut words =
        all.chunks_exact(4).map(|word| i32::from_ne_bytes(std::array::from_fn(|i| word[i])));
    let parts: Option<Vec<DistGraph>> = (0..size).map(|_| decode(&mut words)).collect();
    let mut parts = parts.ok_or_else(|| Error::internal("a part of a graph is cut short"))?;
    let edges = (0..size).zip(&parts).flat_map(|(node, part)| {
        let weights = part.destinations.weights.iter().copied().chain(std::iter::repeat(1));
        part.destinations
            .ranks
            .iter()
            .zip(weights)
            .map(move |(&to, weight)| (node, to, weight.max(0) as u64))
    });
    let order = placed(comm, &Traffic::of_edges(size, edges), None)?;
    let node = order.iter().position(|&process| process == rank);
    let node = node.ok_or_else(|| Error::internal("a process was given no node"))?;
    Ok((order, parts.swap_remove(node)))
}

/// Whether it has weights; then of both directions lengths, ranks and weights.
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
    /// Where this process is: host, package, NUMA node, cache.
    fn place(&self) -> Location {
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

/// In place of a part for processes that are not bound to one.
const UNKNOWN: i64 = -1;

/// Sends `outgoing[rank]` to each rank; what they have sent here, in order of
/// rank. Collective.
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
    agree(comm, &operation)?;
    Ok(received)
}

/// One number to each rank; theirs in order of rank.
fn exchange_counts(comm: usize, counts: &[u64]) -> Result<Vec<u64>> {
    let mut sent: Vec<u8> = counts.iter().flat_map(|count| count.to_ne_bytes()).collect();
    let mut received = vec![0; sent.len()];
    let each = size_of::<u64>() as u64;
    let data = |bytes: &mut [u8]| Data { area: area_of(bytes), count: each, ty: Datatype::byte() };
    agree(comm, &Operation::Alltoall { send: Some(data(&mut sent)), recv: data(&mut received) })?;
    Ok(received
        .chunks_exact(each as usize)
        .map(|word| u64::from_ne_bytes(std::array::from_fn(|i| word[i])))
        .collect())
}

fn agree(comm: usize, operation: &Operation<'_>) -> Result<()> {
    let plan = with(|p| p.plan(p.comm(comm)?, operation))?.of_kind(CollectiveKind::CommCreate);
    run(comm, plan)
}

fn area_of(bytes: &mut [u8]) -> Area {
    // SAFETY: the callers keep the bytes where they are until `agree` has
    // returned, and the collective has ended by then.
    unsafe { Area::new(bytes.as_mut_ptr(), 0, bytes.len() as i64) }
}

/// Where each block begins when they lie one after the other.
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
    fn blocks_begin_where_the_last_one_ends() {
        assert_eq!(starts(&[3, 0, 5]), [0, 3, 3]);
    }
}
