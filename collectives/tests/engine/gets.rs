//! Ranks that read each other's memory.

use collectives::{Algorithm, Rule};
use fabric::CollectiveKind;

use crate::cases::{all_to_all, one_to_all};
use crate::random::Random;
use crate::runs::{comms, counter, flags};
use crate::world::{World, any_options};

/// Runs blocking calls one after the other. A rank to which gets are refused makes all of them
/// begin anew, and later calls go by messages. Returns whether any call has read memory.
fn run(size: u32, seed: u64, refused: Option<usize>) -> bool {
    let random = &mut Random(seed);
    let options = any_options(random);
    let thresholds = if seed.is_multiple_of(2) { counter() } else { flags() };
    let mut world = World::new(size, seed, options, &thresholds);
    let kinds = [CollectiveKind::Allgather, CollectiveKind::Alltoall];
    world.prefer(&kinds.map(|kind| Rule::new(kind, Algorithm::SegmentGet)));
    world.permit_gets(refused);
    world.is_blocking = true;
    let comm = &comms(size)[0];
    let mut gets = false;
    for sequence in 0..12 {
        let make = if random.below(3) == 0 { one_to_all } else { all_to_all };
        let (case, what) = make(&mut world, comm, random);
        let has_gets = case.plans.iter().any(|plan| plan.schedule().has_gets());
        assert!(!(refused.is_some() && gets && has_gets), "{what} gets again");
        gets |= has_gets;
        let mut ids = Vec::new();
        for (rank, plan) in case.plans.iter().enumerate() {
            ids.push((rank, world.start(rank, plan.clone(), sequence)));
        }
        assert!(world.finish(&ids, random).iter().all(Result::is_ok), "{what}");
        case.check(what);
    }
    assert!(world.ranks.iter().all(|rank| rank.active.is_empty()));
    gets
}

#[test]
fn ranks_read_each_others_memory() {
    for size in [2, 3, 4, 5, 7, 8] {
        let gets = (0..20).filter(|&seed| run(size, seed, None)).count();
        assert!(gets > 10, "{gets} of 20 runs read memory");
    }
}

#[test]
fn where_one_rank_is_refused_all_begin_anew() {
    for size in [2, 3, 4, 5, 7, 8] {
        let refused = |seed| Some(seed as usize % size as usize);
        let gets = (0..20).filter(|&seed| run(size, seed, refused(seed))).count();
        assert!(gets > 10, "{gets} of 20 runs read memory");
    }
}
