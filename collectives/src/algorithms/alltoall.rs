//! Alltoall, alltoallv and alltoallw (MPI-5.0 §6.8).
//!
//! `from` and `to` are the blocks for and from each rank.

use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// For small equal blocks: ceil(log2 size) rounds, in round k all blocks whose
/// distance has bit k set travel 2^k ranks ahead (Bruck et al.).
pub fn bruck(b: &mut Builder, pos: Position, from: &[Extent], to: &[Extent]) {
    let block = to[pos.rank as usize].bytes();
    let all = b.packed(block * u64::from(pos.size));
    for by in 1..pos.size {
        b.copy(from[pos.ahead(by) as usize], all.part(u64::from(by) * block, block));
    }
    let half = u64::from(pos.size.next_power_of_two() / 2) * block;
    let (out, back) = (b.packed(half), b.packed(half));
    for reach in (0..32).map(|bit| 1u32 << bit).take_while(|&reach| reach < pos.size) {
        let mut moved = 0;
        for (first, count) in travelling(pos.size, reach) {
            let bytes = u64::from(count) * block;
            b.copy(all.part(u64::from(first) * block, bytes), out.part(moved, bytes));
            moved += bytes;
        }
        b.recv(pos.behind(reach), back.part(0, moved));
        b.send(pos.ahead(reach), out.part(0, moved));
        let mut moved = 0;
        for (first, count) in travelling(pos.size, reach) {
            let bytes = u64::from(count) * block;
            b.copy(back.part(moved, bytes), all.part(u64::from(first) * block, bytes));
            moved += bytes;
        }
    }
    // The block at distance `by` comes from the rank `by` positions before this one.
    for by in 1..pos.size {
        b.copy(all.part(u64::from(by) * block, block), to[pos.behind(by) as usize]);
    }
    b.copy(from[pos.rank as usize], to[pos.rank as usize]);
}

/// The distances that have the bit `reach` set, as runs of neighbours.
fn travelling(size: u32, reach: u32) -> impl Iterator<Item = (u32, u32)> {
    (reach..size).step_by(2 * reach as usize).map(move |first| (first, reach.min(size - first)))
}

/// Straight from buffer to buffer: in step k to the rank k ahead and from the rank k before, with a
/// bounded number of steps under way.
pub fn scattered(b: &mut Builder, pos: Position, from: &[Extent], to: &[Extent]) {
    for by in 1..pos.size {
        b.recv(pos.behind(by), to[pos.behind(by) as usize]);
        b.send(pos.ahead(by), from[pos.ahead(by) as usize]);
    }
    b.copy(from[pos.rank as usize], to[pos.rank as usize]);
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
