//! Compositions of scan and exscan: the last rank of each group knows the sum of its group; the sum
//! of all groups before goes to the ranks of each group.
//!
//! Groups are consecutive. Therefore operands keep rank order.

use super::levels::Levels;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::shape::Extent;

/// The reduction of the ranks up to and including this one, in `output`.
pub(super) fn inclusive(b: &mut Builder, levels: &Levels, input: Extent, output: Extent) {
    levels.in_group(b, &CollArgs::Scan { input, output });
    if let Some(before) = sum_before(b, levels, output) {
        b.reduce(before, output);
    }
}

/// The reduction of the ranks below this one, in `output`, which rank 0 leaves alone.
pub(super) fn exclusive(b: &mut Builder, levels: &Levels, input: Extent, output: Extent) {
    let is_last = levels.me + 1 == levels.local_size();
    // In place the output overwrites the input.
    let mut sum = input;
    if is_last && levels.me > 0 {
        sum = b.like(input, input.count);
        b.copy(input, sum);
        b.round();
    }
    levels.in_group(b, &CollArgs::Exscan { input, output });
    if is_last && levels.me > 0 {
        b.reduce(output, sum);
    }
    let Some(before) = sum_before(b, levels, sum) else { return };
    match levels.me {
        0 => b.copy(before, output),
        _ => b.reduce(before, output),
    }
}

/// Gives all ranks of a group the reduction of the groups before it; `None` in the first group.
/// `sum`: the reduction of the own group, at its last rank.
fn sum_before(b: &mut Builder, levels: &Levels, sum: Extent) -> Option<Extent> {
    let last = levels.local_size() - 1;
    let before = b.like(sum, sum.count);
    if levels.me == last {
        let among_last_ranks = CollArgs::Exscan { input: sum, output: before };
        levels.between(b, &levels.groups.last_ranks(), &among_last_ranks);
    }
    if levels.group == 0 {
        return None;
    }
    levels.in_group(b, &CollArgs::Bcast { root: last, data: before });
    b.round();
    Some(before)
}
