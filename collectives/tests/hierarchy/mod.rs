//! A hierarchical allreduce, written as an algorithm would be: a segment within each host, messages
//! between the leaders of hosts, and a second round of the segment with the result.

use collectives::{Builder, CollArgs, Extent, Level, Position, SegSync, Space};
use fabric::coll_segment::{SLOT_ALIGN, SLOT_BYTES};

/// Writes one rank's part. Members of a segment are the ranks of a host in order, which count in
/// one word. Elements have no gaps. Operands keep rank order where the ranks of each host are
/// consecutive.
pub(crate) fn allreduce(b: &mut Builder, args: &CollArgs, pos: Position) {
    let CollArgs::Allreduce { input, output, .. } = *args else { panic!("not an allreduce") };
    let local: Vec<u32> = pos.neighbors(Level::Host).collect();
    let me = local.iter().position(|&rank| rank == pos.rank).unwrap() as u32;
    b.reserve_slot(input.bytes());
    reduce_on_host(b, me, local.len() as u32, input, (me == 0).then_some(output));
    if me == 0 {
        exchange(b, pos, output);
    }
    b.sync(SegSync::Next);
    bcast_on_host(b, me, output);
}

/// The sum of a host, at its leader.
fn reduce_on_host(b: &mut Builder, me: u32, members: u32, input: Extent, output: Option<Extent>) {
    let result = Extent { space: Space::CollSegment, disp: 0, ..input };
    let distance = input.bytes().next_multiple_of(SLOT_ALIGN) as i64;
    b.sync(SegSync::Acquire);
    b.copy(input, slot(me, input));
    b.sync(SegSync::Arrive);
    b.copy(slot(members - 1, input), result);
    b.reduce_strided(slot(0, input), members - 1, distance, result);
    if let Some(output) = output {
        b.sync(SegSync::WaitAll);
        b.copy(result, output);
    }
}

/// The sum of all hosts, at each leader: they send their sums to each other.
fn exchange(b: &mut Builder, pos: Position, output: Extent) {
    let mut sums = Vec::new();
    for leader in pos.leaders(Level::Host) {
        sums.push((leader, b.like(output, output.count)));
        if leader == pos.rank {
            b.copy(output, sums[sums.len() - 1].1);
        }
    }
    for &(leader, sum) in sums.iter().filter(|(leader, _)| *leader != pos.rank) {
        b.recv(leader, sum);
        b.send(leader, output);
    }
    let (&(_, last), before) = sums.split_last().unwrap();
    b.copy(last, output);
    before.iter().rev().for_each(|&(_, sum)| b.reduce(sum, output));
}

/// The leader's data to all ranks of its host.
fn bcast_on_host(b: &mut Builder, me: u32, output: Extent) {
    if me == 0 {
        b.sync(SegSync::Acquire);
        b.copy(output, slot(0, output));
        b.sync(SegSync::SignalEarly);
    } else {
        b.sync(SegSync::WaitFor(0.into()));
        b.copy(slot(0, output), output);
        b.sync(SegSync::Arrive);
    }
}

/// Where a member's data lies in the segment.
fn slot(member: u32, like: Extent) -> Extent {
    let distance = like.bytes().next_multiple_of(SLOT_ALIGN);
    let disp = SLOT_BYTES.end() + u64::from(member) * distance;
    Extent { space: Space::CollSegment, disp: disp as i64, ..like }
}
