//! Collectives in a segment whose members count in one word (see [`fabric::coll_segment`]): each
//! rank runs once, and the last rank to arrive does all the work. Ranks that share processors so
//! change places as seldom as possible.
//!
//! Operands are combined in rank order whichever rank is last: the result depends on the operands
//! only. Where all exchange blocks, each rank writes its own, and after the last arrival reads
//! those of the others: it runs twice.
//!
//! Of long vectors, the rank that needs a result combines the operands itself: the others leave
//! when they have written theirs.

use std::ops::Range;

use fabric::CollectiveKind;
use fabric::coll_segment::{SLOT_ALIGN, SLOT_BYTES, long_slots_bytes, slots_bytes};

use super::reduce_scatter::part_of;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::{Awaited, SegSync};
use crate::shape::{Extent, Shape, Space, Ty, joined, piece};

/// Returns whether the data fits into the slots, laid out as in the user's memory.
pub fn can(args: &CollArgs, size: u32) -> bool {
    let is_one = match args {
        CollArgs::Barrier
        | CollArgs::Bcast { .. }
        | CollArgs::Gather { .. }
        | CollArgs::Scatter { .. }
        | CollArgs::Allgather { .. }
        | CollArgs::Alltoall { kind: CollectiveKind::Alltoall, .. } => true,
        CollArgs::Reduce { input, .. } | CollArgs::Allreduce { input, .. } => {
            input.shape.gapless && input.bytes() <= *SLOT_BYTES.end()
        }
        _ => false,
    };
    is_one && bytes_of_slots(args, size) <= long_slots_bytes(size)
}

/// Returns whether it can do a call, and needs no long slots.
pub fn can_without_long_slots(args: &CollArgs, size: u32) -> bool {
    can(args, size) && bytes_of_slots(args, size) <= slots_bytes(size)
}

/// Returns the bytes of the slots that a call takes; the same on all ranks.
fn bytes_of_slots(args: &CollArgs, size: u32) -> u64 {
    let bytes = slot_bytes(args, size);
    match args {
        // The root alone writes: all slots are its own.
        CollArgs::Bcast { .. } | CollArgs::Scatter { .. } => bytes,
        CollArgs::Reduce { .. } | CollArgs::Allreduce { .. } => {
            distance(bytes).saturating_mul(size.into())
        }
        _ => bytes.saturating_mul(size.into()),
    }
}

/// Returns the bytes that one rank has in the segment where ranks have blocks, the root's where it
/// has all of them; the same on all ranks.
pub fn slot_bytes(args: &CollArgs, size: u32) -> u64 {
    let bytes = args.bytes(size);
    match args {
        CollArgs::Allgather { .. } => bytes / u64::from(size),
        CollArgs::Scatter { .. } | CollArgs::Alltoall { .. } => bytes.saturating_mul(size.into()),
        _ => bytes,
    }
}

/// Writes this rank's part.
pub fn write(b: &mut Builder, args: &CollArgs, pos: Position) {
    b.reserve_slots(bytes_of_slots(args, pos.size), pos.size);
    match *args {
        CollArgs::Barrier => barrier(b),
        CollArgs::Bcast { root, data } => bcast(b, pos, root, data),
        CollArgs::Gather { root, own, all } => gather(b, pos, root, own, all),
        CollArgs::Scatter { root, all, own } => scatter(b, pos, root, all, own),
        CollArgs::Allgather { own, all } => allgather(b, pos, own, all),
        CollArgs::Alltoall { from, to, .. } => alltoall(b, pos, from.unwrap_or(to), to),
        CollArgs::Reduce { root, input, output, .. } => {
            reduce(b, pos, Some(root), input, output);
        }
        CollArgs::Allreduce { input, output, .. } => reduce(b, pos, None, input, Some(output)),
        _ => debug_assert!(false, "refused by `can`"),
    }
}

/// Returns whether it is a call that can be done in pieces.
pub fn can_in_pieces(args: &CollArgs, size: u32) -> bool {
    let can_cut = |input: &Extent| input.shape.gapless && elements(input, size) > 0;
    match args {
        CollArgs::Bcast { data, .. } => data.bytes() > 0,
        CollArgs::Gather { .. } => true,
        CollArgs::Reduce { input, .. } | CollArgs::Allreduce { input, .. } => can_cut(input),
        CollArgs::ReduceScatter { input, .. } => can_cut(input) && pieces(args, size) == 1,
        _ => false,
    }
}

