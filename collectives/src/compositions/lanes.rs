//! Compositions in which each lane moves its part of a vector between groups. Operations commute.
//!
//! Where groups have different numbers of ranks, the ranks outside of all lanes take part within
//! their groups only.

use std::ops::Range;
use std::sync::Arc;

use super::levels::{Levels, REDUCE_SCATTER};
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::shape::{Extent, piece};

/// The parts of a vector, one for each rank of a group; empty for those outside of all lanes.
pub(super) struct Parts {
    count: u64,
    lanes: u64,
}

impl Parts {
    pub(super) fn new(levels: &Levels, count: u64) -> Parts {
        Parts { count, lanes: levels.groups.lanes().len() as u64 }
    }

    pub(super) fn of(&self, index: u32) -> Range<u64> {
        match u64::from(index) {
            index if index < self.lanes => piece(self.count, self.lanes, index),
            _ => self.count..self.count,
        }
    }

    fn counts(&self, local_size: u32) -> Vec<u64> {
        (0..local_size).map(|index| self.of(index)).map(|part| part.end - part.start).collect()
    }

    fn split(&self, vector: Extent, local_size: u32) -> Vec<Extent> {
        (0..local_size).map(|index| vector.range(&self.of(index))).collect()
    }
}

/// Each rank reduces its part in its group, its lane reduces the part over groups, and the parts
/// are gathered in each group.
pub(super) fn allreduce(b: &mut Builder, levels: &Levels, input: Extent, output: Extent) {
    let parts = Parts::new(levels, input.count);
    let mine = output.range(&parts.of(levels.me));
    reduce_in_group(b, levels, &parts, input, mine);
    levels.in_lane(b, &in_place(mine));
    allgather_in_group(b, levels, &parts, output);
}

/// The call of a lane that reduces a part where it lies.
pub(super) fn in_place(part: Extent) -> CollArgs<'static> {
    CollArgs::Allreduce { input: part, output: part, commutative: true }
}

/// Each rank reduces its part in its group, its lane reduces the part to the root's group, and the
/// parts are gathered at the root.
pub(super) fn reduce(
    b: &mut Builder,
    levels: &Levels,
    root: u32,
    input: Extent,
    output: Option<Extent>,
) {
    let parts = Parts::new(levels, input.count);
    let (root_group, root_index) = levels.groups.place(root);
    let mine = own_part(b, levels, &parts, (input, output));
    reduce_in_group(b, levels, &parts, input, mine);
    reduce_in_lane(b, levels, root_group, mine);
    if levels.group == root_group {
        gather_in_group(b, levels, &parts, root_index, (mine, output));
    }
}

/// Memory for the sum of this rank's part: in its output, if it has one.
pub(super) fn own_part(
    b: &mut Builder,
    levels: &Levels,
    parts: &Parts,
    (input, output): (Extent, Option<Extent>),
) -> Extent {
    let part = parts.of(levels.me);
    match output {
        Some(output) => output.range(&part),
        None => b.like(input, part.end - part.start),
    }
}

/// The sum of a part over groups, where it lies in the root's.
pub(super) fn reduce_in_lane(b: &mut Builder, levels: &Levels, root_group: u32, mine: Extent) {
    let output = (levels.group == root_group).then_some(mine);
    let over_groups = CollArgs::Reduce { root: root_group, input: mine, output, commutative: true };
    levels.in_lane(b, &over_groups);
}

/// The parts of all ranks of the own group, at its rank `root`, which has an output.
pub(super) fn gather_in_group(
    b: &mut Builder,
    levels: &Levels,
    parts: &Parts,
    root: u32,
    (mine, output): (Extent, Option<Extent>),
) {
    let all = output.map(|output| parts.split(output, levels.local_size()));
    // The root's own part lies in place.
    let own = Some(mine).filter(|_| all.is_none());
    levels.in_group(b, &CollArgs::Gatherv { root, own, all: all.as_deref() });
}

