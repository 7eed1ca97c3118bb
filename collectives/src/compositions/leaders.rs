//! Compositions in which one rank of each host speaks for all of them.

use super::Levels;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::shape::{Extent, Shape, Space, Ty};

/// A vector without elements.
const NOTHING: Extent = Extent::new(Space::Temp, Ty::BYTES, 0, Shape::BYTE);

/// Each leader awaits the ranks of its host, then the other leaders, and releases its host.
pub(super) fn barrier(b: &mut Builder, levels: &Levels) {
    let is_leader = levels.me == 0;
    b.keep_empty(true);
    levels.on_host(b, &reduction(0, NOTHING, is_leader.then_some(NOTHING), true));
    if is_leader {
        let leaders = &levels.hosts.lanes()[0];
        levels.between_hosts(b, leaders, &CollArgs::Barrier);
    }
    levels.on_host(b, &CollArgs::Bcast { root: 0, data: NOTHING });
}

/// The root speaks for its host.
pub(super) fn bcast(b: &mut Builder, levels: &Levels, root: u32, data: Extent) {
    let (root_host, root_index) = levels.hosts.place(root);
    let leader = if levels.host == root_host { root_index } else { 0 };
    if levels.me == leader {
        let among_leaders = CollArgs::Bcast { root: root_host, data };
        levels.between_hosts(b, &levels.hosts.leaders(root), &among_leaders);
    }
    levels.on_host(b, &CollArgs::Bcast { root: leader, data });
}

/// The root speaks for its host.
pub(super) fn reduce(
    b: &mut Builder,
    levels: &Levels,
    root: u32,
    (input, output, commutative): (Extent, Option<Extent>, bool),
) {
    let (root_host, root_index) = levels.hosts.place(root);
    let leader = if levels.host == root_host { root_index } else { 0 };
    if levels.me != leader {
        return levels.on_host(b, &reduction(leader, input, None, commutative));
    }
    // A leader alone on its host has its sum already.
    let sum = match (output, levels.local_size()) {
        (Some(output), _) => output,
        (None, 1) => input,
        (None, _) => b.like(input, input.count),
    };
    if sum.span() != input.span() || levels.local_size() > 1 {
        levels.on_host(b, &reduction(leader, input, Some(sum), commutative));
    }
    let among_leaders = reduction(root_host, sum, output, commutative);
    levels.between_hosts(b, &levels.hosts.leaders(root), &among_leaders);
}

/// The sum of each host at its leader, the sum of all at each leader, and from there to all ranks.
pub(super) fn allreduce(
    b: &mut Builder,
    levels: &Levels,
    input: Extent,
    output: Extent,
    commutative: bool,
) {
    let is_leader = levels.me == 0;
    levels.on_host(b, &reduction(0, input, is_leader.then_some(output), commutative));
    if is_leader {
        let among_leaders = CollArgs::Allreduce { input: output, output, commutative };
        levels.between_hosts(b, &levels.hosts.lanes()[0], &among_leaders);
    }
    levels.on_host(b, &CollArgs::Bcast { root: 0, data: output });
}

/// Blocks are gathered at each leader, exchanged between leaders, and sent to all ranks. Where the
/// blocks of a host are not one run of memory, they travel packed, in the order of hosts.
pub(super) fn allgather(b: &mut Builder, levels: &Levels, own: Option<Extent>, all: Extent) {
    let hosts = levels.hosts;
    let blocks = all.split((0..hosts.count()).map(|host| hosts.members(host).len() as u32).sum());
    let my_rank = hosts.members(levels.host)[levels.me as usize];
    let own = own.unwrap_or(blocks[my_rank as usize]);
    let is_packed = !hosts.are_consecutive();
    let whole = if is_packed { b.packed(all.bytes()) } else { all };
    let each = whole.count / blocks.len() as u64;
    let mut start = 0;
    let parts: Vec<Extent> = (0..hosts.count())
        .map(|host| {
            let count = hosts.members(host).len() as u64 * each;
            start += count;
            whole.part(start - count, count)
        })
        .collect();
    let is_leader = levels.me == 0;
    let on_host = is_leader.then_some(parts[levels.host as usize]);
    levels.on_host(b, &CollArgs::Gather { root: 0, own: Some(own), all: on_host });
    if is_leader {
        let among_leaders = CollArgs::Allgatherv { own: None, all: &parts };
        levels.between_hosts(b, &hosts.lanes()[0], &among_leaders);
    }
    levels.on_host(b, &CollArgs::Bcast { root: 0, data: whole });
    if is_packed {
        b.round();
        for (host, part) in (0..).zip(&parts) {
            for (index, &rank) in (0..).zip(&hosts.members(host)[..]) {
                b.copy(part.part(index * each, each), blocks[rank as usize]);
            }
        }
    }
}

fn reduction(
    root: u32,
    input: Extent,
    output: Option<Extent>,
    commutative: bool,
) -> CollArgs<'static> {
    CollArgs::Reduce { root, input, output, commutative }
}
