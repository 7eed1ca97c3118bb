//! Collectives over the engine on a simulated fabric: every operation, several
//! at once, with delays, starved slots and refused reads, from seeds.

mod random;
mod world;

use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::Arc;

use collectives::{
    Blocks, CollectiveId, Data, Edges, InlineRun, Operation, Plan, Planner, Thresholds, Types,
    Vector,
};
use fabric::sim::Options;
use fabric::{CollectiveKind, Peer};
use objects::datatype::Counting;
use objects::op::{UserFunction, UserOp};
use objects::{Area, Buffer, Class, Comm, Datatype, Group, Op};
use pt2pt::Fault;
use random::Random;
use world::{Bytes, World, any_options, packed};

const SUM: usize = 0x21;
const INT64: usize = 0x258;

/// A collective that is ready to start on all ranks, and what it should give.
struct Case {
    plans: Vec<Plan>,
    expected: Vec<(Buffer, Vec<u8>)>,
    keep: Vec<Bytes>,
}

impl Case {
    fn check(&self, what: &str) {
        for (buffer, wanted) in &self.expected {
            assert!(packed(buffer) == *wanted, "wrong result: {what}");
        }
        assert!(self.keep.iter().all(|bytes| bytes.area().address() != 0));
    }
}

/// A type of eight bytes: 64-bit integers, close or far apart.
fn any_type(random: &mut Random) -> Datatype {
    let int = Datatype::predefined(INT64).unwrap();
    match random.below(4) {
        0 => Datatype::resized(Counting::Int, int, 0, 24).unwrap(),
        1 => Datatype::resized(Counting::Int, int, -8, 16).unwrap(),
        _ => int.clone(),
    }
}

fn any_count(random: &mut Random) -> u64 {
    [0, 1, 2, 5, 40, 300][random.below(6) as usize]
}

/// x -> a x + b, composed: associative, and order matters. The "datatype
/// handle" is the extent.
extern "C" fn compose(
    left: *mut c_void,
    inout: *mut c_void,
    count: *mut c_int,
    extent: *mut usize,
) {
    // SAFETY: called with `count` elements, `extent` bytes apart, each of which
    // has eight bytes that may be read, and written in `inout`.
    unsafe {
        for i in 0..*count as usize {
            let (left, inout) = (
                left.add(i * *extent).cast::<[u32; 2]>(),
                inout.add(i * *extent).cast::<[u32; 2]>(),
            );
            let ([a, b], [c, d]) = (left.read_unaligned(), inout.read_unaligned());
            inout.write_unaligned([a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b)]);
        }
    }
}

fn user_op(commutative: bool) -> Op {
    // SAFETY: used with types of eight bytes and their extents as handles only.
    Op::User(Arc::new(unsafe { UserOp::new(UserFunction::Int(compose), commutative) }))
}

/// The reduction of `vectors` from left to right.
fn reduced(vectors: &[Vec<u8>], op: &Op) -> Vec<u8> {
    let mut result = vectors[0].clone();
    for vector in &vectors[1..] {
        let mut next = vector.clone();
        for (left, right) in result.chunks_mut(8).zip(next.chunks_mut(8)) {
            if matches!(op, Op::User(_)) {
                compose(left.as_mut_ptr().cast(), right.as_mut_ptr().cast(), &mut 1, &mut 8);
            } else {
                let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
                right.copy_from_slice(&number(left).wrapping_add(number(right)).to_le_bytes());
            }
        }
        result = next;
    }
    result
}

/// A vector for each rank, in place or not.
struct Inputs {
    vectors: Vec<Vec<u8>>,
    datatype: Datatype,
    op: Op,
    send: Vec<Option<Bytes>>,
    recv: Vec<Bytes>,
}

fn inputs(
    n: usize,
    count: u64,
    random: &mut Random,
    in_place_at: impl Fn(usize) -> bool,
) -> Inputs {
    let user = random.chance();
    let datatype =
        if user { any_type(random) } else { Datatype::predefined(INT64).unwrap().clone() };
    let op = if user { user_op(false) } else { Op::predefined(SUM).unwrap() };
    let in_place = random.chance();
    let vectors: Vec<Vec<u8>> = (0..n).map(|_| random.bytes(8 * count)).collect();
    let (mut send, mut recv) = (Vec::new(), Vec::new());
    for (rank, vector) in vectors.iter().enumerate() {
        let output = Bytes::new(count, &datatype, 0xbb);
        let input = Bytes::new(count, &datatype, 0xaa);
        let here = in_place && in_place_at(rank);
        (if here { &output } else { &input }).fill(0, count, &datatype, vector);
        send.push((!here).then_some(input));
        recv.push(output);
    }
    Inputs { vectors, datatype, op, send, recv }
}

