//! Ranks that call different collectives, or the same with different data; and wrong arguments.

use collectives::{
    Algorithm, Blocks, CollectiveId, Data, HostSegment, Operation, Planner, Rule, Thresholds,
    Vector,
};
use fabric::sim::Options;
use fabric::{Collective, CollectiveKind, Peer};
use objects::{Area, Class, Comm, Datatype, Group, Op};
use pt2pt::Fault;

use crate::cases::{INT64, Layout, SUM};
use crate::placement::any_hosts;
use crate::random::Random;
use crate::runs::{comms, counter, flags, quiet};
use crate::world::{World, any_options};

#[test]
fn ranks_in_different_collectives_learn_of_each_other() {
    let (mut world, random, comms) = (quiet(2), &mut Random(7), comms(2));
    let data = Layout::new(vec![3], 0, random, 0);
    let bcast = Operation::Bcast { root: 1, data: data.data() };
    let plans =
        [world.plan(0, &bcast, &comms[0][0]), world.plan(1, &Operation::Barrier, &comms[0][1])];
    let ids: Vec<_> = plans
        .into_iter()
        .enumerate()
        .map(|(rank, plan)| (rank, world.start(rank, plan, 9)))
        .collect();
    let results = world.finish(&ids[..1], random);
    let fault = results[0].as_ref().unwrap_err();
    let Fault::Mismatched { ours, theirs, source: 1, sequence: 9, .. } = **fault else {
        panic!("{fault}")
    };
    let bcast = Collective::new(CollectiveKind::Bcast, Some(1), None);
    assert_eq!((ours.kind, ours.root), (bcast.kind as u8, bcast.root));
    assert_eq!(theirs.kind, CollectiveKind::Barrier as u8);
}

#[test]
fn when_one_rank_is_elsewhere_no_rank_waits_for_ever() {
    for (size, oversubscribed_max) in (2..10).flat_map(|size| [(size, None), (size, Some(1024))]) {
        let thresholds = Thresholds { oversubscribed_max, ..Thresholds::default() };
        let mut world = World::new(size, 7, Options::default(), &thresholds);
        let comms = comms(size);
        for elsewhere in 0..size as usize {
            let start = |rank: usize| {
                let plan = world.plan(rank, &Operation::Barrier, &comms[0][rank]);
                let plan =
                    if rank == elsewhere { plan.of_kind(CollectiveKind::Internal) } else { plan };
                (rank, world.start(rank, plan, elsewhere as i32))
            };
            let ids: Vec<_> = (0..size as usize).map(start).collect();
            for (rank, result) in world.finish(&ids, &mut Random(7)).into_iter().enumerate() {
                let fault = result.expect_err("it ended well").to_string();
                assert!(
                    fault.contains("called") || fault.contains("has failed at rank"),
                    "rank {rank}: {fault}"
                );
            }
        }
    }
}

#[test]
fn ranks_in_a_segment_learn_which_rank_sends_messages_instead() {
    for thresholds in [
        Thresholds { oversubscribed_max: Some(17), ..counter() },
        Thresholds { shm_max: Some(64), ..flags() },
    ] {
        ranks_learn_of_messages(&thresholds);
    }
}

fn ranks_learn_of_messages(thresholds: &Thresholds) {
    let (mut world, random, comms) =
        (World::new(4, 7, Options::default(), thresholds), &mut Random(7), comms(4));
    let data = Layout::new(vec![9], 0, random, 0);
    let long = Operation::Bcast {
        root: 1,
        data: Data { ty: Datatype::predefined(INT64).unwrap(), ..data.data() },
    };
    let start = |rank: usize| {
        let operation = if rank == 1 { long } else { Operation::Barrier };
        let plan = world.plan(rank, &operation, &comms[0][rank]);
        assert_eq!(plan.schedule().uses_segment(), rank != 1);
        (rank, world.start(rank, plan, 0))
    };
    let ids: Vec<_> = (0..4).map(start).collect();
    for (rank, result) in
        world.finish(&ids, random).into_iter().enumerate().filter(|(rank, _)| *rank != 1)
    {
        let fault = result.expect_err("it ended well").to_string();
        assert!(
            fault.contains("rank 1 called") || fault.contains("has failed at rank"),
            "rank {rank}: {fault}"
        );
    }
}

