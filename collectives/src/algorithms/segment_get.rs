//! Long blocks among ranks of one host that read each other's memory (see
//! [`fabric::coll_segment`]): each byte is copied once, from buffer to buffer, by the rank that
//! needs it.
//!
//! A rank publishes where its data is when it arrives at a round of the segment. The others get
//! what they need when they have seen that, and arrive at a round themselves when they are done;
//! only then may the data change. Ranks that share processors so change places twice in a call, and
//! not for each message.
//!
//! Where a get was refused, all ranks learn of it in the last round, and begin anew by messages.

use fabric::CollectiveKind;

use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::schedule::{Awaited, SegSync};
use crate::shape::Extent;

/// Returns whether it is an operation in which all ranks get blocks.
pub fn can(args: &CollArgs, size: u32) -> bool {
    let is_one = match args {
        CollArgs::Allgather { .. } => true,
        CollArgs::Alltoall { kind, from, .. } => {
            *kind == CollectiveKind::Alltoall && from.is_some()
        }
        _ => false,
    };
    is_one && size > 1 && args.bytes(size) > 0
}

/// Writes this rank's part. `has_flags`: no member of the segment is the last.
pub fn write(b: &mut Builder, args: &CollArgs, pos: Position, has_flags: bool) {
    b.reserve_slot(args.bytes(pos.size));
    // The last one to arrive wakes the others, if there is one.
    let arrive = if has_flags { SegSync::SignalEarly } else { SegSync::Arrive };
    match *args {
        CollArgs::Allgather { own, all } => {
            let blocks = all.split(pos.size);
            let own = own.unwrap_or(blocks[pos.rank as usize]);
            let given = b.bytes_of(own);
            b.copy(own, given);
            exchange(b, pos, (given, 0), &blocks, arrive);
            b.copy(own, blocks[pos.rank as usize]);
            agree(b, pos, arrive);
        }
        CollArgs::Alltoall { from: Some(from), to, .. } => {
            let given = b.as_run(from);
            let block = given.bytes() / u64::from(pos.size);
            exchange(b, pos, (given, u64::from(pos.rank) * block), to, arrive);
            b.copy(from[pos.rank as usize], to[pos.rank as usize]);
            agree(b, pos, arrive);
        }
        _ => debug_assert!(false, "refused by `can`"),
    }
}

/// Gives all ranks `given`, and gets the blocks of the others, each `at` bytes behind what its rank
/// gives.
fn exchange(
    b: &mut Builder,
    pos: Position,
    (given, at): (Extent, u64),
    to: &[Extent],
    arrive: SegSync,
) {
    b.sync(SegSync::Acquire);
    b.publish(given);
    b.sync(arrive);
    b.sync(SegSync::WaitAll);
    let mut scratch = None;
    // The next rank first: no two ranks read the same memory at the same time.
    for rank in (1..pos.size).map(|distance| pos.ahead(distance)) {
        let block = to[rank as usize];
        let got = match block.as_bytes() {
            Some(bytes) => bytes,
            None => *scratch.get_or_insert_with(|| b.packed(block.bytes())),
        };
        b.get(rank, at, got);
        b.copy(got, block);
    }
}

/// Ends a call when all ranks have got what they need.
fn agree(b: &mut Builder, pos: Position, arrive: SegSync) {
    b.segment_stage();
    b.sync(SegSync::Acquire);
    b.confirm();
    b.sync(arrive);
    b.sync(SegSync::WaitAll);
    b.check(Awaited::range(0, pos.size));
}
