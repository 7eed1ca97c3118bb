//! Compositions of alltoall with equal blocks: ranks of a group exchange for each other. A group
//! sends few long messages in place of many short ones.

use fabric::CollectiveKind;

use super::levels::Levels;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::shape::{Extent, joined};

/// Each rank sends the blocks for all ranks of a group to the rank of its own number there, which
/// hands them out. All groups have equally many ranks.
///
/// In place, all blocks have left before the first one is written.
pub(super) fn lanes(b: &mut Builder, levels: &Levels, from: &[Extent], to: &[Extent]) {
    let (groups, members) = (levels.groups, levels.local_size());
    let block = to[0].bytes();
    let for_groups: Vec<Extent> = groups
        .groups()
        .map(|ranks| {
            let blocks: Vec<Extent> = ranks.iter().map(|&rank| from[rank as usize]).collect();
            b.as_run(&blocks)
        })
        .collect();
    let landed = b.packed(block * u64::from(groups.size()));
    let from_groups = landed.split(groups.count());
    let lane = &groups.lanes()[levels.me as usize];
    levels.between(b, lane, &alltoall(&for_groups, &from_groups));
    // In the order of the group's ranks, each with a block of each group; then the reverse.
    let (sent, received) = (b.packed(landed.count), b.packed(landed.count));
    let at = |run: Extent, member: u32, group: u32| {
        let index = u64::from(member) * u64::from(groups.count()) + u64::from(group);
        run.part(index * block, block)
    };
    for member in 0..members {
        for (group, run) in (0..).zip(&from_groups) {
            b.copy(run.part(u64::from(member) * block, block), at(sent, member, group));
        }
    }
    levels.in_group(b, &alltoall(&sent.split(members), &received.split(members)));
    for (group, ranks) in (0..).zip(groups.groups()) {
        for (member, &rank) in (0..).zip(ranks) {
            b.copy(at(received, member, group), to[rank as usize]);
        }
    }
}

/// The blocks of a group are gathered at its leader; leaders exchange them, and hand them out.
pub(super) fn leaders(b: &mut Builder, levels: &Levels, from: &[Extent], to: &[Extent]) {
    let (groups, members) = (levels.groups, u64::from(levels.local_size()));
    let block = to[0].bytes();
    let each = block * u64::from(groups.size());
    let is_leader = levels.me == 0;
    let mine = b.as_run(from);
    let gathered = is_leader.then(|| b.packed(members * each));
    levels.in_group(b, &CollArgs::Gather { root: 0, own: Some(mine), all: gathered });
    let scattered = gathered.map(|gathered| exchange(b, levels, gathered, block));
    let landing = joined(to).unwrap_or_else(|| b.packed(each));
    levels.in_group(b, &CollArgs::Scatter { root: 0, all: scattered, own: Some(landing) });
    if joined(to).is_none() {
        b.round();
        let parts = landing.split(groups.size());
        parts.iter().zip(to).for_each(|(part, to)| b.copy(*part, *to));
    }
}

/// Exchanges what a leader has gathered: the blocks of each of its ranks for all ranks. Returns the
/// blocks of all ranks for each of its own.
fn exchange(b: &mut Builder, levels: &Levels, gathered: Extent, block: u64) -> Extent {
    let groups = levels.groups;
    let (members, size) = (u64::from(levels.local_size()), u64::from(groups.size()));
    let (out, incoming) = (b.packed(gathered.count), b.packed(gathered.count));
    let scattered = b.packed(gathered.count);
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut at = 0;
    for ranks in groups.groups() {
        let count = ranks.len() as u64 * members * block;
        sent.push(out.part(at, count));
        received.push(incoming.part(at, count));
        at += count;
    }
    for (part, ranks) in sent.iter().zip(groups.groups()) {
        for member in 0..members {
            for (index, &rank) in (0..).zip(ranks) {
                let of = gathered.part((member * size + u64::from(rank)) * block, block);
                b.copy(of, part.part((member * ranks.len() as u64 + index) * block, block));
            }
        }
    }
    let kind = CollectiveKind::Alltoallv;
    let among_leaders = CollArgs::Alltoall { kind, from: Some(&sent), to: &received };
    levels.between(b, &groups.lanes()[0], &among_leaders);
    for (part, ranks) in received.iter().zip(groups.groups()) {
        for (index, &rank) in (0..).zip(ranks) {
            for member in 0..members {
                let to = scattered.part((member * size + u64::from(rank)) * block, block);
                b.copy(part.part((index * members + member) * block, block), to);
            }
        }
    }
    scattered
}

fn alltoall<'a>(from: &'a [Extent], to: &'a [Extent]) -> CollArgs<'a> {
    CollArgs::Alltoall { kind: CollectiveKind::Alltoall, from: Some(from), to }
}
