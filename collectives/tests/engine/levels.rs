//! Schedules with several rounds of a segment of some of the ranks, and messages between leaders.

use std::sync::Arc;

use collectives::{
    Algorithm, CollArgs, Extent, HostSegment, Level, Operation, Plan, Position, RankLocation, Rule,
    Selection, Shape, SharedSegment, Space, Thresholds, Topology, Ty,
};
use fabric::sim::Options;
use objects::Comm;

use crate::cases::{inputs, reduced};
use crate::hierarchy;
use crate::random::Random;
use crate::runs::comms;
use crate::world::{World, any_options, packed};

/// The host of each rank. Ranks of a host are consecutive, as operands keep their order.
const PLACEMENTS: [&[u64]; 4] =
    [&[0, 0, 0, 1, 1, 1], &[0, 1, 1, 1, 1], &[0, 0, 1, 1, 2, 2, 2], &[0, 0]];

/// Plans the hierarchical allreduce at a rank; the ranks of a host share segment 3 of their leader.
fn plan(world: &mut World, comm: &Comm, operation: &Operation) -> Plan {
    let rank = comm.rank() as usize;
    let members: Arc<[u32]> =
        world.ranks[rank].planner.position(comm).neighbors(Level::Host).collect();
    let me = members.iter().position(|&member| member == comm.rank()).unwrap() as u32;
    let segment = world.host_segment(rank, &members, me);
    let segment = SharedSegment { segment, members: Some(members) };
    let planner = &mut world.ranks[rank].planner;
    planner.plan_custom(operation, comm, Some(segment), hierarchy::allreduce).unwrap()
}

fn run(hosts: &[u64], seed: u64, options: Options) {
    let (size, random) = (hosts.len(), &mut Random(seed));
    let mut world = World::new(size as u32, seed, options, &Thresholds::default());
    let comms = &comms(size as u32)[0];
    let locations: Vec<RankLocation> =
        hosts.iter().map(|&host| RankLocation::on_host(host)).collect();
    for (rank, comm) in comms.iter().enumerate() {
        world.ranks[rank].planner.set_locations(comm, &locations);
    }
    let count = 5;
    for sequence in 0..8 {
        let mut any_inputs = std::iter::repeat_with(|| inputs(size, count, random, |_| true));
        let inputs = any_inputs.find(|inputs| inputs.datatype.is_contiguous()).unwrap();
        let plans: Vec<Plan> = (0..size)
            .map(|rank| {
                let vector = inputs.vector(rank, true);
                plan(&mut world, &comms[rank], &Operation::Allreduce { vector, count })
            })
            .collect();
        assert!(plans.iter().all(|plan| plan.schedule().segment_rounds() == 2));
        let ids: Vec<_> = plans
            .into_iter()
            .enumerate()
            .map(|(rank, plan)| (rank, world.start(rank, plan, sequence)))
            .collect();
        assert!(world.finish(&ids, random).iter().all(Result::is_ok));
        let wanted = reduced(&inputs.vectors, &inputs.op);
        for rank in 0..size {
            assert!(packed(&inputs.result(rank, count)) == wanted, "rank {rank}: wrong sum");
        }
    }
}

#[test]
fn one_schedule_reduces_on_hosts_and_between_them() {
    for (hosts, seed) in PLACEMENTS.into_iter().flat_map(|hosts| (0..20).map(move |s| (hosts, s))) {
        run(hosts, seed, any_options(&mut Random(seed)));
    }
}

#[test]
fn the_segment_of_a_host_does_not_serve_the_ranks_of_several() {
    use Algorithm::{SegmentCounter, SegmentFlags, SegmentPieces, SegmentRoot};
    let thresholds = Thresholds {
        shm_pieces_max: 1 << 20,
        host_segment: Some(HostSegment::Flags { max: 8192 }),
        ..Thresholds::default()
    };
    let hosts = Topology::new(&[0, 0, 1, 1].map(RankLocation::on_host));
    let [here, everywhere] = [Position::new(0, 4), Position::in_topology(0, &hosts)];
    let run = Extent::new(Space::Recv, Ty::of(0), 9000, Shape::gapless(8));
    let sum = CollArgs::Allreduce { input: run, output: run, commutative: true };
    for (args, algorithm) in [
        (CollArgs::Barrier, SegmentCounter),
        (CollArgs::Barrier, SegmentFlags),
        (CollArgs::Barrier, SegmentRoot),
        (sum, SegmentPieces),
    ] {
        let mut selection = Selection::new(&thresholds);
        selection.prefer(Rule::new(args.kind(), algorithm));
        assert_eq!(selection.choose(&args, here, true), algorithm);
        let other = selection.choose(&args, everywhere, true);
        assert!(!other.name().starts_with("segment"), "{other:?} for {args:?}");
    }
}
