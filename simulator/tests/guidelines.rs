//! The built-in selection of algorithms keeps the guidelines of performance on machines of many
//! shapes.

use collectives::{Algorithm, Rule, Selection};
use fabric::CollectiveKind;
use simulator::guideline::{self, Violation};
use simulator::{Machine, Operation};

/// Bytes that a rank may have in a buffer.
const MAX_BYTES: u64 = 64 << 20;

fn violations(machine: &Machine, selection: &Selection) -> Vec<Violation> {
    let sizes: Vec<u64> = (3..=20).map(|power| 1 << power).collect();
    guideline::violations(machine, selection, &sizes, MAX_BYTES).unwrap()
}

/// The most by which a call of the built-in selection takes longer on machines of these shapes.
fn worst(shapes: &[(u32, u32)]) -> f64 {
    let mut worst: f64 = 0.0;
    for &(hosts, ranks) in shapes {
        let machine = Machine::cluster(hosts, ranks).unwrap();
        for line in violations(&machine, &Selection::new(&machine.thresholds())) {
            println!("{hosts} x {ranks}, {:.2}: {line:?}", line.factor());
            worst = worst.max(line.factor());
        }
    }
    worst
}

#[test]
fn collectives_between_hosts_take_little_longer_than_others_that_do_the_same() {
    // At the limit of eager messages one of the two may pay for a rendezvous alone.
    let hosts = [2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 32, 33, 64];
    assert!(worst(&hosts.map(|hosts| (hosts, 1))) < 1.6);
}

#[test]
fn collectives_over_hosts_take_at_most_twice_as_long_as_others_that_do_the_same() {
    assert!(worst(&[(2, 2), (2, 4), (3, 6), (4, 8), (16, 8), (7, 3)]) < 2.0);
}

#[test]
fn a_slow_choice_is_found() {
    let machine = Machine::cluster(16, 1).unwrap();
    let mut selection = Selection::new(&machine.thresholds());
    selection.prefer(Rule::new(CollectiveKind::Allgather, Algorithm::Ring));
    let found = violations(&machine, &selection);
    let is_slow = |line: &&Violation| line.call.operation == Operation::Allgather;
    let worst = found.iter().filter(is_slow).map(Violation::factor).fold(0.0, f64::max);
    assert!(worst > 4.0, "{worst}");
}
