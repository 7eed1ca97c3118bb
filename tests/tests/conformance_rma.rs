//! One-sided communication on the simulated fabric against a naive model: random operations with
//! random layouts, and counters that only a lock protects.
//!
//! `VERBENA_TEST_SEED` runs it with another seed.

use std::sync::atomic::AtomicU32;

use fabric::sim::{Options, Rng, SimTransport, fabric};
use fabric::{Caps, Offload, Peer, protocol};
use objects::datatype::Counting::Int;
use objects::op::BuiltinOp;
use objects::{Datatype, Group};
use rma::{
    Access, AtomicsBy, Control, Engine, LockBy, Memory, Place, Remote, Unlocked, WaitsFor, Window,
};
use tests::bytes::{Bytes, Shape};

#[path = "conformance_rma/groups.rs"]
mod groups;

/// The window's id, and a part of a window that one origin has for itself, in bytes and in ints.
const ID: u64 = 77;
const PART: usize = 4096;
const PART_INTS: u64 = PART as u64 / 4;
/// Ints that all origins add to.
const COMMON: usize = 64;
/// Rounds of progress after which nothing moves any more.
const MAX_ROUNDS: usize = 2_000_000;

fn seed() -> u64 {
    std::env::var("VERBENA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_123)
}

/// Small frames, few slots, long delays.
const ROUGH: Options = Options {
    caps: Caps {
        frame: 200,
        eager: 100,
        get_min: u64::MAX,
        put_min: u64::MAX,
        offload: Offload::Processor,
        late_puts: false,
    },
    max_delay: 40,
    max_in_flight: 3,
    no_space_permille: 300,
    one_sided: fabric::sim::Manner::Refused,
    death: None,
    cut: None,
};

struct Job {
    transports: Vec<SimTransport>,
    engines: Vec<Engine>,
    memory: Vec<Bytes>,
}

impl Job {
    fn new(ranks: u32, seed: u64, options: Options) -> Job {
        let bytes = ranks as usize * PART + COMMON * 4;
        let memory: Vec<Bytes> =
            (0..ranks).map(|_| Bytes::new(Shape::Run, &vec![0; bytes])).collect();
        let remote = Remote { size: bytes as u64, unit: 4, is_distant: true, ..Remote::default() };
        let engine = |rank: u32| {
            let own = Memory::Fixed(memory[rank as usize].memory());
            let remotes = vec![remote; ranks as usize];
            let mut engine = Engine::new();
            let group = Group::world(ranks);
            engine.open(Window::new((ID, rank), group, own, remotes, LockBy::Message));
            engine
        };
        let engines = (0..ranks).map(engine).collect();
        Job { transports: fabric(ranks, seed, options), engines, memory }
    }

    fn progress(&mut self) {
        for (transport, engine) in self.transports.iter_mut().zip(&mut self.engines) {
            protocol::progress(transport, engine);
        }
    }

    fn start(&mut self, rank: usize, access: Access, place: &Place) {
        let (engine, transport) = (&mut self.engines[rank], &mut self.transports[rank]);
        engine.start(transport, ID, access, place, false).expect("an operation starts");
    }

    /// Completes all operations of all ranks.
    fn flush(&mut self) {
        for (transport, engine) in self.transports.iter_mut().zip(&mut self.engines) {
            engine.flush_all(transport, ID).expect("a flush begins");
        }
        for rank in 0..self.engines.len() {
            let mut rounds = 0;
            while self.engines[rank]
                .poll_flush(ID, None)
                .map(|done| done.expect("flushed"))
                .is_none()
            {
                self.progress();
                rounds += 1;
                assert!(rounds < MAX_ROUNDS, "the flush of rank {rank} does not end");
            }
        }
    }
}

/// A place in ints, and the displacements of its ints.
fn layout(rng: &mut Rng, begin: u64) -> (Place, Vec<usize>) {
    let int = Datatype::predefined(0x209).expect("MPI_INT");
    let (count, block, gap) = (1 + rng.below(20), 1 + rng.below(6), rng.below(5));
    let (stride, copies) = (block + gap, 1 + rng.below(2));
    let vector = Datatype::vector(Int, count as i64, block as i64, stride as i64, int).unwrap();
    let extent = vector.extent().1 as u64 / 4;
    let disp = begin + rng.below(PART_INTS - extent * copies);
    let ints = (0..copies).flat_map(|copy| {
        (0..count).flat_map(move |run| {
            (0..block).map(move |at| (disp + copy * extent + run * stride + at) as usize)
        })
    });
    let ints = ints.collect();
    (Place { target: 0, disp: disp as i64, count: copies, datatype: vector }, ints)
}

fn bytes(ints: &[i32]) -> Vec<u8> {
    ints.iter().flat_map(|int| int.to_ne_bytes()).collect()
}

/// A buffer that must hold these ints after the round.
type Expected = (Bytes, Vec<i32>);

/// Starts operations of one origin at one target and does them in the model.
fn traffic(
    job: &mut Job,
    rng: &mut Rng,
    (origin, target): (usize, usize),
    model: &mut [i32],
    keep: &mut Vec<Expected>,
) {
    let begin = origin as u64 * PART_INTS;
    let shape = || if rng_shape(origin, target) { Shape::Run } else { Shape::Strided };
    let (mut place, ints) = layout(rng, begin);
    place.target = target as u32;
    let values: Vec<i32> = ints.iter().map(|_| rng.bits() as i32).collect();
    let data = Bytes::new(shape(), &bytes(&values));
    let space = Bytes::for_receive(shape(), values.len() * 4);
    let old: Vec<i32> = ints.iter().map(|&at| model[at]).collect();
    match rng.below(5) {
        0 => {
            job.start(origin, Access::Put(data.buffer()), &place);
            ints.iter().zip(&values).for_each(|(&at, &value)| model[at] = value);
            keep.push((data, values));
        }
        1 => {
            job.start(origin, Access::Get(space.buffer()), &place);
            keep.push((space, old));
        }
        2 => {
            let fetch = Access::Fetch(BuiltinOp::NoOp, space.buffer(), space.buffer());
            job.start(origin, fetch, &place);
            keep.push((space, old));
        }
        3 => {
            // Accumulates of one origin are done in order.
            let fetch = Access::Fetch(BuiltinOp::Replace, data.buffer(), space.buffer());
            job.start(origin, fetch, &place);
            job.start(origin, Access::Accumulate(BuiltinOp::Bxor, data.buffer()), &place);
            ints.iter().for_each(|&at| model[at] = 0);
            keep.extend([(space, old), (data, values)]);
        }
        _ => {
            let sums: Vec<i32> = (0..COMMON as i32).map(|at| at + origin as i32).collect();
            let data = Bytes::new(shape(), &bytes(&sums));
            let common = job.engines.len() * PART_INTS as usize;
            let int = Datatype::predefined(0x209).expect("MPI_INT").clone();
            let (disp, count) = (common as i64, COMMON as u64);
            let place = Place { target: target as u32, disp, count, datatype: int };
            job.start(origin, Access::Accumulate(BuiltinOp::Sum, data.buffer()), &place);
            sums.iter().zip(&mut model[common..]).for_each(|(sum, at)| *at += sum);
            keep.push((data, sums));
        }
    }
}

fn rng_shape(origin: usize, target: usize) -> bool {
    (origin + target).is_multiple_of(2)
}

fn random_operations(ranks: u32, seed: u64, options: Options) {
    let mut job = Job::new(ranks, seed, options);
    let mut rng = Rng::new(seed);
    let ints = ranks as usize * PART_INTS as usize + COMMON;
    let mut model = vec![vec![0; ints]; ranks as usize];
    job.engines.iter_mut().for_each(|engine| engine.fence(ID, false).expect("a fence"));
    for round in 0..6 {
        let mut keep = Vec::new();
        for (target, model) in model.iter_mut().enumerate() {
            for origin in 0..ranks as usize {
                traffic(&mut job, &mut rng, (origin, target), model, &mut keep);
                if rng.chance(300) {
                    job.progress();
                }
            }
        }
        job.flush();
        for (rank, expected) in model.iter().enumerate() {
            let found = job.memory[rank].read();
            assert!(found == bytes(expected), "rank {rank} after round {round}, seed {seed}");
        }
        for (found, expected) in keep {
            assert_eq!(found.read(), bytes(&expected), "round {round}, seed {seed}");
        }
    }
}

#[test]
fn operations_agree_with_the_model() {
    let smallest = Options { caps: Caps { frame: 64, ..ROUGH.caps }, ..ROUGH };
    for at in 0..30 {
        let options = [Options::default(), ROUGH, smallest][at as usize % 3];
        random_operations([1, 2, 3, 5][at as usize % 4], seed() + at, options);
    }
}

/// A device that reads and writes memory in each manner: at once, later and in any order, refusing,
/// or without space.
#[test]
fn operations_of_a_device_agree_with_the_model() {
    use fabric::sim::Manner::{Immediate, Later, Refused, Whim};
    for at in 0..40 {
        let manner = [Later, Whim, Immediate, Refused][at as usize % 4];
        let caps = Caps { get_min: 1, put_min: 1, ..ROUGH.caps };
        let options = Options { caps, one_sided: manner, ..ROUGH };
        random_operations([2, 3, 5][at as usize % 3], seed() + 100 + at, options);
    }
}

/// Once an origin knows the target's memory, its puts and gets end while the target makes no
/// progress.
#[test]
fn a_device_needs_no_progress_of_the_target() {
    let caps = Caps { get_min: 1, ..ROUGH.caps };
    let one_sided = fabric::sim::Manner::Later;
    let mut job = Job::new(2, seed(), Options { caps, one_sided, ..Options::default() });
    job.engines[0].lock_all(&mut job.transports[0], ID, true).expect("an epoch");
    let int = Datatype::predefined(0x209).expect("MPI_INT").clone();
    let place = Place { target: 1, disp: 5, count: 2, datatype: int };
    let (first, second) = (bytes(&[1, 2]), bytes(&[3, 4]));
    let (out, back) = (Bytes::new(Shape::Run, &first), Bytes::for_receive(Shape::Run, 8));
    job.start(0, Access::Put(out.buffer()), &place);
    job.flush();
    let out = Bytes::new(Shape::Run, &second);
    for access in [Access::Put(out.buffer()), Access::Get(back.buffer())] {
        job.start(0, access, &place);
        let (engine, transport) = (&mut job.engines[0], &mut job.transports[0]);
        engine.flush(transport, ID, 1).expect("a flush begins");
        let mut rounds = 0;
        while engine.poll_flush(ID, Some(1)).is_none() {
            protocol::progress(transport, engine);
            rounds += 1;
            assert!(rounds < 10_000, "the flush waits for the target");
        }
    }
    assert_eq!((back.read(), &job.memory[1].read()[20..28]), (second.clone(), &second[..]));
    for (engine, transport) in job.engines.iter_mut().zip(&mut job.transports) {
        engine.close(transport, ID);
    }
}

/// The answer of an operation in frames says that the target has done it: a flush that comes later
/// ends while the target makes no progress. An accumulate has no answer.
#[test]
fn a_flush_awaits_no_more_than_the_answer() {
    let mut job = Job::new(2, seed(), Options::default());
    job.engines[0].lock_all(&mut job.transports[0], ID, true).expect("an epoch");
    let int = Datatype::predefined(0x209).expect("MPI_INT").clone();
    let place = Place { target: 1, disp: 5, count: 1, datatype: int };
    let one = Bytes::new(Shape::Run, &bytes(&[1]));
    let old = Bytes::for_receive(Shape::Run, 4);
    let accumulate = Access::Accumulate(BuiltinOp::Sum, one.buffer());
    let fetch = Access::Fetch(BuiltinOp::Sum, one.buffer(), old.buffer());
    for (access, is_answered) in [(accumulate, false), (fetch, true)] {
        job.start(0, access, &place);
        (0..1000).for_each(|_| job.progress());
        let (engine, transport) = (&mut job.engines[0], &mut job.transports[0]);
        engine.flush(transport, ID, 1).expect("a flush begins");
        let mut is_over = false;
        for _ in 0..1000 {
            protocol::progress(transport, engine);
            is_over |= engine.poll_flush(ID, Some(1)).is_some();
        }
        assert_eq!(is_over, is_answered);
        job.flush();
    }
    assert_eq!(old.read(), bytes(&[1]));
    for (engine, transport) in job.engines.iter_mut().zip(&mut job.transports) {
        engine.close(transport, ID);
    }
}

/// A job of dynamic windows whose memory a device accesses.
fn dynamic_job(ranks: u32, seed: u64, one_sided: fabric::sim::Manner) -> Job {
    let caps = Caps { get_min: 1, put_min: 1, offload: Offload::Device, ..ROUGH.caps };
    let remote = Remote { unit: 1, is_distant: true, ..Remote::default() };
    let engine = |rank: u32| {
        let mut engine = Engine::new();
        let (group, remotes) = (Group::world(ranks), vec![remote; ranks as usize]);
        let own = Memory::Dynamic(Vec::new());
        engine.open(Window::new((ID, rank), group, own, remotes, LockBy::Message));
        engine.fence(ID, false).expect("a fence");
        engine
    };
    Job {
        transports: fabric(ranks, seed, Options { caps, one_sided, ..ROUGH }),
        engines: (0..ranks).map(engine).collect(),
        memory: Vec::new(),
    }
}

/// Memory is attached, detached and attached again at the same addresses while others access what
/// is attached. A device that used the registration of memory that was detached would end the test.
#[test]
fn attached_memory_is_never_stale() {
    use fabric::sim::Manner::{Immediate, Later, Refused, Whim};
    const BLOCK: usize = 64;
    for at in 0..40 {
        let (ranks, seed) = ([2, 3, 4][at % 3], seed() + 300 + at as u64);
        let mut job = dynamic_job(ranks as u32, seed, [Later, Whim, Immediate, Refused][at % 4]);
        let mut rng = Rng::new(seed);
        // More blocks than a table describes.
        let blocks: Vec<Bytes> =
            (0..30 * ranks).map(|_| Bytes::new(Shape::Run, &[0; BLOCK])).collect();
        let mut model = vec![[0_u8; BLOCK]; blocks.len()];
        let mut attached = vec![false; blocks.len()];
        for round in 0..8 {
            for (index, block) in blocks.iter().enumerate() {
                let rank = index % ranks;
                let (engine, transport) = (&mut job.engines[rank], &mut job.transports[rank]);
                if rng.chance(500) {
                    attached[index] ^= true;
                    let memory = block.memory();
                    match attached[index] {
                        true => engine.attach(transport, ID, memory, None).expect("attached"),
                        false => {
                            let base = memory.addr();
                            engine.detach_memory(transport, ID, base).expect("detached");
                        }
                    }
                }
            }
            let mut keep: Vec<(Bytes, Vec<u8>)> = Vec::new();
            for (index, block) in blocks.iter().enumerate().filter(|&(index, _)| attached[index]) {
                let (target, origin) = (index % ranks, rng.below(ranks as u64) as usize);
                let (from, len) = (rng.below(BLOCK as u64 / 2), 1 + rng.below(BLOCK as u64 / 2));
                let bytes = from as usize..(from + len) as usize;
                let disp = (block.memory().addr() + from) as i64;
                let datatype = Datatype::byte().clone();
                let place = Place { target: target as u32, disp, count: len, datatype };
                if rng.chance(500) {
                    let new: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
                    let data = Bytes::new(Shape::Run, &new);
                    job.start(origin, Access::Put(data.buffer()), &place);
                    model[index][bytes].copy_from_slice(&new);
                    keep.push((data, new));
                } else {
                    let space = Bytes::for_receive(Shape::Run, len as usize);
                    job.start(origin, Access::Get(space.buffer()), &place);
                    keep.push((space, model[index][bytes].to_vec()));
                }
            }
            job.flush();
            for (found, expected) in keep {
                assert_eq!(found.read(), expected, "round {round}, seed {seed}");
            }
            for (block, expected) in blocks.iter().zip(&model) {
                assert_eq!(block.read(), expected, "round {round}, seed {seed}");
            }
        }
        for (engine, transport) in job.engines.iter_mut().zip(&mut job.transports) {
            engine.close(transport, ID);
        }
        assert_eq!(job.transports[0].registered(), 0, "seed {seed}");
    }
}

/// Once an origin knows the table, it accesses memory that is attached later while the target makes
/// no progress.
#[test]
fn attached_memory_is_accessed_without_the_target() {
    let mut job = dynamic_job(2, seed(), fabric::sim::Manner::Later);
    let blocks = [1, 2].map(|byte| Bytes::new(Shape::Run, &[byte; 16]));
    let place = |block: &Bytes| Place {
        target: 1,
        disp: block.memory().addr() as i64,
        count: 16,
        datatype: Datatype::byte().clone(),
    };
    let back = Bytes::for_receive(Shape::Run, 16);
    for (turn, block) in blocks.iter().enumerate() {
        let memory = block.memory();
        job.engines[1].attach(&mut job.transports[1], ID, memory, None).expect("attached");
        job.start(0, Access::Get(back.buffer()), &place(block));
        if turn == 0 {
            job.flush();
        }
    }
    let (engine, transport) = (&mut job.engines[0], &mut job.transports[0]);
    engine.flush_all(transport, ID).expect("a flush begins");
    for _ in 0..10_000 {
        protocol::progress(transport, engine);
    }
    assert!(engine.poll_flush(ID, None).is_some(), "the flush waits for the target");
    assert_eq!(back.read(), [2; 16]);
}

/// Accumulates on words of its own by each origin, some by the target's device and some in frames,
/// are in order: each returns what those before it have left. All together lose no addition.
#[test]
fn accumulates_of_a_device_are_in_order() {
    use fabric::sim::Manner::{Immediate, Later, Refused, Whim};
    const OPS: [BuiltinOp; 4] =
        [BuiltinOp::Sum, BuiltinOp::Sum, BuiltinOp::NoOp, BuiltinOp::Replace];
    let long = Datatype::predefined(0x20b).expect("MPI_LONG_LONG");
    for at in 0..40 {
        let (ranks, seed) = ([2, 3][at as usize % 2], seed() + 500 + at);
        let caps = Caps { get_min: 1, offload: Offload::GlobalAtomics, ..ROUGH.caps };
        let one_sided = [Later, Whim, Immediate, Refused][at as usize % 4];
        let mut job = Job::new(ranks, seed, Options { caps, one_sided, ..ROUGH });
        for engine in &mut job.engines {
            engine.fence(ID, false).expect("a fence");
            engine.window_mut(ID).expect("a window").change_words_by(AtomicsBy::Both);
        }
        let mut rng = Rng::new(seed);
        let base = |rank: usize| job.memory[rank].memory().addr();
        // Displacements in units of 4, of the first words that are aligned.
        let first: Vec<i64> =
            (0..ranks as usize).map(|rank| base(rank).wrapping_neg() as i64 % 8 / 4).collect();
        if (0..ranks as usize).any(|rank| !base(rank).is_multiple_of(4)) {
            continue;
        }
        let mut model = vec![vec![[0_i64; 2]; ranks as usize]; ranks as usize];
        let mut sums = vec![0_i64; ranks as usize];
        for round in 0..12 {
            let mut keep: Vec<(Bytes, i64)> = Vec::new();
            for (origin, own_words) in model.iter_mut().enumerate() {
                for _ in 0..6 {
                    let target = rng.below(ranks.into()) as usize;
                    let word = rng.below(2) as usize;
                    let words = &mut own_words[target];
                    let place = |disp: i64, count: u64| Place {
                        target: target as u32,
                        disp: first[target] + 2 * disp,
                        count,
                        datatype: long.clone(),
                    };
                    let own = 8 + 2 * origin as i64;
                    let value = rng.below(1000) as i64;
                    let data = Bytes::new(Shape::Run, &value.to_ne_bytes());
                    let space = Bytes::for_receive(Shape::Run, 8);
                    match rng.below(4) {
                        0 => {
                            // Both words: no device does that.
                            let both = [value.to_ne_bytes(); 2].concat();
                            let both = Bytes::new(Shape::Run, &both);
                            let add = Access::Accumulate(BuiltinOp::Sum, both.buffer());
                            job.start(origin, add, &place(own, 2));
                            words.iter_mut().for_each(|word| *word += value);
                            keep.push((data, value));
                            keep.push((both, i64::MIN));
                        }
                        1 => {
                            let expected = words[word] + rng.below(2) as i64;
                            let other = Bytes::new(Shape::Run, &expected.to_ne_bytes());
                            let (other_buffer, new) = (other.buffer(), data.buffer());
                            let swap = Access::Swap(other_buffer, new, space.buffer());
                            job.start(origin, swap, &place(own + word as i64, 1));
                            keep.push((space, words[word]));
                            keep.push((other, expected));
                            if words[word] == expected {
                                words[word] = value;
                            }
                        }
                        2 => {
                            let add = Access::Accumulate(BuiltinOp::Sum, data.buffer());
                            job.start(origin, add, &place(0, 1));
                            sums[target] += value;
                            keep.push((data, value));
                        }
                        _ => {
                            let op = rng.pick(&OPS).expect("an operation");
                            let fetch = Access::Fetch(op, data.buffer(), space.buffer());
                            job.start(origin, fetch, &place(own + word as i64, 1));
                            keep.push((space, words[word]));
                            keep.push((data, value));
                            words[word] = match op {
                                BuiltinOp::Sum => words[word] + value,
                                BuiltinOp::Replace => value,
                                _ => words[word],
                            };
                        }
                    }
                    if rng.chance(300) {
                        job.progress();
                    }
                }
            }
            job.flush();
            for (found, expected) in keep.iter().filter(|(_, expected)| *expected != i64::MIN) {
                assert_eq!(found.read(), expected.to_ne_bytes(), "round {round}, seed {seed}");
            }
            for (target, sum) in sums.iter().enumerate() {
                let at = 4 * first[target] as usize;
                assert_eq!(job.memory[target].read()[at..at + 8], sum.to_ne_bytes(), "seed {seed}");
            }
        }
    }
}

/// What a rank does in its next turn.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Lock,
    Read,
    Write,
    Unlock,
    Release,
}

