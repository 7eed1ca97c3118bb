//! Straight from each rank to each: every rank takes a piece of the vector or block, and all send
//! at once, a bounded number of messages under way. One or two rounds for any number of ranks; each
//! rank exchanges messages with all others. For long data, where operations commute.

use std::ops::Range;

use super::gather;
use super::reduce_scatter::starts;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::{Extent, piece};

/// A piece straight from the root to each other rank, then from each of these to each: the root
/// sends the data once.
pub fn bcast(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    let others: Vec<u32> = Position::new(root, pos.size).others().collect();
    let parts = others.len() as u64;
    let bytes = b.bytes_of(data);
    let part = |index: u32| bytes.range(&piece(bytes.count, parts, index.into()));
    let Some(me) = others.iter().position(|&rank| rank == pos.rank) else {
        b.copy(data, bytes);
        return (0..).zip(others).for_each(|(index, rank)| b.send(rank, part(index)));
    };
    let me = Position::new(me as u32, others.len() as u32);
    b.recv(root, part(me.rank));
    b.round();
    for by in 1..me.size {
        let (from, to) = (me.behind(by), me.ahead(by));
        b.recv(others[from as usize], part(from));
        b.send(others[to as usize], part(me.rank));
    }
    b.round();
    b.copy(bytes, data);
}

/// Straight from each rank to each, with a bounded number of messages under way.
pub fn allgather(b: &mut Builder, pos: Position, own: Extent, blocks: &[Extent]) {
    for by in 1..pos.size {
        b.recv(pos.behind(by), blocks[pos.behind(by) as usize]);
        b.send(pos.ahead(by), own);
    }
    b.copy_meanwhile(own, blocks[pos.rank as usize]);
}

/// For long vectors if the operation commutes: each rank reduces its piece, which all others send
/// it at once.
pub fn reduce_scatter(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    counts: &[u64],
    output: Extent,
) {
    let starts = starts(counts);
    let piece = |rank: u32| starts[rank as usize]..starts[rank as usize + 1];
    // In place the output overlaps the own operand.
    let home = if input.space == output.space { b.like(output, output.count) } else { output };
    reduce_pieces(b, pos, input, piece, home);
    b.copy(home, output);
}

/// Sends each rank its piece of `input`, and reduces the own one into `home`, which is that piece
/// of the input or does not overlap it.
fn reduce_pieces(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    piece: impl Fn(u32) -> Range<u64>,
    home: Extent,
) {
    let mine = input.range(&piece(pos.rank));
    let operands: Vec<Extent> = (1..pos.size)
        .map(|by| {
            let operand = b.like(mine, mine.count);
            b.recv(pos.behind(by), operand);
            b.send(pos.ahead(by), input.range(&piece(pos.ahead(by))));
            operand
        })
        .collect();
    let mut result = mine;
    for operand in operands {
        b.reduce_into(operand, 1, 0, result, home);
        result = home;
    }
    b.copy(result, home);
}

/// For long vectors if the operation commutes: each rank reduces a piece, and sends it to all.
pub fn allreduce(b: &mut Builder, pos: Position, input: Extent, output: Extent) {
    let piece = |index: u32| piece(input.count, u64::from(pos.size), u64::from(index));
    let mine = output.range(&piece(pos.rank));
    reduce_pieces(b, pos, input, piece, mine);
    b.round();
    let pieces: Vec<Extent> = (0..pos.size).map(|index| output.range(&piece(index))).collect();
    allgather(b, pos, mine, &pieces);
}

/// For long vectors if the operation commutes: each rank reduces a piece, and sends it to the root.
pub fn reduce(b: &mut Builder, pos: Position, root: u32, input: Extent, output: Option<Extent>) {
    let home = output.unwrap_or_else(|| b.like(input, input.count));
    let piece = |rank: u32| piece(input.count, u64::from(pos.size), u64::from(rank));
    reduce_pieces(b, pos, input, piece, home.range(&piece(pos.rank)));
    b.round();
    gather::pieces(b, pos, root, |rank| home.range(&piece(rank)));
}
