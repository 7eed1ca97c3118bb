//! What distributed graphs need of others: each process may name any edges, and
//! each is to know those that begin or end at it (MPI-5.0 §8.5.4).

#![allow(unsafe_code)]

use collectives::operation::{Blocks, Data, Operation, Types};
use fabric::CollectiveKind;
use objects::buffer::Area;
use objects::topology::{DistGraph, Edges};
use objects::{Datatype, Result};

use crate::collective::run;
use crate::gate::with;

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
        send: Some(Blocks { area: area_of(&mut sent), counts: &counts, displs: &from, types: Types::One(ty) }),
        recv: Blocks { area: area_of(&mut received), counts: &expected, displs: &to, types: Types::One(ty) },
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
    Ok(received.chunks_exact(each as usize).map(|word| u64::from_ne_bytes(std::array::from_fn(|i| word[i]))).collect())
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
    fn blocks_begin_where_the_last_one_ends() {
        assert_eq!(starts(&[3, 0, 5]), [0, 3, 3]);
    }
}
