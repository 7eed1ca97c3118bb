//! Gather and gatherv (MPI-5.0 §6.5).

use super::Tree;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// The root's receive buffer: the block of each rank, one after the other.
fn blocks(all: Extent, pos: Position, from: u32, count: u32) -> Extent {
    let each = all.count / u64::from(pos.size);
    all.part(u64::from(from) * each, u64::from(count) * each)
}

/// Up a k-nomial tree, packed on the way; with a radix of 2 a binomial one.
///
/// `own` is this rank's block, `None` where it lies in place (root only). `all`
/// is the root's receive buffer, `None` elsewhere.
pub fn knomial(
    b: &mut Builder,
    pos: Position,
    (root, radix): (u32, u32),
    own: Option<Extent>,
    all: Option<Extent>,
) {
    let tree = Tree::new(pos, root, radix);
    match (all, own) {
        (Some(all), own) => at_root(b, pos, tree, own, all),
        (None, Some(own)) => below_root(b, tree, own),
        (None, None) => debug_assert!(false, "only the root gathers in place"),
    }
}

fn at_root(b: &mut Builder, pos: Position, tree: Tree, own: Option<Extent>, all: Extent) {
    // At most one child's blocks go past the last rank and on at rank 0.
    let mut wrapped = None;
    for child in tree.children() {
        let (first, count) = (tree.rank(child), tree.weight(child));
        if first + count <= pos.size {
            b.recv(first, blocks(all, pos, first, count));
        } else {
            let high = blocks(all, pos, first, pos.size - first);
            let low = blocks(all, pos, 0, count - (pos.size - first));
            let temp = b.packed(high.bytes() + low.bytes());
            b.recv(first, temp);
            wrapped = Some((temp, high, low));
        }
    }
    if let Some(own) = own {
        b.copy_meanwhile(own, blocks(all, pos, pos.rank, 1));
    }
    if let Some((temp, high, low)) = wrapped {
        b.copy(temp.part(0, high.bytes()), high);
        b.copy(temp.part(high.bytes(), low.bytes()), low);
    }
}

fn below_root(b: &mut Builder, tree: Tree, own: Extent) {
    let parent = tree.parent().expect("a rank below the root has a parent");
    let count = tree.weight(tree.node);
    if count == 1 {
        return b.send(parent, own);
    }
    let block = own.bytes();
    let temp = b.packed(u64::from(count) * block);
    for child in tree.children() {
        let first = u64::from(child - tree.node);
        b.recv(tree.rank(child), temp.part(first * block, u64::from(tree.weight(child)) * block));
    }
    b.copy_meanwhile(own, temp.part(0, block));
    b.send(parent, temp);
}

/// Straight from each rank to the root, which has a bounded number of receives open.
///
/// `own` as for [`knomial`]; `all` has the root's block for each rank.
pub fn linear(
    b: &mut Builder,
    pos: Position,
    root: u32,
    own: Option<Extent>,
    all: Option<&[Extent]>,
) {
    let Some(all) = all else {
        return own.into_iter().for_each(|own| b.send(root, own));
    };
    for other in pos.others() {
        b.recv(other, all[other as usize]);
    }
    if let Some(own) = own {
        b.copy_meanwhile(own, all[pos.rank as usize]);
    }
}

/// Sends the root the piece of each rank; its own one is there.
pub(super) fn pieces(b: &mut Builder, pos: Position, root: u32, piece: impl Fn(u32) -> Extent) {
    if pos.rank != root {
        return b.send(root, piece(pos.rank));
    }
    pos.others().for_each(|other| b.recv(other, piece(other)));
}
