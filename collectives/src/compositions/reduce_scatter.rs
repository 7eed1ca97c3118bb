//! Compositions of reduce_scatter and reduce_scatter_block.

use super::levels::{Levels, REDUCE_SCATTER};
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::shape::Extent;

/// The sum of each group at its leader, the part of each group at its leader, and from there to the
/// group's ranks.
pub(super) fn leaders(
    b: &mut Builder,
    levels: &Levels,
    (input, output, commutative): (Extent, Extent, bool),
    counts: &[u64],
) {
    let is_leader = levels.me == 0;
    let count_of = |rank: &u32| counts[*rank as usize];
    let mut sum = input;
    if levels.local_size() > 1 {
        let home = is_leader.then(|| b.like(input, input.count));
        levels.in_group(b, &CollArgs::Reduce { root: 0, input, output: home, commutative });
        sum = home.unwrap_or(input);
    }
    let own = Some(output);
    if !is_leader {
        return levels.in_group(b, &CollArgs::Scatterv { root: 0, all: None, own });
    }
    let ordered = match levels.groups.are_consecutive() {
        true => sum,
        false => in_order(b, sum, counts, levels.groups.groups().flatten().copied()),
    };
    let of_groups: Vec<u64> =
        levels.groups.groups().map(|ranks| ranks.iter().map(count_of).sum()).collect();
    let part = b.like(input, of_groups[levels.group as usize]);
    let among_leaders = CollArgs::ReduceScatter {
        kind: REDUCE_SCATTER,
        input: ordered,
        counts: &of_groups,
        output: part,
        commutative,
    };
    levels.between(b, &levels.groups.lanes()[0], &among_leaders);
    let mut at = 0;
    let of_ranks: Vec<Extent> = levels.groups.members(levels.group)[..]
        .iter()
        .map(count_of)
        .map(|count| {
            at += count;
            part.part(at - count, count)
        })
        .collect();
    levels.in_group(b, &CollArgs::Scatterv { root: 0, all: Some(&of_ranks), own });
}

/// Each rank reduces the parts of its lane in its group, then its own part in its lane. All groups
/// have equally many ranks, and the operation commutes.
pub(super) fn lanes(
    b: &mut Builder,
    levels: &Levels,
    input: Extent,
    counts: &[u64],
    output: Extent,
) {
    let lanes = levels.groups.lanes();
    let count_of = |rank: &u32| counts[*rank as usize];
    let ordered = in_order(b, input, counts, lanes.iter().flat_map(|lane| lane.iter().copied()));
    let of_lanes: Vec<u64> = lanes.iter().map(|lane| lane.iter().map(count_of).sum()).collect();
    let part = b.like(input, of_lanes[levels.me as usize]);
    let scatter = |input, counts, output| CollArgs::ReduceScatter {
        kind: REDUCE_SCATTER,
        input,
        counts,
        output,
        commutative: true,
    };
    levels.in_group_by_parts(b, &scatter(ordered, &of_lanes, part));
    let lane = &lanes[levels.me as usize];
    let of_members: Vec<u64> = lane.iter().map(count_of).collect();
    levels.between(b, lane, &scatter(part, &of_members, output));
}

/// The parts of the ranks of a vector in another order.
fn in_order(
    b: &mut Builder,
    vector: Extent,
    counts: &[u64],
    ranks: impl Iterator<Item = u32>,
) -> Extent {
    let mut end = 0;
    let starts: Vec<u64> = counts
        .iter()
        .map(|count| {
            end += count;
            end - count
        })
        .collect();
    let ordered = b.like(vector, vector.count);
    b.round();
    let mut at = 0;
    for rank in ranks {
        let (start, count) = (starts[rank as usize], counts[rank as usize]);
        b.copy(vector.part(start, count), ordered.part(at, count));
        at += count;
    }
    ordered
}
