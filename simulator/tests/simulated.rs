//! Simulated collectives: right results on every rank, times that can be computed by hand, and the
//! same result every time.

use collectives::{Algorithm, Rule, Selection, Thresholds, rule_text};
use fabric::CollectiveKind;
use simulator::machine::LinkKind;
use simulator::{Call, Machine, Operation, Outcome, Simulation, bound};

fn machine(hosts: u32, ranks_per_host: u32, rest: &str) -> Machine {
    let text = format!("[machine]\nhosts = {hosts}\nranks_per_host = {ranks_per_host}\n{rest}");
    Machine::parse(&text, "test").unwrap()
}

fn simulate(machine: &Machine, call: Call, selection: &Selection) -> Outcome {
    let what = format!("{call:?} on {} ranks of {} hosts", machine.ranks, machine.hosts);
    Simulation::new(machine, call, selection, true)
        .and_then(Simulation::run)
        .unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn selection() -> Selection {
    Selection::new(&Thresholds::default())
}

#[test]
fn every_operation_is_right_on_every_shape_of_machine() {
    let shapes = [
        machine(1, 1, ""),
        machine(1, 5, ""),
        machine(3, 1, ""),
        machine(2, 4, ""),
        machine(4, 4, "ranks = 13\n"),
        machine(3, 6, "placement = \"round-robin\"\nhosts_per_switch = 2\n"),
        machine(16, 2, ""),
        machine(2, 1, "hosts_per_switch = 1\n[links.fabric]\nlatency_us = 0.5\n"),
        machine(4, 2, "hosts_per_switch = 2\n[links.fabric]\ngbytes_per_s = 90.0\n"),
        machine(4, 16, "ranks = 21\nplacement = \"round-robin\"\n"),
        machine(1, 8, "[links.host]\ngbytes_per_s = 90.0\n"),
    ];
    for machine in &shapes {
        for operation in Operation::ALL {
            for bytes in [0, 1, 8, 1000, 40_000] {
                for commutative in [true, false] {
                    if !commutative && (!operation.reduces() || bytes % 8 != 0) {
                        continue;
                    }
                    let root = (machine.ranks - 1) / 2;
                    let call = Call { root, commutative, ..Call::new(operation, bytes) };
                    let outcome = simulate(machine, call, &selection());
                    assert!(outcome.is_checked);
                    let bound = bound::lower_bound(machine, &call);
                    assert!(
                        outcome.time >= bound,
                        "{call:?} on {machine:?}: {} is below the bound {bound}",
                        outcome.time
                    );
                }
            }
        }
    }
}

#[test]
fn a_wrong_schedule_is_found() {
    // A sum in any order is no composition: an algorithm that needs commutative operations gives
    // wrong results with one that is not.
    let machine = machine(3, 1, "");
    let call = Call::new(Operation::Allreduce, 64 << 10);
    let mut ring = selection();
    ring.prefer(Rule::new(CollectiveKind::Allreduce, Algorithm::Ring));
    assert!(simulate(&machine, call, &ring).is_checked);
    let wrong = Simulation::new(&machine, Call { root: 3, ..call }, &ring, true);
    assert_eq!(wrong.err().unwrap().to_string(), "invalid root 3: must be 0 to 2");
}

#[test]
fn a_message_takes_the_time_of_its_link() {
    let machine = machine(2, 1, "");
    let link = machine.link(LinkKind::Switch);
    let call = Call::new(Operation::Bcast, 1000);
    let outcome = simulate(&machine, call, &selection());
    assert_eq!(outcome.time, link.one_way(1000));
    assert_eq!(outcome.traffic.within_and_between(), (0, 1));
    assert_eq!(outcome.traffic.bytes(LinkKind::Switch), 1000);
    // Rendezvous: the request crosses first, and the receiver asks for the data.
    let long = simulate(&machine, Call::new(Operation::Bcast, 32 << 10), &selection());
    assert_eq!(long.time, link.one_way(32 << 10) + link.latency + link.latency);
}

#[test]
fn a_binomial_tree_takes_its_depth() {
    let machine = machine(8, 1, "");
    let link = machine.link(LinkKind::Switch);
    let mut binomial = selection();
    binomial.prefer_all(rule_text::parse("bcast=binomial", |_| None).unwrap());
    let outcome = simulate(&machine, Call::new(Operation::Bcast, 8), &binomial);
    assert_eq!(outcome.time, link.one_way(8).times(3));
    assert_eq!(outcome.traffic.within_and_between(), (0, 7));
    // The root sends three messages at once; the last of them goes to a leaf.
    let broad = simulate(&machine, Call::new(Operation::Bcast, 8), &selection());
    assert!(broad.time < outcome.time, "{}", broad.time);
}

/// The default rules, and segments where the machine has them.
fn selection_on(machine: &Machine, rules: &str) -> Selection {
    let mut selection = Selection::new(&machine.thresholds());
    selection.prefer_all(rule_text::parse(rules, |_| None).unwrap());
    selection
}

#[test]
fn a_long_broadcast_over_many_hosts_is_scattered() {
    let tree = "bcast hosts=2 ranks_per_host=2 lanes; bcast hosts=2 radix";
    let times = |machine: &Machine, bytes| {
        let call = Call::new(Operation::Bcast, bytes);
        let [by_tree, chosen] =
            [tree, ""].map(|rules| simulate(machine, call, &selection_on(machine, rules)).time);
        (by_tree, chosen, bound::lower_bound(machine, &call))
    };
    let wide = machine(64, 8, "");
    let (by_tree, chosen, bound) = times(&wide, 1 << 20);
    let text = format!("{chosen}, by a tree {by_tree}, bound {bound}");
    assert!(chosen < by_tree && chosen < bound.times(3), "{text}");
    // The tree of each lane has its inner hosts in other places.
    let (by_tree, chosen, bound) = times(&wide, 128 << 10);
    let text = format!("{chosen}, by a tree {by_tree}, bound {bound}");
    assert!(chosen == by_tree && chosen < bound.times(4), "{text}");
    let alone = machine(64, 1, "");
    let (by_tree, scattered, _) = times(&alone, 1 << 20);
    assert!(scattered.times(3) < by_tree.times(2), "{scattered}, by a tree {by_tree}");
    let (by_tree, chosen, _) = times(&alone, 16 << 10);
    assert_eq!(chosen, by_tree);
}

const FAN: &str = "barrier=fan; bcast=fan; allreduce=fan";

#[test]
fn a_fan_is_right_on_every_shape_of_machine() {
    let sizes = (2..=9).chain([13, 16, 17, 31, 32, 33, 64]);
    for (ranks, hosts) in sizes.flat_map(|ranks| [2, 3, 5, 7, 11, 13].map(|hosts| (ranks, hosts))) {
        if hosts > ranks {
            continue;
        }
        let placement = ["block", "round-robin"][(ranks + hosts) as usize % 2];
        let rest = format!("ranks = {ranks}\nplacement = \"{placement}\"\n");
        let machine = machine(hosts, ranks.div_ceil(hosts), &rest);
        let fan = selection_on(&machine, FAN);
        for operation in [Operation::Barrier, Operation::Bcast, Operation::Allreduce] {
            for (root, bytes) in [(0, 8), (ranks / 2, 0), (ranks - 1, 1000), (ranks / 3, 20_000)] {
                for commutative in [true, false] {
                    let call = Call { root, commutative, ..Call::new(operation, bytes) };
                    let outcome = simulate(&machine, call, &fan);
                    assert!(outcome.is_checked);
                    let bound = bound::lower_bound(&machine, &call);
                    let text = format!("{call:?} on {machine:?}: {} < {bound}", outcome.time);
                    assert!(outcome.time >= bound || bytes == 0, "{text}");
                }
            }
        }
    }
}

#[test]
fn many_hosts_are_reached_in_little_more_than_the_least_time() {
    let machine = machine(256, 8, "");
    let [fans, leaders] = [FAN, "barrier=leaders; bcast=leaders; allreduce=leaders"]
        .map(|rules| selection_on(&machine, rules));
    for (operation, bytes) in
        [(Operation::Barrier, 0), (Operation::Bcast, 8), (Operation::Allreduce, 8)]
    {
        let call = Call::new(operation, bytes);
        let [by_fan, by_leaders, chosen] = [&fans, &leaders, &selection_on(&machine, "")]
            .map(|by| simulate(&machine, call, by).time);
        let bound = bound::lower_bound(&machine, &call);
        let text = format!("{operation:?}: {by_fan}, by leaders {by_leaders}, bound {bound}");
        assert!(by_fan.times(10) < bound.times(13) && bound.times(2) < by_leaders, "{text}");
        assert_eq!(chosen, by_fan);
    }
}

#[test]
fn the_same_call_takes_the_same_time_again() {
    let machine = machine(5, 7, "placement = \"round-robin\"\n");
    let call = Call::new(Operation::Alltoall, 300);
    let times: Vec<_> = (0..3).map(|_| simulate(&machine, call, &selection()).time).collect();
    assert!(times.iter().all(|time| *time == times[0]));
}

#[test]
fn what_would_take_for_ever_is_refused() {
    let wide = machine(1024, 256, "");
    let call = Call::new(Operation::Alltoall, 8192);
    let error = Simulation::new(&wide, call, &selection(), false).err().unwrap().to_string();
    assert!(error.contains("are too many to simulate"), "{error}");
    // The root alone has many.
    let machine = machine(1024, 64, "");
    let call = Call::new(Operation::Gather, 64 << 10);
    assert!(Simulation::new(&machine, call, &selection(), false).is_ok());
}

#[test]
fn the_description_in_the_documentation_is_the_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/simulating.md");
    let page = std::fs::read_to_string(path).unwrap();
    let start = page.find("```toml\n").unwrap() + 8;
    let text = &page[start..start + page[start..].find("```").unwrap()];
    assert_eq!(Machine::parse(text, "page").unwrap(), Machine::parse("", "nothing").unwrap());
}