#[test]
fn a_lock_protects_a_counter() {
    const EACH: i32 = 15;
    for at in 0..10 {
        let (ranks, seed) = ([2, 3, 4][at as usize % 3], seed() + at);
        let caps = Caps { get_min: 1, put_min: 1, ..ROUGH.caps };
        let device = Options { caps, one_sided: fabric::sim::Manner::Whim, ..ROUGH };
        let mut job = Job::new(ranks, seed, if at % 2 == 0 { ROUGH } else { device });
        let int = Datatype::predefined(0x209).expect("MPI_INT").clone();
        let place = Place { target: 0, disp: 3, count: 1, datatype: int };
        let mut cells: Vec<Bytes> = (0..ranks).map(|_| Bytes::new(Shape::Run, &[0; 4])).collect();
        let (mut turns, mut done) = (vec![Turn::Lock; ranks as usize], vec![0; ranks as usize]);
        let mut holders = 0;
        for round in 0.. {
            assert!(round < MAX_ROUNDS, "seed {seed}: the lock is lost");
            job.progress();
            for rank in 0..ranks as usize {
                let (engine, transport) = (&mut job.engines[rank], &mut job.transports[rank]);
                match turns[rank] {
                    Turn::Lock if done[rank] == EACH => {}
                    Turn::Lock => {
                        engine.lock(transport, ID, 0, true, false).expect("a lock begins");
                        turns[rank] = Turn::Read;
                    }
                    Turn::Read => {
                        let Some(held) = engine.poll_lock(ID, 0) else { continue };
                        held.expect("locked");
                        holders += 1;
                        assert_eq!(holders, 1, "seed {seed}: two ranks hold the lock");
                        let get = Access::Get(cells[rank].buffer());
                        engine.start(transport, ID, get, &place, false).expect("a get");
                        engine.flush(transport, ID, 0).expect("a flush");
                        turns[rank] = Turn::Write;
                    }
                    Turn::Write => {
                        if engine.poll_flush(ID, Some(0)).is_none() {
                            continue;
                        }
                        let value: [u8; 4] = cells[rank].read().try_into().expect("an int");
                        let next = (i32::from_ne_bytes(value) + 1).to_ne_bytes();
                        cells[rank] = Bytes::new(Shape::Run, &next);
                        let put = Access::Put(cells[rank].buffer());
                        engine.start(transport, ID, put, &place, false).expect("a put");
                        turns[rank] = Turn::Unlock;
                    }
                    Turn::Unlock => {
                        if engine.poll_local(ID, Some(0)).is_none() {
                            continue;
                        }
                        holders -= 1;
                        engine.unlock(transport, ID, 0).expect("an unlock begins");
                        turns[rank] = Turn::Release;
                    }
                    Turn::Release => {
                        if engine.poll_flush(ID, Some(0)).is_none() {
                            continue;
                        }
                        engine.end_passive(ID, Some(0)).expect("the epoch ends");
                        done[rank] += 1;
                        turns[rank] = Turn::Lock;
                    }
                }
            }
            if done.iter().all(|&done| done == EACH) {
                break;
            }
        }
        let found: [u8; 4] = job.memory[0].read()[12..16].try_into().expect("an int");
        assert_eq!(i32::from_ne_bytes(found), EACH * ranks as i32, "seed {seed}");
    }
}

