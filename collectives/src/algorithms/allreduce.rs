//! Allreduce (MPI-5.0 §6.9.6).
//!
//! `input` is this rank's contribution, `output` the receive buffer (the input
//! itself when in place).

use std::ops::Range;

use super::fold::{Fold, Side};
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::{Extent, piece};

/// A power of two of *nodes* made of any number of ranks: the first nodes stand for two adjacent
/// ranks each; therefore rank order is kept.
pub(super) struct Pairs {
    rank: u32,
    /// Log2 of the number of nodes.
    bits: u32,
    /// How many nodes are pairs.
    pairs: u32,
    /// A rank that must not be folded away.
    keep: Option<u32>,
}

/// One step of recursive halving: the bit that was crossed, and the ranges kept and given.
pub(super) struct Step {
    pub(super) bit: u32,
    pub(super) kept: Range<u64>,
    pub(super) given: Range<u64>,
}

impl Pairs {
    pub(super) fn new(pos: Position, keep: Option<u32>) -> Pairs {
        let bits = pos.size.ilog2();
        Pairs { rank: pos.rank, bits, pairs: pos.size - (1 << bits), keep }
    }

    /// Log2 of the number of nodes.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The node that stands for a rank.
    pub(super) fn node_of(&self, rank: u32) -> u32 {
        if rank < 2 * self.pairs { rank / 2 } else { rank - self.pairs }
    }

    /// The ranks that a node stands for.
    pub(super) fn ranks(&self, node: u32) -> Range<u32> {
        if node < self.pairs {
            2 * node..2 * node + 2
        } else {
            node + self.pairs..node + self.pairs + 1
        }
    }

    /// The rank that acts for a node: the upper one of a pair, or the kept one.
    pub(super) fn rank(&self, node: u32) -> u32 {
        let ranks = self.ranks(node);
        self.keep.filter(|keep| ranks.contains(keep)).unwrap_or(ranks.end - 1)
    }

    /// The rank that is folded away for `node`.
    pub(super) fn folded(&self, node: u32) -> Option<u32> {
        self.ranks(node).find(|&rank| rank != self.rank(node))
    }

    /// Folds the two ranks of a pair into one. Returns this rank's node; `None` at the rank that
    /// has handed over its contribution.
    pub(super) fn fold_in(&self, b: &mut Builder, fold: &mut Fold) -> Option<u32> {
        let node = self.node_of(self.rank);
        let Some(folded) = self.folded(node) else {
            return Some(node);
        };
        if folded == self.rank {
            b.send(self.rank(node), fold.result());
            return None;
        }
        let side = if folded < self.rank { Side::Left } else { Side::Right };
        let everything = fold.everything();
        let incoming = fold.incoming(b, side);
        b.recv(folded, incoming);
        fold.combine(b, side, &everything);
        b.round();
        Some(node)
    }

    /// Sends the result back to the ranks that were folded away.
    fn unfold(&self, b: &mut Builder, result: Extent) {
        let node = self.node_of(self.rank);
        if let Some(folded) = self.folded(node) {
            b.round();
            if folded == self.rank {
                b.recv(self.rank(node), result);
            } else {
                b.send(folded, result);
            }
        }
    }
}

/// For short vectors: ranks exchange whole vectors across each bit, in rank order. Log2 size
/// rounds, and two more if the size is no power of two.
pub fn recursive_doubling(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    output: Extent,
    commutative: bool,
) {
    let pairs = Pairs::new(pos, None);
    let mut fold = Fold::new(input, output, commutative);
    let everything = fold.everything();
    if let Some(node) = pairs.fold_in(b, &mut fold) {
        for bit in (0..pairs.bits()).map(|bit| 1 << bit) {
            let side = if node & bit == 0 { Side::Right } else { Side::Left };
            let partner = pairs.rank(node ^ bit);
            let incoming = fold.incoming(b, side);
            b.recv(partner, incoming);
            b.send(partner, fold.result());
            fold.combine(b, side, &everything);
            b.round();
        }
        fold.settle(b, &everything);
    }
    pairs.unfold(b, output);
}