#[test]
fn two_broadcasts_in_opposite_order_name_each_others_root() {
    let (mut world, random, comms) = (quiet(2), &mut Random(7), comms(2));
    let data: Vec<Layout> = (0..2).map(|_| Layout::new(vec![3], 0, random, 0)).collect();
    // Each thinks that the other one is the root.
    let ids: Vec<_> = (0..2)
        .map(|rank| {
            let operation = Operation::Bcast { root: 1 - rank as u32, data: data[rank].data() };
            let plan = world.plan(rank, &operation, &comms[0][rank]);
            (rank, world.start(rank, plan, 0))
        })
        .collect();
    // No rank sends; a rank that has waited asks.
    (0..1000).for_each(|i| assert!(!world.progress(i % 2)));
    assert!(ids.iter().all(|&(rank, id)| !world.ranks[rank].active.is_complete(id)));
    for (rank, result) in world.finish(&ids, random).into_iter().enumerate() {
        let fault = result.expect_err("it ended well").to_string();
        let (ours, theirs) = (1 - rank, rank);
        assert!(
            fault.contains(&format!("MPI_Bcast of 24 bytes with root {ours} here"))
                && fault.contains(&format!(
                    "rank {ours} called MPI_Bcast of 24 bytes with root {theirs}"
                )),
            "{fault}"
        );
    }
}

/// The ways in which collectives go.
fn ways() -> [Thresholds; 7] {
    let messages = Thresholds { shm: false, ..Thresholds::default() };
    let pieces = Thresholds { bcast_long: 0, allreduce_long: 0, reduce_long: 0, ..messages };
    let on_hosts = [
        HostSegment::Flags { max: 0 },
        HostSegment::Flags { max: u64::MAX },
        HostSegment::Counter { max: u64::MAX },
    ];
    let [a, b, c] =
        on_hosts.map(|segment| Thresholds { host_segment: Some(segment), ..Thresholds::default() });
    [messages, pieces, counter(), flags(), a, b, c]
}

/// Collectives of a run: after these all ranks are in step again.
const ROUNDS: i32 = 6;

/// Starts one operation on each rank, and what follows: barriers, which all ranks call alike.
/// Returns how each rank's operation and the first barrier ended.
fn run_one(
    thresholds: &Thresholds,
    size: u32,
    seed: u64,
    operation: &mut dyn FnMut(u32) -> (Layout, u32, bool),
) -> Vec<[Result<(), String>; 2]> {
    let (mut world, random, comms) =
        (World::new(size, seed, Options::default(), thresholds), &mut Random(seed), comms(size));
    if thresholds.host_segment.is_some() && size == 2 {
        world.place(&[0, 1]);
    } else if thresholds.host_segment.is_some() {
        // Hosts of two and three ranks.
        world.place(&[0, 0, 1, 1, 1, 2, 2][..size as usize]);
    }
    let mut ends = Vec::new();
    let calls: Vec<_> = (0..size).map(operation).collect();
    let mut ids = [Vec::new(), Vec::new()];
    // Ranks come in any order, and each goes on when its call is over.
    let mut order: Vec<usize> = (0..size as usize).collect();
    order.rotate_left(seed as usize % size as usize);
    for which in 0..ROUNDS {
        let started: Vec<_> = order
            .iter()
            .map(|&rank| {
                let (layout, root, is_bcast) = &calls[rank];
                let operation = match is_bcast {
                    true if which == 0 => Operation::Bcast { root: *root, data: layout.data() },
                    _ => Operation::Barrier,
                };
                let plan = world.plan(rank, &operation, &comms[0][rank]);
                (rank, world.start(rank, plan, which))
            })
            .collect();
        let results = world.finish(&started, random);
        if which < 2 {
            let pairs = started.iter().zip(results);
            ids[which as usize] = pairs.map(|(&(rank, _), result)| (rank, result)).collect();
        } else if which == ROUNDS - 1 {
            assert!(results.iter().all(Result::is_ok), "out of step for good: {results:?}");
        }
    }
    for rank in 0..size as usize {
        ends.push([0, 1].map(|which: usize| {
            let (_, result) = ids[which].iter().find(|(of, _)| *of == rank).unwrap();
            result.clone().map_err(|fault| fault.to_string())
        }));
    }
    assert!(world.ranks.iter().all(|rank| rank.active.is_empty()));
    ends
}