/// Of ranks whose processes live.
static NOT_ENDED: AtomicU32 = AtomicU32::new(0);

#[test]
fn the_locks_of_all_targets_are_taken_together_or_not_at_all() {
    const RANKS: usize = 3;
    let records = Bytes::new(Shape::Run, &[0; 8 + RANKS * Control::BYTES]);
    let aligned = records.memory().addr().next_multiple_of(8) - records.memory().addr();
    let remote = |rank| {
        let at = aligned as usize + rank * Control::BYTES;
        let record = records.memory().slice(at, Control::BYTES);
        let control = Control::new(record, rank as u32, &NOT_ENDED);
        Remote { control: Some(control), ..Remote::default() }
    };
    let mut transport = fabric(1, seed(), Options::default()).remove(0);
    let [mut one, mut other] = [0, 1].map(|rank| {
        let own = Memory::Fixed(fabric::UserBuf::EMPTY);
        let (group, remotes) = (Group::world(RANKS as u32), (0..RANKS).map(remote).collect());
        let mut engine = Engine::new();
        engine.open(Window::new((ID, rank), group, own, remotes, LockBy::Memory));
        engine
    });
    // Readers are announced, until there is a writer.
    assert!(other.lock_all_now(0) && lock_now(&mut one, 1, false));
    assert_eq!(other.unlock_all_now(0), Unlocked::Quietly);
    assert!(!lock_now(&mut other, 2, true), "the window had no writer");
    other.lock(&mut transport, ID, 2, true, false).expect("a lock begins");
    assert!(other.poll_lock(ID, 2).expect("an end").is_ok(), "the reader is at another target");
    other.unlock(&mut transport, ID, 2).expect("a lock ends");
    other.end_passive(ID, Some(2)).expect("an epoch ends");
    other.lock(&mut transport, ID, 1, true, false).expect("a lock begins");
    assert!(other.poll_lock(ID, 1).is_none(), "a reader was announced");
    assert_eq!(other.blocked_on(ID, WaitsFor::Lock), Some((1, Some(0))));
    assert_eq!(unlock_now(&mut one, 1), Unlocked::WithWaiters);
    assert!(!lock_now(&mut one, 1, false), "a writer waits");
    assert!(other.has_turn() && other.poll_lock(ID, 1).expect("an end").is_ok());
    other.unlock(&mut transport, ID, 1).expect("a lock ends");
    other.end_passive(ID, Some(1)).expect("an epoch ends");
    // From now on all are tickets.
    assert!(lock_now(&mut one, 2, true) && !other.lock_all_now(0));
    assert_eq!(unlock_now(&mut one, 2), Unlocked::Quietly);
    for target in 0..RANKS as u32 {
        assert!(lock_now(&mut one, target, true), "the lock of {target} was kept");
        assert_eq!(unlock_now(&mut one, target), Unlocked::Quietly);
    }
    assert!(!other.flush_all_now(0) && other.lock_all_now(0) && other.flush_all_now(0));
    assert!(!other.lock_all_now(0), "the epoch is open");
    assert!(!lock_now(&mut one, 1, true) && one.lock_all_now(0), "readers share");
    assert_eq!(unlock_now(&mut other, 1), Unlocked::Refused);
    assert_eq!(other.unlock_all_now(0), Unlocked::Quietly, "nobody waits for the other reader");
    assert_eq!(other.unlock_all_now(0), Unlocked::Refused);
    assert_eq!(one.unlock_all_now(0), Unlocked::Quietly);
    assert!(lock_now(&mut other, 0, true));
}