/// For long vectors: recursive halving over nearest neighbours first, then the
/// same way back (Rabenseifner). Keeps rank order.
pub fn halving(b: &mut Builder, pos: Position, input: Extent, output: Extent, commutative: bool) {
    let pairs = Pairs::new(pos, None);
    let mut fold = Fold::new(input, output, commutative);
    if let Some(node) = pairs.fold_in(b, &mut fold) {
        let mut steps = halve(b, &pairs, node, &mut fold);
        let mut mine = steps.last().map_or(fold.everything(), |step| step.kept.clone());
        fold.settle(b, &mine);
        while let Some(step) = steps.pop() {
            let partner = pairs.rank(node ^ step.bit);
            b.round();
            b.recv(partner, output.range(&step.given));
            b.send(partner, output.range(&mine));
            mine = mine.start.min(step.given.start)..mine.end.max(step.given.end);
        }
    }
    pairs.unfold(b, output);
}

/// Halves the vector across each bit, nearest first: of what two nodes have in common each keeps a
/// half. Adjacent groups combine; therefore rank order is kept.
pub(super) fn halve(b: &mut Builder, pairs: &Pairs, node: u32, fold: &mut Fold) -> Vec<Step> {
    let mut range = fold.everything();
    let mut steps = Vec::new();
    for bit in (0..pairs.bits()).map(|bit| 1 << bit) {
        let middle = range.start + (range.end - range.start) / 2;
        let (low, high) = (range.start..middle, middle..range.end);
        let (side, kept, given) =
            if node & bit == 0 { (Side::Right, low, high) } else { (Side::Left, high, low) };
        let partner = pairs.rank(node ^ bit);
        let incoming = fold.incoming(b, side);
        b.recv(partner, incoming.range(&kept));
        b.send(partner, fold.result().range(&given));
        fold.combine(b, side, &kept);
        b.round();
        range = kept.clone();
        steps.push(Step { bit, kept, given });
    }
    steps
}

/// For long vectors and any number of ranks, if the operation commutes: each piece goes round the
/// ring and collects operands, then goes round complete.
pub fn ring(b: &mut Builder, pos: Position, input: Extent, output: Extent) {
    let piece = |index: u32| piece(input.count, u64::from(pos.size), u64::from(index));
    let (next, previous) = (pos.ahead(1), pos.behind(1));
    collect_round(b, pos, input, output);
    for step in 0..pos.size - 1 {
        b.recv(previous, output.range(&piece(pos.behind(step))));
        b.send(next, output.range(&piece(Position::new(next, pos.size).behind(step))));
        b.round();
    }
    if pos.size == 1 {
        b.copy(input, output);
    }
}

/// Sends each piece round the ring to collect operands. Returns the piece of `output` that is
/// complete on this rank then: the one after its own; all of it if it is alone, which it must copy.
pub(super) fn collect_round(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    output: Extent,
) -> Range<u64> {
    let piece = |index: u32| piece(input.count, u64::from(pos.size), u64::from(index));
    let (next, previous) = (pos.ahead(1), pos.behind(1));
    let in_place = input.span() == output.span();
    let spare = in_place.then(|| b.like(input, piece(0).end));
    for step in 1..pos.size {
        let (incoming, outgoing) = (piece(pos.behind(step)), piece(pos.behind(step - 1)));
        let (mine, result) = (input.range(&incoming), output.range(&incoming));
        let landing = spare.map_or(result, |spare| spare.part(0, result.count));
        b.recv(previous, landing);
        b.send(next, if step == 1 { input } else { output }.range(&outgoing));
        // In place `mine` is the result: the landed operand goes to its left.
        if in_place {
            b.reduce(landing, mine)
        } else {
            b.reduce(mine, landing)
        }
        b.round();
    }
    piece(pos.ahead(1))
}