impl Inputs {
    fn vector(&self, rank: usize, has_output: bool) -> Vector<'_> {
        Vector {
            send: self.send[rank].as_ref().map(Bytes::area),
            recv: has_output.then(|| self.recv[rank].area()),
            ty: &self.datatype,
            handle: self.datatype.extent().1 as usize,
            op: &self.op,
        }
    }

    fn result(&self, rank: usize, count: u64) -> Buffer {
        self.recv[rank].area().buffer(0, count, &self.datatype)
    }

    fn keep(self) -> Vec<Bytes> {
        self.recv.into_iter().chain(self.send.into_iter().flatten()).collect()
    }
}

fn reduction(world: &mut World, comms: &[Comm], random: &mut Random) -> (Case, &'static str) {
    let n = comms.len();
    let root = random.below(n as u64) as usize;
    let each = any_count(random);
    let which = random.below(6);
    let counts: Vec<u64> =
        (0..n).map(|_| if which == 2 { any_count(random) } else { each }).collect();
    let whole = if matches!(which, 2 | 3) { counts.iter().sum() } else { each };
    let inputs = inputs(n, whole, random, |rank| which != 0 || rank == root);
    let plan = |world: &mut World, rank: usize| {
        let vector = inputs.vector(rank, which != 0 || rank == root);
        let operation = match which {
            0 => Operation::Reduce { root: root as u32, vector, count: each },
            1 => Operation::Allreduce { vector, count: each },
            2 => Operation::ReduceScatter { vector, counts: &counts },
            3 => Operation::ReduceScatterBlock { vector, count: each },
            4 => Operation::Scan { vector, count: each },
            _ => Operation::Exscan { vector, count: each },
        };
        world.plan(process_of(&comms[rank]), &operation, &comms[rank])
    };
    let plans = (0..n).map(|rank| plan(world, rank)).collect();
    let all = reduced(&inputs.vectors, &inputs.op);
    let start = |rank: usize| 8 * counts[..rank].iter().sum::<u64>() as usize;
    let expected = (0..n).filter_map(|rank| match which {
        0 if rank != root => None,
        0 | 1 => Some((inputs.result(rank, each), all.clone())),
        2 | 3 => {
            Some((inputs.result(rank, counts[rank]), all[start(rank)..start(rank + 1)].to_vec()))
        }
        4 => Some((inputs.result(rank, each), reduced(&inputs.vectors[..=rank], &inputs.op))),
        _ if rank == 0 => None,
        _ => Some((inputs.result(rank, each), reduced(&inputs.vectors[..rank], &inputs.op))),
    });
    (Case { plans, expected: expected.collect(), keep: inputs.keep() }, "a reduction")
}

fn process_of(comm: &Comm) -> usize {
    comm.group().peer_of(comm.rank()).unwrap().0 as usize
}

/// Blocks for each of `counts`, with gaps of two elements between them.
struct Layout {
    counts: Vec<u64>,
    displs: Vec<i64>,
    datatype: Datatype,
    datatypes: Vec<Datatype>,
    byte_displs: Vec<i64>,
    bytes: Bytes,
}

impl Layout {
    fn new(counts: Vec<u64>, gap: i64, random: &mut Random, fill: u8) -> Layout {
        let datatype = any_type(random);
        let (mut displs, mut at) = (Vec::new(), 0);
        for &count in &counts {
            displs.push(at);
            at += count as i64 + gap;
        }
        let bytes = Bytes::new(at as u64, &datatype, fill);
        let byte_displs = displs.iter().map(|displ| displ * datatype.extent().1).collect();
        let datatypes = vec![datatype.clone(); counts.len()];
        Layout { counts, displs, datatype, datatypes, byte_displs, bytes }
    }

    fn blocks(&self) -> Blocks<'_> {
        let types = Types::One(&self.datatype);
        Blocks { area: self.bytes.area(), counts: &self.counts, displs: &self.displs, types }
    }

    fn blocks_w(&self) -> Blocks<'_> {
        let types = Types::Each(&self.datatypes);
        Blocks { area: self.bytes.area(), counts: &self.counts, displs: &self.byte_displs, types }
    }

    fn data(&self) -> Data<'_> {
        Data { area: self.bytes.area(), count: self.counts[0], ty: &self.datatype }
    }

    fn block(&self, index: usize) -> Buffer {
        self.bytes.area().buffer(self.byte_displs[index], self.counts[index], &self.datatype)
    }
}

