//! Persistent and detached collectives, plans that are reused, and user functions.

use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::Arc;

use collectives::{Algorithm, Edges, HostSegment, Operation, Plan, Rule, Thresholds};
use fabric::sim::Options;
use fabric::{CollectiveKind, Peer};
use objects::op::{UserFunction, UserOp};
use objects::{Datatype, Op};
use pt2pt::Fault;

use crate::cases::{INT64, Inputs, Layout, compose, inputs, reduced, user_op};
use crate::placement::any_hosts;
use crate::random::Random;
use crate::runs::{comms, counter, flags, quiet};
use crate::world::{Bytes, World, any_options, packed};

#[test]
fn a_persistent_collective_is_planned_once_and_started_often() {
    let (mut world, random, comms) = (quiet(4), &mut Random(7), comms(4));
    let inputs = inputs(4, 10, random, |_| false);
    let plans: Vec<Plan> = (0..4)
        .map(|rank| {
            let operation = Operation::Allreduce { vector: inputs.vector(rank, true), count: 10 };
            world.plan(rank, &operation, &comms[0][rank])
        })
        .collect();
    for sequence in 0..20 {
        let vectors: Vec<Vec<u8>> = (0..4).map(|_| random.bytes(80)).collect();
        for (vector, send) in vectors.iter().zip(&inputs.send) {
            send.as_ref().unwrap().fill(0, 10, &inputs.datatype, vector);
        }
        let ids: Vec<_> =
            (0..4).map(|rank| (rank, world.start(rank, plans[rank].clone(), sequence))).collect();
        assert!(world.finish(&ids, random).iter().all(Result::is_ok));
        let wanted = reduced(&vectors, &inputs.op);
        (0..4).for_each(|rank| assert_eq!(packed(&inputs.result(rank, 10)), wanted));
    }
}

#[test]
fn persistent_collectives_are_started_in_any_order() {
    const STARTS: usize = 30;
    for thresholds in [Thresholds::default(), counter(), flags()] {
        let options = Options { max_delay: 20, ..Options::default() };
        let (mut world, random) = (World::new(3, 5, options, &thresholds), &mut Random(11));
        let comms = comms(3);
        let sets = [1, 10, 3000].map(|count| (count, inputs(3, count, random, |_| false)));
        let plans: Vec<Vec<Plan>> = (0..3)
            .map(|rank| {
                let plan = |(count, inputs): &(u64, Inputs)| {
                    let vector = inputs.vector(rank, true);
                    let operation = Operation::Allreduce { vector, count: *count };
                    let plan = world.plan_persistent(rank, &operation, &comms[0][rank]);
                    assert!(!plan.schedule().uses_segment());
                    plan
                };
                sets.iter().map(plan).collect()
            })
            .collect();
        // What each rank has running of each, and how often it has been started.
        let (mut running, mut starts) = ([[None; 3]; 3], [[0; 3]; 3]);
        while starts != [[STARTS; 3]; 3] || running != [[None; 3]; 3] {
            let (rank, which) = (random.below(3) as usize, random.below(3) as usize);
            world.progress(rank);
            let (count, inputs) = &sets[which];
            let vector = |rank: usize, start| random_bytes(rank, which, start, 8 * count);
            match &mut running[rank][which] {
                Some(id) if world.ranks[rank].active.is_complete(*id) => {
                    assert_eq!(world.ranks[rank].active.finish(*id), Some(Ok(())));
                    running[rank][which] = None;
                    let start = starts[rank][which];
                    let vectors: Vec<_> = (0..3).map(|rank| vector(rank, start)).collect();
                    let result = packed(&inputs.result(rank, *count));
                    assert!(result == reduced(&vectors, &inputs.op), "start {start}");
                }
                id @ None if starts[rank][which] < STARTS => {
                    starts[rank][which] += 1;
                    let (plan, number) = (plans[rank][which].clone(), -1 - which as i32);
                    let data = vector(rank, starts[rank][which]);
                    let send = inputs.send[rank].as_ref().unwrap();
                    send.fill(0, *count, &inputs.datatype, &data);
                    *id = Some(world.start(rank, plan, number));
                }
                _ => {}
            }
        }
    }
}

fn random_bytes(rank: usize, which: usize, start: usize, count: u64) -> Vec<u8> {
    Random((rank + 10 * which + 100 * start) as u64 + 1).bytes(count)
}