/// Writes this rank's part of a call in equal pieces: a short last one would cost as many changes
/// of processes as a long one.
pub fn write_in_pieces(b: &mut Builder, args: &CollArgs, pos: Position) {
    let pieces = pieces(args, pos.size);
    let cut = |count| (0..pieces).map(move |index| piece(count, pieces, index));
    // All of it, since vectors of two lengths may have pieces of one size.
    b.reserve_slot(args.bytes(pos.size));
    match *args {
        CollArgs::Bcast { root, data } => {
            let bytes = b.bytes_of(data);
            if pos.rank == root {
                b.copy(data, bytes);
            }
            for range in cut(bytes.count) {
                bcast_piece(b, pos, root, bytes.range(&range));
            }
            if pos.rank != root {
                b.round();
                b.copy(bytes, data);
            }
        }
        CollArgs::Gather { root, own, all } => {
            gather_in_pieces(b, pos, root, (own, all), cut(args.bytes(pos.size)));
        }
        CollArgs::Reduce { root, input, output, .. } => {
            for range in cut(input.count) {
                let output = output.filter(|_| root == pos.rank);
                let output = output.map(|output| output.range(&range));
                reduce_piece(b, pos, input.range(&range), output);
            }
        }
        CollArgs::Allreduce { input, output, .. } => {
            for range in cut(input.count) {
                allreduce_piece(b, pos, input.range(&range), output.range(&range));
            }
        }
        // In one piece: each rank has its part of all of it.
        CollArgs::ReduceScatter { input, counts, output, .. } => {
            let whole = (Space::CollSegment, input);
            give(b, pos, input);
            b.sync(SegSync::WaitAll);
            combine(b, whole, pos.size, part_of(counts, pos.rank), output);
        }
        _ => debug_assert!(false, "refused by `can_in_pieces`"),
    }
}

/// Returns in how many pieces a call is done that can be.
pub fn pieces(args: &CollArgs, size: u32) -> u64 {
    match args {
        // The root is two of them ahead of the others.
        CollArgs::Bcast { data, .. } => data.bytes().div_ceil(long_slots_bytes(size)).max(2),
        CollArgs::Gather { .. } => {
            args.bytes(size).div_ceil(long_slots_bytes(size) / u64::from(size)).max(1)
        }
        CollArgs::Reduce { input, .. }
        | CollArgs::Allreduce { input, .. }
        | CollArgs::ReduceScatter { input, .. } => {
            input.count.div_ceil(elements(input, size).max(1)).max(1)
        }
        _ => 1,
    }
}

/// Returns how many elements of each rank long slots hold at once.
fn elements(input: &Extent, size: u32) -> u64 {
    let slot = long_slots_bytes(size) / u64::from(size) / SLOT_ALIGN * SLOT_ALIGN;
    slot.checked_div(input.shape.size).unwrap_or(0)
}

/// No rank leaves before all ranks have arrived.
fn barrier(b: &mut Builder) {
    b.sync(SegSync::Acquire);
    b.sync(SegSync::Arrive);
    b.sync(SegSync::WaitAll);
}

/// A barrier in which rank 0 arrives last. It goes on at once, and the others need a processor
/// first; therefore its data is there when they come to a call in which it is the root.
pub fn barrier_root_last(b: &mut Builder, pos: Position) {
    b.sync(SegSync::Acquire);
    match pos.rank {
        0 => {
            b.sync(SegSync::WaitForArrival(Awaited::range(1, pos.size - 1)));
            b.sync(SegSync::Arrive);
        }
        _ => b.sync(SegSync::ArriveBefore(0)),
    }
    b.sync(SegSync::WaitAll);
}

/// A piece of a long broadcast. The root is up to two pieces ahead of the rank that is last;
/// therefore each rank runs once for two of them, and a rank that has a processor begins before all
/// is written.
fn bcast_piece(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    b.segment_stage();
    b.reserve_slots(data.bytes(), pos.size);
    bcast(b, pos, root, data);
}

/// The root waits for no rank, the others wait for the root only.
fn bcast(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    let shared = dense(0, 1, data.bytes());
    b.reserve_slot(data.bytes());
    if pos.rank == root {
        b.sync(SegSync::Acquire);
        b.copy(data, shared);
        b.sync(SegSync::SignalEarly);
    } else {
        b.sync(SegSync::WaitFor(root.into()));
        b.copy(shared, data);
        b.sync(SegSync::Arrive);
    }
}

/// Bytes of each operand that are combined at once: they stay in a near cache until all are.
const BLOCK_BYTES: u64 = 16 << 10;

