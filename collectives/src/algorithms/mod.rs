//! The algorithms: pure functions that write one rank's part of a schedule.
//!
//! Each takes the rank's [`Position`] and the [`Extent`]s of the call, and appends to a
//! [`Builder`]. Operations made of two algorithms call one after the other. The messages between
//! two ranks depend only on what MPI makes equal on all ranks: packed sizes, counts of reductions,
//! root, operation, and the table of locations. MPI_IN_PLACE and gaps in types concern one rank
//! only.
//!
//! Sources: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
//! MPICH" (2005); Bruck et al., "Efficient algorithms for all-to-all communications" (1997); Hillis
//! and Steele, "Data parallel algorithms" (1986).

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
mod fold;
pub mod gather;
pub mod inter;
pub mod neighbor;
pub mod radix;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod scatter;
pub mod scattered;
pub mod segment_counter;
pub mod segment_flags;
pub mod segment_get;
pub mod segment_long;
pub mod segment_pieces;

use crate::position::Position;
#[cfg(doc)]
use crate::{builder::Builder, shape::Extent};

/// A k-nomial tree over the ranks, seen from one of them; with a radix of 2 a binomial tree. Nodes
/// are numbered from the root, round the ring. The parent of a node is the node without its lowest
/// digit to the base of the radix that is not 0; the subtree of a node is `node .. node + reach`,
/// cut at the size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    root: u32,
    size: u32,
    radix: u32,
    node: u32,
}

impl Tree {
    pub(crate) fn new(pos: Position, root: u32, radix: u32) -> Tree {
        Tree { root, size: pos.size, radix, node: pos.behind(root) }
    }

    fn binomial(pos: Position, root: u32) -> Tree {
        Tree::new(pos, root, 2)
    }

    /// The rank of a node.
    pub(crate) fn rank(self, node: u32) -> u32 {
        Position::new(self.root, self.size).ahead(node)
    }

    /// The power of the radix that the lowest digit of a node that is not 0 stands for; at the root
    /// the first one that is not below the size.
    fn reach(self, node: u32) -> u32 {
        let is_within = |&reach: &u32| match node {
            0 => reach < self.size,
            _ => node.is_multiple_of(reach.saturating_mul(self.radix)),
        };
        let mut reach = 1u32;
        while is_within(&reach) {
            reach = reach.saturating_mul(self.radix);
        }
        reach
    }

    /// The parent's rank; `None` at the root.
    pub(crate) fn parent(self) -> Option<u32> {
        let reach = self.reach(self.node);
        (self.node > 0).then(|| self.rank(self.node - self.digit() * reach))
    }

    /// The lowest digit of the own node that is not 0; 0 at the root. A node has several children
    /// of the same digit at different levels.
    pub(crate) fn digit(self) -> u32 {
        self.node / self.reach(self.node) % self.radix
    }

    /// How many nodes hang below and including `node`.
    fn weight(self, node: u32) -> u32 {
        self.reach(node).min(self.size - node)
    }

    /// The children's nodes, the nearest first.
    pub(crate) fn children(self) -> impl DoubleEndedIterator<Item = u32> {
        let (below, radix, size) = (self.reach(self.node), self.radix, self.size);
        let powers = std::iter::successors(Some(1u32), move |reach| reach.checked_mul(radix));
        let powers: Vec<u32> = powers.take_while(|&reach| reach < below).collect();
        let steps = powers
            .into_iter()
            .flat_map(move |reach| (1..radix).map(move |by| reach.saturating_mul(by)));
        steps.map(move |by| self.node.saturating_add(by)).filter(move |&child| child < size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_reaches_every_rank_once() {
        for (size, radix) in (1..50).flat_map(|size| (2..9).map(move |radix| (size, radix))) {
            for root in [0, size / 2, size - 1] {
                let mut parents = vec![None; size as usize];
                for rank in 0..size {
                    let tree = Tree::new(Position::new(rank, size), root, radix);
                    assert_eq!(tree.parent().is_none(), rank == root);
                    let below: u32 = tree.children().map(|child| tree.weight(child)).sum();
                    assert_eq!(tree.weight(tree.node), below + 1);
                    for child in tree.children() {
                        let seen = parents[tree.rank(child) as usize].replace(rank);
                        assert_eq!(seen, None);
                        let at_child = Position::new(tree.rank(child), size);
                        let of_child = Tree::new(at_child, root, radix);
                        assert_eq!(of_child.parent(), Some(rank));
                    }
                }
                assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1);
            }
        }
    }
}