#[test]
fn a_rank_with_another_root_learns_of_it_and_so_do_the_others() {
    for (way, thresholds) in ways().iter().enumerate() {
        for size in [2, 3, 4, 7] {
            for (odd, count) in (0..size).flat_map(|odd| [(odd, 3), (odd, 400)]) {
                let random = &mut Random(7);
                let (right, wrong) = ((odd + 1) % size, odd);
                let mut call = |rank: u32| {
                    let root = if rank == odd { wrong } else { right };
                    (Layout::new(vec![count], 0, random, 0), root, true)
                };
                let ends = run_one(thresholds, size, u64::from(odd + size), &mut call);
                let told = |rank: u32, root: u32| {
                    let text = format!("root {root}");
                    ends[rank as usize].iter().flatten_err().any(|fault| fault.contains(&text))
                };
                let case = format!("way {way}, {size} ranks, rank {odd} alone, {count}: {ends:?}");
                assert!(ends.iter().flatten().any(Result::is_err), "{case}");
                if (2..4).contains(&way) && count == 3 {
                    // In a segment all ranks compare their calls.
                    assert!(told(odd, right) && told(right, wrong), "{case}");
                }
            }
        }
    }
}

/// Segments in which some of the calls of [`run_one`] fit, and others go by messages.
fn mixed_ways() -> [Thresholds; 2] {
    [
        Thresholds { oversubscribed_max: Some(64), ..counter() },
        Thresholds { shm_max: Some(64), ..flags() },
    ]
}

#[test]
fn roots_that_differ_by_messages_are_named_in_the_segment() {
    for (way, thresholds) in mixed_ways().iter().enumerate() {
        for (size, count) in (2..5).flat_map(|size| [(size, 3), (size, 400)]) {
            let random = &mut Random(7);
            // Each rank that is a root by its own account sends, and waits for no rank.
            let mut call = |rank: u32| (Layout::new(vec![count], 0, random, 0), rank.min(1), true);
            let ends = run_one(thresholds, size, u64::from(size), &mut call);
            let case = format!("way {way}, {size} ranks, {count}: {ends:?}");
            for (rank, other) in [(0, 1), (1, 0)] {
                let other = format!("root {other}");
                let mut faults = ends[rank].iter().filter_map(|end| end.as_ref().err());
                // With more ranks some are found to have failed first.
                let names = |fault: &String| fault.contains(&other) || fault.contains("gave");
                let is_named = faults
                    .any(|fault| if size == 2 { fault.contains(&other) } else { names(fault) });
                assert!(is_named, "rank {rank}, {case}");
            }
        }
    }
}

/// The calls that ranks may make differently, and all with the barriers after them.
const WRONG: i32 = 2;
const CALLS: i32 = WRONG + 6;

#[test]
fn after_any_mismatch_all_ranks_get_back_into_step() {
    let in_two_strands: u32 = (0..4500).map(get_back_into_step).sum();
    assert!(in_two_strands > 20, "{in_two_strands} calls failed in two strands");
}

/// Each rank goes on when its own call is over. Returns how many calls failed whose schedules have
/// two strands.
fn get_back_into_step(seed: u64) -> u32 {
    let random = &mut Random(seed);
    let ways = [&ways()[..], &mixed_ways()].concat();
    let size = 2 + random.below(7) as u32;
    let thresholds = &ways[random.below(ways.len() as u64) as usize];
    let mut world = World::new(size, seed, any_options(random), thresholds);
    if thresholds.host_segment.is_some() {
        world.place(&any_hosts(size, random));
        if random.below(2) == 0 {
            // Where they can be: schedules of two strands.
            world.prefer(&[Rule::new(CollectiveKind::Bcast, Algorithm::PipelinedLanes)]);
        }
    }
    let comms = &comms(size)[0];
    // Blocking calls have algorithms of their own.
    let is_blocking = random.below(2) == 0;
    let wrong: Vec<_> =
        (0..size).map(|_| [0; WRONG as usize].map(|_| Wrong::any(random))).collect();
    let mut calls: Vec<(i32, Option<(CollectiveId, bool)>)> = vec![(0, None); size as usize];
    let (mut idle, mut in_two_strands) = (0, 0);
    while calls.iter().any(|&(which, _)| which < CALLS) {
        let rank = random.below(size.into()) as usize;
        idle = if world.progress(rank) { 0 } else { idle + 1 };
        if idle % 500 == 499 {
            world.inquire();
        }
        assert!(idle < 50_000, "seed {seed}: nothing moves: {calls:?}");
        calls[rank] = match calls[rank] {
            (CALLS, None) => continue,
            (which, None) => {
                let call = wrong[rank].get(which as usize).unwrap_or(&Wrong::Barrier);
                match call.start(&mut world, rank, &comms[rank], which, is_blocking) {
                    None => (which + 1, None),
                    id => (which, id),
                }
            }
            (_, Some((id, _))) if !world.ranks[rank].active.is_complete(id) => continue,
            (which, Some((id, has_two_strands))) => {
                let result = world.ranks[rank].active.finish(id).unwrap();
                let is_last = which + 1 == CALLS;
                assert!(!is_last || result.is_ok(), "seed {seed}, rank {rank}: {result:?}");
                in_two_strands += u32::from(has_two_strands && result.is_err());
                (which + 1, None)
            }
        };
    }
    in_two_strands
}