/// Begins a round, and writes this rank's operand.
fn give(b: &mut Builder, pos: Position, operand: Extent) {
    let (bytes, space) = (operand.bytes(), Space::CollSegment);
    b.segment_stage();
    b.reserve_slots(distance(bytes) * u64::from(pos.size), pos.size);
    b.sync(SegSync::Acquire);
    b.copy(operand, Extent { space, disp: slot_at(pos.rank, bytes), ..operand });
    b.sync(SegSync::Arrive);
}

/// Combines the elements `part` of the operands of all ranks, whose slots in `space` hold as many
/// elements as `like`, into `output`.
fn combine(
    b: &mut Builder,
    (space, like): (Space, Extent),
    size: u32,
    part: Range<u64>,
    output: Extent,
) {
    let each = (BLOCK_BYTES / like.shape.size).max(1);
    let operand = |rank| Extent { space, disp: slot_at(rank, like.bytes()), ..like };
    for start in part.clone().step_by(each as usize) {
        let block = start..part.end.min(start + each);
        let out = output.range(&(start - part.start..block.end - part.start));
        let [first, last] = [0, size - 1].map(|rank| operand(rank).range(&block));
        b.reduce_into(first, size - 1, distance(like.bytes()) as i64, last, out);
    }
}

/// A piece of a long reduction to one rank, which has an `output`. The others wait for no rank,
/// unless they are two pieces ahead.
fn reduce_piece(b: &mut Builder, pos: Position, operand: Extent, output: Option<Extent>) {
    give(b, pos, operand);
    if let Some(output) = output {
        b.sync(SegSync::WaitAll);
        let whole = (Space::CollSegment, operand);
        combine(b, whole, pos.size, 0..operand.count, output);
    }
}

/// A piece of a long reduction to all ranks, in two rounds. Each rank combines its part of it where
/// it is wanted, and gives it to the others.
fn allreduce_piece(b: &mut Builder, pos: Position, operand: Extent, output: Extent) {
    give(b, pos, operand);
    b.sync(SegSync::WaitAll);
    b.sync(SegSync::Next);
    b.sync(SegSync::Acquire);
    let part = piece(operand.count, pos.size.into(), pos.rank.into());
    let whole = (Space::PreviousSlots, operand);
    combine(b, whole, pos.size, part.clone(), output.range(&part));
    let result = Extent { space: Space::CollSegment, disp: slot_at(0, 0), ..operand };
    b.copy(output.range(&part), result.range(&part));
    b.sync(SegSync::Arrive);
    b.sync(SegSync::WaitAll);
    for others in [0..part.start, part.end..operand.count] {
        b.copy(result.range(&others), output.range(&others));
    }
}

/// Reduces to rank `to` only, or to all ranks. Ranks that get the result have an `output`.
fn reduce(b: &mut Builder, pos: Position, to: Option<u32>, input: Extent, output: Option<Extent>) {
    let operand = |rank: u32| Extent {
        space: Space::CollSegment,
        disp: slot_at(rank, input.bytes()),
        ..input
    };
    let result = Extent { space: Space::CollSegment, disp: 0, ..input };
    b.reserve_slot(input.bytes());
    b.sync(SegSync::Acquire);
    b.copy(input, operand(pos.rank));
    b.sync(SegSync::Arrive);
    b.copy(operand(pos.size - 1), result);
    b.reduce_strided(operand(0), pos.size - 1, distance(input.bytes()) as i64, result);
    if let Some(output) = output.filter(|_| to.is_none_or(|to| to == pos.rank)) {
        b.sync(SegSync::WaitAll);
        b.copy(result, output);
    }
}

/// The root waits for all ranks, the others for none.
fn gather(b: &mut Builder, pos: Position, root: u32, own: Option<Extent>, all: Option<Extent>) {
    let Position { rank: me, size, .. } = pos;
    let own_bytes = own.as_ref().map(Extent::bytes);
    let block = own_bytes.or(all.map(|all| all.bytes() / u64::from(size))).unwrap_or(0);
    b.reserve_slot(block);
    b.sync(SegSync::Acquire);
    if me != root {
        own.iter().for_each(|own| b.copy(*own, dense(me, 1, block)));
    }
    b.sync(SegSync::Arrive);
    let Some(all) = all.filter(|_| me == root) else { return };
    b.sync(SegSync::WaitAll);
    let each = all.count / u64::from(size);
    own.iter().for_each(|own| b.copy(*own, all.part(u64::from(me) * each, each)));
    for (first, many) in [(0, me), (me + 1, size - me - 1)] {
        let theirs = all.part(u64::from(first) * each, u64::from(many) * each);
        b.copy(dense(first, many, block), theirs);
    }
}

