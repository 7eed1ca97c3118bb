//! Allgather and allgatherv (MPI-5.0 §6.7).
//!
//! `blocks` is the receive buffer, a run for each rank; `own` is this rank's
//! contribution, which is its block itself when in place.

use super::radix;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// For powers of two and equal adjacent blocks: in round k a rank exchanges all that it has with
/// the rank across bit k. Log2 size rounds, no scratch memory.
pub fn recursive_doubling(b: &mut Builder, pos: Position, own: Extent, all: Extent) {
    debug_assert!(pos.size.is_power_of_two());
    let each = all.count / u64::from(pos.size);
    let group = |first: u32, count: u32| all.part(u64::from(first) * each, u64::from(count) * each);
    for bit in 0..pos.size.trailing_zeros() {
        let count = 1 << bit;
        let (partner, first) = (pos.rank ^ count, pos.rank & !(count - 1));
        b.recv(partner, group(first ^ count, count));
        // The copy of the own block stands at the end of the first round.
        b.send(partner, if bit == 0 { own } else { group(first, count) });
        if bit == 0 {
            b.copy_meanwhile(own, group(pos.rank, 1));
        }
        b.round();
    }
    if pos.size == 1 {
        b.copy(own, all);
    }
}

/// For any number of ranks, in as many rounds as the size has digits to the base of the radix,
/// through packed scratch memory that begins with the own block (Bruck et al.): in round k a rank
/// gets what the ranks 1, 2, ... times `radix`^k ahead have.
pub fn bruck(b: &mut Builder, pos: Position, own: Extent, blocks: &[Extent], radix: u32) {
    let block = |by: u32| blocks[pos.ahead(by) as usize];
    let mut starts = vec![0];
    for by in 0..pos.size {
        starts.push(starts[by as usize] + block(by).bytes());
    }
    let at = |by: u32| starts[by as usize];
    let temp = b.packed(at(pos.size));
    for (reach, count) in radix::levels(pos.size, radix) {
        for by in (1..=count).map(|times| times * reach) {
            let count = reach.min(pos.size - by);
            b.recv(pos.ahead(by), temp.range(&(at(by)..at(by + count))));
            b.send(pos.behind(by), if reach == 1 { own } else { temp.range(&(0..at(count))) });
        }
        if reach == 1 {
            b.copy_meanwhile(own, temp.part(0, own.bytes()));
        }
        b.round();
    }
    b.copy(own, block(0));
    for by in 1..pos.size {
        b.copy(temp.range(&(at(by)..at(by + 1))), block(by));
    }
}

/// Round the ring in size - 1 rounds, each block straight to its place.
pub fn ring(b: &mut Builder, pos: Position, own: Extent, blocks: &[Extent]) {
    let (next, previous) = (pos.ahead(1), pos.behind(1));
    for step in 1..pos.size {
        b.recv(previous, blocks[pos.behind(step) as usize]);
        b.send(next, if step == 1 { own } else { blocks[pos.behind(step - 1) as usize] });
        if step == 1 {
            b.copy_meanwhile(own, blocks[pos.rank as usize]);
        }
        b.round();
    }
    if pos.size == 1 {
        b.copy(own, blocks[0]);
    }
}

/// For an even number of ranks, in size / 2 rounds. Ranks 2p and 2p + 1 are a pair. They exchange
/// their blocks; then each rank passes on the two blocks that it has got last, to its other
/// neighbour and to its partner in turn (Chen et al., "Performance evaluation of allgather
/// algorithms on terascale Linux cluster with fast Ethernet", 2005).
///
/// In round i an even rank gets the blocks of the pair (i + 1) / 2 before its own if i is odd, and
/// of the pair i / 2 after it if i is even; an odd rank those on the other side.
pub fn neighbor_exchange(b: &mut Builder, pos: Position, own: Extent, blocks: &[Extent]) {
    debug_assert!(pos.size.is_multiple_of(2));
    let (partner, pairs) = (pos.rank ^ 1, pos.size / 2);
    let is_even = pos.rank.is_multiple_of(2);
    let outer = if is_even { pos.behind(1) } else { pos.ahead(1) };
    let mine = Position::new(pos.rank / 2, pairs);
    let of_pair = |pair: u32| [blocks[2 * pair as usize], blocks[2 * pair as usize + 1]];
    b.recv(partner, blocks[partner as usize]);
    b.send(partner, own);
    b.copy_meanwhile(own, blocks[pos.rank as usize]);
    b.round();
    let mut last = mine.rank;
    for round in 1..pairs {
        let is_outer = !round.is_multiple_of(2);
        let (with, by) = if is_outer { (outer, round.div_ceil(2)) } else { (partner, round / 2) };
        let pair = if is_even == is_outer { mine.behind(by) } else { mine.ahead(by) };
        of_pair(pair).into_iter().for_each(|block| b.recv(with, block));
        of_pair(last).into_iter().for_each(|block| b.send(with, block));
        b.round();
        last = pair;
    }
}
