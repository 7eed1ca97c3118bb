//! Compositions of lanes in which stages run at the same time: the vector is cut into chunks, and
//! while the lanes deal with one of them, the ranks of a group reduce or gather others. Operations
//! commute.
//!
//! The stages in groups are the main strand of the schedule, those of lanes are beside it. All
//! ranks cut alike; therefore it does not matter to a lane how a group does its stages.

use super::lanes::{self, Parts};
use super::levels::Levels;
use crate::builder::{Builder, Mark};
use crate::coll_args::CollArgs;
use crate::shape::{Extent, piece};

/// The most chunks of a vector.
const MAX_CHUNKS: u64 = 16;

/// A lane's part of a chunk has so many bytes in a reduction, or broadcast. For each chunk a rank
/// pays the overheads of all messages of its lane: of many rounds, or of a place in a tree.
fn reduced_bytes(levels: &Levels) -> u64 {
    levels.stages.piece() / 2
}

fn bcast_bytes(levels: &Levels) -> u64 {
    levels.stages.piece() / 10
}

/// How many chunks a vector has if a lane has about so many bytes of each, not more than `most`.
fn chunk_count(levels: &Levels, vector: Extent, bytes: u64, most: u64) -> u64 {
    let lanes = levels.groups.lanes().len() as u64;
    vector.bytes().div_ceil(lanes * bytes.max(1)).clamp(1, most.clamp(1, MAX_CHUNKS))
}

/// The chunks of a vector in a reduction.
fn equal_chunks(levels: &Levels, vector: Extent) -> Vec<Extent> {
    let count = chunk_count(levels, vector, reduced_bytes(levels), vector.count);
    (0..count).map(|index| vector.range(&piece(vector.count, count, index))).collect()
}

/// The chunks of a vector in a broadcast. Each takes as long to write as to gather; therefore the
/// first is a third of the last, so that other groups begin to gather early. They grow by equal
/// steps.
fn growing_chunks(levels: &Levels, vector: Extent) -> Vec<Extent> {
    let most = vector.count.div_ceil(2);
    let count = chunk_count(levels, vector, bcast_bytes(levels), most);
    // Chunk i has count + 2 i shares of count (2 count - 1).
    let shares = |chunks: u64| chunks * count + chunks * chunks.saturating_sub(1);
    let begin = |index: u64| vector.count * shares(index) / shares(count);
    (0..count).map(|index| vector.range(&(begin(index)..begin(index + 1)))).collect()
}

/// Each rank reduces its part of each chunk in its group, its lane reduces it over groups, and the
/// parts are gathered in each group.
pub(super) fn allreduce(b: &mut Builder, levels: &Levels, input: Extent, output: Extent) {
    let [inputs, outputs] = [input, output].map(|vector| equal_chunks(levels, vector));
    let marks: Vec<(Parts, Mark)> = inputs
        .iter()
        .zip(&outputs)
        .map(|(input, output)| {
            let parts = Parts::new(levels, input.count);
            let mine = output.range(&parts.of(levels.me));
            lanes::reduce_in_group(b, levels, &parts, *input, mine);
            let mark = b.beside(|b| levels.in_lane(b, &lanes::in_place(mine)));
            (parts, mark)
        })
        .collect();
    for ((parts, mark), output) in marks.iter().zip(outputs) {
        b.wait_for(*mark);
        lanes::allgather_in_group(b, levels, parts, output);
    }
}

