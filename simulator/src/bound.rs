//! Lower bounds: what no algorithm can beat on a machine of the same costs.
//!
//! Three things bound a collective. Word must get from one host to all others, at best along the
//! greedy tree in which each informed host informs others as fast as it can (Karp et al., "Optimal
//! broadcast and summation in the LogP model", 1993). One rank of a host is informed first; each
//! rank pays its overhead for each message, and all share the gap of the adapter. The adapter of
//! some host must move a least number of bytes. And the processors must combine operands, and copy
//! where they share an adapter. The bound is the largest of the three; therefore it may be too low,
//! never too high.

use std::collections::BinaryHeap;

use crate::call::{Call, Operation};
use crate::machine::{LinkKind, Machine, Placement};
use crate::time::{Link, Time};

/// The least time of a call on a machine.
pub fn lower_bound(machine: &Machine, call: &Call) -> Time {
    let is_empty = call.bytes == 0 && call.operation != Operation::Barrier;
    if machine.ranks == 1 || is_empty {
        return Time::ZERO;
    }
    latency_bound(machine, call).max(byte_bound(machine, call)).max(work_bound(machine, call))
}

/// Word from one rank to all others, from all to one, or from each to each.
fn latency_bound(machine: &Machine, call: &Call) -> Time {
    // What the call moves in one message at the very least: one element.
    let bytes = if call.operation == Operation::Barrier { 0 } else { call.bytes.min(8) };
    let near = Near::new(machine);
    let from_all = match call.operation {
        Operation::Bcast | Operation::Reduce | Operation::Gather | Operation::Scatter => false,
        Operation::Barrier
        | Operation::Allreduce
        | Operation::Allgather
        | Operation::Alltoall
        | Operation::ReduceScatter => true,
    };
    let network = network(machine);
    let ranks = largest_host(machine);
    let word = Word { link: &network, bytes, ranks, near: &near, from_all };
    let hosts = machine.used_hosts();
    // Hosts at other switches: on the way to each of them there is a longer link at least once.
    let elsewhere = hosts.saturating_sub(machine.hosts_per_switch);
    let longer = machine.link(LinkKind::Fabric).latency.0.saturating_sub(network.latency.0);
    let farthest = word.reaches(elsewhere) + Time(if elsewhere > 0 { longer } else { 0 });
    word.reaches(hosts - 1).max(farthest).max(near.all())
}

/// The least of each cost of the links between hosts that are in use.
fn network(machine: &Machine) -> Link {
    let (hosts, each) = (machine.used_hosts(), machine.hosts_per_switch);
    let kinds = [(LinkKind::Switch, each > 1), (LinkKind::Fabric, hosts > each)];
    let used = kinds.into_iter().filter(|(_, is_used)| *is_used).map(|(kind, _)| kind);
    used.map(|kind| *machine.link(kind))
        .reduce(Link::least)
        .unwrap_or_else(|| *machine.link(LinkKind::Switch))
}

/// The least time for a byte that a rank copies within a host.
fn copy_per_byte(machine: &Machine) -> f64 {
    let kinds = [LinkKind::Cache, LinkKind::Package, LinkKind::Host];
    kinds.map(|kind| machine.link(kind).per_byte).into_iter().fold(machine.copy_per_byte, f64::min)
}

/// The most ranks that a host has.
fn largest_host(machine: &Machine) -> u32 {
    match machine.placement {
        Placement::Block => machine.ranks_per_host.min(machine.ranks),
        Placement::RoundRobin => machine.ranks.div_ceil(machine.hosts),
    }
}

/// Which part of the ranks of a host knows of something that one of them learns, at the most, from
/// so much time after that on. The first is that rank itself; the last are all.
struct Near(Vec<(Time, f64)>);

impl Near {
    fn new(machine: &Machine) -> Near {
        let ranks = machine.ranks_per_host;
        if machine.ranks != machine.used_hosts() * ranks {
            // Hosts with fewer ranks: as if all ranks were as near as the nearest.
            return Near(vec![(Time::ZERO, 1.0)]);
        }
        let on_cache = ranks.div_ceil(machine.packages * machine.caches);
        let on_package = on_cache.saturating_mul(machine.caches);
        // Word may take a way round, over farther links.
        let latency = |kinds: &[LinkKind]| {
            kinds.iter().map(|&kind| machine.link(kind).latency).min().unwrap_or_default()
        };
        let kinds = [LinkKind::Cache, LinkKind::Package, LinkKind::Host];
        let part = |count: u32| f64::from(count.min(ranks)) / f64::from(ranks);
        let mut steps = vec![(Time::ZERO, part(1))];
        let counts = [on_cache, on_package, ranks];
        steps.extend((0..).zip(counts).map(|(at, count)| (latency(&kinds[at..]), part(count))));
        let reached = steps.iter().position(|(_, part)| *part == 1.0).unwrap_or(steps.len() - 1);
        steps.truncate(reached + 1);
        Near(steps)
    }

