//! Collectives in a flat arena (see [`fabric::coll_segment`]), one plan for all of them: every rank writes into its seat what
//! others need of it, arrives, and then hears those whose data it needs: nobody, the root, or everyone.
//!
//! So a line crosses once from each to each that needs it, all at the same time, and a rank that gets nothing does not wait.
//! Who combines operands does so in rank order, from the last to the first: all get the same result.

use std::ops::Range;

use fabric::CollectiveKind;
use fabric::coll_segment::{FLAGS_HEADER, FLAGS_SLOT_BYTES, FLAGS_STRIDE};

use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::SegSync;
use crate::shape::{Extent, Shape, Space, Ty};

/// Whether all ranks know of each other's sizes, a seat has room, and operands lie in it as they do in the user's memory.
pub fn can(args: &CollArgs, size: u32) -> bool {
    let lies = match args {
        CollArgs::Barrier
        | CollArgs::Bcast { .. }
        | CollArgs::Gather { .. }
        | CollArgs::Scatter { .. } => true,
        CollArgs::Allgather { .. } => true,
        CollArgs::Alltoall { kind, .. } => *kind == CollectiveKind::Alltoall,
        CollArgs::Reduce { input, .. }
        | CollArgs::Allreduce { input, .. }
        | CollArgs::ReduceScatter { input, .. } => input.shape.gapless,
        _ => false,
    };
    lies && slot_bytes(args, size) <= FLAGS_SLOT_BYTES
}

/// Bytes that some rank has in its seat; the same on all ranks.
pub fn slot_bytes(args: &CollArgs, size: u32) -> u64 {
    let block = block(args, size);
    match args {
        CollArgs::Scatter { .. } | CollArgs::Alltoall { .. } => block.saturating_mul(size.into()),
        _ => block,
    }
}

/// Bytes of what one rank gives another one.
fn block(args: &CollArgs, size: u32) -> u64 {
    let bytes = args.bytes(size);
    if let CollArgs::Allgather { .. } = args { bytes / u64::from(size) } else { bytes }
}

/// This rank's part.
pub fn write(b: &mut Builder, args: &CollArgs, pos: Position) {
    let Position { rank: me, size, .. } = pos;
    let block = block(args, size);
    b.reserve_slot(block);
    b.sync(SegSync::Acquire);
    match *args {
        CollArgs::Barrier => {
            arrive(b, Hears::Everyone);
        }
        CollArgs::Bcast { root, data } if root == me => {
            b.copy(data, bytes_of(me, 0, block));
            arrive(b, Hears::Nobody);
        }
        CollArgs::Bcast { root, data } => {
            arrive(b, Hears::One(root));
            b.copy(bytes_of(root, 0, block), data);
        }
        CollArgs::Gather { root, own, all } => {
            own.iter().filter(|_| root != me).for_each(|own| b.copy(*own, bytes_of(me, 0, block)));
            arrive(b, if root == me { Hears::Everyone } else { Hears::Nobody });
            collect(b, pos, own, all, |rank| bytes_of(rank, 0, block));
        }
        CollArgs::Scatter { root, all, own } => {
            let all = all.map(|all| all.split(size)).unwrap_or_default();
            let of_others = (0..size).zip(&all).filter(|(rank, _)| *rank != me);
            of_others.for_each(|(rank, part)| b.copy(*part, bytes_of(me, rank, block)));
            arrive(b, if root == me { Hears::Nobody } else { Hears::One(root) });
            let from = all.get(me as usize).copied().unwrap_or(bytes_of(root, me, block));
            own.iter().for_each(|own| b.copy(from, *own));
        }
        CollArgs::Allgather { own, all } => {
            let own = own.unwrap_or_else(|| all.split(size)[me as usize]);
            b.copy(own, bytes_of(me, 0, block));
            arrive(b, Hears::Everyone);
            collect(b, pos, Some(own), Some(all), |rank| bytes_of(rank, 0, block));
        }
        CollArgs::Alltoall { from, to, .. } => {
            let given = (0..size).zip(from.unwrap_or(to)).filter(|(rank, _)| *rank != me);
            given.for_each(|(rank, part)| b.copy(*part, bytes_of(me, rank, block)));
            arrive(b, Hears::Everyone);
            let got = (0..size).zip(to).filter(|(rank, _)| *rank != me);
            got.for_each(|(rank, part)| b.copy(bytes_of(rank, me, block), *part));
            from.iter().for_each(|from| b.copy(from[me as usize], to[me as usize]));
        }
        CollArgs::Reduce { root, input, output, .. } => {
            let all = 0..input.count;
            let given = if root == me { 0..0 } else { all.clone() };
            reduce(b, pos, input, &all, output.filter(|_| root == me), [given, 0..0]);
        }
        CollArgs::Allreduce { input, output, .. } => {
            let all = 0..input.count;
            reduce(b, pos, input, &all, Some(output), [all.clone(), 0..0]);
        }
        CollArgs::ReduceScatter { input, counts, output, .. } => {
            let start = counts[..me as usize].iter().sum();
            let part = start..start + counts[me as usize];
            reduce(b, pos, input, &part, Some(output), [0..start, part.end..input.count]);
        }
        _ => debug_assert!(false, "flat::can knows better"),
    }
}

