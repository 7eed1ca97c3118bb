//! Every algorithm against a naive reference, on all ranks at once.

mod model;
mod placement;
mod random;

use collectives::{
    Algorithm, CollArgs, Extent, Position, Rule, Schedule, SegmentUse, Selection, Space,
    Thresholds, Ty,
};
use fabric::CollectiveKind;
use model::{Memory, RankModel, Type};
use placement::Chooser;
use random::Random;

const SIZES: [u32; 21] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64];
const ROUNDS: u64 = 5;

/// Thresholds that reach every algorithm sooner or later.
fn any_selection(random: &mut Random, size: u32, reproducible: bool) -> Chooser {
    let mut at = || [0, 1, 40, 300, u64::MAX][random.below(5) as usize];
    let thresholds = Thresholds {
        bcast_long: at(),
        gather_long: at(),
        scatter_long: at(),
        allgather_long: at(),
        alltoall_short: at(),
        reduce_long: at(),
        allreduce_long: at(),
        reduce_scatter_long: at(),
        oversubscribed_max: Some(at()).filter(|&at| at != 40),
        get_min: at(),
        shm: at() != 0,
        shm_max: None,
        shm_pieces_max: 0,
        hierarchical: true,
        lanes_min: at(),
        fan_max: at(),
        radix: 2 + (at() % 7) as u32,
        host_segment: None,
        piece: 1 + at() % 301,
        window: 2 + at() as u32 % 7,
        reproducible,
    };
    match reproducible {
        // The table alone keeps the order of operands.
        true => Chooser::of_table(Selection::new(&thresholds), size, random),
        false => Chooser::new(Selection::new(&thresholds), size, random),
    }
}

fn any_count(random: &mut Random) -> u64 {
    [0, 1, 2, 3, 7, 20, 33][random.below(7) as usize]
}

/// A type of eight bytes, or another one of the same signature.
fn types(random: &mut Random) -> Vec<Type> {
    vec![Type::of_eight(random), Type::of_eight(random)]
}

/// One rank of a test: its types, and which of its buffers hold what.
struct Rank {
    types: Vec<Type>,
    send: Memory,
    recv: Memory,
}

impl Rank {
    /// Buffers with space for `count` elements each.
    fn new(random: &mut Random, send: u64, recv: u64) -> Rank {
        let types = types(random);
        let (low, high) = types[0].shape().reach(send);
        let send = Memory::new(low, high, 0xaa);
        let (low, high) = types[1].shape().reach(recv);
        let recv = Memory::new(low, high, 0xbb);
        Rank { types, send, recv }
    }

    fn send(&self, count: u64) -> Extent {
        Extent::new(Space::Send, Ty::of(0), count, self.types[0].shape())
    }

    fn recv(&self, count: u64) -> Extent {
        Extent::new(Space::Recv, Ty::of(1), count, self.types[1].shape())
    }

    fn fill(&mut self, run: Extent, bytes: &[u8]) {
        let index = run.ty.index().unwrap();
        let ty = &self.types[index];
        match run.space {
            Space::Send => self.send.unpack(&run.span(), ty, bytes),
            _ => self.recv.unpack(&run.span(), ty, bytes),
        }
    }

    fn with_schedule(self, schedule: Schedule) -> RankModel {
        RankModel::new(schedule, self.send, self.recv, self.types)
    }
}

/// The receive buffer holds `bytes` at `run`, and nothing else has changed.
fn expect(models: &RankModel, before: &Memory, run: Extent, bytes: &[u8], what: &str) {
    let mut wanted = before.clone();
    wanted.unpack(&run.span(), &models.types[run.ty.index().unwrap()], bytes);
    assert!(models.recv == wanted, "wrong result: {what}");
}

fn sum(left: &[u8], inout: &mut [u8]) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let result = number(left).wrapping_add(number(inout));
    inout.copy_from_slice(&result.to_le_bytes());
}

