//! Random operations on two communicators, several at once; and the settings that tests share.

use collectives::{Algorithm, CollectiveId, HostSegment, Operation, Rule, Thresholds};
use fabric::CollectiveKind;
use fabric::sim::Options;
use objects::{Comm, Group};

use crate::cases::{Case, all_to_all, one_to_all, reduction};
use crate::placement::any_hosts;
use crate::random::Random;
use crate::world::{World, any_options};

pub(crate) fn any_thresholds(random: &mut Random) -> Thresholds {
    let max = [100, u64::MAX][random.below(2) as usize];
    let host_segment = match random.below(3) {
        0 => None,
        1 => Some(HostSegment::Counter { max }),
        _ => Some(HostSegment::Flags { max }),
    };
    let mut at = || [0, 100, 2000, u64::MAX][random.below(4) as usize];
    let oversubscribed_max = Some(at()).filter(|&at| at != 0);
    Thresholds {
        bcast_long: at(),
        gather_long: at(),
        scatter_long: at(),
        allgather_long: at(),
        alltoall_short: at(),
        reduce_long: at(),
        allreduce_long: at(),
        reduce_scatter_long: at(),
        oversubscribed_max: oversubscribed_max.filter(|&at| at != 2000),
        shm_max: Some(at()).filter(|&at| at != 0),
        get_min: at(),
        shm: at() != 0,
        shm_pieces_max: at(),
        hierarchical: true,
        lanes_min: at(),
        fan_max: at(),
        radix: 2 + (at() % 7) as u32,
        host_segment,
        piece: 1 + at() % 2001,
        window: 2 + (at() % 7) as u32,
        reproducible: at() == 0,
    }
}

/// Thresholds with which each operation that fits uses a segment whose members count in one word.
pub(crate) fn counter() -> Thresholds {
    Thresholds { oversubscribed_max: Some(u64::MAX), ..Thresholds::default() }
}

/// The same thresholds for segments with flags.
pub(crate) fn flags() -> Thresholds {
    Thresholds { shm_max: Some(u64::MAX), ..Thresholds::default() }
}

/// The world, and the world backwards on another context.
pub(crate) fn comms(size: u32) -> [Vec<Comm>; 2] {
    let world = Group::world(size);
    let ranks: Vec<u32> = (0..size).rev().collect();
    let backwards = world.incl(&ranks).unwrap();
    [(1, world), (2, backwards)].map(|(context, group)| {
        (0..size).map(|rank| Comm::new("", context, rank, group.clone())).collect()
    })
}