/// Takes a lock at once, in the only window of an engine.
fn lock_now(engine: &mut Engine, target: u32, exclusive: bool) -> bool {
    engine.remember(0, ID as usize, target, None);
    engine.lock_now(ID as usize, target, exclusive)
}

/// Returns a lock at once, in the only window of an engine.
fn unlock_now(engine: &mut Engine, target: u32) -> Unlocked {
    engine.remember(0, ID as usize, target, None);
    engine.unlock_now(ID as usize, target)
}

#[test]
fn a_lock_whose_holder_has_died_is_an_error_that_names_it() {
    let options = Options { death: Some((Peer(1), 50)), max_delay: 5, ..Options::default() };
    let records = Bytes::new(Shape::Run, &[0; 8 + 2 * Control::BYTES]);
    let aligned = records.memory().addr().next_multiple_of(8) - records.memory().addr();
    let control = |rank| {
        let at = aligned as usize + rank * Control::BYTES;
        Control::new(records.memory().slice(at, Control::BYTES), rank as u32, &NOT_ENDED)
    };
    let remotes = [0, 1].map(|rank| Remote { control: Some(control(rank)), ..Remote::default() });
    let mut transports = fabric(2, seed(), options);
    let mut engines = [0, 1].map(|rank| {
        let own = Memory::Fixed(fabric::UserBuf::EMPTY);
        let mut engine = Engine::new();
        let group = Group::world(2);
        engine.open(Window::new((ID, rank), group, own, remotes.to_vec(), LockBy::Memory));
        engine
    });
    assert!(lock_now(&mut engines[1], 0, false), "the lock is free");
    engines[0].lock(&mut transports[0], ID, 0, true, false).expect("a lock begins");
    assert!(engines[0].poll_lock(ID, 0).is_none(), "rank 1 holds it");
    assert_eq!(engines[0].blocked_on(ID, WaitsFor::Lock), Some((0, Some(1))));
    for _ in 0..1000 {
        protocol::progress(&mut transports[0], &mut engines[0]);
    }
    let error = engines[0].poll_lock(ID, 0).expect("an end").expect_err("a failure");
    assert_eq!(error.class(), objects::Class::ProcAborted);
    assert!(error.detail().starts_with("rank 1 holds the lock of rank 0, and has failed"));
}

#[test]
fn a_target_that_dies_ends_what_waits_for_it() {
    let options = Options { death: Some((Peer(1), 50)), max_delay: 5, ..Options::default() };
    let mut job = Job::new(2, seed(), options);
    job.engines[0].fence(ID, false).expect("a fence");
    let int = Datatype::predefined(0x209).expect("MPI_INT").clone();
    let place = Place { target: 1, disp: 0, count: 1, datatype: int };
    let cell = Bytes::new(Shape::Run, &[0; 4]);
    let (engine, transport) = (&mut job.engines[0], &mut job.transports[0]);
    engine.start(transport, ID, Access::Get(cell.buffer()), &place, false).expect("a get");
    engine.flush(transport, ID, 1).expect("a flush");
    for _ in 0..1000 {
        protocol::progress(transport, engine);
    }
    assert!(engine.poll_flush(ID, Some(1)).is_some(), "the flush waits for a dead process");
    let get = engine.start(transport, ID, Access::Get(cell.buffer()), &place, false);
    assert_eq!(get.unwrap_err().class(), objects::Class::ProcAborted);
}