/// x -> a x + b, composed: associative, and order matters.
fn compose(left: &[u8], inout: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (a, b) = (word(left, 0), word(left, 4));
    let (c, d) = (word(inout, 0), word(inout, 4));
    inout[..4].copy_from_slice(&a.wrapping_mul(c).to_le_bytes());
    inout[4..].copy_from_slice(&a.wrapping_mul(d).wrapping_add(b).to_le_bytes());
}

/// Not associative: shows in which order operands were combined.
fn order(left: &[u8], inout: &mut [u8]) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let result = number(left).wrapping_mul(31).rotate_left(7) ^ number(inout);
    inout.copy_from_slice(&result.to_le_bytes());
}

type Operator = fn(&[u8], &mut [u8]);

/// The reduction of `vectors` from left to right, element by element.
fn reduced(vectors: &[Vec<u8>], operator: Operator) -> Vec<u8> {
    let mut vectors = vectors.iter();
    let mut result = vectors.next().unwrap().clone();
    for vector in vectors {
        let mut inout = vector.clone();
        for (left, right) in result.chunks(8).zip(inout.chunks_mut(8)) {
            operator(left, right);
        }
        result = inout;
    }
    result
}

/// Runs `test` for every size and several seeds, saying which one failed.
fn for_all(test: impl Fn(u32, &mut Random)) {
    for size in SIZES {
        for round in 0..ROUNDS {
            let seed = u64::from(size) << 32 | round;
            let case = std::panic::AssertUnwindSafe(|| test(size, &mut Random(seed)));
            if let Err(panic) = std::panic::catch_unwind(case) {
                eprintln!("failed with {size} ranks, seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn barrier_waits_for_all_ranks() {
    for_all(|size, random| {
        let selection = any_selection(random, size, false);
        let mut any_models = || -> Vec<RankModel> {
            let schedule = |rank| selection.schedule(&CollArgs::Barrier, rank);
            (0..size as usize)
                .map(|rank| Rank::new(random, 0, 0).with_schedule(schedule(rank)))
                .collect()
        };
        let (mut models, mut others) = (any_models(), any_models());
        model::run(&mut models, random, &sum);
        model::run_without(random.below(size.into()) as usize, &mut others, random);
        let algorithm =
            selection.selection.choose(&CollArgs::Barrier, selection.position(0), false);
        let wanted = match algorithm {
            Algorithm::Leaders | Algorithm::Fan | Algorithm::Radix => return,
            Algorithm::Linear => 2 * (size - 1).min(1),
            _ => 32 - (size - 1).leading_zeros(),
        };
        assert!(models.iter().all(|rank| rank.schedule.rounds().len() as u32 == wanted));
    });
}

#[test]
fn bcast() {
    for_all(|size, random| {
        let (selection, count) = (any_selection(random, size, false), any_count(random));
        let root = random.below(size.into()) as usize;
        let data = random.bytes(8 * count);
        let mut models = Vec::new();
        for rank in 0..size as usize {
            let mut model = Rank::new(random, 0, count);
            let run = model.recv(count);
            if rank == root {
                model.fill(run, &data);
            }
            let args = CollArgs::Bcast { root: root as u32, data: run };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &sum);
        for (rank, before) in models.iter().zip(&before) {
            let run = Extent::new(Space::Recv, Ty::of(1), count, rank.types[1].shape());
            expect(rank, before, run, &data, "bcast");
        }
    });
}

/// Where each rank's block stands: one after the other, or with holes and in
/// any order.
fn layout(random: &mut Random, counts: &[u64], regular: bool) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    if !regular {
        for i in 1..order.len() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
    }
    let (mut starts, mut at) = (vec![0; counts.len()], 0);
    for index in order {
        at += if regular { 0 } else { random.below(3) };
        starts[index] = at;
        at += counts[index];
    }
    (starts, at)
}

fn block_counts(random: &mut Random, size: u32, regular: bool) -> Vec<u64> {
    let each = any_count(random);
    (0..size).map(|_| if regular { each } else { any_count(random) }).collect()
}

#[test]
fn gather_and_gatherv() {
    for_all(|size, random| {
        let (selection, regular) = (any_selection(random, size, false), random.chance());
        let root = random.below(size.into()) as usize;
        let counts = block_counts(random, size, regular);
        let (starts, total) = layout(random, &counts, regular);
        let data: Vec<Vec<u8>> = counts.iter().map(|&count| random.bytes(8 * count)).collect();
        let in_place = random.chance();
        let mut models = Vec::new();
        for rank in 0..size as usize {
            let mut model = Rank::new(random, counts[rank], if rank == root { total } else { 0 });
            let whole = model.recv(total);
            let blocks: Vec<Extent> =
                (0..size as usize).map(|i| whole.part(starts[i], counts[i])).collect();
            let own =
                if in_place && rank == root { blocks[rank] } else { model.send(counts[rank]) };
            model.fill(own, &data[rank]);
            let own = (own.space == Space::Send).then_some(own);
            let root_rank = root as u32;
            let args = if regular {
                CollArgs::Gather { root: root_rank, own, all: (rank == root).then_some(whole) }
            } else {
                CollArgs::Gatherv {
                    root: root_rank,
                    own,
                    all: (rank == root).then_some(&blocks[..]),
                }
            };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let mut wanted = models[root].recv.clone();
        model::run(&mut models, random, &sum);
        let ty = &models[root].types[1];
        let whole = Extent::new(Space::Recv, Ty::of(1), total, ty.shape());
        for rank in 0..size as usize {
            wanted.unpack(&whole.part(starts[rank], counts[rank]).span(), ty, &data[rank]);
        }
        assert!(models[root].recv == wanted, "wrong result: gather");
    });
}

#[test]
fn scatter_and_scatterv() {
    for_all(|size, random| {
        let (selection, regular) = (any_selection(random, size, false), random.chance());
        let root = random.below(size.into()) as usize;
        let counts = block_counts(random, size, regular);
        let (starts, total) = layout(random, &counts, regular);
        let data: Vec<Vec<u8>> = counts.iter().map(|&count| random.bytes(8 * count)).collect();
        let in_place = random.chance();
        let mut models = Vec::new();
        for rank in 0..size as usize {
            let mut model = Rank::new(random, if rank == root { total } else { 0 }, counts[rank]);
            let whole = model.send(total);
            let blocks: Vec<Extent> =
                (0..size as usize).map(|i| whole.part(starts[i], counts[i])).collect();
            if rank == root {
                blocks.iter().zip(&data).for_each(|(&block, data)| model.fill(block, data));
            }
            let own = (rank != root || !in_place).then_some(model.recv(counts[rank]));
            let root_rank = root as u32;
            let args = if regular {
                CollArgs::Scatter { root: root_rank, all: (rank == root).then_some(whole), own }
            } else {
                CollArgs::Scatterv {
                    root: root_rank,
                    all: (rank == root).then_some(&blocks[..]),
                    own,
                }
            };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &sum);
        for rank in (0..size as usize).filter(|&rank| rank != root || !in_place) {
            let run =
                Extent::new(Space::Recv, Ty::of(1), counts[rank], models[rank].types[1].shape());
            expect(&models[rank], &before[rank], run, &data[rank], "scatter");
        }
    });
}

#[test]
fn allgather_and_allgatherv() {
    for_all(|size, random| {
        let (selection, regular) = (any_selection(random, size, false), random.chance());
        let counts = block_counts(random, size, regular);
        let (starts, total) = layout(random, &counts, regular);
        let data: Vec<Vec<u8>> = counts.iter().map(|&count| random.bytes(8 * count)).collect();
        let in_place = random.chance();
        let mut models = Vec::new();
        for rank in 0..size as usize {
            let mut model = Rank::new(random, counts[rank], total);
            let whole = model.recv(total);
            let blocks: Vec<Extent> =
                (0..size as usize).map(|i| whole.part(starts[i], counts[i])).collect();
            let own = if in_place { blocks[rank] } else { model.send(counts[rank]) };
            model.fill(own, &data[rank]);
            let own = (!in_place).then_some(own);
            let args = if regular {
                CollArgs::Allgather { own, all: whole }
            } else {
                CollArgs::Allgatherv { own, all: &blocks }
            };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &sum);
        for (rank, before) in models.iter().zip(before) {
            let mut wanted = before;
            let whole = Extent::new(Space::Recv, Ty::of(1), total, rank.types[1].shape());
            for i in 0..size as usize {
                wanted.unpack(&whole.part(starts[i], counts[i]).span(), &rank.types[1], &data[i]);
            }
            assert!(rank.recv == wanted, "wrong result: allgather");
        }
    });
}

#[test]
fn alltoall_v_and_w() {
    for_all(|size, random| {
        let (selection, regular) = (any_selection(random, size, false), random.chance());
        let in_place = random.chance();
        let n = size as usize;
        let each = any_count(random);
        // From rank to rank; in place what goes and what comes are as long.
        let mut counts = vec![vec![each; n]; n];
        if !regular {
            for (a, b) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))) {
                counts[a][b] = if in_place && b < a { counts[b][a] } else { any_count(random) };
            }
        }
        let data: Vec<Vec<Vec<u8>>> = counts
            .iter()
            .map(|row| row.iter().map(|&count| random.bytes(8 * count)).collect())
            .collect();
        let kind = if regular { CollectiveKind::Alltoall } else { CollectiveKind::Alltoallv };
        let (mut models, mut places) = (Vec::new(), Vec::new());
        for rank in 0..n {
            let incoming: Vec<u64> = (0..n).map(|from| counts[from][rank]).collect();
            let (to_starts, to_total) = layout(random, &incoming, regular);
            let (from_starts, from_total) = layout(random, &counts[rank], regular);
            let mut model = Rank::new(random, from_total, to_total);
            let to: Vec<Extent> =
                (0..n).map(|i| model.recv(to_total).part(to_starts[i], incoming[i])).collect();
            let from: Vec<Extent> = if in_place {
                to.clone()
            } else {
                (0..n)
                    .map(|i| model.send(from_total).part(from_starts[i], counts[rank][i]))
                    .collect()
            };
            from.iter().zip(&data[rank]).for_each(|(&block, data)| model.fill(block, data));
            let args = CollArgs::Alltoall { kind, from: (!in_place).then_some(&from[..]), to: &to };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
            places.push(to);
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &sum);
        for rank in 0..n {
            let mut wanted = before[rank].clone();
            for from in 0..n {
                wanted.unpack(
                    &places[rank][from].span(),
                    &models[rank].types[1],
                    &data[from][rank],
                );
            }
            assert!(models[rank].recv == wanted, "wrong result: alltoall");
        }
    });
}

/// The inputs of a reduction test: vectors, operator, and the ranks with inputs.
struct Reduction {
    vectors: Vec<Vec<u8>>,
    operator: Operator,
    commutative: bool,
    ranks: Vec<Rank>,
    inputs: Vec<Extent>,
}

fn reduction(
    size: u32,
    random: &mut Random,
    count: u64,
    in_place_at: impl Fn(usize) -> bool,
) -> Reduction {
    let commutative = random.chance();
    let in_place = random.chance();
    let vectors: Vec<Vec<u8>> = (0..size).map(|_| random.bytes(8 * count)).collect();
    let (mut ranks, mut inputs) = (Vec::new(), Vec::new());
    for (index, vector) in vectors.iter().enumerate() {
        let mut model = Rank::new(random, count, count);
        let input =
            if in_place && in_place_at(index) { model.recv(count) } else { model.send(count) };
        // A reduction has one type: both spaces are laid out by it.
        model.types[0] = model.types[1].clone();
        let (low, high) = model.types[0].shape().reach(count);
        model.send = Memory::new(low, high, 0xaa);
        let input = Extent { shape: model.types[1].shape(), ty: Ty::of(1), ..input };
        model.fill(input, vector);
        ranks.push(model);
        inputs.push(input);
    }
    let operator = if commutative { sum as Operator } else { compose };
    Reduction { vectors, operator, commutative, ranks, inputs }
}

#[test]
fn reduce() {
    for_all(|size, random| {
        let (selection, count) = (any_selection(random, size, false), any_count(random));
        let root = random.below(size.into()) as usize;
        let case = reduction(size, random, count, |rank| rank == root);
        let mut models = Vec::new();
        for (rank, (model, &input)) in case.ranks.into_iter().zip(&case.inputs).enumerate() {
            let output = (rank == root).then_some(model.recv(count));
            let args = CollArgs::Reduce {
                root: root as u32,
                input,
                output,
                commutative: case.commutative,
            };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &case.operator);
        for rank in 0..size as usize {
            let run = Extent::new(Space::Recv, Ty::of(1), count, models[rank].types[1].shape());
            match rank == root {
                true => expect(
                    &models[rank],
                    &before[rank],
                    run,
                    &reduced(&case.vectors, case.operator),
                    "reduce",
                ),
                false => {
                    assert!(models[rank].recv == before[rank], "another rank's buffer was written")
                }
            }
        }
    });
}

#[test]
fn allreduce() {
    for_all(|size, random| {
        let reproducible = random.below(4) == 0;
        let (selection, count) = (any_selection(random, size, reproducible), any_count(random));
        let case = reduction(size, random, count, |_| true);
        let mut models = Vec::new();
        for (rank, (model, &input)) in case.ranks.into_iter().zip(&case.inputs).enumerate() {
            let args = CollArgs::Allreduce {
                input,
                output: model.recv(count),
                commutative: case.commutative,
            };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &case.operator);
        let wanted = reduced(&case.vectors, case.operator);
        for (rank, before) in models.iter().zip(&before) {
            let run = Extent::new(Space::Recv, Ty::of(1), count, rank.types[1].shape());
            expect(rank, before, run, &wanted, "allreduce");
        }
    });
}

#[test]
fn reduce_scatter() {
    for_all(|size, random| {
        let (selection, regular) = (any_selection(random, size, false), random.chance());
        let counts = block_counts(random, size, regular);
        let count = counts.iter().sum();
        let case = reduction(size, random, count, |_| true);
        let mut models = Vec::new();
        for (rank, (model, &input)) in case.ranks.into_iter().zip(&case.inputs).enumerate() {
            let kind = if regular {
                CollectiveKind::ReduceScatterBlock
            } else {
                CollectiveKind::ReduceScatter
            };
            let output = model.recv(counts[rank]);
            let args = CollArgs::ReduceScatter {
                kind,
                input,
                counts: &counts,
                output,
                commutative: case.commutative,
            };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &case.operator);
        let wanted = reduced(&case.vectors, case.operator);
        let mut at = 0;
        for rank in 0..size as usize {
            let run =
                Extent::new(Space::Recv, Ty::of(1), counts[rank], models[rank].types[1].shape());
            let bytes = &wanted[at..at + 8 * counts[rank] as usize];
            at += bytes.len();
            expect(&models[rank], &before[rank], run, bytes, "reduce_scatter");
        }
    });
}

#[test]
fn scan_and_exscan() {
    for_all(|size, random| {
        let (selection, count, exclusive) =
            (any_selection(random, size, false), any_count(random), random.chance());
        let case = reduction(size, random, count, |_| true);
        let mut models = Vec::new();
        for (rank, (model, &input)) in case.ranks.into_iter().zip(&case.inputs).enumerate() {
            let output = model.recv(count);
            let args = if exclusive {
                CollArgs::Exscan { input, output }
            } else {
                CollArgs::Scan { input, output }
            };
            models.push(model.with_schedule(selection.schedule(&args, rank)));
        }
        let before: Vec<Memory> = models.iter().map(|rank| rank.recv.clone()).collect();
        model::run(&mut models, random, &case.operator);
        for rank in 0..size as usize {
            let run = Extent::new(Space::Recv, Ty::of(1), count, models[rank].types[1].shape());
            let upto = if exclusive { rank } else { rank + 1 };
            match upto {
                0 => assert!(models[0].recv == before[0], "exscan leaves rank 0 alone"),
                _ => {
                    let wanted = reduced(&case.vectors[..upto], case.operator);
                    expect(&models[rank], &before[rank], run, &wanted, "scan");
                }
            }
        }
    });
}

#[test]
fn reproducible_reductions_combine_in_one_order() {
    for size in SIZES {
        let mut results = Vec::new();
        for round in 0..8 {
            let random = &mut Random(round);
            let selection = any_selection(random, size, true);
            let longer = round % 4;
            let vectors: Vec<Vec<u8>> =
                (0..size).map(|rank| Random(rank.into()).bytes(8 + 8 * longer)).collect();
            let root = random.below(size.into()) as u32;
            let mut models = Vec::new();
            for (rank, vector) in vectors.iter().enumerate() {
                let mut model = Rank::new(random, 1 + longer, 1 + longer);
                model.types = vec![Type::gapless(8); 2];
                model.send = Memory::new(0, 8 + 8 * longer as i64, 0);
                model.recv = Memory::new(0, 8 + 8 * longer as i64, 0);
                let (input, output) = (model.send(1 + longer), model.recv(1 + longer));
                model.fill(input, vector);
                let args = if round % 2 == 0 {
                    CollArgs::Allreduce { input, output, commutative: true }
                } else {
                    let output = (rank as u32 == root).then_some(output);
                    CollArgs::Reduce { root, input, output, commutative: true }
                };
                models.push(model.with_schedule(selection.schedule(&args, rank)));
            }
            model::run(&mut models, random, &order);
            results.push(models[root as usize].recv.bytes[..8].to_vec());
        }
        assert!(
            results.windows(2).all(|pair| pair[0] == pair[1]),
            "{size} ranks: the order changed"
        );
    }
}

#[test]
fn neighbours_in_a_small_ring_keep_their_sides() {
    // A periodic Cartesian line: with one or two ranks both neighbours are the
    // same one, and what leaves to the left must arrive from the right.
    for size in [1u32, 2, 3, 4] {
        let random = &mut Random(size.into());
        let selection = any_selection(random, size, false);
        let mut models = Vec::new();
        for rank in 0..size {
            let pos = Position::new(rank, size);
            let mut model = Rank::new(random, 2, 2);
            model.types = vec![Type::gapless(8); 2];
            model.send = Memory::new(0, 16, 0);
            model.recv = Memory::new(0, 16, 0);
            let (out, into) = (model.send(2).split(2), model.recv(2).split(2));
            model.fill(out[0], &[rank as u8 * 2; 8]);
            model.fill(out[1], &[rank as u8 * 2 + 1; 8]);
            let around = [Some(pos.behind(1)), Some(pos.ahead(1))];
            let args = CollArgs::Neighbor {
                kind: CollectiveKind::NeighborAlltoall,
                cartesian: true,
                sources: &around,
                into: &into,
                destinations: &around,
                out: &out,
            };
            models.push(model.with_schedule(selection.selection.schedule(&args, pos, false)));
        }
        model::run(&mut models, random, &sum);
        for (rank, model) in models.iter().enumerate() {
            let pos = Position::new(rank as u32, size);
            assert_eq!(
                model.recv.bytes[0],
                pos.behind(1) as u8 * 2 + 1,
                "from the left comes what left to the right"
            );
            assert_eq!(model.recv.bytes[8], pos.ahead(1) as u8 * 2);
        }
    }
}

#[test]
fn ranks_that_share_a_segment_use_it_if_it_can_serve() {
    let selection =
        Selection::new(&Thresholds { oversubscribed_max: Some(100), ..Thresholds::default() });
    let run = |count, size| Extent::new(Space::Recv, Ty::of(0), count, Type::gapless(size).shape());
    let sum = |input| CollArgs::Allreduce { input, output: input, commutative: true };
    let pos = Position::new(0, 6);
    let chosen = |args: &CollArgs, has_segment| selection.choose(args, pos, has_segment);
    let barrier = |may| selection.choose(&CollArgs::Barrier, pos, may);
    assert_eq!(
        [SegmentUse::Anything, SegmentUse::FewRounds, SegmentUse::Nothing].map(barrier),
        [Algorithm::SegmentRoot, Algorithm::SegmentCounter, Algorithm::Linear],
        "rank 0 may compute while a barrier that does not block waits for it"
    );
    for args in [CollArgs::Bcast { root: 1, data: run(12, 8) }, sum(run(12, 8))] {
        assert_eq!(
            (chosen(&args, true), chosen(&args, false)),
            (Algorithm::SegmentCounter, Algorithm::Linear)
        );
        assert!(selection.schedule(&args, pos, true).uses_segment());
    }
    assert_eq!(
        chosen(&sum(run(13, 8)), true),
        Algorithm::SegmentPieces,
        "too large for one rank to combine all"
    );
    let blocks = run(6, 16).split(6);
    let kind = CollectiveKind::Alltoall;
    for args in [
        CollArgs::Gather { root: 1, own: Some(run(100, 8)), all: None },
        CollArgs::Scatter { root: 1, all: None, own: Some(run(6, 8)) },
        CollArgs::Allgather { own: None, all: run(600, 8) },
        CollArgs::Alltoall { kind, from: Some(&blocks), to: &blocks },
    ] {
        assert_eq!(chosen(&args, true), Algorithm::SegmentCounter, "{args:?}");
        assert_ne!(chosen(&args, false), Algorithm::SegmentCounter, "{args:?}");
    }
    for args in [
        CollArgs::Gather { root: 1, own: Some(run(101, 8)), all: None },
        CollArgs::Scatter { root: 1, all: None, own: Some(run(7, 8)) },
        CollArgs::Allgather { own: None, all: run(606, 8) },
        CollArgs::Alltoall { kind: CollectiveKind::Alltoallv, from: Some(&blocks), to: &blocks },
    ] {
        assert_ne!(chosen(&args, true), Algorithm::SegmentCounter, "{args:?}");
    }
    let gaps = Type { blocks: vec![(0, 4)], extent: 16 }.shape();
    let gaps = Extent::new(Space::Recv, Ty::of(0), 2, gaps);
    assert_eq!(
        chosen(&sum(gaps), true),
        Algorithm::Linear,
        "operands lie in slots as in the user's memory"
    );
    let data = CollArgs::Bcast { root: 1, data: gaps };
    assert_eq!(
        chosen(&data, true),
        Algorithm::SegmentCounter,
        "which does not matter to a broadcast"
    );
    let selection =
        Selection::new(&Thresholds { oversubscribed_max: Some(1 << 20), ..Thresholds::default() });
    let of = |count, size| selection.choose(&sum(run(count, 8)), Position::new(0, size), true);
    use Algorithm::{SegmentCounter, SegmentPieces};
    assert_eq!(
        [4096, 4097].map(|count| of(count, 6)),
        [SegmentCounter, SegmentPieces],
        "a slot has no more"
    );
    assert_eq!(
        [2048, 2049].map(|count| of(count, 256)),
        [SegmentCounter, SegmentPieces],
        "all slots have no more"
    );
    assert_eq!(
        [128, 129].map(|count| of(count, 8000)),
        [SegmentCounter, SegmentPieces],
        "but always so much each"
    );
}

#[test]
fn ranks_with_a_processor_each_use_flags_where_slots_have_space() {
    let selection = Selection::new(&Thresholds { shm_max: Some(100), ..Thresholds::default() });
    let run = |space, count| Extent::new(space, Ty::of(0), count, Type::gapless(8).shape());
    let pos = Position::new(0, 4);
    let chosen = |args: &CollArgs, has_segment| selection.choose(args, pos, has_segment);
    let blocks = |each: u64| run(Space::Send, 4 * each).split(4);
    let (three, four) = (blocks(3), blocks(4));
    let counts = [0, 9, 0, 3];
    let output = run(Space::Recv, 0);
    let kind = CollectiveKind::ReduceScatter;
    for args in [
        CollArgs::Barrier,
        CollArgs::Gather { root: 1, own: Some(run(Space::Send, 12)), all: None },
        CollArgs::Allgather { own: None, all: run(Space::Recv, 48) },
        CollArgs::Alltoall { kind: CollectiveKind::Alltoall, from: Some(&three), to: &three },
        CollArgs::ReduceScatter {
            kind,
            input: run(Space::Send, 12),
            counts: &counts,
            output,
            commutative: false,
        },
    ] {
        assert_eq!(chosen(&args, true), Algorithm::SegmentFlags, "{args:?}");
        assert_ne!(chosen(&args, false), Algorithm::SegmentFlags, "{args:?}");
    }
    for args in [
        CollArgs::Scatter { root: 0, all: Some(run(Space::Send, 16)), own: None },
        CollArgs::Alltoall { kind: CollectiveKind::Alltoall, from: Some(&four), to: &four },
        CollArgs::Alltoall { kind: CollectiveKind::Alltoallv, from: Some(&three), to: &three },
    ] {
        assert_ne!(chosen(&args, true), Algorithm::SegmentFlags, "{args:?}");
    }
    let gaps = Type { blocks: vec![(0, 4)], extent: 16 }.shape();
    let gaps = Extent::new(Space::Recv, Ty::of(0), 2, gaps);
    let sum = CollArgs::Allreduce { input: gaps, output: gaps, commutative: true };
    assert_ne!(
        chosen(&sum, true),
        Algorithm::SegmentFlags,
        "operands lie in slots as in the user's memory"
    );
    let thresholds = Thresholds { shm_max: Some(100), reproducible: true, ..Thresholds::default() };
    let sum = CollArgs::Allreduce { input: run(Space::Send, 1), output, commutative: true };
    assert_ne!(Selection::new(&thresholds).choose(&sum, pos, true), Algorithm::SegmentFlags);
}

#[test]
fn every_rule_of_the_table_can_be_reached_and_overridden() {
    let mut selection = Selection::new(&Thresholds::default());
    let shape = Type::gapless(8).shape();
    let run = Extent::new(Space::Recv, Ty::of(0), 1, shape);
    let args = CollArgs::Allreduce { input: run, output: run, commutative: true };
    let pos = Position::new(0, 6);
    assert_eq!(selection.choose(&args, pos, false), collectives::Algorithm::RecursiveDoubling);
    let ring = Rule::new(CollectiveKind::Allreduce, collectives::Algorithm::Ring);
    let rule = Rule { bytes: 8, ranks: 6, ..ring };
    selection.prefer(rule);
    assert_eq!(selection.choose(&args, pos, false), collectives::Algorithm::Ring);
    let ordered = CollArgs::Allreduce { input: run, output: run, commutative: false };
    assert_ne!(selection.choose(&ordered, pos, false), collectives::Algorithm::Ring);
}
