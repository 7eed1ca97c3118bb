//! Long vectors over several hosts whose ranks share segments with flags: the stages of lanes
//! within a host go slot by slot.

use collectives::{Algorithm, HostSegment, Operation, Plan, Rule, Thresholds};
use fabric::CollectiveKind;
use objects::Op;

use crate::cases::{Inputs, Layout, inputs, reduced};
use crate::placement::any_hosts;
use crate::random::Random;
use crate::runs::comms;
use crate::world::{World, any_options, packed};

/// A world of ranks on these hosts, which use lanes for all sizes, in every second one pipelined.
fn world(hosts: &[u64], seed: u64, random: &mut Random) -> World {
    let thresholds = Thresholds {
        lanes_min: 0,
        fan_max: 0,
        host_segment: Some(HostSegment::Flags { max: u64::MAX }),
        piece: 1 << (8 + random.below(8)),
        ..Thresholds::default()
    };
    let mut world = World::new(hosts.len() as u32, seed, any_options(random), &thresholds);
    world.place(hosts);
    if seed.is_multiple_of(2) {
        let kinds = [CollectiveKind::Bcast, CollectiveKind::Reduce, CollectiveKind::Allreduce];
        world.prefer(&kinds.map(|kind| Rule::new(kind, Algorithm::PipelinedLanes)));
    }
    world
}

/// Vectors of 64-bit integers, at times in place at the ranks that may have them so.
fn any_inputs(
    size: usize,
    count: u64,
    random: &mut Random,
    may_be_in_place: impl Fn(usize) -> bool,
) -> Inputs {
    let mut any = std::iter::repeat_with(|| inputs(size, count, random, &may_be_in_place));
    any.find(|inputs| matches!(inputs.op, Op::Builtin(_))).unwrap()
}

/// Runs one call of all ranks. Returns the most rounds of the segment that a rank goes through.
fn run(
    world: &mut World,
    sequence: i32,
    random: &mut Random,
    plan: impl Fn(&mut World, usize) -> Plan,
) -> u32 {
    let plans: Vec<Plan> = (0..world.ranks.len()).map(|rank| plan(world, rank)).collect();
    let rounds = plans.iter().map(|plan| plan.schedule().segment_rounds()).max();
    let ids: Vec<_> =
        (0..).zip(plans).map(|(rank, plan)| (rank, world.start(rank, plan, sequence))).collect();
    assert!(world.finish(&ids, random).iter().all(Result::is_ok));
    rounds.unwrap_or(0)
}

fn run_all(hosts: &[u64], count: u64, seed: u64) {
    let (random, size) = (&mut Random(seed), hosts.len());
    let (mut world, comms) = (world(hosts, seed, random), comms(size as u32));
    let what = format!("{count} elements on {hosts:?}, seed {seed}");
    let root = random.below(size as u64) as usize;

    let sums = any_inputs(size, count, random, |rank| rank % 3 != 1);
    let rounds = run(&mut world, 0, random, |world, rank| {
        let vector = sums.vector(rank, true);
        world.plan_blocking(rank, &Operation::Allreduce { vector, count }, &comms[0][rank])
    });
    let ranks_of = |host| hosts.iter().filter(|of| **of == host).count();
    let has_lanes = hosts.iter().all(|&host| ranks_of(host) > 1);
    assert!(rounds > 4 || !has_lanes, "{rounds} rounds: {what}");
    let expected = reduced(&sums.vectors, &sums.op);
    for rank in 0..size {
        assert!(packed(&sums.result(rank, count)) == expected, "allreduce, rank {rank}: {what}");
    }

    let data = random.bytes(8 * count);
    let layouts: Vec<Layout> =
        (0..size).map(|_| Layout::new(vec![count], 0, random, 0xaa)).collect();
    layouts[root].block(0).unpack(0, &data);
    run(&mut world, 1, random, |world, rank| {
        let operation = Operation::Bcast { root: root as u32, data: layouts[rank].data() };
        world.plan_blocking(rank, &operation, &comms[0][rank])
    });
    for (rank, layout) in layouts.iter().enumerate() {
        assert!(packed(&layout.block(0)) == data, "bcast, rank {rank}: {what}");
    }

    let sums = any_inputs(size, count, random, |rank| rank == root);
    run(&mut world, 2, random, |world, rank| {
        let vector = sums.vector(rank, rank == root);
        world.plan_blocking(
            rank,
            &Operation::Reduce { root: root as u32, vector, count },
            &comms[0][rank],
        )
    });
    let expected = reduced(&sums.vectors, &sums.op);
    assert!(packed(&sums.result(root, count)) == expected, "reduce: {what}");

    let each = count / size as u64;
    let sums = any_inputs(size, each * size as u64, random, |rank| rank % 3 != 1);
    run(&mut world, 3, random, |world, rank| {
        let vector = sums.vector(rank, true);
        let operation = Operation::ReduceScatterBlock { vector, count: each };
        world.plan_blocking(rank, &operation, &comms[0][rank])
    });
    let expected = reduced(&sums.vectors, &sums.op);
    for (rank, block) in expected.chunks(8 * each as usize).enumerate() {
        assert!(packed(&sums.result(rank, each)) == block, "reduce_scatter, rank {rank}: {what}");
    }
}

#[test]
fn long_vectors_go_through_slots_wherever_ranks_are() {
    for seed in 0..60 {
        let random = &mut Random(seed);
        let hosts = any_hosts(3 + random.below(10) as u32, random);
        let is_one = hosts.iter().all(|host| *host == hosts[0]);
        if !is_one {
            run_all(&hosts, 9000 + random.below(9000), seed);
        }
    }
}

#[test]
fn many_ranks_of_a_host_take_small_slots() {
    let hosts: Vec<u64> = (0..40).map(|rank| rank / 20).collect();
    run_all(&hosts, 40_001, 7);
    let uneven: Vec<u64> = (0..40).map(|rank| u64::from(rank > 28)).collect();
    run_all(&uneven, 30_000, 8);
}
