//! Lower bounds: what no algorithm can beat on a machine of the same costs.
//!
//! Three things bound a collective. Word must get from one host to all others, at best along the
//! greedy tree in which each informed host informs others as fast as it can (Karp et al., "Optimal
//! broadcast and summation in the LogP model", 1993). One rank of a host is informed first; each
//! rank pays its overhead for each message, and all share the gap of the adapter. The adapter of
//! some host must move a least number of bytes. And the processors must combine operands, and copy
//! where they share an adapter. The bound is the largest of the three; therefore it may be too low,
//! never too high.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::call::{Call, Operation};
use crate::machine::{LinkKind, Machine};
use crate::time::{Link, Time};

/// The least time of a call on a machine.
pub fn lower_bound(machine: &Machine, call: &Call) -> Time {
    if machine.ranks == 1 {
        return Time::ZERO;
    }
    latency_bound(machine, call).max(byte_bound(machine, call)).max(work_bound(machine, call))
}

/// Word from one rank to all others, or from all to one.
fn latency_bound(machine: &Machine, call: &Call) -> Time {
    // What the call moves in one message at the very least: one element.
    let bytes = if call.operation == Operation::Barrier { 0 } else { call.bytes.min(8) };
    let within =
        if machine.ranks_per_host > 1 { machine.link(LinkKind::Cache).latency } else { Time::ZERO };
    let network = machine.link(LinkKind::Switch);
    let host = Host { link: network, ranks: machine.ranks_per_host, within };
    greedy_tree(machine.used_hosts(), &host, bytes) + within
}

/// A host that informs others.
struct Host<'a> {
    link: &'a Link,
    ranks: u32,
    /// The least time from its first informed rank to another one.
    within: Time,
}

impl Host<'_> {
    /// The least time from the moment when its first rank is informed to the start of message
    /// `index` to another host. The messages before it have taken the adapter; some rank has sent
    /// its share of them; and a second one comes from another rank, or from the first once more.
    fn send_start(&self, index: u32, bytes: u64) -> Time {
        let by_adapter = self.link.occupied(bytes).times(index.into());
        let by_ranks = self.link.overhead.times((index / self.ranks).into());
        let second = if index > 0 { self.within.min(self.link.overhead) } else { Time::ZERO };
        by_adapter.max(by_ranks).max(second)
    }
}

/// The time until the last of `nodes` hosts is informed.
fn greedy_tree(nodes: u32, host: &Host, bytes: u64) -> Time {
    // When a host can send next, how many messages it has sent, and when it was informed.
    let mut ready = BinaryHeap::from([Reverse((Time::ZERO, 0, Time::ZERO))]);
    let mut last = Time::ZERO;
    for _ in 1..nodes {
        let Some(Reverse((at, sent, informed))) = ready.pop() else { break };
        last = at + host.link.one_way(bytes);
        ready.push(Reverse((informed + host.send_start(sent + 1, bytes), sent + 1, informed)));
        ready.push(Reverse((last, 0, last)));
    }
    last
}

/// Bytes through the adapter of a host in one direction, or bytes that one rank copies.
fn byte_bound(machine: &Machine, call: &Call) -> Time {
    let hosts = u64::from(machine.used_hosts());
    let ranks = u64::from(machine.ranks);
    let on_host = u64::from(machine.ranks_per_host).min(ranks);
    let elsewhere = ranks - on_host;
    let bytes = match call.operation {
        Operation::Barrier => 0,
        Operation::Bcast | Operation::Reduce => call.bytes,
        // Each host sends and receives its share of all pieces twice (Patarasuk and Yuan, 2009).
        Operation::Allreduce => 2 * call.bytes * (hosts - 1) / hosts,
        Operation::Gather | Operation::Scatter | Operation::Allgather => call.bytes * elsewhere,
        Operation::Alltoall => call.bytes * on_host * elsewhere,
        // A host sends one sum for each rank elsewhere.
        Operation::ReduceScatter => call.bytes * elsewhere,
    };
    if hosts > 1 {
        let link = machine.link(LinkKind::Switch);
        return link.latency + link.transfer(bytes);
    }
    let moved = match call.operation {
        Operation::Barrier => 0,
        Operation::Gather | Operation::Allgather | Operation::Alltoall => call.bytes * (ranks - 1),
        // Receivers copy at the same time.
        _ => call.bytes,
    };
    let rate = machine.copy_per_byte.min(machine.link(LinkKind::Cache).per_byte);
    Time((moved as f64 * rate) as u64)
}

/// The work of all processors, shared equally.
///
/// Of P vectors, P - 1 are combined. Each rank obtains the result: through the adapter of its host,
/// by copying, or by combining operands itself.
fn work_bound(machine: &Machine, call: &Call) -> Time {
    let (ranks, on_host) = (f64::from(machine.ranks), f64::from(machine.ranks_per_host));
    let others = (ranks - 1.0) / ranks * call.bytes as f64;
    let reduce = machine.reduce_per_byte;
    let copy = machine.copy_per_byte.min(machine.link(LinkKind::Cache).per_byte);
    let (work, obtain) = match call.operation {
        Operation::Reduce => (reduce, 0.0),
        Operation::Allreduce => (reduce, copy.min(reduce)),
        Operation::Bcast => (0.0, copy),
        _ => return Time::ZERO,
    };
    // While a rank copies a byte, the adapter brings so many to each rank of the host.
    let adapter = match machine.used_hosts() {
        1 => 0.0,
        _ => obtain / (machine.link(LinkKind::Switch).per_byte * on_host),
    };
    Time((others * (work + obtain) / (1.0 + adapter)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(latency: f64, overhead: f64, gap: f64) -> Link {
        let us = Time::from_us;
        Link { latency: us(latency), overhead: us(overhead), gap: us(gap), per_byte: 0.0 }
    }

    #[test]
    fn the_greedy_tree_is_that_of_the_paper() {
        // Figure 1 of Karp et al.: P = 8, L = 6, g = 4, o = 2 takes 24 cycles.
        let host = Host { link: &link(6.0, 2.0, 4.0), ranks: 1, within: Time::ZERO };
        assert_eq!(greedy_tree(8, &host, 0), Time::from_us(24.0));
        assert_eq!(greedy_tree(1, &host, 0), Time::ZERO);
    }

    #[test]
    fn ranks_of_a_host_share_the_adapter_and_pay_for_each_message() {
        let us = Time::from_us;
        let host = |ranks, overhead, gap| {
            let (link, within) = (link(6.0, overhead, gap), us(1.0));
            let host = Host { link: &link, ranks, within };
            [0, 1, 2, 3, 4].map(|index| host.send_start(index, 0))
        };
        // Two ranks send a message each every 3 us, the second from when it is informed.
        assert_eq!(host(2, 3.0, 0.1), [0.0, 1.0, 3.0, 3.0, 6.0].map(us));
        assert_eq!(host(2, 3.0, 4.0), [0.0, 4.0, 8.0, 12.0, 16.0].map(us));
        // The first rank may be done with its first message before another one is informed.
        assert_eq!(host(8, 0.5, 0.1), [0.0, 0.5, 0.5, 0.5, 0.5].map(us));
    }

    #[test]
    fn large_vectors_are_bound_by_the_adapter() {
        let machine = Machine::cluster(4, 2).unwrap();
        let call = Call::new(Operation::Allreduce, 1 << 20);
        let all = machine.link(LinkKind::Switch).transfer(1 << 20).times(3);
        assert!(lower_bound(&machine, &call) >= Time(all.0 / 2));
        assert_eq!(lower_bound(&Machine::cluster(1, 1).unwrap(), &call), Time::ZERO);
    }
}
