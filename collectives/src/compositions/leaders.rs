//! Compositions of barrier, broadcast and reductions in which one rank of each group speaks for all
//! of its ranks.

use super::levels::Levels;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::shape::Extent;

/// The ranks of each group await each other, then the leaders do. The second barrier of a group
/// releases it, since its leader comes last.
///
/// A reduction and a broadcast of nothing would not do: an algorithm may leave out what moves no
/// bytes, and with it the order of its messages.
pub(super) fn barrier(b: &mut Builder, levels: &Levels) {
    levels.in_group(b, &CollArgs::Barrier);
    if levels.me == 0 {
        levels.between(b, &levels.groups.lanes()[0], &CollArgs::Barrier);
    }
    levels.in_group(b, &CollArgs::Barrier);
}

/// The root speaks for its group.
pub(super) fn bcast(b: &mut Builder, levels: &Levels, root: u32, data: Extent) {
    let (root_group, _) = levels.groups.place(root);
    let leader = levels.leader(root);
    if levels.me == leader {
        let among_leaders = CollArgs::Bcast { root: root_group, data };
        levels.between(b, &levels.groups.leaders(root), &among_leaders);
    }
    levels.in_group(b, &CollArgs::Bcast { root: leader, data });
}

/// The root speaks for its group.
pub(super) fn reduce(
    b: &mut Builder,
    levels: &Levels,
    root: u32,
    (input, output, commutative): (Extent, Option<Extent>, bool),
) {
    let (root_group, _) = levels.groups.place(root);
    let leader = levels.leader(root);
    if levels.me != leader {
        return levels.in_group(b, &reduction(leader, input, None, commutative));
    }
    // A leader alone in its group has its sum already.
    let sum = match (output, levels.local_size()) {
        (Some(output), _) => output,
        (None, 1) => input,
        (None, _) => b.like(input, input.count),
    };
    if sum.span() != input.span() || levels.local_size() > 1 {
        levels.in_group(b, &reduction(leader, input, Some(sum), commutative));
    }
    let among_leaders = reduction(root_group, sum, output, commutative);
    levels.between(b, &levels.groups.leaders(root), &among_leaders);
}

/// The sum of each group at its leader, the sum of all at each leader, and from there to all ranks.
pub(super) fn allreduce(
    b: &mut Builder,
    levels: &Levels,
    input: Extent,
    output: Extent,
    commutative: bool,
) {
    let is_leader = levels.me == 0;
    levels.in_group(b, &reduction(0, input, is_leader.then_some(output), commutative));
    if is_leader {
        let among_leaders = CollArgs::Allreduce { input: output, output, commutative };
        levels.between(b, &levels.groups.lanes()[0], &among_leaders);
    }
    levels.in_group(b, &CollArgs::Bcast { root: 0, data: output });
}

fn reduction(
    root: u32,
    input: Extent,
    output: Option<Extent>,
    commutative: bool,
) -> CollArgs<'static> {
    CollArgs::Reduce { root, input, output, commutative }
}
