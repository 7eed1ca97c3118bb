//! The lists of a call as words, by which the planner recognises a call that it planned recently.
//!
//! A list is its length and then its elements; therefore no two calls of a kind have the same
//! words. Types are distinguished by the addresses of their objects, as in the key of the call.

use objects::Datatype;

use crate::operation::{Blocks, Edges, Operation, Types};

/// The lists of a kept call.
pub(crate) struct KeptLists(Box<[u64]>);

/// One list.
#[derive(Clone, Copy)]
enum List<'a> {
    Counts(&'a [u64]),
    Displs(&'a [i64]),
    Types(&'a [Datatype]),
    /// Of neighbours.
    Ranks(&'a [Option<u32>]),
    /// Of one element.
    Flag(bool),
}

impl KeptLists {
    /// The lists of a call.
    pub(crate) fn of(operation: &Operation) -> KeptLists {
        let mut words = Vec::new();
        all_lists(operation, |list| {
            list.append_to(&mut words);
            true
        });
        KeptLists(words.into())
    }

    /// True if a call of the same kind has the same lists.
    #[inline]
    pub(crate) fn are_of(&self, operation: &Operation) -> bool {
        let mut rest = &*self.0;
        all_lists(operation, |list| list.is_taken_from(&mut rest))
    }
}

/// Calls `is_good` with each list of a call, as long as it returns true; returns whether it always
/// did.
#[inline]
fn all_lists(operation: &Operation, is_good: impl FnMut(List<'_>) -> bool) -> bool {
    match operation {
        Operation::Barrier
        | Operation::Absent { .. }
        | Operation::Bcast { .. }
        | Operation::Gather { .. }
        | Operation::Scatter { .. }
        | Operation::Allgather { .. }
        | Operation::Alltoall { .. }
        | Operation::Reduce { .. }
        | Operation::Allreduce { .. }
        | Operation::AllreduceOfBoth { .. }
        | Operation::ReduceScatterBlock { .. }
        | Operation::Scan { .. }
        | Operation::Exscan { .. } => true,
        _ => all_of_some(operation, is_good),
    }
}

/// The same for operations that have some.
#[inline(never)]
fn all_of_some(operation: &Operation, mut is_good: impl FnMut(List<'_>) -> bool) -> bool {
    let (edges, send, recv) = match operation {
        Operation::ReduceScatter { counts, .. } => return is_good(List::Counts(counts)),
        Operation::Gatherv { recv, .. } => (None, None, recv.as_ref()),
        Operation::Scatterv { send, .. } => (None, send.as_ref(), None),
        Operation::Allgatherv { recv, .. } => (None, None, Some(recv)),
        Operation::Alltoallv { send, recv } => (None, send.as_ref(), Some(recv)),
        Operation::NeighborAllgather { edges, .. } | Operation::NeighborAlltoall { edges, .. } => {
            (Some(edges), None, None)
        }
        Operation::NeighborAllgatherv { edges, recv, .. } => (Some(edges), None, Some(recv)),
        Operation::NeighborAlltoallv { edges, send, recv } => (Some(edges), Some(send), Some(recv)),
        _ => (None, None, None),
    };
    edges.is_none_or(|edges: &Edges| {
        is_good(List::Ranks(edges.sources))
            && is_good(List::Ranks(edges.destinations))
            && is_good(List::Flag(edges.cartesian))
    }) && [send, recv].into_iter().flatten().all(|blocks: &Blocks| {
        is_good(List::Counts(blocks.counts))
            && is_good(List::Displs(blocks.displs))
            && match blocks.types {
                // It is in the key.
                Types::One(_) => true,
                Types::Each(types) => is_good(List::Types(types)),
            }
    })
}

impl List<'_> {
    fn len(self) -> usize {
        match self {
            List::Counts(counts) => counts.len(),
            List::Displs(displs) => displs.len(),
            List::Types(types) => types.len(),
            List::Ranks(ranks) => ranks.len(),
            List::Flag(_) => 1,
        }
    }

    fn append_to(self, words: &mut Vec<u64>) {
        words.push(self.len() as u64);
        match self {
            List::Counts(counts) => words.extend(counts),
            List::Displs(displs) => words.extend(displs.iter().map(|&displ| displ as u64)),
            List::Types(types) => words.extend(types.iter().map(word_of_type)),
            List::Ranks(ranks) => words.extend(ranks.iter().map(word_of_rank)),
            List::Flag(flag) => words.push(flag.into()),
        }
    }

    /// True if the words begin with the list; takes it off.
    fn is_taken_from(self, words: &mut &[u64]) -> bool {
        let Some((&len, rest)) = words.split_first() else { return false };
        let Some((kept, rest)) = rest.split_at_checked(self.len()) else { return false };
        *words = rest;
        // Element by element: some C libraries take 150 ns to compare no bytes at no address.
        let kept = kept.iter().copied();
        len == self.len() as u64
            && match self {
                List::Counts(counts) => kept.eq(counts.iter().copied()),
                List::Displs(displs) => kept.eq(displs.iter().map(|&displ| displ as u64)),
                List::Types(types) => kept.eq(types.iter().map(word_of_type)),
                List::Ranks(ranks) => kept.eq(ranks.iter().map(word_of_rank)),
                List::Flag(flag) => kept.eq([flag.into()]),
            }
    }
}

fn word_of_type(ty: &Datatype) -> u64 {
    ty.identity() as u64
}

fn word_of_rank(rank: &Option<u32>) -> u64 {
    rank.map_or(u64::MAX, u64::from)
}
