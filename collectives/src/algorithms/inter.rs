//! Operations between the two groups of an intercommunicator (MPI-5.0 §6.2.3).
//!
//! Blocks go straight from group to group. A group reduces within itself, and the leaders, which
//! are the ranks 0, exchange the results. Data for a whole group goes to its leader and from there
//! down a tree.
//!
//! In rooted operations `root` is [`ROOT_HERE`] at the root, and the root's rank in the remote
//! group at the other group.

use super::{Tree, bcast, reduce, scatter};
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::operation::ROOT_HERE;
use crate::position::Position;
use crate::schedule::Member;
use crate::shape::Extent;

/// The other group's leader.
const THEIR_LEADER: Member = Member::remote(0);

/// Writes this rank's part; `remote` is the size of the other group.
pub fn write(b: &mut Builder, args: &CollArgs, pos: Position, remote: u32) {
    match *args {
        CollArgs::Barrier => barrier(b, pos),
        CollArgs::Bcast { root: ROOT_HERE, data } => b.send(THEIR_LEADER, data),
        CollArgs::Bcast { root, data } => {
            from_leader(b, pos, data, |b| b.recv(Member::remote(root), data))
        }
        CollArgs::Gather { all: Some(all), .. } => collect(b, &all.split(remote)),
        CollArgs::Gatherv { all: Some(all), .. } => collect(b, all),
        CollArgs::Gather { root, own, .. } | CollArgs::Gatherv { root, own, .. } => {
            own.into_iter().for_each(|own| b.send(Member::remote(root), own));
        }
        CollArgs::Scatter { all: Some(all), .. } => hand_out(b, &all.split(remote)),
        CollArgs::Scatterv { all: Some(all), .. } => hand_out(b, all),
        CollArgs::Scatter { root, own, .. } | CollArgs::Scatterv { root, own, .. } => {
            own.into_iter().for_each(|own| b.recv(Member::remote(root), own));
        }
        CollArgs::Allgather { own: Some(own), all } => {
            exchange(b, pos, &vec![own; remote as usize], &all.split(remote))
        }
        CollArgs::Allgatherv { own: Some(own), all } => {
            exchange(b, pos, &vec![own; remote as usize], all)
        }
        CollArgs::Alltoall { from: Some(from), to, .. } => exchange(b, pos, from, to),
        CollArgs::Reduce { root: ROOT_HERE, output, .. } => {
            output.into_iter().for_each(|output| b.recv(THEIR_LEADER, output));
        }
        CollArgs::Reduce { root, input, commutative, .. } => {
            if let Some(result) = reduced(b, pos, input, commutative) {
                b.send(Member::remote(root), result);
            }
        }
        CollArgs::Allreduce { input, output, commutative } => {
            let result = reduced(b, pos, input, commutative);
            from_leader(b, pos, output, |b| swap(b, result, output));
        }
        CollArgs::ReduceScatter { input, counts, output, commutative, .. } => {
            reduce_scatter(b, pos, input, counts, output, commutative);
        }
        _ => debug_assert!(false, "refused by `Call::new`"),
    }
}

/// Up a tree, across, and down again.
fn barrier(b: &mut Builder, pos: Position) {
    let tree = Tree::binomial(pos, 0);
    tree.children().for_each(|child| b.await_signal(tree.rank(child)));
    b.round();
    match tree.parent() {
        Some(parent) => {
            b.signal(parent);
            b.await_signal(parent);
        }
        None => {
            b.await_signal(THEIR_LEADER);
            b.signal(THEIR_LEADER);
        }
    }
    b.round();
    tree.children().for_each(|child| b.signal(tree.rank(child)));
}

/// Gives all ranks what the leader gets by `get`.
fn from_leader(b: &mut Builder, pos: Position, data: Extent, get: impl FnOnce(&mut Builder)) {
    if pos.rank == 0 {
        get(b);
        b.round();
    }
    bcast::binomial(b, pos, 0, data);
}

fn collect(b: &mut Builder, all: &[Extent]) {
    (0..).zip(all).for_each(|(rank, &block)| b.recv(Member::remote(rank), block));
}

fn hand_out(b: &mut Builder, all: &[Extent]) {
    (0..).zip(all).for_each(|(rank, &block)| b.send(Member::remote(rank), block));
}

/// Straight from each rank to each of the other group. In step k rank i sends to rank i + k and
/// receives from rank i - k, counted round the larger group. Thus both ends are at the same step.
fn exchange(b: &mut Builder, pos: Position, from: &[Extent], to: &[Extent]) {
    let ring = Position::new(pos.rank, pos.size.max(from.len() as u32));
    for by in 0..ring.size {
        let (source, target) = (ring.behind(by), ring.ahead(by));
        if let Some(&block) = to.get(source as usize) {
            b.recv(Member::remote(source), block);
        }
        if let Some(&block) = from.get(target as usize) {
            b.send(Member::remote(target), block);
        }
    }
}

/// The result of the own group, at its leader.
fn reduced(b: &mut Builder, pos: Position, input: Extent, commutative: bool) -> Option<Extent> {
    if pos.size == 1 {
        return Some(input);
    }
    let result = (pos.rank == 0).then(|| b.like(input, input.count));
    reduce::binomial(b, pos, 0, input, result, commutative);
    b.round();
    result
}

/// Swaps results between the leaders; `None` at other ranks.
fn swap(b: &mut Builder, ours: Option<Extent>, theirs: Extent) {
    if let Some(ours) = ours {
        b.recv(THEIR_LEADER, theirs);
        b.send(THEIR_LEADER, ours);
    }
}

fn reduce_scatter(
    b: &mut Builder,
    pos: Position,
    input: Extent,
    counts: &[u64],
    output: Extent,
    commutative: bool,
) {
    let ours = reduced(b, pos, input, commutative);
    let theirs = (pos.rank == 0).then(|| b.like(input, input.count));
    theirs.into_iter().for_each(|theirs| swap(b, ours, theirs));
    b.round();
    let blocks: Option<Vec<Extent>> = theirs.map(|theirs| {
        let mut at = 0;
        let block = |&count: &u64| {
            at += count;
            theirs.part(at - count, count)
        };
        counts.iter().map(block).collect()
    });
    scatter::linear(b, pos, 0, blocks.as_deref(), Some(output));
}

/// Writes an allreduce of the operands of both groups.
pub fn allreduce_of_both(b: &mut Builder, pos: Position, input: Extent, output: Extent) {
    let ours = reduced(b, pos, input, true);
    let theirs = ours.map(|_| b.like(output, output.count));
    from_leader(b, pos, output, |b| {
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            swap(b, Some(ours), theirs);
            b.copy(ours, output);
            b.reduce(theirs, output);
        }
    });
}