/// Gather, scatter, allgather and broadcast in all their forms: the blocks of
/// all ranks on one side, one block at each rank on the other.
fn one_to_all(world: &mut World, comms: &[Comm], random: &mut Random) -> (Case, &'static str) {
    let n = comms.len();
    let root = random.below(n as u64) as usize;
    let (which, each) = (random.below(7), any_count(random));
    let regular = matches!(which, 0 | 2 | 4 | 6);
    let counts: Vec<u64> = (0..n).map(|_| if regular { each } else { any_count(random) }).collect();
    let data: Vec<Vec<u8>> = counts.iter().map(|&count| random.bytes(8 * count)).collect();
    let gap = if regular { 0 } else { 2 };
    let wholes: Vec<Layout> =
        (0..n).map(|_| Layout::new(counts.clone(), gap, random, 0xbb)).collect();
    let owns: Vec<Layout> =
        (0..n).map(|rank| Layout::new(vec![counts[rank]], 0, random, 0xaa)).collect();
    let in_place = random.chance();
    for rank in 0..n {
        match which {
            2 | 3 if rank == root => (0..n).for_each(|i| wholes[rank].block(i).unpack(0, &data[i])),
            2 | 3 => {}
            6 if rank == root => owns[rank].block(0).unpack(0, &data[root]),
            6 => {}
            _ if in_place => wholes[rank].block(rank).unpack(0, &data[rank]),
            _ => owns[rank].block(0).unpack(0, &data[rank]),
        }
        // Only the root gathers in place; the others always send their own.
        if which < 2 && in_place && rank != root {
            owns[rank].block(0).unpack(0, &data[rank]);
        }
    }
    let root_rank = root as u32;
    let mut plans = Vec::new();
    for rank in 0..n {
        let at_root = rank == root;
        let (own, whole) = (owns[rank].data(), &wholes[rank]);
        let mine = (!(in_place && (at_root || which > 3))).then_some(own);
        let operation = match which {
            0 => Operation::Gather {
                root: root_rank,
                send: mine,
                recv: at_root.then(|| whole.data()),
            },
            1 => Operation::Gatherv {
                root: root_rank,
                send: mine,
                recv: at_root.then(|| whole.blocks()),
            },
            2 => Operation::Scatter {
                root: root_rank,
                send: at_root.then(|| whole.data()),
                recv: mine,
            },
            3 => Operation::Scatterv {
                root: root_rank,
                send: at_root.then(|| whole.blocks()),
                recv: mine,
            },
            4 => Operation::Allgather { send: mine, recv: whole.data() },
            5 => Operation::Allgatherv { send: mine, recv: whole.blocks() },
            _ => Operation::Bcast { root: root_rank, data: own },
        };
        plans.push(world.plan(process_of(&comms[rank]), &operation, &comms[rank]));
    }
    let mut expected = Vec::new();
    for rank in 0..n {
        match which {
            0 | 1 if rank != root => {}
            2 | 3 if in_place && rank == root => {}
            2 | 3 => expected.push((owns[rank].block(0), data[rank].clone())),
            6 => expected.push((owns[rank].block(0), data[root].clone())),
            _ => (0..n).for_each(|i| expected.push((wholes[rank].block(i), data[i].clone()))),
        }
    }
    let keep = wholes.into_iter().chain(owns).map(|layout| layout.bytes).collect();
    (Case { plans, expected, keep }, "one to all or all to one")
}