/// A long gather, of blocks that are cut at these bytes. The root waits for all ranks, the others
/// for none, unless they are two pieces ahead.
fn gather_in_pieces(
    b: &mut Builder,
    pos: Position,
    root: u32,
    (own, all): (Option<Extent>, Option<Extent>),
    cut: impl Iterator<Item = Range<u64>>,
) {
    let Position { rank: me, size, .. } = pos;
    let packed = own.filter(|_| me != root).map(|own| {
        let bytes = b.bytes_of(own);
        b.copy(own, bytes);
        bytes
    });
    let blocks = all.filter(|_| me == root).map(|all| all.split(size)).unwrap_or_default();
    let places: Vec<Extent> = blocks.iter().map(|block| b.bytes_of(*block)).collect();
    for range in cut {
        let bytes = range.end - range.start;
        b.segment_stage();
        b.reserve_slots(bytes * u64::from(size), size);
        b.sync(SegSync::Acquire);
        packed.iter().for_each(|own| b.copy(own.range(&range), dense(me, 1, bytes)));
        b.sync(SegSync::Arrive);
        if me == root {
            b.sync(SegSync::WaitAll);
            let theirs = pos.others().map(|rank| (rank, places[rank as usize]));
            theirs.for_each(|(rank, place)| b.copy(dense(rank, 1, bytes), place.range(&range)));
        }
    }
    if me == root {
        pos.others().for_each(|rank| b.copy(places[rank as usize], blocks[rank as usize]));
        own.iter().for_each(|own| b.copy(*own, blocks[me as usize]));
    }
}

/// The root waits for no rank, the others wait for the root only.
fn scatter(b: &mut Builder, pos: Position, root: u32, all: Option<Extent>, own: Option<Extent>) {
    let Position { rank: me, size, .. } = pos;
    let all_bytes = all.map(|all| all.bytes() / u64::from(size));
    let block = own.as_ref().map(Extent::bytes).or(all_bytes).unwrap_or(0);
    b.reserve_slot(block);
    if let Some(all) = all.filter(|_| me == root) {
        b.sync(SegSync::Acquire);
        b.copy(all, dense(0, size, block));
        b.sync(SegSync::SignalEarly);
        b.round();
        let each = all.count / u64::from(size);
        own.iter().for_each(|own| b.copy(all.part(u64::from(me) * each, each), *own));
    } else {
        b.sync(SegSync::WaitFor(root.into()));
        own.iter().for_each(|own| b.copy(dense(me, 1, block), *own));
        b.sync(SegSync::Arrive);
    }
}

/// Each rank gets the blocks of all in one piece.
fn allgather(b: &mut Builder, pos: Position, own: Option<Extent>, all: Extent) {
    let Position { rank: me, size, .. } = pos;
    let block = all.bytes() / u64::from(size);
    let own = own.unwrap_or_else(|| all.split(size)[me as usize]);
    b.reserve_slot(block);
    b.sync(SegSync::Acquire);
    b.copy(own, dense(me, 1, block));
    b.sync(SegSync::Arrive);
    b.sync(SegSync::WaitAll);
    b.copy(dense(0, size, block), all);
}

/// The blocks for a rank lie next to each other; therefore a rank mostly reads them in one piece.
fn alltoall(b: &mut Builder, pos: Position, from: &[Extent], to: &[Extent]) {
    let Position { rank: me, size, .. } = pos;
    let block = to.first().map_or(0, Extent::bytes);
    b.reserve_slot(block);
    b.sync(SegSync::Acquire);
    for (rank, data) in (0..size).zip(from) {
        b.copy(*data, dense(rank * size + me, 1, block));
    }
    b.sync(SegSync::Arrive);
    b.sync(SegSync::WaitAll);
    match joined(to) {
        Some(all) => b.copy(dense(me * size, size, block), all),
        None => (0..size)
            .zip(to)
            .for_each(|(rank, data)| b.copy(dense(me * size + rank, 1, block), *data)),
    }
}

/// Returns blocks that lie next to each other in the slots, whichever ranks write them.
fn dense(first: u32, many: u32, block: u64) -> Extent {
    let disp = (SLOT_BYTES.end() + u64::from(first) * block) as i64;
    let count = u64::from(many) * block;
    Extent { disp, ..Extent::new(Space::CollSegment, Ty::BYTES, count, Shape::BYTE) }
}

/// Returns where a rank's slot lies: after the result, which other ranks may still read while the
/// slots of this round, of another size, are written.
fn slot_at(rank: u32, bytes: u64) -> i64 {
    (SLOT_BYTES.end() + u64::from(rank) * distance(bytes)) as i64
}

/// Returns the bytes from one slot to the next.
fn distance(bytes: u64) -> u64 {
    bytes.next_multiple_of(SLOT_ALIGN)
}