/// Whom a rank hears.
enum Hears {
    Nobody,
    One(u32),
    Everyone,
}

/// This rank arrives; what comes next waits for those whom it hears.
fn arrive(b: &mut Builder, hears: Hears) {
    b.sync(SegSync::SignalEarly);
    match hears {
        Hears::Nobody => b.round(),
        Hears::One(rank) => b.sync(SegSync::WaitFor(rank)),
        Hears::Everyone => b.sync(SegSync::WaitAll),
    }
}

/// Others' blocks to their places in `all`, where that is here, and the own one from `own`.
fn collect(
    b: &mut Builder,
    pos: Position,
    own: Option<Extent>,
    all: Option<Extent>,
    block_of: impl Fn(u32) -> Extent,
) {
    let all = all.map(|all| all.split(pos.size)).unwrap_or_default();
    for (rank, part) in (0..pos.size).zip(all) {
        let block = if rank == pos.rank { own } else { Some(block_of(rank)) };
        block.iter().for_each(|block| b.copy(*block, part));
    }
}

/// The elements `part` of all inputs, combined, to `output`, where that is here. Others need the elements `given` of
/// this rank's.
fn reduce(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    part: &Range<u64>,
    output: Option<Extent>,
    given: [Range<u64>; 2],
) {
    // In place the result is written over the operand.
    let is_in_place = output.is_some_and(|output| output.space == input.space);
    let seated = |rank: u32| Extent { space: Space::CollSegment, disp: slot_at(rank), ..input };
    for range in if is_in_place { [0..input.count, 0..0] } else { given } {
        b.copy(input.range(&range), seated(pos.rank).range(&range));
    }
    let Some(output) = output else { return arrive(b, Hears::Nobody) };
    arrive(b, Hears::Everyone);
    let (me, last) = (pos.rank, pos.size - 1);
    // One's own operand need not be in its seat.
    let own = Some(input.range(part)).filter(|_| !is_in_place);
    let combine = |b: &mut Builder, ranks: Range<u32>| {
        b.reduce_strided(
            seated(ranks.start).range(part),
            ranks.len() as u32,
            FLAGS_STRIDE as i64,
            output,
        );
    };
    b.copy(own.filter(|_| me == last).unwrap_or(seated(last).range(part)), output);
    match own.filter(|_| me < last) {
        Some(own) => {
            combine(b, me + 1..last);
            b.reduce(own, output);
            combine(b, 0..me);
        }
        None => combine(b, 0..last),
    }
}

/// Block `index` of so many bytes in a rank's seat.
fn bytes_of(rank: u32, index: u32, block: u64) -> Extent {
    let disp = slot_at(rank) + (u64::from(index) * block) as i64;
    Extent { disp, ..Extent::new(Space::CollSegment, Ty::BYTES, block, Shape::BYTE) }
}

fn slot_at(rank: u32) -> i64 {
    (u64::from(rank) * FLAGS_STRIDE + FLAGS_HEADER) as i64
}
