//! Reduce (MPI-5.0 §6.9.1).
//!
//! `input` is this rank's contribution, `output` where the root wants the
//! result (`None` elsewhere; the input itself when in place).

use super::fold::{Fold, Side};
use super::{Tree, allreduce, gather};
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::{Extent, piece};

/// Up a binomial tree in rank order: the order in which operands are combined
/// depends on the number of ranks alone (and on the root if `commutative`).
///
/// Where order matters the tree stands on rank 0, which passes the result on.
pub fn binomial(
    b: &mut Builder,
    pos: Position,
    root: u32,
    input: Extent,
    output: Option<Extent>,
    commutative: bool,
) {
    let base = if commutative { root } else { 0 };
    let tree = Tree::binomial(pos, base);
    let result = up_the_tree(b, tree, input, output.filter(|_| root == base), commutative);
    if root == base {
        return;
    }
    b.round();
    if pos.rank == base {
        b.send(root, result);
    }
    if let Some(output) = output {
        b.recv(base, output);
    }
}

/// Bytes of operands that the root of a linear reduction has at once, unless one is longer.
const LANDING_BYTES: u64 = 16 << 20;

/// Straight from each rank to the root, which combines in rank order from the last
/// rank down.
pub fn linear(b: &mut Builder, pos: Position, root: u32, input: Extent, output: Option<Extent>) {
    let (Some(output), true) = (output, pos.rank == root) else { return b.send(root, input) };
    let last = pos.size - 1;
    // The input must not be written, the landed operands may be.
    let result = if root == last { output } else { b.like(input, input.count) };
    match root == last {
        true => b.copy(input, result),
        false => b.recv(last, result),
    }
    let at_once = (LANDING_BYTES / input.bytes().max(1)).clamp(1, u64::from(last.max(1)));
    let landings: Vec<Extent> =
        (0..at_once.min(last.into())).map(|_| b.like(input, input.count)).collect();
    let others: Vec<u32> = (0..last).rev().collect();
    for ranks in others.chunks(landings.len().max(1)) {
        let mut operand = |(&rank, &landing): (&u32, &Extent)| {
            if rank == root {
                return input;
            }
            b.recv(rank, landing);
            landing
        };
        let operands: Vec<Extent> = ranks.iter().zip(&landings).map(&mut operand).collect();
        operands.into_iter().for_each(|left| b.reduce(left, result));
    }
    b.copy(result, output);
}

/// The result of this rank's subtree; at the tree's root in `output`.
fn up_the_tree(
    b: &mut Builder,
    tree: Tree,
    input: Extent,
    output: Option<Extent>,
    commutative: bool,
) -> Extent {
    let children = tree.children().count();
    if children == 0 && output.is_none() {
        if let Some(parent) = tree.parent() {
            b.send(parent, input);
        }
        return input;
    }
    let home = output.unwrap_or_else(|| b.like(input, input.count));
    let mut fold = Fold::new(input, home, commutative);
    fold.expect_right(children);
    for child in tree.children() {
        let incoming = fold.incoming(b, Side::Right);
        b.recv(tree.rank(child), incoming);
        let everything = fold.everything();
        fold.combine(b, Side::Right, &everything);
    }
    match tree.parent() {
        Some(parent) => {
            b.send(parent, fold.result());
            fold.result()
        }
        None => {
            let everything = fold.everything();
            fold.settle(b, &everything)
        }
    }
}

/// For long vectors: each rank reduces a piece (recursive halving), then the pieces are gathered at
/// the root. Rank order is kept (Rabenseifner).
pub fn halving(
    b: &mut Builder,
    pos: Position,
    root: u32,
    input: Extent,
    output: Option<Extent>,
    commutative: bool,
) {
    let pairs = allreduce::Pairs::new(pos, Some(root));
    if pairs.folded(pairs.node_of(pos.rank)) == Some(pos.rank) {
        return b.send(pairs.rank(pairs.node_of(pos.rank)), input);
    }
    let home = output.unwrap_or_else(|| b.like(input, input.count));
    let mut fold = Fold::new(input, home, commutative);
    let Some(node) = pairs.fold_in(b, &mut fold) else {
        return;
    };
    let mut steps = allreduce::halve(b, &pairs, node, &mut fold);
    let target = pairs.node_of(root);
    let mut mine = steps.last().map_or(fold.everything(), |step| step.kept.clone());
    let home = fold.settle(b, &mine);
    while let Some(step) = steps.pop() {
        let partner = pairs.rank(node ^ step.bit);
        b.round();
        if (node ^ target) & step.bit != 0 {
            b.send(partner, home.range(&mine));
            return;
        }
        b.recv(partner, home.range(&step.given));
        mine = mine.start.min(step.given.start)..mine.end.max(step.given.end);
    }
}

/// For long vectors and any number of ranks, if the operation commutes: each piece goes round the
/// ring and collects operands, then to the root.
pub fn ring(b: &mut Builder, pos: Position, root: u32, input: Extent, output: Option<Extent>) {
    let home = output.unwrap_or_else(|| b.like(input, input.count));
    let mine = allreduce::collect_round(b, pos, input, home);
    if pos.size == 1 {
        return b.copy(input, home);
    }
    let next = |rank: u32| u64::from(Position::new(rank, pos.size).ahead(1));
    let complete = |rank| home.range(&piece(input.count, u64::from(pos.size), next(rank)));
    debug_assert_eq!(complete(pos.rank), home.range(&mine));
    gather::pieces(b, pos, root, complete);
}
