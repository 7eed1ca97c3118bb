//! Collectives in a segment with flags (see [`fabric::coll_segment`]), all by one plan: each rank
//! writes its data for others into its slot, arrives, then waits for the ranks whose data it needs:
//! for none, for the root, or for all.
//!
//! Therefore each line crosses once from a rank to each rank that needs it, all lines at the same
//! time. A rank that gets nothing does not wait. Operands are combined in rank order, from the last
//! to the first; therefore all ranks get the same result.

use std::ops::Range;

use fabric::CollectiveKind;
use fabric::coll_segment::{FEW_FLAGS_RANKS, FLAGS_HEADER, flags_slot_bytes, flags_stride};

use super::reduce_scatter::part_of;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::{Awaited, SegSync};
use crate::shape::{Extent, Shape, Space, Ty};

/// Returns whether all ranks know each other's sizes, and the data fits into a slot, laid out as in
/// the user's memory.
pub fn can(args: &CollArgs, size: u32) -> bool {
    let is_known = match args {
        CollArgs::Barrier
        | CollArgs::Bcast { .. }
        | CollArgs::Gather { .. }
        | CollArgs::Scatter { .. } => true,
        CollArgs::Allgather { .. } | CollArgs::Allgatherv { .. } => true,
        CollArgs::Alltoall { kind, .. } => *kind == CollectiveKind::Alltoall,
        CollArgs::Reduce { input, .. }
        | CollArgs::Allreduce { input, .. }
        | CollArgs::ReduceScatter { input, .. } => input.shape.gapless,
        _ => false,
    };
    is_known
        && slot_bytes(args, size) <= flags_slot_bytes(size)
        && operand_bytes(args, size) <= MAX_OPERAND_BYTES
}

/// The most bytes of operands that a rank reads. More are combined faster by several ranks, each a
/// part.
const MAX_OPERAND_BYTES: u64 = FEW_FLAGS_RANKS as u64 * flags_slot_bytes(FEW_FLAGS_RANKS);

/// Returns the most bytes of operands that a rank reads.
fn operand_bytes(args: &CollArgs, size: u32) -> u64 {
    match args {
        CollArgs::Reduce { input, .. } | CollArgs::Allreduce { input, .. } => {
            input.bytes().saturating_mul(size.into())
        }
        _ => 0,
    }
}

/// Returns the most bytes that a rank has in its slot; the same on all ranks.
pub fn slot_bytes(args: &CollArgs, size: u32) -> u64 {
    let block = block(args, size);
    match args {
        CollArgs::Scatter { .. } | CollArgs::Alltoall { .. } => block.saturating_mul(size.into()),
        _ => block,
    }
}

/// Returns the most bytes that two ranks give each other; 0 where only one of them gives any.
pub fn exchanged_bytes(args: &CollArgs, size: u32) -> u64 {
    match args {
        CollArgs::Allgather { .. } | CollArgs::Allgatherv { .. } | CollArgs::Alltoall { .. } => {
            block(args, size)
        }
        CollArgs::Allreduce { input, .. } => input.bytes(),
        CollArgs::ReduceScatter { input, .. } => input.bytes() / u64::from(size),
        _ => 0,
    }
}

/// Returns the most bytes that one rank gives another one.
fn block(args: &CollArgs, size: u32) -> u64 {
    match args {
        CollArgs::Allgather { all, .. } => all.bytes() / u64::from(size),
        CollArgs::Allgatherv { all, .. } => all.iter().map(Extent::bytes).max().unwrap_or(0),
        _ => args.bytes(size),
    }
}