#[test]
fn hosts_send_no_more_than_they_must() {
    let between = |machine: &Machine, operation, bytes| {
        let outcome = simulate(machine, Call::new(operation, bytes), &selection());
        let kinds = [LinkKind::Switch, LinkKind::Fabric];
        let bytes: u64 = kinds.iter().map(|kind| outcome.traffic.bytes(*kind)).sum();
        (outcome.traffic.within_and_between().1, bytes)
    };
    // One message in each direction, or one vector.
    let two = machine(2, 4, "");
    assert_eq!(between(&two, Operation::Allreduce, 8), (2, 16));
    assert_eq!(between(&two, Operation::Allreduce, 1 << 20).1, 2 << 20);
    assert_eq!(between(&two, Operation::Barrier, 0), (2, 0));
    assert_eq!(between(&two, Operation::Bcast, 8), (1, 8));
    assert_eq!(between(&two, Operation::Bcast, 1 << 20).1, 1 << 20);
    assert_eq!(between(&two, Operation::Reduce, 8), (1, 8));
    assert_eq!(between(&two, Operation::Allgather, 8), (2, 64));
    // Wherever ranks are, each host but the root's gets a broadcast once.
    let scattered = machine(5, 3, "ranks = 13\nplacement = \"round-robin\"\n");
    assert_eq!(between(&scattered, Operation::Bcast, 1000), (4, 4000));
    assert_eq!(between(&scattered, Operation::Reduce, 1000), (4, 4000));
}