/// What one rank calls where others call something else.
enum Wrong {
    Bcast(Layout, u32),
    Barrier,
    /// A call with wrong arguments.
    Refused,
}

impl Wrong {
    fn any(random: &mut Random) -> Wrong {
        let count = [0, 3, 3, 3, 5, 400][random.below(6) as usize];
        match random.below(10) {
            0..6 => Wrong::Bcast(Layout::new(vec![count], 0, random, 0), random.below(2) as u32),
            6..9 => Wrong::Barrier,
            _ => Wrong::Refused,
        }
    }

    /// Starts it as the `which`th call; `None` if it is refused. Returns with it whether its
    /// schedule has two strands.
    fn start(
        &self,
        world: &mut World,
        rank: usize,
        comm: &Comm,
        which: i32,
        is_blocking: bool,
    ) -> Option<(CollectiveId, bool)> {
        let operation = match self {
            Wrong::Bcast(layout, root) => Operation::Bcast { root: *root, data: layout.data() },
            Wrong::Barrier => Operation::Barrier,
            Wrong::Refused => {
                world.refuse(rank, comm, which);
                return None;
            }
        };
        let plan = match is_blocking {
            true => world.plan_blocking(rank, &operation, comm),
            false => world.plan(rank, &operation, comm),
        };
        let has_two_strands = plan.schedule().has_two_strands();
        Some((world.start(rank, plan, which), has_two_strands))
    }
}

/// Elements of a broadcast of all ranks, and those of the odd rank. The longest one goes by
/// messages where others are in a segment.
const AMOUNTS: [(u64, u64); 7] =
    [(3, 4), (3, 2), (3, 5000), (3, 0), (5000, 30_000), (30_000, 5000), (5000, 5001)];

#[test]
fn a_rank_with_more_or_less_data_is_named() {
    for (way, thresholds) in ways().iter().enumerate() {
        for size in [2, 3, 4, 7] {
            for (odd, (right, wrong)) in
                (0..size).flat_map(|odd| AMOUNTS.map(|amounts| (odd, amounts)))
            {
                let random = &mut Random(7);
                let mut call = |rank: u32| {
                    let count = if rank == odd { wrong } else { right };
                    (Layout::new(vec![count], 0, random, 0), 0, true)
                };
                let ends = run_one(thresholds, size, u64::from(odd + size), &mut call);
                let case =
                    format!("way {way}, {size} ranks, rank {odd} alone, {right} {wrong}: {ends:?}");
                let named = |fault: &String| fault.contains("bytes");
                assert!(ends.iter().flatten().flatten_err().any(named), "{case}");
            }
        }
    }
}

/// The errors of all results.
trait FlattenErr<'a> {
    fn flatten_err(self) -> Box<dyn Iterator<Item = &'a String> + 'a>;
}

impl<'a, I: Iterator<Item = &'a Result<(), String>> + 'a> FlattenErr<'a> for I {
    fn flatten_err(self) -> Box<dyn Iterator<Item = &'a String> + 'a> {
        Box::new(self.filter_map(|result| result.as_ref().err()))
    }
}

#[test]
fn a_longer_message_than_expected_is_named() {
    for thresholds in [Thresholds::default(), counter(), flags()] {
        a_longer_one_is_named(World::new(2, 1, Options::default(), &thresholds));
    }
}

fn a_longer_one_is_named(mut world: World) {
    let (random, comms) = (&mut Random(7), comms(2));
    let (long, short) = (Layout::new(vec![5], 0, random, 0), Layout::new(vec![3], 0, random, 0));
    let plans = [&long, &short].map(|layout| Operation::Bcast { root: 0, data: layout.data() });
    let ids: Vec<_> = (0..2)
        .map(|rank| {
            let plan = world.plan(rank, &plans[rank], &comms[0][rank]);
            (rank, world.start(rank, plan, 0))
        })
        .collect();
    let results = world.finish(&ids, random);
    assert!(results[0].is_ok());
    assert!(matches!(
        **results[1].as_ref().unwrap_err(),
        Fault::Sizes { source: 0, sent: Some(40), expected: 24, .. }
    ));
}

