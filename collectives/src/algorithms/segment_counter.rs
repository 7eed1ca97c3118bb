//! Collectives in a segment whose members count in one word (see [`fabric::coll_segment`]): each
//! rank runs once, and the last rank to arrive does all the work. Ranks that share processors so
//! change places as seldom as possible.
//!
//! Operands are combined in rank order whichever rank is last: the result depends on the operands
//! only.

use fabric::coll_segment::{SLOT_ALIGN, SLOT_BYTES, SLOTS_BYTES};

use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::SegSync;
use crate::shape::{Extent, Shape, Space, Ty};

/// Returns whether the data fits into a slot, laid out as in the user's memory.
pub fn can(args: &CollArgs, size: u32) -> bool {
    match args {
        CollArgs::Barrier => true,
        CollArgs::Bcast { data, .. } => fits(data.bytes(), size),
        CollArgs::Reduce { input, .. } | CollArgs::Allreduce { input, .. } => {
            input.shape.gapless && fits(input.bytes(), size)
        }
        _ => false,
    }
}

fn fits(bytes: u64, size: u32) -> bool {
    bytes <= *SLOT_BYTES.start()
        || bytes <= *SLOT_BYTES.end() && u64::from(size) * distance(bytes) <= SLOTS_BYTES
}

/// No rank leaves before all ranks have arrived.
pub fn barrier(b: &mut Builder) {
    b.sync(SegSync::Acquire);
    b.sync(SegSync::Arrive);
    b.sync(SegSync::WaitAll);
}

/// The root waits for no rank, the others wait for the root only.
pub fn bcast(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    let slot = Extent::new(Space::CollSegment, Ty::BYTES, data.bytes(), Shape::BYTE);
    let shared = Extent { disp: slot_at(root, data.bytes()), ..slot };
    b.reserve_slot(data.bytes());
    if pos.rank == root {
        b.sync(SegSync::Acquire);
        b.copy(data, shared);
        b.sync(SegSync::SignalEarly);
    } else {
        b.sync(SegSync::WaitFor(root));
        b.copy(shared, data);
        b.sync(SegSync::Arrive);
    }
}

/// Reduces to rank `to` only, or to all ranks. Ranks that get the result have an `output`.
pub fn reduce(
    b: &mut Builder,
    pos: Position,
    to: Option<u32>,
    input: Extent,
    output: Option<Extent>,
) {
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

/// Returns where a rank's slot lies: after the result, which other ranks may still read while the
/// slots of this round, of another size, are written.
fn slot_at(rank: u32, bytes: u64) -> i64 {
    (SLOT_BYTES.end() + u64::from(rank) * distance(bytes)) as i64
}

/// Returns the bytes from one slot to the next.
fn distance(bytes: u64) -> u64 {
    bytes.next_multiple_of(SLOT_ALIGN)
}
