//! Reduce_scatter and reduce_scatter_block (MPI-5.0 §6.10).
//!
//! `input` is the whole vector, `counts` how many elements each rank gets, and `output` this rank's
//! part. When in place it is the start of the input.

use std::ops::Range;

use super::allreduce::Pairs;
use super::fold::{Fold, Side};
use super::{radix, reduce, scatter};
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// Returns the elements that belong to a rank.
pub(super) fn part_of(counts: &[u64], rank: u32) -> Range<u64> {
    let start = counts[..rank as usize].iter().sum();
    start..start + counts[rank as usize]
}

/// Which elements belong to the ranks `0, 1, ..`, and one past the last.
pub(super) fn starts(counts: &[u64]) -> Vec<u64> {
    let mut starts = vec![0];
    starts.extend(counts.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }));
    starts
}

/// For short vectors: all ranks reduce all of it, by [`radix::allreduce`].
pub fn whole(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    counts: &[u64],
    (output, radix): (Extent, u32),
) {
    let starts = starts(counts);
    let whole = b.like(input, input.count);
    radix::allreduce(b, pos, input, whole, radix);
    b.copy(whole.range(&(starts[pos.rank as usize]..starts[pos.rank as usize + 1])), output);
}

/// In rank order: reduce at rank 0, then scatter.
pub fn ordered(b: &mut Builder, pos: Position, input: Extent, counts: &[u64], output: Extent) {
    let whole = (pos.rank == 0).then(|| b.like(input, input.count));
    reduce::binomial(b, pos, 0, input, whole, false);
    b.round();
    let starts = starts(counts);
    let blocks: Option<Vec<Extent>> =
        whole.map(|whole| starts.windows(2).map(|ends| whole.range(&(ends[0]..ends[1]))).collect());
    scatter::linear(b, pos, 0, blocks.as_deref(), Some(output));
}

/// For short vectors if the operation commutes: recursive halving, farthest
/// first, so that the pieces end up in rank order.
pub fn halving(b: &mut Builder, pos: Position, input: Extent, counts: &[u64], output: Extent) {
    let pairs = Pairs::new(pos, None);
    let starts = starts(counts);
    let of_ranks = |ranks: Range<u32>| starts[ranks.start as usize]..starts[ranks.end as usize];
    let node = pairs.node_of(pos.rank);
    if pairs.folded(node) == Some(pos.rank) {
        b.send(pairs.rank(node), input);
        b.round();
        return b.recv(pairs.rank(node), output);
    }
    let home = b.like(input, input.count);
    let mut fold = Fold::new(input, home, true);
    pairs.fold_in(b, &mut fold);
    let mut group = 0..1u32 << pairs.bits();
    while group.len() > 1 {
        let middle = group.start + (group.end - group.start) / 2;
        let (low, high) = (group.start..middle, middle..group.end);
        let (kept, given) = if node < middle { (low, high) } else { (high, low) };
        let elements = |nodes: &Range<u32>| {
            of_ranks(pairs.ranks(nodes.start).start..pairs.ranks(nodes.end - 1).end)
        };
        let partner = pairs.rank(given.start + (node - kept.start));
        let incoming = fold.incoming(b, Side::Right);
        b.recv(partner, incoming.range(&elements(&kept)));
        b.send(partner, fold.result().range(&elements(&given)));
        fold.combine(b, Side::Right, &elements(&kept));
        b.round();
        group = kept;
    }
    if let Some(folded) = pairs.folded(node) {
        b.send(folded, fold.result().range(&of_ranks(folded..folded + 1)));
    }
    b.copy(fold.result().range(&of_ranks(pos.rank..pos.rank + 1)), output);
}

/// For long vectors if the operation commutes: in step k this rank sends the piece of the rank k
/// ahead to that rank, and reduces the piece from the rank k before.
pub fn pairwise(b: &mut Builder, pos: Position, input: Extent, counts: &[u64], output: Extent) {
    let starts = starts(counts);
    let piece = |rank: u32| input.range(&(starts[rank as usize]..starts[rank as usize + 1]));
    let mine = piece(pos.rank);
    // In place the output overlaps pieces that are still to be sent.
    let home = if input.space == output.space { b.like(mine, mine.count) } else { output };
    let mut fold = Fold::new(mine, home, true);
    for by in 1..pos.size {
        let incoming = fold.incoming(b, Side::Left);
        b.recv(pos.behind(by), incoming);
        b.send(pos.ahead(by), piece(pos.ahead(by)));
        let everything = fold.everything();
        fold.combine(b, Side::Left, &everything);
        b.round();
    }
    b.copy(fold.result(), output);
}