/// Writes this rank's part.
pub fn write(b: &mut Builder, args: &CollArgs, pos: Position) {
    let Position { rank: me, size, .. } = pos;
    let block = block(args, size);
    let slots = Slots { members: size };
    b.reserve_slot(block);
    b.sync(SegSync::Acquire);
    match *args {
        CollArgs::Barrier => {
            arrive(b, Awaits::All);
        }
        CollArgs::Bcast { root, data } if root == me => {
            b.copy(data, slots.bytes(me, 0, block));
            arrive(b, Awaits::None);
        }
        CollArgs::Bcast { root, data } => {
            arrive(b, Awaits::Some(root.into()));
            b.copy(slots.bytes(root, 0, block), data);
        }
        CollArgs::Gather { root, own, all } => {
            own.iter()
                .filter(|_| root != me)
                .for_each(|own| b.copy(*own, slots.bytes(me, 0, block)));
            arrive(b, if root == me { Awaits::All } else { Awaits::None });
            let all = all.map(|all| all.split(size)).unwrap_or_default();
            collect(b, me, own, &all, slots);
        }
        CollArgs::Scatter { root, all, own } => {
            let all = all.map(|all| all.split(size)).unwrap_or_default();
            let of_others = (0..size).zip(&all).filter(|(rank, _)| *rank != me);
            of_others.for_each(|(rank, part)| b.copy(*part, slots.bytes(me, rank, block)));
            arrive(b, if root == me { Awaits::None } else { Awaits::Some(root.into()) });
            let from = all.get(me as usize).copied().unwrap_or(slots.bytes(root, me, block));
            own.iter().for_each(|own| b.copy(from, *own));
        }
        CollArgs::Allgather { own, all } => allgather(b, me, own, &all.split(size), slots),
        CollArgs::Allgatherv { own, all } => allgather(b, me, own, all, slots),
        CollArgs::Alltoall { from, to, .. } => {
            let given = (0..size).zip(from.unwrap_or(to)).filter(|(rank, _)| *rank != me);
            given.for_each(|(rank, part)| b.copy(*part, slots.bytes(me, rank, block)));
            arrive(b, Awaits::All);
            let got = (0..size).zip(to).filter(|(rank, _)| *rank != me);
            got.for_each(|(rank, part)| b.copy(slots.bytes(rank, me, block), *part));
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
            let part = part_of(counts, me);
            reduce(b, pos, input, &part, Some(output), [0..part.start, part.end..input.count]);
        }
        _ => debug_assert!(false, "refused by `can`"),
    }
}

/// From so many ranks on, reading a line of each takes longer than a second round.
const TWO_ROUNDS_RANKS: u32 = 17;

/// Returns whether it is a barrier or an allreduce of many ranks, which is faster in two rounds.
pub fn takes_two_rounds(args: &CollArgs, size: u32) -> bool {
    size >= TWO_ROUNDS_RANKS && matches!(args, CollArgs::Barrier | CollArgs::Allreduce { .. })
}

/// Writes this rank's part in two rounds. The ranks are the rows of a square. In the first round a
/// rank reads the slots of the row with the number of its column, and writes their sum into its
/// own; therefore in the second one each row has the sums of all rows, in order.
pub fn write_in_two_rounds(b: &mut Builder, args: &CollArgs, pos: Position) {
    let Position { rank: me, size, .. } = pos;
    let side = size.isqrt() + u32::from(size.isqrt().pow(2) < size);
    let (rows, column) = (size.div_ceil(side), me % side);
    // The last row may be too short to have all sums.
    let row = (me / side).min(size / side - 1) * side;
    let (first, second) = (column * side..size.min((column + 1) * side), row..row + rows);
    let vector = match *args {
        CollArgs::Allreduce { input, output, .. } => Some((input, output)),
        _ => None,
    };
    let slots = Slots { members: size };
    let sum = |b: &mut Builder, space, ranks: &Range<u32>, out: Extent| {
        let slot = |rank| Extent { space, disp: slots.at(rank), ..out };
        match ranks.len() as u32 - 1 {
            0 => b.copy(slot(ranks.start), out),
            others => {
                let (left, distance) = (slot(ranks.start), flags_stride(size) as i64);
                b.reduce_into(left, others, distance, slot(ranks.end - 1), out);
            }
        }
    };
    let own = |like| Extent { space: Space::CollSegment, disp: slots.at(me), ..like };
    let awaited =
        |ranks: &Range<u32>| Awaits::Some(Awaited::range(ranks.start, ranks.len() as u32));
    b.reserve_slot(block(args, size));
    b.sync(SegSync::Acquire);
    vector.iter().for_each(|&(input, _)| b.copy(input, own(input)));
    arrive(b, if column < rows { awaited(&first) } else { Awaits::None });
    b.segment_stage();
    b.sync(SegSync::Acquire);
    for (input, _) in vector.iter().filter(|_| column < rows) {
        sum(b, Space::PreviousSlots, &first, own(*input));
    }
    arrive(b, awaited(&second));
    vector.iter().for_each(|&(_, output)| sum(b, Space::CollSegment, &second, output));
}

/// This rank arrives, and awaits the last `many` ranks.
pub fn await_last(b: &mut Builder, size: u32, many: u32) {
    b.sync(SegSync::Acquire);
    arrive(b, Awaits::Some(Awaited::range(size - many, many)));
}