/// Each rank reduces its part of each chunk in its group, its lane reduces it to the root's group,
/// and the parts are gathered at the root.
pub(super) fn reduce(
    b: &mut Builder,
    levels: &Levels,
    root: u32,
    input: Extent,
    output: Option<Extent>,
) {
    let (root_group, root_index) = levels.groups.place(root);
    let inputs = equal_chunks(levels, input);
    let outputs: Vec<Option<Extent>> = match output {
        Some(output) => equal_chunks(levels, output).into_iter().map(Some).collect(),
        None => vec![None; inputs.len()],
    };
    let marks: Vec<(Parts, Extent, Mark)> = inputs
        .into_iter()
        .zip(&outputs)
        .map(|(input, &output)| {
            let parts = Parts::new(levels, input.count);
            let mine = lanes::own_part(b, levels, &parts, (input, output));
            lanes::reduce_in_group(b, levels, &parts, input, mine);
            let mark = b.beside(|b| lanes::reduce_in_lane(b, levels, root_group, mine));
            (parts, mine, mark)
        })
        .collect();
    if levels.group == root_group {
        for ((parts, mine, mark), output) in marks.into_iter().zip(outputs) {
            b.wait_for(mark);
            lanes::gather_in_group(b, levels, &parts, root_index, (mine, output));
        }
    }
}

/// The root broadcasts each chunk in its group, whose ranks send their parts down the trees of
/// their lanes; in the other groups the parts are gathered.
pub(super) fn bcast(b: &mut Builder, levels: &Levels, root: u32, data: Extent) {
    let (root_group, root_index) = levels.groups.place(root);
    let is_root = levels.rank() == root;
    let bytes = b.bytes_of(data);
    if is_root {
        b.copy(data, bytes);
    }
    let chunks = growing_chunks(levels, bytes).into_iter();
    let chunks = chunks.map(|chunk| (chunk, Parts::new(levels, chunk.count)));
    if levels.group == root_group {
        for (chunk, parts) in chunks {
            let part = parts.of(levels.me);
            // A part leaves as soon as it has come, not at the same time as all others.
            let count = chunk.count.div_ceil(levels.stages.piece().max(1)).max(1);
            for index in 0..count {
                let range = piece(chunk.count, count, index);
                let data = chunk.range(&range);
                levels.in_group_by_parts(b, &CollArgs::Bcast { root: root_index, data });
                // A part that is empty comes first.
                let is_new = index == 0 || range.start < part.end;
                if is_new && part.end <= range.end {
                    b.beside(|b| down_the_lane(b, levels, root_group, chunk.range(&part)));
                }
            }
        }
    } else {
        let down = |(data, parts): (Extent, Parts)| {
            let mine = data.range(&parts.of(levels.me));
            let mark = b.beside(|b| down_the_lane(b, levels, root_group, mine));
            (data, parts, mark)
        };
        let marks: Vec<(Extent, Parts, Mark)> = chunks.map(down).collect();
        for (data, parts, mark) in marks {
            b.wait_for(mark);
            lanes::allgather_in_group(b, levels, &parts, data);
        }
    }
    if !is_root {
        b.copy(bytes, data);
    }
}

/// From the root's group to another one, and from there down a tree in which each group has as many
/// children as it sends messages at once. The lanes begin at equal distances, so that all groups
/// send equally much.
fn down_the_lane(b: &mut Builder, levels: &Levels, root_group: u32, data: Extent) {
    let lanes = levels.groups.lanes();
    let Some(lane) = lanes.get(levels.me as usize) else { return };
    let ranks: Vec<u32> = lanes::others(lane, root_group).collect();
    let size = ranks.len();
    let first = size * levels.me as usize / lanes.len();
    let rank = |node: usize| ranks[(first + node) % size];
    let degree = levels.stages.radix() as usize - 1;
    let (parent, children) = if levels.group == root_group {
        (None, 0..1)
    } else {
        let me = ranks.iter().position(|&rank| rank == levels.rank()).unwrap_or(0);
        let node = (me + size - first) % size;
        let parent = match node {
            0 => lane[root_group as usize],
            _ => rank((node - 1) / degree),
        };
        (Some(parent), degree * node + 1..degree * (node + 1) + 1)
    };
    if let Some(parent) = parent {
        b.recv(parent, data);
        b.round();
    }
    children.take_while(|&node| node < size).for_each(|node| b.send(rank(node), data));
    b.round();
}
