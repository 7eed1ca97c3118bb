//! Allreduce of long vectors in a segment with flags (see [`fabric::coll_segment`]): in pieces, of
//! which each rank reduces its part, all ranks at once.
//!
//! In the round of a piece each rank writes the other ranks' parts of its own vector into its slot.
//! When all have arrived, it combines its own part *in the slot of another rank*, copies the result
//! to its output and to its part of the other slots, and goes on to the next piece. With the
//! arrival at the next round the other ranks know that the results are in their slots. A line that
//! holds an operand therefore goes back with the result, and no line moves twice.
//!
//! Invariant: part `p` of a slot is written by the slot's rank until it arrives, then by rank `p`
//! until that arrives at the next round, then read by the slot's rank.
//!
//! What it does not do: keep rank order; the operation must commute.

use std::ops::Range;

use fabric::coll_segment::{
    FEW_FLAGS_RANKS, FLAGS_HEADER, SLOT_ALIGN, flags_slot_bytes, flags_stride,
};

use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::SegSync;
use crate::shape::{Extent, Space, piece};

/// Bytes that are combined at once, so that the result is copied out of the first-level cache.
const BLOCK_BYTES: u64 = 4 << 10;

/// Returns whether it is an allreduce that commutes, laid out as in the user's memory, among few
/// ranks, with elements of which each part of a slot holds one.
pub fn can(args: &CollArgs, size: u32) -> bool {
    let CollArgs::Allreduce { input, .. } = args else { return false };
    (2..=FEW_FLAGS_RANKS).contains(&size)
        && args.commutes()
        && input.shape.gapless
        && (1..=BLOCK_BYTES.min(distance(size))).contains(&input.shape.size)
        && input.count > 0
}

/// Returns the bytes from one part to the next in a slot.
fn distance(size: u32) -> u64 {
    (flags_slot_bytes(size) - first_part()) / u64::from(size - 1) / SLOT_ALIGN * SLOT_ALIGN
}

/// Writes this rank's part.
pub fn write(b: &mut Builder, args: &CollArgs, pos: Position) {
    let CollArgs::Allreduce { input, output, .. } = *args else { return };
    b.reserve_slot(input.bytes());
    let pieces = Pieces::new(pos, input, output);
    for index in 0..=pieces.count {
        b.segment_stage();
        let is_piece = index < pieces.count;
        b.sync(SegSync::Acquire);
        if is_piece {
            pieces.give(b, index);
        }
        b.sync(SegSync::SignalEarly);
        b.sync(SegSync::WaitAll);
        if is_piece {
            pieces.combine(b, index);
        }
        if let Some(before) = index.checked_sub(1) {
            pieces.take(b, before);
        }
    }
}

/// How a vector is cut: into pieces, and these into a part for each rank.
struct Pieces<'a> {
    pos: Position<'a>,
    input: Extent,
    output: Extent,
    count: u64,
}

impl Pieces<'_> {
    fn new(pos: Position<'_>, input: Extent, output: Extent) -> Pieces<'_> {
        let most = distance(pos.size) / input.shape.size * u64::from(pos.size);
        Pieces { pos, input, output, count: input.count.div_ceil(most) }
    }

    /// The elements of a rank's part of a piece.
    fn part(&self, index: u64, rank: u32) -> Range<u64> {
        let all = piece(self.input.count, self.count, index);
        let part = piece(all.end - all.start, self.pos.size.into(), rank.into());
        all.start + part.start..all.start + part.end
    }

    /// Where the part of rank `of` lies in the slot of another rank, which has no part of its own.
    fn in_slot(&self, space: Space, index: u64, slot: u32, of: u32) -> Extent {
        let (size, at) = (self.pos.size, (of + self.pos.size - slot - 1) % self.pos.size);
        let start = u64::from(slot) * flags_stride(size) + FLAGS_HEADER + first_part();
        let disp = (start + u64::from(at) * distance(size)) as i64;
        let part = self.part(index, of);
        Extent { space, disp, count: part.end - part.start, ..self.input }
    }

    fn others(&self) -> impl Iterator<Item = u32> {
        (0..self.pos.size).filter(|&rank| rank != self.pos.rank)
    }

    /// Writes the parts of the other ranks into the own slot.
    fn give(&self, b: &mut Builder, index: u64) {
        for rank in self.others() {
            let slot = self.in_slot(Space::CollSegment, index, self.pos.rank, rank);
            b.copy(self.input.range(&self.part(index, rank)), slot);
        }
    }

    /// Combines the own part, block by block, and copies each result to where it is wanted.
    fn combine(&self, b: &mut Builder, index: u64) {
        let (me, last) = (self.pos.rank, self.pos.size - 1);
        let part = self.part(index, me);
        let each = BLOCK_BYTES / self.input.shape.size;
        // Of the part of a rank, slots hold it the nearer to their start the higher their rank.
        let distance = (flags_stride(self.pos.size) - distance(self.pos.size)) as i64;
        let home = if me == last { last - 1 } else { last };
        let mut start = part.start;
        while start < part.end {
            let block = start..part.end.min(start + each);
            let slot = |rank| {
                let whole = self.in_slot(Space::CollSegment, index, rank, me);
                whole.range(&(block.start - part.start..block.end - part.start))
            };
            if me < home {
                b.reduce_strided(slot(me + 1), home - me - 1, distance, slot(home));
            }
            b.reduce(self.input.range(&block), slot(home));
            b.reduce_strided(slot(0), me.min(home), distance, slot(home));
            b.copy(slot(home), self.output.range(&block));
            let slots = self.others().filter(|&rank| rank != home);
            slots.for_each(|rank| b.copy(slot(home), slot(rank)));
            start = block.end;
        }
    }

    /// Takes the results of the other ranks out of the own slot of the round before.
    fn take(&self, b: &mut Builder, index: u64) {
        for rank in self.others() {
            let slot = self.in_slot(Space::PreviousSlots, index, self.pos.rank, rank);
            b.copy(slot, self.output.range(&self.part(index, rank)));
        }
    }
}

/// Bytes from the start of a slot to its first part, which begins a line.
const fn first_part() -> u64 {
    SLOT_ALIGN - FLAGS_HEADER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Shape, Ty};

    #[test]
    fn elements_that_no_part_of_a_slot_holds_are_refused() {
        let allreduce = |bytes| {
            let extent = |space| Extent::new(space, Ty::BYTES, 16, Shape::gapless(bytes));
            let [input, output] = [Space::Send, Space::Recv].map(extent);
            CollArgs::Allreduce { input, output, commutative: true }
        };
        for size in 2..=FEW_FLAGS_RANKS {
            for bytes in [1, 8, 2304, 2305, 3264, 3265, BLOCK_BYTES, BLOCK_BYTES + 1] {
                let args = allreduce(bytes);
                assert_eq!(can(&args, size), bytes <= BLOCK_BYTES.min(distance(size)));
                if can(&args, size) {
                    write(&mut Builder::new(), &args, Position::new(0, size));
                }
            }
        }
    }
}