/// Each lane exchanges the blocks of its ranks, then each group those of one group after the other.
pub(super) fn allgather(b: &mut Builder, levels: &Levels, own: Option<Extent>, blocks: &[Extent]) {
    let own = own.unwrap_or(blocks[levels.rank() as usize]);
    let block = |rank: &u32| blocks[*rank as usize];
    let groups = levels.groups.groups();
    let lane: Vec<Extent> = groups.map(|members| block(&members[levels.me as usize])).collect();
    levels.in_lane(b, &CollArgs::Allgatherv { own: Some(own), all: &lane });
    for members in levels.groups.groups() {
        let all: Vec<Extent> = members.iter().map(block).collect();
        levels.in_group(b, &CollArgs::Allgatherv { own: None, all: &all });
    }
}

/// The root sends each lane its part, to another group for each. The lane broadcasts it from there
/// to all groups but the root's, and the parts are gathered in each group. In the root's group the
/// root broadcasts instead: its buffer is never written.
pub(super) fn bcast(b: &mut Builder, levels: &Levels, root: u32, data: Extent) {
    let (root_group, root_index) = levels.groups.place(root);
    let is_at_root = levels.group == root_group;
    let is_root = is_at_root && levels.me == root_index;
    let bytes = b.bytes_of(data);
    if is_root {
        b.copy(data, bytes);
    }
    let parts = Parts::new(levels, bytes.count);
    if is_at_root {
        if is_root {
            (0..).zip(levels.groups.lanes()).for_each(|(index, lane)| {
                let first = others(lane, root_group).nth(first(levels, index));
                first.iter().for_each(|&rank| b.send(rank, bytes.range(&parts.of(index))));
            });
        }
        levels.in_group_by_parts(b, &CollArgs::Bcast { root: root_index, data: bytes });
    } else {
        bcast_in_lane(b, levels, root, bytes.range(&parts.of(levels.me)));
        allgather_in_group(b, levels, &parts, bytes);
    }
    if !is_root {
        b.copy(bytes, data);
    }
}

/// The number of the group, among all but the root's, to which the root sends a lane's part.
fn first(levels: &Levels, lane: u32) -> usize {
    (lane % (levels.groups.count() - 1)) as usize
}

/// The ranks of a lane from the group after the root's on, without that group.
pub(super) fn others(lane: &[u32], root_group: u32) -> impl Iterator<Item = u32> + Clone {
    let (before, after) = lane.split_at(root_group as usize);
    after[1..].iter().chain(before).copied()
}

fn bcast_in_lane(b: &mut Builder, levels: &Levels, root: u32, data: Extent) {
    let groups = levels.groups;
    let Some(lane) = groups.lanes().get(levels.me as usize) else { return };
    let ranks: Arc<[u32]> = others(lane, groups.place(root).0).collect();
    let first = first(levels, levels.me) as u32;
    let Some(me) = ranks.iter().position(|&rank| rank == levels.rank()) else { return };
    let pos = Position::between_others(me as u32, groups);
    if pos.rank == first {
        b.recv(root, data);
    }
    if pos.size > 1 {
        b.among(&ranks, |b| {
            levels.stages.write_by_messages(b, &CollArgs::Bcast { root: first, data }, pos);
        });
    }
}

/// The elements `mine` of the sum of the own group.
pub(super) fn reduce_in_group(
    b: &mut Builder,
    levels: &Levels,
    parts: &Parts,
    input: Extent,
    mine: Extent,
) {
    let counts = parts.counts(levels.local_size());
    levels.in_group_by_parts(
        b,
        &CollArgs::ReduceScatter {
            kind: REDUCE_SCATTER,
            input,
            counts: &counts,
            output: mine,
            commutative: true,
        },
    );
}

/// The parts of all ranks of the own group, each in its place.
pub(super) fn allgather_in_group(b: &mut Builder, levels: &Levels, parts: &Parts, vector: Extent) {
    let all = parts.split(vector, levels.local_size());
    levels.in_group_by_parts(b, &CollArgs::Allgatherv { own: None, all: &all });
}
