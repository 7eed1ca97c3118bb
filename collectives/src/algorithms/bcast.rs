//! Broadcast (MPI-5.0 §6.4).

use super::Tree;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::{Extent, piece};

/// Down a binomial tree: log2 size messages deep, all of the data in each.
pub fn binomial(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    let tree = Tree::binomial(pos, root);
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
    scatter_and_collect(b, pos, root, data, ring);
}

/// The same with the pieces exchanged by recursive doubling, among a power of two ranks: as many
/// bytes in log2 size messages.
pub fn scatter_doubling(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    scatter_and_collect(b, pos, root, data, doubling);
}

fn scatter_and_collect(
    b: &mut Builder,
    pos: Position,
    root: u32,
    data: Extent,
    collect: fn(&mut Builder, Tree, Extent),
) {
    let tree = Tree::binomial(pos, root);
    let bytes = b.bytes_of(data);
    if tree.node == 0 {
        b.copy(data, bytes);
    }
    scatter(b, tree, bytes);
    b.round();
    collect(b, tree, bytes);
    if tree.node != 0 {
        b.round();
        b.copy(bytes, data);
    }
}

/// The pieces `from .. from + count` as one run.
fn pieces(tree: Tree, bytes: Extent, from: u32, count: u32) -> Extent {
    let at = |index: u32| piece(bytes.count, u64::from(tree.size), u64::from(index)).start;
    bytes.range(&(at(from)..at(from + count)))
}

fn scatter(b: &mut Builder, tree: Tree, bytes: Extent) {
    if let Some(parent) = tree.parent() {
        b.recv(parent, pieces(tree, bytes, tree.node, tree.weight(tree.node)));
        b.round();
    }
    for child in tree.children().rev() {
        b.send(tree.rank(child), pieces(tree, bytes, child, tree.weight(child)));
    }
}

/// True when a node has received a piece for its subtree.
fn owns(tree: Tree, node: u32, index: u32) -> bool {
    (node..node + tree.weight(node)).contains(&index)
}

/// In each step a node has the pieces of all nodes that differ from it in lower bits, and exchanges
/// them with the node across the next bit.
fn doubling(b: &mut Builder, tree: Tree, bytes: Extent) {
    for count in (0..tree.size.trailing_zeros()).map(|bit| 1 << bit) {
        let partner = tree.node ^ count;
        let (theirs, mine) = (partner & !(count - 1), tree.node & !(count - 1));
        if !owns(tree, tree.node, theirs) {
            b.recv(tree.rank(partner), pieces(tree, bytes, theirs, count));
        }
        if !owns(tree, partner, mine) {
            b.send(tree.rank(partner), pieces(tree, bytes, mine, count));
        }
        b.round();
    }
}

fn ring(b: &mut Builder, tree: Tree, bytes: Extent) {
    let here = Position::new(tree.node, tree.size);
    let (next, previous) = (here.ahead(1), here.behind(1));
    for step in 1..tree.size {
        let (incoming, outgoing) = (here.behind(step), here.behind(step - 1));
        if !owns(tree, here.rank, incoming) {
            b.recv(tree.rank(previous), pieces(tree, bytes, incoming, 1));
        }
        if !owns(tree, next, outgoing) {
            b.send(tree.rank(next), pieces(tree, bytes, outgoing, 1));
        }
        b.round();
    }
}

/// The most pieces of a vector.
const MAX_PIECES: u64 = 1024;

/// From rank to rank in pieces of so many bytes: each rank sends a piece on while it receives the
/// next one.
pub fn chain(b: &mut Builder, pos: Position, root: u32, data: Extent, piece: u64) {
    let node = pos.behind(root);
    let parent = (node > 0).then(|| pos.behind(1));
    let child = (node + 1 < pos.size).then(|| pos.ahead(1));
    pipeline(b, (parent, child.as_slice()), data, piece);
}

/// In pieces of so many bytes down a tree in which the root has one child and each other rank two:
/// no rank sends more than twice the data, and the root sends it once.
pub fn binary_tree(b: &mut Builder, pos: Position, root: u32, data: Extent, piece: u64) {
    let node = pos.behind(root);
    let rank = |node: u32| Position::new(root, pos.size).ahead(node);
    let below = if node == 0 { 1..2 } else { 2 * node..2 * node + 2 };
    let children: Vec<u32> = below.filter(|&node| node < pos.size).map(rank).collect();
    let parent = (node > 0).then(|| rank(node / 2));
    pipeline(b, (parent, &children), data, piece);
}

/// Receives one piece after the other and sends each on while the next one arrives.
fn pipeline(
    b: &mut Builder,
    (parent, children): (Option<u32>, &[u32]),
    data: Extent,
    piece_bytes: u64,
) {
    let bytes = b.bytes_of(data);
    if parent.is_none() {
        b.copy(data, bytes);
    }
    let count = bytes.count.div_ceil(piece_bytes.max(1)).clamp(1, MAX_PIECES);
    let part = |index: u64| bytes.range(&piece(bytes.count, count, index));
    for index in 0..=count {
        if let Some(parent) = parent.filter(|_| index < count) {
            b.recv(parent, part(index));
        }
        if let Some(before) = index.checked_sub(1) {
            children.iter().for_each(|&child| b.send(child, part(before)));
        }
        b.round();
    }
    if parent.is_some() {
        b.copy(bytes, data);
    }
}
