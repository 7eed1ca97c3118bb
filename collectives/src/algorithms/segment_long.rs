//! Stages of compositions in the segment of a host with flags (see [`fabric::coll_segment`]), for
//! vectors that are longer than slots: a slot's worth of each part at a time.
//!
//! What a rank gives is written once and read by all ranks that need it. A reduction goes round the
//! ring: each rank combines its own operand with the slot of the rank before into its own slot;
//! therefore only the first rank of each ring copies.
//!
//! Invariant: a rank reads the slots of a round of the segment before it arrives at the next one.
//!
//! What it does not do: keep rank order; the operation must commute.

use fabric::coll_segment::{FLAGS_HEADER, SLOT_ALIGN, flags_slot_bytes, flags_stride};

use super::reduce_scatter::starts;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::SegSync;
use crate::shape::{Extent, Space};

/// Returns whether it is a stage that there is, of parts of one vector that can be cut.
pub fn can(args: &CollArgs, size: u32) -> bool {
    let can_cut = |part: &Extent| part.shape.gapless && elements(part, size) > 0;
    match args {
        CollArgs::Bcast { data, .. } => can_cut(data),
        CollArgs::Allgatherv { own: None, all } => all.first().is_some_and(can_cut),
        CollArgs::ReduceScatter { input, .. } => args.commutes() && can_cut(input),
        _ => false,
    }
}

/// Writes this rank's part.
pub fn write(b: &mut Builder, args: &CollArgs, pos: Position) {
    match *args {
        CollArgs::Bcast { root, data } => bcast(b, pos, root, data),
        CollArgs::Allgatherv { all, .. } => allgather(b, pos, all),
        CollArgs::ReduceScatter { input, counts, output, .. } => {
            reduce_scatter(b, pos, input, counts, output);
        }
        _ => debug_assert!(false, "refused by `can`"),
    }
}

/// How many elements of an extent's type fit a slot.
fn elements(extent: &Extent, size: u32) -> u64 {
    (flags_slot_bytes(size) / SLOT_ALIGN * SLOT_ALIGN).checked_div(extent.shape.size).unwrap_or(0)
}

/// The elements that a slot holds in turn `turn`, of parts that are cut so.
fn in_turn(part: Extent, turn: u64, each: u64) -> Extent {
    part.range(&((turn * each).min(part.count)..((turn + 1) * each).min(part.count)))
}

/// The place in a rank's slot for `data`.
fn slot(space: Space, rank: u32, size: u32, data: Extent) -> Extent {
    Extent { space, disp: (u64::from(rank) * flags_stride(size) + FLAGS_HEADER) as i64, ..data }
}

/// Begins a round of the segment; the next steps may write the own slot.
fn acquire(b: &mut Builder) {
    b.segment_stage();
    b.sync(SegSync::Acquire);
}

/// Through the root's slot.
fn bcast(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    b.reserve_slot(data.bytes());
    let each = elements(&data, pos.size);
    for turn in 0..data.count.div_ceil(each) {
        let data = in_turn(data, turn, each);
        let slot = slot(Space::CollSegment, root, pos.size, data);
        acquire(b);
        if pos.rank == root {
            b.copy(data, slot);
        }
        b.sync(SegSync::SignalEarly);
        if pos.rank != root {
            b.sync(SegSync::WaitFor(root.into()));
            b.copy(slot, data);
        }
    }
}

/// Each rank's part through its slot; all parts lie in their places.
fn allgather(b: &mut Builder, pos: Position, parts: &[Extent]) {
    b.reserve_slot(parts.iter().map(Extent::bytes).sum());
    let each = elements(&parts[0], pos.size);
    let longest = parts.iter().map(|part| part.count).max().unwrap_or(0);
    for turn in 0..longest.div_ceil(each) {
        let part = |rank: u32| in_turn(parts[rank as usize], turn, each);
        let slot = |rank| slot(Space::CollSegment, rank, pos.size, part(rank));
        acquire(b);
        b.copy(part(pos.rank), slot(pos.rank));
        b.sync(SegSync::SignalEarly);
        b.sync(SegSync::WaitAll);
        pos.others().for_each(|rank| b.copy(slot(rank), part(rank)));
    }
}

/// A part of each rank's goes round the ring, from the rank after it to itself, as often as it
/// takes slots. All of them are under way at once.
fn reduce_scatter(b: &mut Builder, pos: Position, input: Extent, counts: &[u64], output: Extent) {
    b.reserve_slot(input.bytes());
    let (starts, before, each) = (starts(counts), pos.behind(1), elements(&input, pos.size));
    let part = |rank: u32, turn| {
        let rank = rank as usize;
        in_turn(input.range(&(starts[rank]..starts[rank + 1])), turn, each)
    };
    let turns = counts.iter().max().map_or(0, |longest| longest.div_ceil(each));
    for turn in 0..turns {
        for step in 1..pos.size {
            acquire(b);
            if let Some(last) = turn.checked_sub(1).filter(|_| step == 1) {
                complete(b, pos, part(pos.rank, last), in_turn(output, last, each));
            }
            let operand = part(pos.behind(step), turn);
            let home = slot(Space::CollSegment, pos.rank, pos.size, operand);
            let come = slot(Space::PreviousSlots, before, pos.size, operand);
            match step {
                1 => b.copy(operand, home),
                _ => b.reduce_into(operand, 1, 0, come, home),
            }
            b.sync(SegSync::SignalEarly);
            b.sync(SegSync::WaitFor(before.into()));
        }
    }
    if let Some(last) = turns.checked_sub(1) {
        acquire(b);
        complete(b, pos, part(pos.rank, last), in_turn(output, last, each));
        b.sync(SegSync::SignalEarly);
    }
}

/// Combines the own operand with those of all others, which have come round the ring. In place the
/// result is the operand.
fn complete(b: &mut Builder, pos: Position, operand: Extent, result: Extent) {
    let come = slot(Space::PreviousSlots, pos.behind(1), pos.size, operand);
    b.reduce_into(come, 1, 0, operand, result);
}
