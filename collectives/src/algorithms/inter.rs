//! Operations between the two groups of an intercommunicator (MPI-5.0 §6.2.3).
//!
//! Blocks go straight from group to group; a reduction is done within a group
//! and its result handed over by the leaders, who are the ranks 0; what a whole
//! group is to get goes to its leader and from there down a tree.
//!
//! In rooted operations `root` is [`ROOT_HERE`] at the root and its rank in the
//! remote group at those who deal with it.

use super::{Binomial, Seat, bcast, reduce, scatter};
use crate::operation::ROOT_HERE;
use crate::problem::Problem;
use crate::schedule::{Builder, Member};
use crate::shape::Run;

/// The other group's leader.
const THEIR_LEADER: Member = Member::remote(0);

/// Writes this rank's part; `remote` is the size of the other group.
pub fn write(b: &mut Builder, problem: &Problem, seat: Seat, remote: u32) {
    match *problem {
        Problem::Barrier => barrier(b, seat),
        Problem::Bcast { root: ROOT_HERE, data } => b.send(THEIR_LEADER, data),
        Problem::Bcast { root, data } => {
            from_leader(b, seat, data, |b| b.recv(Member::remote(root), data))
        }
        Problem::Gather { all: Some(all), .. } => collect(b, &all.split(remote)),
        Problem::Gatherv { all: Some(all), .. } => collect(b, all),
        Problem::Gather { root, own, .. } | Problem::Gatherv { root, own, .. } => {
            own.into_iter().for_each(|own| b.send(Member::remote(root), own));
        }
        Problem::Scatter { all: Some(all), .. } => hand_out(b, &all.split(remote)),
        Problem::Scatterv { all: Some(all), .. } => hand_out(b, all),
        Problem::Scatter { root, own, .. } | Problem::Scatterv { root, own, .. } => {
            own.into_iter().for_each(|own| b.recv(Member::remote(root), own));
        }
        Problem::Allgather { own: Some(own), all } => {
            exchange(b, seat, &vec![own; remote as usize], &all.split(remote))
        }
        Problem::Allgatherv { own: Some(own), all } => {
            exchange(b, seat, &vec![own; remote as usize], all)
        }
        Problem::Alltoall { from: Some(from), to, .. } => exchange(b, seat, from, to),
        Problem::Reduce { root: ROOT_HERE, output, .. } => {
            output.into_iter().for_each(|output| b.recv(THEIR_LEADER, output));
        }
        Problem::Reduce { root, input, commutative, .. } => {
            if let Some(result) = reduced(b, seat, input, commutative) {
                b.send(Member::remote(root), result);
            }
        }
        Problem::Allreduce { input, output, commutative } => {
            let result = reduced(b, seat, input, commutative);
            from_leader(b, seat, output, |b| swap(b, result, output));
        }
        Problem::ReduceScatter { input, counts, output, commutative, .. } => {
            reduce_scatter(b, seat, input, counts, output, commutative);
        }
        _ => debug_assert!(false, "refused before"),
    }
}

/// Up a tree, across, and down again.
fn barrier(b: &mut Builder, seat: Seat) {
    let tree = Binomial::new(seat, 0);
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

/// The leader gets the data somehow, the others from it.
fn from_leader(b: &mut Builder, seat: Seat, data: Run, get: impl FnOnce(&mut Builder)) {
    if seat.rank == 0 {
        get(b);
        b.round();
    }
    bcast::binomial(b, seat, 0, data);
}

fn collect(b: &mut Builder, all: &[Run]) {
    (0..).zip(all).for_each(|(rank, &block)| b.recv(Member::remote(rank), block));
}

fn hand_out(b: &mut Builder, all: &[Run]) {
    (0..).zip(all).for_each(|(rank, &block)| b.send(Member::remote(rank), block));
}

/// Straight from each rank to each of the other group. In step k rank i sends to
/// rank i + k and receives from rank i - k, counted round the larger group, so
/// that both ends are at the same step.
fn exchange(b: &mut Builder, seat: Seat, from: &[Run], to: &[Run]) {
    let ring = Seat { rank: seat.rank, size: seat.size.max(from.len() as u32) };
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
fn reduced(b: &mut Builder, seat: Seat, input: Run, commutative: bool) -> Option<Run> {
    if seat.size == 1 {
        return Some(input);
    }
    let result = (seat.rank == 0).then(|| b.like(input, input.count));
    reduce::binomial(b, seat, 0, input, result, commutative);
    b.round();
    result
}

/// The leaders swap results. `None` at those who are none.
fn swap(b: &mut Builder, ours: Option<Run>, theirs: Run) {
    if let Some(ours) = ours {
        b.recv(THEIR_LEADER, theirs);
        b.send(THEIR_LEADER, ours);
    }
}

fn reduce_scatter(
    b: &mut Builder,
    seat: Seat,
    input: Run,
    counts: &[u64],
    output: Run,
    commutative: bool,
) {
    let ours = reduced(b, seat, input, commutative);
    let theirs = (seat.rank == 0).then(|| b.like(input, input.count));
    theirs.into_iter().for_each(|theirs| swap(b, ours, theirs));
    b.round();
    let blocks: Option<Vec<Run>> = theirs.map(|theirs| {
        let mut at = 0;
        let block = |&count: &u64| {
            at += count;
            theirs.part(at - count, count)
        };
        counts.iter().map(block).collect()
    });
    scatter::linear(b, seat, 0, blocks.as_deref(), Some(output));
}

/// As [`Problem::Allreduce`], of the operands of both groups.
pub fn allreduce_of_both(b: &mut Builder, seat: Seat, input: Run, output: Run) {
    let ours = reduced(b, seat, input, true);
    let theirs = ours.map(|_| b.like(output, output.count));
    from_leader(b, seat, output, |b| {
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            swap(b, Some(ours), theirs);
            b.copy(ours, output);
            b.reduce(theirs, output);
        }
    });
}
