//! Barrier (MPI-5.0 §6.3): dissemination, ceil(log2 size) rounds of signals.

use super::Seat;
use crate::schedule::Builder;

/// In round k, signal the rank 2^k ahead and await the one 2^k behind.
pub fn dissemination(b: &mut Builder, seat: Seat) {
    for by in (0..32).map(|k| 1u32 << k).take_while(|&by| by < seat.size) {
        b.await_signal(seat.behind(by));
        b.signal(seat.ahead(by));
        b.round();
    }
}
