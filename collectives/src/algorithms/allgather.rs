//! Allgather and allgatherv (MPI-5.0 §6.7).
//!
//! `blocks` is the receive buffer, a run for each rank; `own` is this rank's
//! contribution, which is its block itself when in place.

use super::Seat;
use crate::schedule::Builder;
use crate::shape::Run;

/// For powers of two and equal adjacent blocks: exchange what one has with the
/// rank across bit k, log2 size rounds, no scratch memory.
pub fn recursive_doubling(b: &mut Builder, seat: Seat, own: Run, all: Run) {
    debug_assert!(seat.size.is_power_of_two());
    let each = all.count / u64::from(seat.size);
    let group = |first: u32, count: u32| all.part(u64::from(first) * each, u64::from(count) * each);
    for bit in 0..seat.size.trailing_zeros() {
        let count = 1 << bit;
        let (partner, first) = (seat.rank ^ count, seat.rank & !(count - 1));
        b.recv(partner, group(first ^ count, count));
        // The copy of the own block stands at the end of the first round.
        b.send(partner, if bit == 0 { own } else { group(first, count) });
        if bit == 0 {
            b.copy(own, group(seat.rank, 1));
        }
        b.round();
    }
    if seat.size == 1 {
        b.copy(own, all);
    }
}

/// Any number of ranks in ceil(log2 size) rounds, through packed scratch memory
/// in which the own block stands first (Bruck et al.).
pub fn bruck(b: &mut Builder, seat: Seat, own: Run, blocks: &[Run]) {
    let block = |by: u32| blocks[seat.ahead(by) as usize];
    let mut starts = vec![0];
    for by in 0..seat.size {
        starts.push(starts[by as usize] + block(by).bytes());
    }
    let at = |by: u32| starts[by as usize];
    let temp = b.packed(at(seat.size));
    for reach in (0..32).map(|bit| 1u32 << bit).take_while(|&reach| reach < seat.size) {
        let count = reach.min(seat.size - reach);
        b.recv(seat.ahead(reach), temp.range(&(at(reach)..at(reach + count))));
        b.send(seat.behind(reach), if reach == 1 { own } else { temp.range(&(0..at(count))) });
        if reach == 1 {
            b.copy(own, temp.part(0, own.bytes()));
        }
        b.round();
    }
    b.copy(own, block(0));
    for by in 1..seat.size {
        b.copy(temp.range(&(at(by)..at(by + 1))), block(by));
    }
}

/// Round the ring, size - 1 rounds, each block straight to its place.
pub fn ring(b: &mut Builder, seat: Seat, own: Run, blocks: &[Run]) {
    let (next, previous) = (seat.ahead(1), seat.behind(1));
    for step in 1..seat.size {
        b.recv(previous, blocks[seat.behind(step) as usize]);
        b.send(next, if step == 1 { own } else { blocks[seat.behind(step - 1) as usize] });
        if step == 1 {
            b.copy(own, blocks[seat.rank as usize]);
        }
        b.round();
    }
    if seat.size == 1 {
        b.copy(own, blocks[0]);
    }
}