#[test]
fn neighbours_gather_along_a_directed_ring() {
    let (mut world, random, comms) = (quiet(4), &mut Random(7), comms(4));
    for each_its_own in [false, true] {
        let counts: Vec<u64> = (0..4).map(|rank| if each_its_own { rank + 1 } else { 3 }).collect();
        let own: Vec<Layout> =
            counts.iter().map(|&count| Layout::new(vec![count], 0, random, 0)).collect();
        let data: Vec<Vec<u8>> = counts.iter().map(|&count| random.bytes(8 * count)).collect();
        let (mut ids, mut results) = (Vec::new(), Vec::new());
        for rank in 0..4usize {
            own[rank].block(0).unpack(0, &data[rank]);
            let behind = (rank + 3) % 4;
            // From the previous rank, from no rank, and from the previous rank once more.
            let sources = [Some(behind as u32), None, Some(behind as u32)];
            let destinations = [Some((rank as u32 + 1) % 4), Some((rank as u32 + 1) % 4)];
            let edges = Edges { sources: &sources, destinations: &destinations, cartesian: false };
            let to = Layout::new(vec![counts[behind]; 3], 0, random, 0);
            let operation = match each_its_own {
                false => {
                    Operation::NeighborAllgather { edges, send: own[rank].data(), recv: to.data() }
                }
                true => Operation::NeighborAllgatherv {
                    edges,
                    send: own[rank].data(),
                    recv: to.blocks(),
                },
            };
            let plan = world.plan(rank, &operation, &comms[0][rank]);
            ids.push((rank, world.start(rank, plan, each_its_own.into())));
            results.push((to, data[behind].clone()));
        }
        assert!(world.finish(&ids, random).iter().all(Result::is_ok));
        for (to, wanted) in &results {
            assert!(packed(&to.block(0)) == *wanted && packed(&to.block(2)) == *wanted);
            assert!(packed(&to.block(1)).iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn repeated_calls_share_a_schedule() {
    let (mut world, random, comms) = (quiet(2), &mut Random(7), comms(2));
    let inputs = inputs(2, 1, random, |_| false);
    let operation = Operation::Allreduce { vector: inputs.vector(0, true), count: 1 };
    let barrier = Operation::Barrier;
    let first = world.plan(0, &operation, &comms[0][0]);
    let other = world.plan(0, &barrier, &comms[0][0]);
    let again = world.plan(0, &operation, &comms[0][0]);
    assert!(std::ptr::eq(first.schedule(), again.schedule()));
    assert!(!std::ptr::eq(first.schedule(), other.schedule()));
}

#[test]
fn the_death_of_a_rank_ends_the_collective_of_ranks_that_wait_for_it() {
    let options = Options { death: Some((Peer(2), 10)), ..Options::default() };
    let mut world = World::new(3, 3, options, &Thresholds::default());
    let (random, comms) = (&mut Random(7), comms(3));
    while !world.ranks[2].transport.is_dead() {
        (0..3).for_each(|rank| {
            world.progress(rank);
        });
    }
    let ids: Vec<_> = (0..2)
        .map(|rank| {
            let plan = world.plan(rank, &Operation::Barrier, &comms[0][rank]);
            (rank, world.start(rank, plan, 0))
        })
        .collect();
    // Both deal with rank 2 in the first round of three ranks' dissemination.
    for result in world.finish(&ids, random) {
        assert!(matches!(*result.unwrap_err(), Fault::PeerFailed(_)));
    }
    assert!(world.ranks[..2].iter().all(|rank| rank.active.is_empty()));
}

/// A rank dies at any moment of a broadcast whose schedule has two strands. It ends on all others,
/// some of which may have their data.
#[test]
fn a_death_ends_both_strands_of_a_collective() {
    let failed: usize = (0..200).map(fails_in_two_strands).sum();
    assert!(failed > 100, "{failed} calls failed in two strands");
}

/// Returns how many ranks had two strands and learned of the death.
fn fails_in_two_strands(seed: u64) -> usize {
    let random = &mut Random(seed);
    let size = 4 + random.below(6) as u32;
    let dead = random.below(size.into()) as usize;
    let death = Some((Peer(dead as u32), 1 + random.below(400)));
    let segment = [HostSegment::Flags { max: 0 }, HostSegment::Counter { max: u64::MAX }]
        [random.below(2) as usize];
    let thresholds = Thresholds { host_segment: Some(segment), ..Thresholds::default() };
    let mut world = World::new(size, seed, Options { death, ..any_options(random) }, &thresholds);
    world.place(&any_hosts(size, random));
    world.prefer(&[Rule::new(CollectiveKind::Bcast, Algorithm::PipelinedLanes)]);
    let (comms, root) = (&comms(size)[0], random.below(size.into()) as u32);
    let layouts: Vec<_> = (0..size).map(|_| Layout::new(vec![3000], 0, random, 0)).collect();
    let mut has_two_strands = Vec::new();
    let ids: Vec<_> = (0..size as usize)
        .map(|rank| {
            let operation = Operation::Bcast { root, data: layouts[rank].data() };
            let plan = world.plan(rank, &operation, &comms[rank]);
            has_two_strands.push(plan.schedule().has_two_strands());
            (rank, world.start(rank, plan, 0))
        })
        .collect();
    let others: Vec<_> = ids.into_iter().filter(|&(rank, _)| rank != dead).collect();
    let results = world.finish(&others, random);
    let is_death = |fault: &Fault| matches!(fault, Fault::PeerFailed(_) | Fault::GaveUp { .. });
    let mut failed = 0;
    for (&(rank, _), result) in others.iter().zip(results) {
        if let Err(fault) = result {
            assert!(is_death(&fault), "seed {seed}, rank {rank}: {fault}");
            failed += usize::from(has_two_strands[rank]);
        }
    }
    for _ in 0..1000 {
        others.iter().for_each(|&(rank, _)| _ = world.progress(rank));
    }
    let is_idle = |&(rank, _): &(usize, _)| world.ranks[rank].active.is_empty();
    assert!(others.iter().all(is_idle), "seed {seed}: something is left");
    failed
}

#[test]
fn a_member_learns_that_another_has_no_scratch_memory() {
    let (mut world, random, comms) = (quiet(3), &mut Random(7), comms(3));
    let inputs = inputs(3, 10, random, |_| false);
    let scan = |world: &mut World, rank: usize, count| {
        let operation = Operation::Scan { vector: inputs.vector(rank, true), count };
        world.plan(rank, &operation, &comms[0][rank])
    };
    let plan = scan(&mut world, 1, 1 << 52);
    world.start_without_memory(1, plan, 0);
    let plan = scan(&mut world, 2, 10);
    let waiting = world.start(2, plan, 0);
    let results = world.finish(&[(2, waiting)], random);
    let fault = results[0].as_ref().expect_err("rank 1 takes no part");
    assert!(matches!(**fault, Fault::GaveUp { .. }), "{fault}");
}

#[test]
fn a_detached_collective_ends_by_itself() {
    let (mut world, random, comms) = (quiet(3), &mut Random(7), comms(3));
    let ids: Vec<_> = (0..3)
        .map(|rank| {
            let plan = world.plan(rank, &Operation::Barrier, &comms[0][rank]);
            (rank, world.start(rank, plan, 0))
        })
        .collect();
    world.ranks[0].active.detach(ids[0].1);
    assert!(world.finish(&ids[1..], random).iter().all(Result::is_ok));
    (0..100).for_each(|i| {
        world.progress(i % 3);
    });
    assert!(world.ranks[0].active.is_empty());
    assert!(world.ranks[0].active.finish(ids[0].1).is_none());
}

#[test]
fn a_users_function_gets_long_vectors_in_pieces() {
    static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    extern "C" fn counted(
        left: *mut c_void,
        inout: *mut c_void,
        count: *mut c_int,
        extent: *mut usize,
    ) {
        CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        compose(left, inout, count, extent);
    }
    let (mut world, random, comms) = (quiet(2), &mut Random(7), comms(2));
    let count = 100_000;
    let mut inputs = inputs(2, count, random, |_| false);
    inputs.datatype = Datatype::predefined(INT64).unwrap().clone();
    // SAFETY: as in `user_op`.
    inputs.op = Op::User(Arc::new(unsafe { UserOp::new(UserFunction::Int(counted), false) }));
    for rank in 0..2 {
        let input = Bytes::new(count, &inputs.datatype, 0);
        input.fill(0, count, &inputs.datatype, &inputs.vectors[rank]);
        inputs.send[rank] = Some(input);
        inputs.recv[rank] = Bytes::new(count, &inputs.datatype, 0);
    }
    let ids: Vec<_> = (0..2)
        .map(|rank| {
            let operation =
                Operation::Reduce { root: 0, vector: inputs.vector(rank, rank == 0), count };
            let plan = world.plan(rank, &operation, &comms[0][rank]);
            (rank, world.start(rank, plan, 0))
        })
        .collect();
    assert!(world.finish(&ids, random).iter().all(Result::is_ok));
    assert_eq!(packed(&inputs.result(0, count)), reduced(&inputs.vectors, &user_op(false)));
    assert!(CALLS.load(std::sync::atomic::Ordering::Relaxed) > 2);
}
