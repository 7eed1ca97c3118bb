//! Reproducible reductions: the same bits on any placement, whatever rules, sizes of algorithms,
//! delays, roots and buffers there are.

use collectives::{Algorithm, Operation, Plan, Rule, Thresholds, Vector};
use fabric::CollectiveKind;
use objects::{Area, Datatype, Op};

use crate::cases::SUM;
use crate::placement::any_hosts;
use crate::random::Random;
use crate::runs::{any_thresholds, comms};
use crate::world::{Bytes, World, any_options, packed};

const DOUBLE: usize = 0x214;

/// A vector of each rank: numbers of which each order of adding them gives another sum.
fn operands(size: u32, count: u64, random: &mut Random) -> Vec<Vec<f64>> {
    let mut number = || {
        let mantissa = random.below(1 << 52) as f64 - (1u64 << 51) as f64;
        mantissa * 2f64.powi(random.below(40) as i32)
    };
    (0..size).map(|_| (0..count).map(|_| number()).collect()).collect()
}

/// The reductions of these operands in a world.
struct Run<'a> {
    world: World,
    operands: &'a [Vec<f64>],
    count: u64,
    in_place: bool,
    random: &'a mut Random,
}

impl Run<'_> {
    /// Runs one operation on all ranks; the bytes of each rank's result.
    fn of(&mut self, sequence: i32, reduction: &Reduction) -> Vec<Vec<u8>> {
        let (ty, op) = (Datatype::predefined(DOUBLE).unwrap(), Op::predefined(SUM).unwrap());
        let comms = &comms(self.operands.len() as u32)[0];
        let in_place = self.in_place && *reduction == Reduction::Allreduce;
        let buffers: Vec<[Bytes; 2]> = (self.operands.iter())
            .map(|vector| {
                let bytes: Vec<u8> = vector.iter().flat_map(|n| n.to_ne_bytes()).collect();
                let buffers = [0; 2].map(|_| Bytes::new(self.count, ty, 0xbb));
                buffers[usize::from(in_place)].fill(0, self.count, ty, &bytes);
                buffers
            })
            .collect();
        let plan = |world: &mut World, rank: usize| -> Plan {
            let [send, recv]: [Area; 2] = [&buffers[rank][0], &buffers[rank][1]].map(Bytes::area);
            let send = (!in_place).then_some(send);
            let vector = Vector { send, recv: Some(recv), ty, handle: DOUBLE, op: &op };
            world.plan(rank, &reduction.operation(vector, self.count), &comms[rank])
        };
        let plans: Vec<Plan> = (0..comms.len()).map(|rank| plan(&mut self.world, rank)).collect();
        let start = |(rank, plan)| (rank, self.world.start(rank, plan, sequence));
        let ids: Vec<_> = plans.into_iter().enumerate().map(start).collect();
        assert!(self.world.finish(&ids, self.random).iter().all(Result::is_ok));
        let result = |(rank, [_, recv]): (usize, &[Bytes; 2])| {
            packed(&recv.area().buffer(0, reduction.result_count(rank, self.count), ty))
        };
        buffers.iter().enumerate().map(result).collect()
    }

    /// Runs all reductions; the bytes of all results in the order of ranks, for an operation each.
    fn all(&mut self) -> Vec<Vec<u8>> {
        let (size, count) = (self.operands.len() as u64, self.count);
        let root = self.random.below(size);
        let counts = (0..size).map(|rank| count / 2 * u64::from(rank == 0)).collect();
        let results = [
            Reduction::Allreduce,
            Reduction::Reduce(root as u32),
            Reduction::ReduceScatter(counts),
            Reduction::ReduceScatterBlock(count / size),
            Reduction::Scan,
            Reduction::Exscan,
        ];
        (0..).zip(&results).map(|(sequence, of)| self.of(sequence, of).concat()).collect()
    }
}

/// An operation.
#[derive(PartialEq)]
enum Reduction {
    Allreduce,
    Reduce(u32),
    ReduceScatter(Vec<u64>),
    ReduceScatterBlock(u64),
    Scan,
    Exscan,
}

impl Reduction {
    fn operation<'a>(&'a self, vector: Vector<'a>, count: u64) -> Operation<'a> {
        match self {
            Reduction::Allreduce => Operation::Allreduce { vector, count },
            Reduction::Reduce(root) => Operation::Reduce { root: *root, vector, count },
            Reduction::ReduceScatter(counts) => Operation::ReduceScatter { vector, counts },
            Reduction::ReduceScatterBlock(count) => {
                Operation::ReduceScatterBlock { vector, count: *count }
            }
            Reduction::Scan => Operation::Scan { vector, count },
            Reduction::Exscan => Operation::Exscan { vector, count },
        }
    }

    /// The elements of a rank's result.
    fn result_count(&self, rank: usize, count: u64) -> u64 {
        match self {
            Reduction::Allreduce | Reduction::Scan => count,
            Reduction::Reduce(root) => count * u64::from(rank == *root as usize),
            Reduction::ReduceScatter(counts) => counts[rank],
            Reduction::ReduceScatterBlock(count) => *count,
            Reduction::Exscan => count * u64::from(rank > 0),
        }
    }
}

/// Rules as a configuration has them, which prefer any algorithms.
fn any_rules(random: &mut Random) -> Vec<Rule> {
    use CollectiveKind::{
        Allreduce, Bcast, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan,
    };
    let kinds = [Allreduce, Bcast, Reduce, ReduceScatter, ReduceScatterBlock, Scan, Exscan];
    let any = |kind| {
        let (_, algorithm) = Algorithm::NAMES[random.below(Algorithm::NAMES.len() as u64) as usize];
        Rule::new(kind, algorithm)
    };
    kinds.map(any).into()
}

#[test]
fn sums_of_doubles_have_the_same_bits_wherever_ranks_are() {
    for (size, count) in [2, 3, 5, 8, 13].into_iter().flat_map(|size| [(size, 1), (size, 300)]) {
        let operands = operands(size, count, &mut Random(count ^ u64::from(size)));
        let mut wanted = None;
        for seed in 0..12 {
            let random = &mut Random(seed);
            let thresholds = Thresholds { reproducible: true, ..any_thresholds(random) };
            let mut world = World::new(size, seed, any_options(random), &thresholds);
            let (hosts, rules) = (any_hosts(size, random), any_rules(random));
            if seed % 3 > 0 {
                world.place(&hosts);
            }
            for process in &mut world.ranks {
                process.planner.selection_mut().prefer_all(rules.clone());
            }
            let in_place = random.chance();
            let results = Run { world, operands: &operands, count, in_place, random }.all();
            let wanted = wanted.get_or_insert_with(|| results.clone());
            for (which, (result, wanted)) in results.iter().zip(wanted).enumerate() {
                assert!(
                    result == wanted,
                    "operation {which}, {size} ranks, {count} numbers, seed {seed}: other bits \
                     on hosts {hosts:?} by {rules:?}"
                );
            }
        }
    }
}

/// The order matters for these operands; otherwise the test above would prove nothing.
#[test]
fn the_operands_have_another_sum_in_another_order() {
    let operands = operands(8, 300, &mut Random(9));
    let sum = |order: &mut dyn Iterator<Item = &Vec<f64>>, at: usize| {
        order.map(|vector| vector[at]).fold(0.0, |sum: f64, number| sum + number)
    };
    let differs =
        |at: &usize| sum(&mut operands.iter(), *at) != sum(&mut operands.iter().rev(), *at);
    assert!((0..300).filter(differs).count() > 100);
}