#[test]
fn a_rank_without_data_is_named_by_the_others() {
    for (which, thresholds) in
        (0..5).flat_map(|which| [(which, Thresholds::default()), (which, flags())])
    {
        let (mut world, random, comms) =
            (World::new(2, 1, Options::default(), &thresholds), &mut Random(7), comms(2));
        let counts = [0, 3];
        let owns = counts.map(|count| Layout::new(vec![count], 0, random, 0));
        let wholes = counts.map(|count| Layout::new(vec![count; 2], 0, random, 0));
        let operation = |rank: usize| {
            let (own, whole) = (owns[rank].data(), wholes[rank].data());
            match which {
                0 | 1 => Operation::Bcast { root: which, data: own },
                2 => Operation::Allgather { send: Some(own), recv: whole },
                3 => Operation::Alltoall { send: None, recv: whole },
                _ => Operation::Gather {
                    root: 1,
                    send: Some(own),
                    recv: (rank == 1).then_some(whole),
                },
            }
        };
        let ids: Vec<_> = (0..2)
            .map(|rank| {
                let plan = world.plan(rank, &operation(rank), &comms[0][rank]);
                (rank, world.start(rank, plan, 4))
            })
            .collect();
        let results = world.finish(&ids, random);
        // The receiver detects it, from either side.
        if which != 1 {
            let fault = results[1].as_ref().unwrap_err();
            assert!(
                matches!(**fault, Fault::Sizes { source: 0, sent: Some(0), expected: 24, .. }),
                "{which}: {fault}"
            );
        }
        if (1..4).contains(&which) {
            let fault = results[0].as_ref().unwrap_err();
            assert!(
                matches!(**fault, Fault::Sizes { source: 1, sent: Some(24), expected: 0, .. }),
                "{which}: {fault}"
            );
        }
    }
}

#[test]
fn wrong_arguments_are_refused_with_their_class() {
    let random = &mut Random(7);
    let comm = Comm::new("", 1, 0, Group::world(4));
    let mut planner = Planner::new(&Thresholds::default());
    let (three, five) =
        (Layout::new(vec![3; 4], 0, random, 0), Layout::new(vec![5; 4], 0, random, 0));
    let mut class = |operation: Operation| planner.plan(&operation, &comm).unwrap_err().class();
    assert_eq!(class(Operation::Bcast { root: 4, data: three.data() }), Class::Root);
    let huge = Data { count: u64::MAX / 8, ..three.data() };
    assert_eq!(class(Operation::Bcast { root: 0, data: huge }), Class::Count);
    let allgather = Operation::Allgather { send: Some(five.data()), recv: three.data() };
    assert_eq!(class(allgather), Class::Truncate);
    let short = Blocks { counts: &three.counts[..3], displs: &three.displs[..3], ..three.blocks() };
    assert_eq!(class(Operation::Allgatherv { send: None, recv: short }), Class::Arg);
    let sum = Op::predefined(SUM).unwrap();
    let ty = Datatype::predefined(INT64).unwrap();
    let area: Option<Area> = Some(three.bytes.area());
    let vector = Vector { send: area, recv: area, ty, handle: INT64, op: &sum };
    assert_eq!(class(Operation::Allreduce { vector, count: 1 }), Class::Buffer);
    let double = Datatype::predefined(0x214).unwrap();
    let band = Op::predefined(0x28).unwrap();
    let vector = Vector { send: None, op: &band, ty: double, ..vector };
    assert_eq!(class(Operation::Allreduce { vector, count: 1 }), Class::Op);
    let inter = comm.derive_inter(3, 0, Group::single(Peer(0)), Group::single(Peer(1)));
    let vector = Vector { send: area, recv: area, ty, handle: INT64, op: &sum };
    assert_eq!(
        planner.plan(&Operation::Scan { vector, count: 1 }, &inter).unwrap_err().class(),
        Class::Comm
    );
    let vector = Vector { send: None, ..vector };
    assert_eq!(
        planner.plan(&Operation::Allreduce { vector, count: 1 }, &inter).unwrap_err().class(),
        Class::Buffer
    );
    let bcast = Operation::Bcast { root: 1, data: three.data() };
    assert_eq!(planner.plan(&bcast, &inter).unwrap_err().class(), Class::Root);
}
