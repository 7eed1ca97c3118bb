//! Collectives in an arena (see [`fabric::coll_segment`]): each rank has its turn once and all the
//! work is done by who comes last, so ranks that share processors change places as seldom as
//! can be.
//!
//! Operands are combined in rank order whoever combines them, so a result depends on nothing
//! but the operands.

use fabric::coll_segment::{SEAT_ALIGN, SEAT_BYTES, SEATS_BYTES};

use super::Seat;
use crate::problem::Problem;
use crate::schedule::{Builder, Meet, Space};
use crate::shape::{Run, Shape, Ty};

/// Whether a seat has room, and operands lie in it as they do in the user's memory.
pub fn can(problem: &Problem, size: u32) -> bool {
    match problem {
        Problem::Barrier => true,
        Problem::Bcast { data, .. } => has_room(data.bytes(), size),
        Problem::Reduce { input, .. } | Problem::Allreduce { input, .. } => {
            input.shape.gapless && has_room(input.bytes(), size)
        }
        _ => false,
    }
}

fn has_room(bytes: u64, size: u32) -> bool {
    bytes <= *SEAT_BYTES.start()
        || bytes <= *SEAT_BYTES.end() && u64::from(size) * distance(bytes) <= SEATS_BYTES
}

/// Nobody leaves before all have arrived.
pub fn barrier(b: &mut Builder) {
    b.meet(Meet::Begin);
    b.meet(Meet::Arrive);
    b.meet(Meet::Close);
}

/// The root waits for nobody, the others for the root alone.
pub fn bcast(b: &mut Builder, seat: Seat, root: u32, data: Run) {
    let seated = Run::new(Space::CollSegment, Ty::BYTES, data.bytes(), Shape::BYTE);
    let shared = Run { disp: seat_at(root, data.bytes()), ..seated };
    b.sit(data.bytes());
    if seat.rank == root {
        b.meet(Meet::Begin);
        b.copy(data, shared);
        b.meet(Meet::Speak);
    } else {
        b.meet(Meet::Hear(root));
        b.copy(shared, data);
        b.meet(Meet::Arrive);
    }
}

/// The result is for `to` alone; `None`: for all. At whom it is for it goes to `output`.
pub fn reduce(b: &mut Builder, seat: Seat, to: Option<u32>, input: Run, output: Option<Run>) {
    let operand =
        |rank: u32| Run { space: Space::CollSegment, disp: seat_at(rank, input.bytes()), ..input };
    let result = Run { space: Space::CollSegment, disp: 0, ..input };
    b.sit(input.bytes());
    b.meet(Meet::Begin);
    b.copy(input, operand(seat.rank));
    b.meet(Meet::Arrive);
    b.copy(operand(seat.size - 1), result);
    b.reduce_row(operand(0), seat.size - 1, distance(input.bytes()) as i64, result);
    if let Some(output) = output.filter(|_| to.is_none_or(|to| to == seat.rank)) {
        b.meet(Meet::Close);
        b.copy(result, output);
    }
}

/// Where a rank's seat is. Behind the result, which others may still read when
/// this meeting's seats, of another size, are written.
fn seat_at(rank: u32, bytes: u64) -> i64 {
    (SEAT_BYTES.end() + u64::from(rank) * distance(bytes)) as i64
}

/// From one seat to the next.
fn distance(bytes: u64) -> u64 {
    bytes.next_multiple_of(SEAT_ALIGN)
}
