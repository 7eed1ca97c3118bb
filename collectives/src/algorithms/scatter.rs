//! Scatter and scatterv (MPI-5.0 §6.6).

use super::Tree;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// Down a k-nomial tree, packed on the way; with a radix of 2 a binomial one.
///
/// `all` is the root's send buffer (the block of each rank, one after the
/// other), `None` elsewhere. `own` is the place for this rank's block, `None` if it is left in
/// place (root only).
pub fn knomial(
    b: &mut Builder,
    pos: Position,
    (root, radix): (u32, u32),
    all: Option<Extent>,
    own: Option<Extent>,
) {
    let tree = Tree::new(pos, root, radix);
    match (all, own) {
        (Some(all), own) => at_root(b, pos, tree, all, own),
        (None, Some(own)) => below_root(b, tree, own),
        (None, None) => debug_assert!(false, "only the root scatters in place"),
    }
}

fn at_root(b: &mut Builder, pos: Position, tree: Tree, all: Extent, own: Option<Extent>) {
    let each = all.count / u64::from(pos.size);
    let blocks = |from: u32, count: u32| all.part(u64::from(from) * each, u64::from(count) * each);
    let straight = |child: u32| tree.rank(child) + tree.weight(child) <= pos.size;
    // At most one child's blocks go past the last rank and on at rank 0.
    let wrapped = tree.children().find(|&child| !straight(child)).map(|child| {
        let high = blocks(tree.rank(child), pos.size - tree.rank(child));
        let low = blocks(0, tree.weight(child) - (pos.size - tree.rank(child)));
        let temp = b.packed(high.bytes() + low.bytes());
        b.copy(high, temp.part(0, high.bytes()));
        b.copy(low, temp.part(high.bytes(), low.bytes()));
        temp
    });
    for child in tree.children().rev() {
        let (first, count) = (tree.rank(child), tree.weight(child));
        match wrapped {
            Some(temp) if !straight(child) => b.send(first, temp),
            _ => b.send(first, blocks(first, count)),
        }
    }
    if let Some(own) = own {
        b.copy_meanwhile(blocks(pos.rank, 1), own);
    }
}

fn below_root(b: &mut Builder, tree: Tree, own: Extent) {
    let parent = tree.parent().expect("a rank below the root has a parent");
    let count = tree.weight(tree.node);
    if count == 1 {
        return b.recv(parent, own);
    }
    let block = own.bytes();
    let temp = b.packed(u64::from(count) * block);
    b.recv(parent, temp);
    b.round();
    for child in tree.children().rev() {
        let first = u64::from(child - tree.node);
        b.send(tree.rank(child), temp.part(first * block, u64::from(tree.weight(child)) * block));
    }
    b.copy_meanwhile(temp.part(0, block), own);
}

/// Straight from the root to each rank, with a bounded number of sends open.
///
/// `all` has the root's block for each rank; `own` as for [`knomial`].
pub fn linear(
    b: &mut Builder,
    pos: Position,
    root: u32,
    all: Option<&[Extent]>,
    own: Option<Extent>,
) {
    let Some(all) = all else {
        return own.into_iter().for_each(|own| b.recv(root, own));
    };
    for other in pos.others() {
        b.send(other, all[other as usize]);
    }
    if let Some(own) = own {
        b.copy_meanwhile(all[pos.rank as usize], own);
    }
}