    /// How much the part grows, and when.
    fn gains(&self) -> impl Iterator<Item = (Time, f64)> {
        let before = std::iter::once(0.0).chain(self.0.iter().map(|(_, part)| *part));
        self.0.iter().zip(before).map(|((at, part), before)| (*at, part - before))
    }

    /// The least time until a second rank knows.
    fn second(&self) -> Time {
        self.0.get(1).map_or(Time::ZERO, |(at, _)| *at)
    }

    /// The time until all ranks of a host know.
    fn all(&self) -> Time {
        self.0.last().map_or(Time::ZERO, |(at, _)| *at)
    }
}

/// Word that goes from host to host.
struct Word<'a> {
    link: &'a Link,
    bytes: u64,
    /// Of each host.
    ranks: u32,
    near: &'a Near,
    /// There is word of each rank, otherwise of one.
    from_all: bool,
}

/// What happens, in the order of time.
enum Event {
    /// Ranks learn of it: so many hosts' worth.
    Gain(f64),
    /// A host sends a message.
    Send(Sender),
}

/// A host that sends word on.
struct Sender {
    /// When its first rank was informed.
    informed: Time,
    /// The part of all word that it has.
    part: f64,
    /// Of its next message.
    index: u32,
    /// It was the first: its ranks need not tell each other.
    is_first: bool,
}

/// An event of the heap, the earliest first.
struct At(Time, Event);

impl PartialEq for At {
    fn eq(&self, other: &At) -> bool {
        self.0 == other.0
    }
}

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &At) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &At) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

impl Word<'_> {
    /// The least time until all ranks of `hosts` other hosts have word from a host.
    ///
    /// Each message of the host, and each message that one of its receivers sends, and so on, is a
    /// way that word may take. The ranks that it brings word of are at most those near its first
    /// sender, and the ranks that it brings word to those near its last receiver. All ways together
    /// must bring word of all ranks to all ranks. What [`Near`] has from a time on is in messages
    /// that start after that time; the adapter and the ranks of the host bound how many these are.
    fn reaches(&self, hosts: u32) -> Time {
        let first = |(informed, part)| {
            At(informed, Event::Send(Sender { informed, part, index: 0, is_first: self.from_all }))
        };
        let mut heap: BinaryHeap<At> = match self.from_all {
            true => self.near.gains().map(first).collect(),
            false => BinaryHeap::from([first((Time::ZERO, 1.0))]),
        };
        // Rounding must not make it later.
        let mut left = f64::from(hosts) - 1e-6;
        while left > 0.0 {
            let Some(At(now, event)) = heap.pop() else { break };
            let sender = match event {
                Event::Send(sender) => sender,
                Event::Gain(hosts) => {
                    left -= hosts;
                    if left <= 0.0 {
                        return now;
                    }
                    continue;
                }
            };
            let Sender { informed, part, index, is_first } = sender;
            let next = informed + self.send_start(index + 1, is_first);
            heap.push(At(next, Event::Send(Sender { index: index + 1, ..sender })));
            let informed = now + self.link.one_way(self.bytes);
            let receiver = Sender { informed, part, index: 0, is_first: false };
            heap.push(At(informed, Event::Send(receiver)));
            let gains = self.near.gains();
            heap.extend(gains.map(|(after, gain)| At(informed + after, Event::Gain(gain * part))));
        }
        Time::ZERO
    }

    /// The least time from the moment when its first rank is informed to the start of message
    /// `index` to another host. The messages before it have taken the adapter; some rank has sent
    /// its share of them; and a second one comes from another rank, or from the first once more,
    /// unless the host is the first (`is_first`), whose ranks all have something to send.
    fn send_start(&self, index: u32, is_first: bool) -> Time {
        let by_adapter = self.link.occupied(self.bytes).times(index.into());
        let by_ranks = self.link.overhead.times((index / self.ranks).into());
        let waits = index > 0 && !is_first;
        let second = if waits { self.near.second().min(self.link.overhead) } else { Time::ZERO };
        let second = if self.ranks == 1 { Time::ZERO } else { second };
        by_adapter.max(by_ranks).max(second)
    }
}

