//! Alltoall, alltoallv and alltoallw (MPI-5.0 §6.8).
//!
//! `from` and `to` are the blocks for and from each rank.

use super::radix;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// For small equal blocks: as many rounds as the size has digits to the base of the radix. In round
/// k all blocks whose distance has the digit d there travel d `radix`^k ranks ahead (Bruck et al.).
pub fn bruck(b: &mut Builder, pos: Position, from: &[Extent], to: &[Extent], radix: u32) {
    let block = to[pos.rank as usize].bytes();
    let [all, out, back] = [(); 3].map(|()| b.packed(block * u64::from(pos.size)));
    let run = |of: Extent, first: u32, count: u32| {
        of.part(u64::from(first) * block, u64::from(count) * block)
    };
    for by in 1..pos.size {
        b.copy(from[pos.ahead(by) as usize], run(all, by, 1));
    }
    for (reach, digits) in radix::levels(pos.size, radix) {
        // Where each run stands in `all`, and where packed.
        let (mut runs, mut packed) = (Vec::new(), 0);
        let mut groups = Vec::new();
        for by in (1..=digits).map(|digit| digit * reach) {
            let start = packed;
            for first in (by..pos.size).step_by((radix * reach) as usize) {
                let count = reach.min(pos.size - first);
                runs.push((first, packed, count));
                packed += count;
            }
            groups.push((by, start, packed - start));
        }
        for &(first, at, count) in &runs {
            b.copy(run(all, first, count), run(out, at, count));
        }
        for (by, at, count) in groups {
            b.recv(pos.behind(by), run(back, at, count));
            b.send(pos.ahead(by), run(out, at, count));
        }
        for &(first, at, count) in &runs {
            b.copy(run(back, at, count), run(all, first, count));
        }
    }
    // The block at distance `by` comes from the rank `by` positions before this one.
    for by in 1..pos.size {
        b.copy(run(all, by, 1), to[pos.behind(by) as usize]);
    }
    b.copy(from[pos.rank as usize], to[pos.rank as usize]);
}

/// Straight from buffer to buffer: in step k to the rank k ahead and from the rank k before, with a
/// bounded number of steps under way.
pub fn scattered(b: &mut Builder, pos: Position, from: &[Extent], to: &[Extent]) {
    for by in 1..pos.size {
        b.recv(pos.behind(by), to[pos.behind(by) as usize]);
        b.send(pos.ahead(by), from[pos.ahead(by) as usize]);
    }
    b.copy_meanwhile(from[pos.rank as usize], to[pos.rank as usize]);
}

/// Straight from buffer to buffer, one step after the other: each rank sends to one rank at a time,
/// and no rank is sent to by two.
pub fn pairwise(b: &mut Builder, pos: Position, from: &[Extent], to: &[Extent]) {
    for by in 1..pos.size {
        b.recv(pos.behind(by), to[pos.behind(by) as usize]);
        b.send(pos.ahead(by), from[pos.ahead(by) as usize]);
        b.round();
    }
    b.copy(from[pos.rank as usize], to[pos.rank as usize]);
}

/// In place: as in a tournament, each rank is paired with each other rank once, and they swap a
/// block through scratch memory for one block.
pub fn exchange_in_place(b: &mut Builder, pos: Position, blocks: &[Extent]) {
    let (rank, size) = (u64::from(pos.rank), u64::from(pos.size));
    let largest = blocks.iter().map(Extent::bytes).max().unwrap_or(0);
    let temp = b.packed(largest);
    for step in 0..size {
        let partner = ((step + size - rank) % size) as u32;
        if partner == pos.rank {
            continue;
        }
        let block = blocks[partner as usize];
        let out = temp.part(0, block.bytes());
        b.copy(block, out);
        b.recv(partner, block);
        b.send(partner, out);
        b.round();
    }
}