pub(crate) type Make = fn(&mut World, &[Comm], &mut Random) -> (Case, &'static str);

pub(crate) fn run_any(size: u32, seed: u64) {
    let random = &mut Random(seed);
    let options = any_options(random);
    let thresholds = Thresholds { host_segment: None, ..any_thresholds(random) };
    let world = World::new(size, seed, options, &thresholds);
    run_cases(world, 5, &[reduction, one_to_all, all_to_all], random);
}

/// Ranks on several hosts, with random thresholds.
fn on_any_hosts(size: u32, seed: u64, random: &mut Random) -> World {
    let options = any_options(random);
    let thresholds =
        Thresholds { oversubscribed_max: None, shm_max: None, ..any_thresholds(random) };
    let mut world = World::new(size, seed, options, &thresholds);
    world.place(&any_hosts(size, random));
    world
}

/// Random operations of ranks on several hosts.
fn run_on_hosts(size: u32, seed: u64) {
    let random = &mut Random(seed);
    let world = on_any_hosts(size, seed, random);
    run_cases(world, 8, &[reduction, one_to_all, all_to_all], random);
}

pub(crate) fn run_cases(mut world: World, count: usize, makes: &[Make], random: &mut Random) {
    let size = world.ranks.len() as u32;
    let comms = comms(size);
    let mut cases = Vec::new();
    let mut sequences = [0, 0];
    for _ in 0..count {
        let on = random.below(2) as usize;
        let make = makes[random.below(makes.len() as u64) as usize];
        let (case, what) = make(&mut world, &comms[on], random);
        cases.push((case, what, on, sequences[on]));
        sequences[on] += 1;
    }
    // Each rank starts all of them in order, independently of the others.
    let mut next = vec![0; size as usize];
    let mut ids: Vec<(usize, CollectiveId)> = Vec::new();
    while next.iter().any(|&next| next < cases.len()) {
        let process = random.below(size.into()) as usize;
        if let Some((case, _, on, sequence)) = cases.get(next[process]) {
            let rank = if *on == 0 { process } else { size as usize - 1 - process };
            ids.push((process, world.start(process, case.plans[rank].clone(), *sequence)));
            next[process] += 1;
        }
        if random.below(20) == 0 {
            world.inquire();
        }
        for _ in 0..random.below(10) {
            world.progress(random.below(size.into()) as usize);
        }
    }
    for result in world.finish(&ids, random) {
        assert_eq!(result, Ok(()));
    }
    cases.iter().for_each(|(case, what, ..)| case.check(what));
    assert!(world.ranks.iter().all(|rank| rank.active.is_empty()));
}

pub(crate) fn quiet(size: u32) -> World {
    World::new(size, 1, Options::default(), &Thresholds::default())
}

#[test]
fn every_operation_gives_what_it_should_whatever_the_fabric_does() {
    for_all(&[1, 2, 3, 4, 5, 7, 8, 12], 40, run_any);
}

#[test]
fn every_operation_gives_what_it_should_wherever_ranks_are() {
    for_all(&[2, 3, 4, 5, 6, 7, 8, 9, 13, 16], 40, run_on_hosts);
}

#[test]
fn many_ranks_of_a_host_share_a_segment() {
    for size in [9, 17, 33, 64] {
        for (thresholds, seed) in [(counter(), 1), (flags(), 2)] {
            let random = &mut Random(seed);
            let mut world = World::new(size, seed, Options::default(), &thresholds);
            let comm = &comms(size)[0];
            let plan = world.plan(0, &Operation::Barrier, &comm[0]);
            assert!(plan.schedule().uses_segment(), "{size} ranks of one host");
            run_cases(world, 4, &[reduction, one_to_all, all_to_all], random);
        }
    }
}

/// In a job over several hosts, communicators on one of them use segments as in a job on one host.
#[test]
fn a_host_of_several_is_like_a_host_alone() {
    for max in [HostSegment::Counter { max: u64::MAX }, HostSegment::Flags { max: u64::MAX }] {
        let thresholds = Thresholds { host_segment: Some(max), ..Thresholds::default() };
        for size in [2, 5, 12] {
            let random = &mut Random(size.into());
            let mut world = World::new(size, 3, Options::default(), &thresholds);
            world.place(&vec![0; size as usize]);
            let plan = world.plan(0, &Operation::Barrier, &comms(size)[0][0]);
            assert!(plan.schedule().uses_segment() && plan.schedule().messages().is_empty());
            run_cases(world, 6, &[reduction, one_to_all, all_to_all], random);
        }
    }
}

/// Several ranks of a host send at once, whatever the ranks of each host share.
fn run_fan(size: u32, seed: u64) {
    let random = &mut Random(seed);
    let mut world = on_any_hosts(size, seed, random);
    let kinds = [CollectiveKind::Barrier, CollectiveKind::Bcast, CollectiveKind::Allreduce];
    for rank in &mut world.ranks {
        let rules = kinds.map(|kind| Rule::new(kind, Algorithm::Fan));
        rank.planner.selection_mut().prefer_all(rules.to_vec());
    }
    run_cases(world, 8, &[reduction, one_to_all, all_to_all], random);
}

#[test]
fn several_ranks_of_a_host_send_at_once() {
    for_all(&[2, 3, 5, 8, 9, 13, 17], 40, run_fan);
    // Ranks of a host come together in two rounds.
    for_all(&[40, 53], 8, run_fan);
}

fn for_all(sizes: &[u32], rounds: u64, run: fn(u32, u64)) {
    for &size in sizes {
        for round in 0..rounds {
            let seed = u64::from(size) << 32 | round;
            if let Err(panic) = std::panic::catch_unwind(|| run(size, seed)) {
                eprintln!("failed with {size} ranks, seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn many_rounds_follow_each_other_in_a_segment() {
    for seed in 0..400 {
        let random = &mut Random(seed);
        let size = 2 + random.below(7) as u32;
        let thresholds = if seed % 2 == 0 { counter() } else { flags() };
        let world = World::new(size, seed, Options::default(), &thresholds);
        run_cases(world, 40, &[reduction, one_to_all, all_to_all], random);
    }
}