/// Bytes through the adapter of a host in one direction, or bytes that one rank copies.
fn byte_bound(machine: &Machine, call: &Call) -> Time {
    let hosts = u64::from(machine.used_hosts());
    let ranks = u64::from(machine.ranks);
    let on_host = u64::from(largest_host(machine));
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
        let link = network(machine);
        return link.latency + link.transfer(bytes);
    }
    let moved = match call.operation {
        Operation::Barrier => 0,
        Operation::Gather | Operation::Allgather | Operation::Alltoall => call.bytes * (ranks - 1),
        // Receivers copy at the same time.
        _ => call.bytes,
    };
    Time((moved as f64 * copy_per_byte(machine)) as u64)
}

/// The work of all processors, shared equally.
///
/// Of P vectors, P - 1 are combined. Each rank obtains the result: through the adapter of its host,
/// by copying, or by combining operands itself.
fn work_bound(machine: &Machine, call: &Call) -> Time {
    let (ranks, hosts) = (f64::from(machine.ranks), f64::from(machine.used_hosts()));
    let others = (ranks - 1.0) / ranks * call.bytes as f64;
    let reduce = machine.reduce_per_byte;
    let copy = copy_per_byte(machine);
    let (work, obtain) = match call.operation {
        Operation::Reduce => (reduce, 0.0),
        Operation::Allreduce => (reduce, copy.min(reduce)),
        Operation::Bcast => (0.0, copy),
        _ => return Time::ZERO,
    };
    // While a rank copies a byte, the adapters bring so many for each rank.
    let adapter = match machine.used_hosts() {
        1 => 0.0,
        _ => obtain / (network(machine).per_byte * ranks / hosts),
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
        let (link, near) = (link(6.0, 2.0, 4.0), Near(vec![(Time::ZERO, 1.0)]));
        let word = Word { link: &link, bytes: 0, ranks: 1, near: &near, from_all: false };
        assert_eq!(word.reaches(7), Time::from_us(24.0));
        assert_eq!(word.reaches(0), Time::ZERO);
    }

    #[test]
    fn ranks_of_a_host_share_the_adapter_and_pay_for_each_message() {
        let us = Time::from_us;
        let near = Near(vec![(us(0.0), 0.5), (us(1.0), 1.0)]);
        let starts = |ranks, overhead, gap, all_know| {
            let link = link(6.0, overhead, gap);
            let word = Word { link: &link, bytes: 0, ranks, near: &near, from_all: false };
            [0, 1, 2, 3, 4].map(|index| word.send_start(index, all_know))
        };
        // Two ranks send a message each every 3 us, the second from when it is informed.
        assert_eq!(starts(2, 3.0, 0.1, false), [0.0, 1.0, 3.0, 3.0, 6.0].map(us));
        assert_eq!(starts(2, 3.0, 0.1, true), [0.0, 0.1, 3.0, 3.0, 6.0].map(us));
        assert_eq!(starts(2, 3.0, 4.0, false), [0.0, 4.0, 8.0, 12.0, 16.0].map(us));
        // The first rank may be done with its first message before another one is informed.
        assert_eq!(starts(8, 0.5, 0.1, false), [0.0, 0.5, 0.5, 0.5, 0.5].map(us));
    }

    #[test]
    fn word_of_all_ranks_takes_longer_than_word_of_one() {
        // Two hosts of two ranks at 1 us; each message takes 10 us, and the adapter 2 us.
        let us = Time::from_us;
        let (link, near) = (link(6.0, 2.0, 2.0), Near(vec![(us(0.0), 0.5), (us(1.0), 1.0)]));
        let least = |from_all| {
            let word = Word { link: &link, bytes: 0, ranks: 2, near: &near, from_all };
            word.reaches(1)
        };
        // One rank is told, and tells the other one.
        assert_eq!(least(false), us(11.0));
        // Word of the second rank leaves after 1 us, as it must be told to the first one.
        assert_eq!(least(true), us(12.0));
    }

    #[test]
    fn hosts_at_other_switches_are_farther() {
        let text = "[machine]\nhosts = 4\nranks_per_host = 1\nhosts_per_switch = 2\n";
        let least = |text: &str| {
            let machine = Machine::parse(text, "test").unwrap();
            lower_bound(&machine, &Call::new(Operation::Barrier, 0))
        };
        let near = least(&text.replace("switch = 2", "switch = 4"));
        // Two of four hosts are at the other switch: word for one of them goes the long way, at
        // best while the first host informs its neighbour.
        assert_eq!((near, least(text)), (Time::from_us(1.6), Time::from_us(1.8)));
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
