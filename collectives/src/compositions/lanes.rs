//! Compositions in which each lane moves its part of a vector between groups. Operations commute.
//!
//! Where groups have different numbers of ranks, the ranks outside of all lanes take part within
//! their groups only.

use std::ops::Range;

use super::{Levels, REDUCE_SCATTER};
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::shape::{Extent, piece};

/// The parts of a vector, one for each rank of a group; empty for those outside of all lanes.
struct Parts {
    count: u64,
    lanes: u64,
}

impl Parts {
    fn new(levels: &Levels, count: u64) -> Parts {
        Parts { count, lanes: levels.groups.lanes().len() as u64 }
    }

    fn of(&self, index: u32) -> Range<u64> {
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
    levels.in_lane(b, &CollArgs::Allreduce { input: mine, output: mine, commutative: true });
    allgather_in_group(b, levels, &parts, output);
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
    let part = parts.of(levels.me);
    let mine = match output {
        Some(output) => output.range(&part),
        None => b.like(input, part.end - part.start),
    };
    reduce_in_group(b, levels, &parts, input, mine);
    let is_at_root = levels.group == root_group;
    let at_root = is_at_root.then_some(mine);
    let over_groups =
        CollArgs::Reduce { root: root_group, input: mine, output: at_root, commutative: true };
    levels.in_lane(b, &over_groups);
    if is_at_root {
        let all = output.map(|output| parts.split(output, levels.local_size()));
        // The root's own part lies in place.
        let own = Some(mine).filter(|_| all.is_none());
        levels.in_group(b, &CollArgs::Gatherv { root: root_index, own, all: all.as_deref() });
    }
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

/// The root's group scatters the parts, each lane broadcasts its own, and the parts are gathered in
/// each group. In the root's group the root broadcasts instead: its buffer is never written.
pub(super) fn bcast(b: &mut Builder, levels: &Levels, root: u32, data: Extent) {
    let (root_group, root_index) = levels.groups.place(root);
    let is_at_root = levels.group == root_group;
    let is_root = is_at_root && levels.me == root_index;
    let bytes = data.as_bytes().unwrap_or_else(|| b.packed(data.bytes()));
    let is_packed = data.as_bytes().is_none();
    if is_root && is_packed {
        b.copy(data, bytes);
    }
    let parts = Parts::new(levels, bytes.count);
    let mine = bytes.range(&parts.of(levels.me));
    if is_at_root {
        let all = is_root.then(|| parts.split(bytes, levels.local_size()));
        let own = (!is_root).then_some(mine);
        levels.in_group(b, &CollArgs::Scatterv { root: root_index, all: all.as_deref(), own });
    }
    levels.in_lane(b, &CollArgs::Bcast { root: root_group, data: mine });
    match is_at_root {
        true => levels.in_group(b, &CollArgs::Bcast { root: root_index, data: bytes }),
        false => allgather_in_group(b, levels, &parts, bytes),
    }
    if !is_root && is_packed {
        b.copy(bytes, data);
    }
}

/// The elements `mine` of the sum of the own group.
fn reduce_in_group(b: &mut Builder, levels: &Levels, parts: &Parts, input: Extent, mine: Extent) {
    let counts = parts.counts(levels.local_size());
    levels.in_group(
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
fn allgather_in_group(b: &mut Builder, levels: &Levels, parts: &Parts, vector: Extent) {
    let all = parts.split(vector, levels.local_size());
    levels.in_group(b, &CollArgs::Allgatherv { own: None, all: &all });
}
