//! Collectives in an arena (see [`fabric::coll_segment`]): each rank has its turn once and all the
//! work is done by who comes last, so ranks that share processors change places as seldom as
//! can be.
//!
//! Operands are combined in rank order whoever combines them, so a result depends on nothing
//! but the operands.

use fabric::coll_segment::{SLOT_ALIGN, SLOT_BYTES, SLOTS_BYTES};

use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::SegSync;
use crate::shape::{Extent, Shape, Space, Ty};

/// Whether a seat has room, and operands lie in it as they do in the user's memory.
pub fn can(args: &CollArgs, size: u32) -> bool {
    match args {
        CollArgs::Barrier => true,
        CollArgs::Bcast { data, .. } => has_room(data.bytes(), size),
        CollArgs::Reduce { input, .. } | CollArgs::Allreduce { input, .. } => {
            input.shape.gapless && has_room(input.bytes(), size)
        }
        _ => false,
    }
}

fn has_room(bytes: u64, size: u32) -> bool {
    bytes <= *SLOT_BYTES.start()
        || bytes <= *SLOT_BYTES.end() && u64::from(size) * distance(bytes) <= SLOTS_BYTES
}

/// Nobody leaves before all have arrived.
pub fn barrier(b: &mut Builder) {
    b.sync(SegSync::Acquire);
    b.sync(SegSync::Arrive);
    b.sync(SegSync::WaitAll);
}

/// The root waits for nobody, the others for the root alone.
pub fn bcast(b: &mut Builder, pos: Position, root: u32, data: Extent) {
    let seated = Extent::new(Space::CollSegment, Ty::BYTES, data.bytes(), Shape::BYTE);
    let shared = Extent { disp: slot_at(root, data.bytes()), ..seated };
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

/// The result is for `to` alone; `None`: for all. At whom it is for it goes to `output`.
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

/// Where a rank's seat is. Behind the result, which others may still read when
/// this meeting's seats, of another size, are written.
fn slot_at(rank: u32, bytes: u64) -> i64 {
    (SLOT_BYTES.end() + u64::from(rank) * distance(bytes)) as i64
}

/// From one seat to the next.
fn distance(bytes: u64) -> u64 {
    bytes.next_multiple_of(SLOT_ALIGN)
}