/// Alltoall in all its forms, also along the edges of a ring.
fn all_to_all(world: &mut World, comms: &[Comm], random: &mut Random) -> (Case, &'static str) {
    let n = comms.len();
    let (which, each) = (random.below(6), any_count(random));
    let ring = which > 2;
    let degree = if ring { 2 } else { n };
    // `others[rank][k]`: with whom block k is exchanged; in the ring the block
    // that leaves to one side arrives from the other.
    let other = |rank: usize, k: usize| match (ring, k) {
        (false, k) => k,
        (true, 0) => (rank + n - 1) % n,
        (true, _) => (rank + 1) % n,
    };
    let back = |k: usize, rank: usize| if ring { 1 - k } else { rank };
    let counts: Vec<Vec<u64>> = (0..n)
        .map(|_| {
            (0..degree).map(|_| if which % 3 == 0 { each } else { any_count(random) }).collect()
        })
        .collect();
    let data: Vec<Vec<Vec<u8>>> = counts
        .iter()
        .map(|row| row.iter().map(|&count| random.bytes(8 * count)).collect())
        .collect();
    let gap = if which % 3 == 0 { 0 } else { 2 };
    let (mut plans, mut expected, mut keep) = (Vec::new(), Vec::new(), Vec::new());
    for rank in 0..n {
        let incoming = (0..degree).map(|k| counts[other(rank, k)][back(k, rank)]).collect();
        let from = Layout::new(counts[rank].clone(), gap, random, 0xaa);
        let to = Layout::new(incoming, gap, random, 0xbb);
        (0..degree).for_each(|k| from.block(k).unpack(0, &data[rank][k]));
        let around: Vec<Option<u32>> =
            (0..2).map(|k| Some(other(rank, k.min(degree - 1)) as u32)).collect();
        let edges = Edges { sources: &around, destinations: &around, cartesian: true };
        let operation = match which {
            0 => Operation::Alltoall { send: Some(from.data()), recv: to.data() },
            1 => Operation::Alltoallv { send: Some(from.blocks()), recv: to.blocks() },
            2 => Operation::Alltoallv { send: Some(from.blocks_w()), recv: to.blocks_w() },
            3 => Operation::NeighborAlltoall { edges, send: from.data(), recv: to.data() },
            4 => Operation::NeighborAlltoallv { edges, send: from.blocks(), recv: to.blocks() },
            _ => Operation::NeighborAlltoallv { edges, send: from.blocks_w(), recv: to.blocks_w() },
        };
        plans.push(world.plan(process_of(&comms[rank]), &operation, &comms[rank]));
        for k in 0..degree {
            expected.push((to.block(k), data[other(rank, k)][back(k, rank)].clone()));
        }
        keep.extend([from.bytes, to.bytes]);
    }
    (Case { plans, expected, keep }, "all to all")
}

fn any_thresholds(random: &mut Random) -> Thresholds {
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
        shm: at() != 0,
        window: 2 + (at() % 7) as u32,
        reproducible: at() == 0,
    }
}

/// Whatever has room in an arena goes there.
fn in_turns() -> Thresholds {
    Thresholds { oversubscribed_max: Some(u64::MAX), ..Thresholds::default() }
}

/// The same in flat ones.
fn flat() -> Thresholds {
    Thresholds { shm_max: Some(u64::MAX), ..Thresholds::default() }
}

/// The world, and the world backwards on another context.
fn comms(size: u32) -> [Vec<Comm>; 2] {
    let world = Group::world(size);
    let ranks: Vec<u32> = (0..size).rev().collect();
    let backwards = world.incl(&ranks).unwrap();
    [(1, world), (2, backwards)].map(|(context, group)| {
        (0..size).map(|rank| Comm::new("", context, rank, group.clone())).collect()
    })
}

