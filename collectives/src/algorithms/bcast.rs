//! Broadcast (MPI-5.0 §6.4).

use super::Binomial;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::{Extent, piece};

/// Down a binomial tree: log2 size messages deep, all of the data in each.
pub fn binomial(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    let tree = Binomial::new(pos, root);
    if let Some(parent) = tree.parent() {
        b.recv(parent, data);
        b.round();
    }
    for child in tree.children().rev() {
        b.send(tree.rank(child), data);
    }
}

/// Straight from the root to each rank.
pub fn linear(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    if pos.rank == root {
        pos.others().for_each(|other| b.send(other, data));
    } else {
        b.recv(root, data);
    }
}

/// A piece for each rank down a binomial tree, then the pieces round the ring:
/// each rank moves about twice the data for any size of the group.
///
/// A rank is never sent the data that it received for its subtree; therefore the root's buffer is
/// never written.
pub fn scatter_ring(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    let tree = Binomial::new(pos, root);
    let bytes = data.as_bytes().unwrap_or_else(|| b.packed(data.bytes()));
    if tree.node == 0 {
        b.copy(data, bytes);
    }
    scatter(b, tree, bytes);
    b.round();
    ring(b, tree, bytes);
    if tree.node != 0 {
        b.round();
        b.copy(bytes, data);
    }
}

/// The pieces `from .. from + count` as one run.
fn pieces(tree: Binomial, bytes: Extent, from: u32, count: u32) -> Extent {
    let at = |index: u32| piece(bytes.count, u64::from(tree.size), u64::from(index)).start;
    bytes.range(&(at(from)..at(from + count)))
}

fn scatter(b: &mut Builder, tree: Binomial, bytes: Extent) {
    if let Some(parent) = tree.parent() {
        b.recv(parent, pieces(tree, bytes, tree.node, tree.weight(tree.node)));
        b.round();
    }
    for child in tree.children().rev() {
        b.send(tree.rank(child), pieces(tree, bytes, child, tree.weight(child)));
    }
}

fn ring(b: &mut Builder, tree: Binomial, bytes: Extent) {
    let here = Position::new(tree.node, tree.size);
    let (next, previous) = (here.ahead(1), here.behind(1));
    let owns = |node: u32, index: u32| (node..node + tree.weight(node)).contains(&index);
    for step in 1..tree.size {
        let (incoming, outgoing) = (here.behind(step), here.behind(step - 1));
        if !owns(here.rank, incoming) {
            b.recv(tree.rank(previous), pieces(tree, bytes, incoming, 1));
        }
        if !owns(next, outgoing) {
            b.send(tree.rank(next), pieces(tree, bytes, outgoing, 1));
        }
        b.round();
    }
}
