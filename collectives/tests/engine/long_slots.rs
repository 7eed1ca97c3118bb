//! Long slots of a segment whose members count in one word, and vectors that go through them in
//! pieces.

use collectives::Thresholds;
use fabric::coll_segment::{LONG_SLOTS_BYTES, SLOTS_BYTES};

use crate::cases::{all_to_all, one_to_all, reduction};
use crate::random::Random;
use crate::runs::{Make, comms};
use crate::world::{World, any_options};

/// Runs blocking calls one after the other. Returns how many of them needed long slots, and how
/// many went through the segment in pieces.
fn run(size: u32, seed: u64, is_refused: bool) -> [usize; 2] {
    let random = &mut Random(seed);
    let thresholds = Thresholds { oversubscribed_max: Some(64 << 10), ..Thresholds::default() };
    let mut world = World::new(size, seed, any_options(random), &thresholds);
    let (short, long) = (SLOTS_BYTES / 8 / u64::from(size), LONG_SLOTS_BYTES / 8 / u64::from(size));
    world.counts = [0, 5, short, short + 1, long, long + long / 2 + 3];
    world.is_blocking = true;
    if is_refused {
        world.refuse_long_slots();
    }
    let comm = &comms(size)[0];
    let (mut needed, mut in_pieces) = (0, 0);
    for sequence in 0..12 {
        let make: Make =
            [one_to_all, reduction, all_to_all][[0, 0, 1, 1, 1, 2][random.below(6) as usize]];
        let (case, what) = make(&mut world, comm, random);
        let schedules = || case.plans.iter().map(|plan| plan.schedule());
        needed += usize::from(schedules().all(|schedule| schedule.needs_long_slots()));
        in_pieces += usize::from(schedules().all(|schedule| schedule.segment_rounds() > 1));
        let same =
            schedules().all(|of| of.segment_rounds() == case.plans[0].schedule().segment_rounds());
        assert!(same, "{what}: the ranks go through equally many rounds");
        let start = |(rank, plan)| (rank, world.start(rank, plan, sequence));
        let ids: Vec<_> = case.plans.iter().cloned().enumerate().map(start).collect();
        assert!(world.finish(&ids, random).iter().all(Result::is_ok), "{what}");
        case.check(what);
    }
    assert!(world.ranks.iter().all(|rank| rank.active.is_empty()));
    [needed, in_pieces]
}

const SIZES: [u32; 5] = [2, 3, 4, 7, 8];

#[test]
fn long_vectors_and_blocks_go_through_long_slots() {
    for size in SIZES {
        let runs = (0..4).map(|seed| run(size, seed, false));
        let [needed, in_pieces] = runs.reduce(|a, b| [a[0] + b[0], a[1] + b[1]]).unwrap();
        assert!(
            needed > 0 && in_pieces > 0,
            "{size} ranks: {needed} needed them, {in_pieces} in pieces"
        );
    }
}

#[test]
fn where_there_is_no_memory_for_long_slots_messages_take_their_place() {
    for size in SIZES {
        assert!((0..2).all(|seed| run(size, seed, true)[0] == 0));
    }
}
