//! Barrier (MPI-5.0 §6.3).

use crate::builder::Builder;
use crate::position::Position;

/// Rank 0 awaits a signal of each other rank, then signals all of them.
pub fn linear(b: &mut Builder, pos: Position) {
    if pos.rank == 0 {
        pos.others().for_each(|other| b.await_signal(other));
        b.round();
        pos.others().for_each(|other| b.signal(other));
    } else {
        b.signal(0);
        b.round();
        b.await_signal(0);
    }
}

/// Dissemination in ceil(log2 size) rounds: in round k a rank signals the one 2^k ahead and waits
/// for the one 2^k before.
pub fn dissemination(b: &mut Builder, pos: Position) {
    for by in (0..32).map(|k| 1u32 << k).take_while(|&by| by < pos.size) {
        b.await_signal(pos.behind(by));
        b.signal(pos.ahead(by));
        b.round();
    }
}