type Make = fn(&mut World, &[Comm], &mut Random) -> (Case, &'static str);

fn run_some(size: u32, seed: u64) {
    let random = &mut Random(seed);
    let options = any_options(random);
    let world = World::new(size, seed, options, &any_thresholds(random));
    run_these(world, 5, &[reduction, one_to_all, all_to_all], random);
}

fn run_these(mut world: World, count: usize, makes: &[Make], random: &mut Random) {
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
    // Each rank starts all of them in order, at its own pace.
    let mut next = vec![0; size as usize];
    let mut ids: Vec<(usize, CollectiveId)> = Vec::new();
    while next.iter().any(|&next| next < cases.len()) {
        let process = random.below(size.into()) as usize;
        if let Some((case, _, on, sequence)) = cases.get(next[process]) {
            let rank = if *on == 0 { process } else { size as usize - 1 - process };
            ids.push((process, world.start(process, case.plans[rank].clone(), *sequence)));
            next[process] += 1;
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

#[test]
fn every_operation_gives_what_it_should_whatever_the_fabric_does() {
    for size in [1, 2, 3, 4, 5, 7, 8, 12] {
        for round in 0..40 {
            let seed = u64::from(size) << 32 | round;
            if let Err(panic) = std::panic::catch_unwind(|| run_some(size, seed)) {
                eprintln!("failed with {size} ranks, seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn many_meetings_follow_each_other_in_an_arena() {
    for seed in 0..400 {
        let random = &mut Random(seed);
        let size = 2 + random.below(7) as u32;
        let thresholds = if seed % 2 == 0 { in_turns() } else { flat() };
        let world = World::new(size, seed, Options::default(), &thresholds);
        run_these(world, 40, &[reduction, one_to_all, all_to_all], random);
    }
}

#[test]
fn a_visit_needs_neither_progress_nor_a_list() {
    for thresholds in [in_turns(), flat()] {
        let (mut world, random, comms) =
            (World::new(3, 7, Options::default(), &thresholds), &mut Random(7), comms(3));
        for sequence in 0..100 {
            let mut any_inputs = std::iter::repeat_with(|| inputs(3, 5, random, |_| true));
            let inputs = any_inputs.find(|inputs| matches!(inputs.op, Op::Builtin(_))).unwrap();
            let operation =
                |rank: usize| Operation::Allreduce { vector: inputs.vector(rank, true), count: 5 };
            let plans = [0, 1, 2].map(|rank| world.plan(rank, &operation(rank), &comms[0][rank]));
            let mut visits: Vec<_> =
                (0..3).map(|rank| (rank, InlineRun::new(&plans[rank], sequence))).collect();
            for tries in 0.. {
                if visits.is_empty() {
                    break;
                }
                assert!(tries < 1000, "meeting {sequence} goes on for ever");
                let at = random.below(visits.len() as u64) as usize;
                if visits[at].1.go() {
                    let (rank, _) = visits.swap_remove(at);
                    assert!(
                        packed(&inputs.result(rank, 5)) == reduced(&inputs.vectors, &inputs.op)
                    );
                }
            }
        }
    }
}

#[test]
fn a_visit_leaves_it_to_the_executor_that_others_called_something_else() {
    for thresholds in [in_turns(), flat()] {
        let (mut world, random, comms) =
            (World::new(3, 7, Options::default(), &thresholds), &mut Random(7), comms(3));
        let data = Layout::new(vec![5], 0, random, 0);
        let operation = |rank: usize| match rank {
            1 => Operation::Barrier,
            _ => Operation::Bcast { root: 1, data: data.data() },
        };
        let plans = [0, 1, 2].map(|rank| world.plan(rank, &operation(rank), &comms[0][rank]));
        let mut visits: Vec<_> = (0..3).map(|rank| InlineRun::new(&plans[rank], 0)).collect();
        for _ in 0..10 {
            visits.iter_mut().for_each(|visit| assert!(!visit.go()));
        }
        let pairs = visits.into_iter().enumerate();
        let ids: Vec<_> = pairs
            .map(|(rank, visit)| (rank, world.ranks[rank].active.resume_as_active(visit.suspend())))
            .collect();
        for result in world.finish(&ids, random) {
            let fault = result.expect_err("it ended well").to_string();
            assert!(fault.contains("called") || fault.contains("has failed at rank"), "{fault}");
        }
    }
}

fn quiet(size: u32) -> World {
    World::new(size, 1, Options::default(), &Thresholds::default())
}

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
            // From the one behind, from nobody, and from the one behind once more.
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
fn ranks_in_different_collectives_learn_whom_they_met() {
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
    assert_eq!((ours.kind, ours.root), (CollectiveKind::Bcast as u8, 1));
    assert_eq!(theirs.kind, CollectiveKind::Barrier as u8);
}

#[test]
fn when_one_rank_is_elsewhere_nobody_waits_for_ever() {
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
fn ranks_in_an_arena_learn_who_sends_them_messages_instead() {
    for thresholds in [
        Thresholds { oversubscribed_max: Some(64), ..in_turns() },
        Thresholds { shm_max: Some(64), ..flat() },
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
    // Nobody sends: this one only a report of who waits for whom can name.
    (0..1000).for_each(|i| assert!(!world.progress(i % 2)));
    assert!(ids.iter().all(|&(rank, id)| !world.ranks[rank].active.is_complete(id)));
}

#[test]
fn a_longer_message_than_expected_is_named() {
    for thresholds in [Thresholds::default(), in_turns(), flat()] {
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
        Fault::Truncated { source: 0, sent: 40, room: 24, .. }
    ));
}

#[test]
fn a_rank_without_data_is_named_by_those_who_have_some() {
    for (which, thresholds) in
        (0..5).flat_map(|which| [(which, Thresholds::default()), (which, flat())])
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
        // Whoever receives finds out, from either side.
        if which != 1 {
            let fault = results[1].as_ref().unwrap_err();
            assert!(
                matches!(**fault, Fault::Empty { source: 0, sequence: 4, room: 24, .. }),
                "{which}: {fault}"
            );
        }
        if (1..4).contains(&which) {
            let fault = results[0].as_ref().unwrap_err();
            assert!(
                matches!(**fault, Fault::Truncated { source: 1, sent: 24, room: 0, .. }),
                "{which}: {fault}"
            );
        }
    }
}

#[test]
fn the_death_of_a_rank_ends_the_collective_of_those_who_wait_for_it() {
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
