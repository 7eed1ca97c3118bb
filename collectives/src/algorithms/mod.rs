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
pub mod segment_counter;
pub mod segment_flags;
pub mod segment_pieces;

use crate::position::Position;
#[cfg(doc)]
use crate::{builder::Builder, shape::Extent};

/// A binomial tree over the ranks, seen from one of them. Nodes are numbered
/// from the root, round the ring; the subtree of a node is `node ..
/// node + reach`, cut at the size.
#[derive(Clone, Copy, Debug)]
struct Binomial {
    root: u32,
    size: u32,
    node: u32,
}

impl Binomial {
    fn new(pos: Position, root: u32) -> Binomial {
        Binomial { root, size: pos.size, node: pos.behind(root) }
    }

    /// The rank of a node.
    fn rank(self, node: u32) -> u32 {
        Position::new(self.root, self.size).ahead(node)
    }

    /// The parent's rank; `None` at the root.
    fn parent(self) -> Option<u32> {
        (self.node > 0).then(|| self.rank(self.node & (self.node - 1)))
    }

    /// How many nodes hang below and including `node`.
    fn weight(self, node: u32) -> u32 {
        let reach = if node == 0 { self.size } else { 1 << node.trailing_zeros() };
        reach.min(self.size - node)
    }

    /// The children's nodes, the nearest first.
    fn children(self) -> impl DoubleEndedIterator<Item = u32> {
        let bits = if self.node == 0 {
            32 - (self.size - 1).leading_zeros()
        } else {
            self.node.trailing_zeros()
        };
        let size = self.size;
        (0..bits).map(move |bit| self.node + (1 << bit)).filter(move |&child| child < size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binomial_tree_reaches_every_rank_once() {
        for size in 1..40 {
            for root in [0, size / 2, size - 1] {
                let mut parents = vec![None; size as usize];
                for rank in 0..size {
                    let tree = Binomial::new(Position::new(rank, size), root);
                    assert_eq!(tree.parent().is_none(), rank == root);
                    let below: u32 = tree.children().map(|child| tree.weight(child)).sum();
                    assert_eq!(tree.weight(tree.node), below + 1);
                    for child in tree.children() {
                        let seen = parents[tree.rank(child) as usize].replace(rank);
                        assert_eq!(seen, None);
                        let of_child = Binomial::new(Position::new(tree.rank(child), size), root);
                        assert_eq!(of_child.parent(), Some(rank));
                    }
                }
                assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1);
            }
        }
    }
}
