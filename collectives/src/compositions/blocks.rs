//! Compositions of operations that move blocks, in which one rank of each group speaks for all of
//! its ranks: it collects or hands out the blocks of its group in one message to each.
//!
//! Where the blocks of a group are not one run of memory, they travel packed, in the order of
//! groups. Whether they are concerns one rank only: messages carry the same bytes.

use super::levels::Levels;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::shape::{Extent, joined};

/// The blocks of all ranks as the stages see them: in the order of groups.
struct InGroupOrder {
    /// The block of each rank, there and in the user's buffer.
    pairs: Vec<(Extent, Extent)>,
    /// The blocks of each group as one run.
    parts: Vec<Extent>,
    is_packed: bool,
}

impl InGroupOrder {
    /// Takes the user's blocks as they are where `whole` is one run of all of them and groups are
    /// consecutive; otherwise packed in scratch memory.
    fn new(b: &mut Builder, levels: &Levels, blocks: &[Extent], whole: Option<Extent>) -> Self {
        let in_place = whole.filter(|_| levels.groups.are_consecutive());
        let bytes = blocks.iter().map(Extent::bytes).sum();
        let is_packed = in_place.is_none();
        let run = in_place.unwrap_or_else(|| b.packed(bytes));
        let unit = if run.shape.size == 0 { 1 } else { run.shape.size };
        let mut at = 0;
        let mut take = |bytes: u64| {
            let count = if run.count == 0 { 0 } else { bytes / unit };
            at += count;
            run.part(at - count, count)
        };
        let (mut pairs, mut parts) = (Vec::new(), Vec::new());
        let mut start = 0;
        for members in levels.groups.groups() {
            let mut count = 0;
            for &rank in members {
                let block = blocks[rank as usize];
                let here = take(block.bytes());
                count += here.count;
                pairs.push((here, block));
            }
            parts.push(run.part(start, count));
            start += count;
        }
        InGroupOrder { pairs, parts, is_packed }
    }

    /// The blocks of a group, in the order of its ranks.
    fn of_group(&self, levels: &Levels, group: u32) -> Vec<Extent> {
        let before: usize = (0..group).map(|group| levels.groups.members(group).len()).sum();
        let count = levels.groups.members(group).len();
        self.pairs[before..before + count].iter().map(|(here, _)| *here).collect()
    }

    fn pack(&self, b: &mut Builder) {
        self.pairs.iter().filter(|_| self.is_packed).for_each(|(here, user)| b.copy(*user, *here));
    }

    fn unpack(&self, b: &mut Builder) {
        if self.is_packed {
            b.round();
            self.pairs.iter().for_each(|(here, user)| b.copy(*here, *user));
        }
    }
}

/// Blocks are gathered at the leader of each group, and from there at the root.
pub(super) fn gather(
    b: &mut Builder,
    levels: &Levels,
    root: u32,
    own: Option<Extent>,
    all: Option<Extent>,
) {
    let (root_group, _) = levels.groups.place(root);
    let leader = levels.leader(root);
    let in_group = |own, all| CollArgs::Gather { root: leader, own, all };
    let between = |own, all| CollArgs::Gatherv { root: root_group, own, all };
    let leaders = levels.groups.leaders(root);
    match (all, own) {
        _ if levels.me != leader => levels.in_group(b, &in_group(own, None)),
        (Some(all), own) => {
            let blocks = all.split(levels.groups.size());
            let order = InGroupOrder::new(b, levels, &blocks, Some(all));
            let own = own.or_else(|| order.is_packed.then_some(blocks[root as usize]));
            levels.in_group(b, &in_group(own, Some(order.parts[root_group as usize])));
            levels.between(b, &leaders, &between(None, Some(&order.parts)));
            order.unpack(b);
        }
        (None, Some(own)) if levels.local_size() == 1 => {
            levels.between(b, &leaders, &between(Some(own), None));
        }
        (None, Some(own)) => {
            let temp = b.packed(own.bytes() * u64::from(levels.local_size()));
            levels.in_group(b, &in_group(Some(own), Some(temp)));
            levels.between(b, &leaders, &between(Some(temp), None));
        }
        (None, None) => debug_assert!(false, "only the root gathers in place"),
    }
}

/// The root sends each leader the blocks of its group, which hands them out.
pub(super) fn scatter(
    b: &mut Builder,
    levels: &Levels,
    root: u32,
    all: Option<Extent>,
    own: Option<Extent>,
) {
    let (root_group, _) = levels.groups.place(root);
    let leader = levels.leader(root);
    let in_group = |all, own| CollArgs::Scatter { root: leader, all, own };
    let between = |all, own| CollArgs::Scatterv { root: root_group, all, own };
    let leaders = levels.groups.leaders(root);
    match (all, own) {
        _ if levels.me != leader => levels.in_group(b, &in_group(None, own)),
        (Some(all), own) => {
            let blocks = all.split(levels.groups.size());
            let order = InGroupOrder::new(b, levels, &blocks, Some(all));
            order.pack(b);
            levels.between(b, &leaders, &between(Some(&order.parts), None));
            levels.in_group(b, &in_group(Some(order.parts[root_group as usize]), own));
        }
        (None, Some(own)) if levels.local_size() == 1 => {
            levels.between(b, &leaders, &between(None, Some(own)));
        }
        (None, Some(own)) => {
            let temp = b.packed(own.bytes() * u64::from(levels.local_size()));
            levels.between(b, &leaders, &between(None, Some(temp)));
            levels.in_group(b, &in_group(Some(temp), Some(own)));
        }
        (None, None) => debug_assert!(false, "only the root scatters in place"),
    }
}

/// Blocks are gathered at each leader, exchanged between leaders, and sent to all ranks. `all`: the
/// blocks are equal, and lie there one after the other.
pub(super) fn allgather(
    b: &mut Builder,
    levels: &Levels,
    own: Option<Extent>,
    blocks: &[Extent],
    all: Option<Extent>,
) {
    let own = own.unwrap_or(blocks[levels.rank() as usize]);
    let is_leader = levels.me == 0;
    let order = InGroupOrder::new(b, levels, blocks, all.or_else(|| joined(blocks)));
    if all.is_some() {
        let all = is_leader.then_some(order.parts[levels.group as usize]);
        levels.in_group(b, &CollArgs::Gather { root: 0, own: Some(own), all });
    } else {
        let of_group = is_leader.then(|| order.of_group(levels, levels.group));
        let all = of_group.as_deref();
        levels.in_group(b, &CollArgs::Gatherv { root: 0, own: Some(own), all });
    }
    if is_leader {
        let among_leaders = CollArgs::Allgatherv { own: None, all: &order.parts };
        levels.between(b, &levels.groups.lanes()[0], &among_leaders);
    }
    let data = run_of(&order.parts);
    levels.in_group(b, &CollArgs::Bcast { root: 0, data });
    order.unpack(b);
}

/// Parts that follow each other, as one run.
fn run_of(parts: &[Extent]) -> Extent {
    let count = parts.iter().map(|part| part.count).sum();
    Extent { count, ..parts[0] }
}