/// The ranks that a rank waits for.
enum Awaits {
    None,
    Some(Awaited),
    All,
}

/// Arrives; the next step waits for other ranks.
fn arrive(b: &mut Builder, awaits: Awaits) {
    b.sync(SegSync::SignalEarly);
    match awaits {
        Awaits::None => b.round(),
        Awaits::Some(members) => b.sync(SegSync::WaitFor(members)),
        Awaits::All => b.sync(SegSync::WaitAll),
    }
}

/// Each rank gives its block to all others; `None` for its own: it is in its place.
fn allgather(b: &mut Builder, me: u32, own: Option<Extent>, all: &[Extent], slots: Slots) {
    let own = own.unwrap_or(all[me as usize]);
    b.copy(own, slots.bytes(me, 0, own.bytes()));
    arrive(b, awaits_data(all));
    collect(b, me, Some(own), all, slots);
}

/// What a rank waits for that gets these blocks: the members between which all data are.
fn awaits_data(all: &[Extent]) -> Awaits {
    let has_data = |block: &Extent| block.bytes() > 0;
    let (first, last) = (all.iter().position(has_data), all.iter().rposition(has_data));
    match first.zip(last) {
        Some((first, last)) if last - first + 1 < all.len() => {
            Awaits::Some(Awaited::range(first as u32, (last - first) as u32 + 1))
        }
        _ => Awaits::All,
    }
}

/// Copies the blocks of other ranks to their places in `all`, if this rank has it, and the own one
/// from `own`.
fn collect(b: &mut Builder, me: u32, own: Option<Extent>, all: &[Extent], slots: Slots) {
    for (rank, part) in (0..).zip(all) {
        let block = if rank == me { own } else { Some(slots.bytes(rank, 0, part.bytes())) };
        block.iter().for_each(|block| b.copy(*block, *part));
    }
}

/// Combines the elements `part` of all inputs into `output`, if this rank has one. Other ranks need
/// the elements `given` of this rank's input.
fn reduce(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    part: &Range<u64>,
    output: Option<Extent>,
    given: [Range<u64>; 2],
) {
    // In place the result overwrites the operand; therefore the slot keeps all of it.
    let is_in_place = output.is_some_and(|output| output.space == input.space);
    let slots = Slots { members: pos.size };
    let slot = |rank: u32| Extent { space: Space::CollSegment, disp: slots.at(rank), ..input };
    for range in if is_in_place { [0..input.count, 0..0] } else { given } {
        b.copy(input.range(&range), slot(pos.rank).range(&range));
    }
    let Some(output) = output else { return arrive(b, Awaits::None) };
    arrive(b, Awaits::All);
    let own = if is_in_place { slot(pos.rank) } else { input };
    combine(b, pos, own.range(part), |rank| slot(rank).range(part), output);
}

/// Combines the operands of all ranks into `output`, from the last to the first: `own`, which is
/// not in the output, and those of the others in their slots.
fn combine(
    b: &mut Builder,
    pos: Position,
    own: Extent,
    slot: impl Fn(u32) -> Extent,
    output: Extent,
) {
    let (me, last) = (pos.rank, pos.size - 1);
    let slots = |b: &mut Builder, ranks: Range<u32>, right: Extent| {
        let (first, many) = (slot(ranks.start), ranks.len() as u32);
        b.reduce_into(first, many, flags_stride(pos.size) as i64, right, output);
    };
    match last - me {
        0 => return slots(b, 0..last, own),
        1 => b.reduce_into(own, 1, 0, slot(last), output),
        _ => {
            slots(b, me + 1..last, slot(last));
            b.reduce(own, output);
        }
    }
    slots(b, 0..me, output);
}

/// The slots of a segment with so many members.
#[derive(Clone, Copy)]
struct Slots {
    members: u32,
}

impl Slots {
    /// Returns block `index` of so many bytes in a rank's slot.
    fn bytes(self, rank: u32, index: u32, block: u64) -> Extent {
        let disp = self.at(rank) + (u64::from(index) * block) as i64;
        Extent { disp, ..Extent::new(Space::CollSegment, Ty::BYTES, block, Shape::BYTE) }
    }

    /// Returns where a rank's slot lies.
    fn at(self, rank: u32) -> i64 {
        (u64::from(rank) * flags_stride(self.members) + FLAGS_HEADER) as i64
    }
}
