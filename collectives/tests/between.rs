//! Collectives between two groups, over the engine on a simulated fabric.

#[allow(dead_code, reason = "shared with other tests")]
mod random;
#[allow(dead_code, reason = "shared with other tests")]
mod world;

use collectives::{Blocks, Data, Operation, ROOT_HERE, Thresholds, Types, Vector};
use fabric::{CollectiveKind, Peer};
use objects::{Buffer, Comm, Datatype, Group, Op};
use random::Random;
use world::{Bytes, World, any_options, packed};

const SUM: usize = 0x21;
const INT64: usize = 0x258;

fn int() -> &'static Datatype {
    Datatype::predefined(INT64).unwrap()
}

/// Two groups; each rank has a number, a send and a receive buffer.
struct Job {
    world: World,
    comms: Vec<Comm>,
    send: Vec<Bytes>,
    recv: Vec<Bytes>,
    /// Elements in each of the buffers.
    capacity: u64,
    sequence: i32,
}

impl Job {
    /// Peers are dealt to the two groups in no particular order.
    fn new(sizes: [u32; 2], seed: u64, random: &mut Random) -> Job {
        let all = sizes[0] + sizes[1];
        let offset = random.below(all.into()) as u32;
        let peers: Vec<Peer> = (0..all).map(|peer| Peer((peer + offset) % all)).collect();
        let (low, high) = peers.split_at(sizes[0] as usize);
        let groups: [Group; 2] = [low, high].map(|peers| peers.iter().copied().collect());
        let comm = |peer: u32| {
            let side = usize::from(!groups[0].contains(Peer(peer)));
            let rank = groups[side].rank_of(Peer(peer)).unwrap();
            let base = Comm::new("", 1, rank, groups[side].clone());
            base.derive_inter(9, rank, groups[side].clone(), groups[1 - side].clone())
        };
        let capacity = u64::from(all) * 8;
        let fill = |peer: u32| {
            let bytes = Bytes::new(capacity, int(), 0);
            bytes.fill(0, capacity, int(), &values(peer, 0, capacity));
            bytes
        };
        Job {
            world: World::new(
                all,
                seed,
                any_options(random),
                &Thresholds { window: 2, ..Thresholds::default() },
            ),
            comms: (0..all).map(comm).collect(),
            send: (0..all).map(fill).collect(),
            recv: (0..all).map(|_| Bytes::new(capacity, int(), 0xbb)).collect(),
            capacity,
            sequence: 0,
        }
    }

    /// Runs what `operation` describes for each peer; the results in int64.
    fn run(
        &mut self,
        random: &mut Random,
        describe: impl Fn(&Job, usize, &mut dyn FnMut(&Operation)),
    ) -> Vec<Vec<i64>> {
        for bytes in &self.recv {
            bytes.fill(0, self.capacity, int(), &vec![0xbb; 8 * self.capacity as usize]);
        }
        let mut plans = Vec::new();
        for peer in 0..self.comms.len() {
            let mut found = None;
            // Planned outside of the closure, which borrows the job.
            let mut planner =
                collectives::Planner::new(&Thresholds { window: 2, ..Thresholds::default() });
            describe(self, peer, &mut |operation| {
                found = Some(planner.plan(operation, &self.comms[peer]).unwrap())
            });
            plans.push(found.unwrap());
        }
        let sequence = self.sequence;
        self.sequence += 1;
        let ids: Vec<_> = plans
            .into_iter()
            .enumerate()
            .map(|(peer, plan)| (peer, self.world.start(peer, plan, sequence)))
            .collect();
        assert!(self.world.finish(&ids, random).iter().all(Result::is_ok));
        self.recv
            .iter()
            .map(|bytes| numbers(&bytes.area().buffer(0, self.capacity, int())))
            .collect()
    }

    fn data(&self, bytes: &[Bytes], peer: usize, count: u64) -> Data<'static> {
        Data { area: bytes[peer].area(), count, ty: int() }
    }

    /// Side 0 is the one of peer 0.
    fn peers(&self, side: usize) -> Vec<usize> {
        let group = if side == 0 { self.comms[0].group() } else { self.comms[0].remote().unwrap() };
        group.iter().map(|peer| peer.0 as usize).collect()
    }

    fn is_low(&self, peer: usize) -> bool {
        self.comms[0].group().contains(Peer(peer as u32))
    }
}

fn value(peer: u32, index: u64) -> i64 {
    i64::from(peer) * 1000 + index as i64
}

fn values(peer: u32, from: u64, count: u64) -> Vec<u8> {
    (from..from + count).flat_map(|index| value(peer, index).to_ne_bytes()).collect()
}

fn numbers(buffer: &Buffer) -> Vec<i64> {
    packed(buffer)
        .chunks_exact(8)
        .map(|word| i64::from_ne_bytes(word.try_into().unwrap()))
        .collect()
}

/// The values `from ..` of each of `peers`, one after the other.
fn concatenated(peers: &[usize], from: u64, count: u64) -> Vec<i64> {
    peers
        .iter()
        .flat_map(|&peer| (from..from + count).map(move |index| value(peer as u32, index)))
        .collect()
}

fn summed(peers: &[usize], from: u64, count: u64) -> Vec<i64> {
    (from..from + count)
        .map(|index| peers.iter().map(|&peer| value(peer as u32, index)).sum())
        .collect()
}

fn starts_with(found: &[i64], wanted: &[i64], what: &str) {
    assert_eq!(&found[..wanted.len()], wanted, "{what}");
    assert!(
        found[wanted.len()..].iter().all(|&word| word == i64::from_ne_bytes([0xbb; 8])),
        "{what}: too much"
    );
}

#[test]
fn everything_reaches_the_other_group() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let sizes = [1 + random.below(4) as u32, 1 + random.below(4) as u32];
        let mut job = Job::new(sizes, seed, &mut random);
        let count = [0, 1, 3][random.below(3) as usize];
        for _ in 0..2 {
            rooted(&mut job, &mut random, count);
            symmetric(&mut job, &mut random, count);
            lists(&mut job, &mut random);
            reductions(&mut job, &mut random, count);
        }
    }
}

/// The root is of side 0.
fn rooted(job: &mut Job, random: &mut Random, count: u64) {
    let (low, high) = (job.peers(0), job.peers(1));
    let at = random.below(low.len() as u64) as usize;
    let root = low[at];
    let absent = |kind| Operation::Absent { kind };
    let found = job.run(random, |job, peer, plan| match job.is_low(peer) {
        true if peer == root => {
            plan(&Operation::Bcast { root: ROOT_HERE, data: job.data(&job.send, peer, count) })
        }
        true => plan(&absent(CollectiveKind::Bcast)),
        false => {
            plan(&Operation::Bcast { root: at as u32, data: job.data(&job.recv, peer, count) })
        }
    });
    high.iter()
        .for_each(|&peer| starts_with(&found[peer], &concatenated(&[root], 0, count), "bcast"));
    let found = job.run(random, |job, peer, plan| match job.is_low(peer) {
        true if peer == root => {
            plan(&Operation::Gather {
                root: ROOT_HERE,
                send: None,
                recv: Some(job.data(&job.recv, peer, count)),
            });
        }
        true => plan(&absent(CollectiveKind::Gather)),
        false => plan(&Operation::Gather {
            root: at as u32,
            send: Some(job.data(&job.send, peer, count)),
            recv: None,
        }),
    });
    starts_with(&found[root], &concatenated(&high, 0, count), "gather");
    let found = job.run(random, |job, peer, plan| match job.is_low(peer) {
        true if peer == root => {
            plan(&Operation::Scatter {
                root: ROOT_HERE,
                send: Some(job.data(&job.send, peer, count)),
                recv: None,
            });
        }
        true => plan(&absent(CollectiveKind::Scatter)),
        false => plan(&Operation::Scatter {
            root: at as u32,
            send: None,
            recv: Some(job.data(&job.recv, peer, count)),
        }),
    });
    for (rank, &peer) in high.iter().enumerate() {
        starts_with(&found[peer], &concatenated(&[root], rank as u64 * count, count), "scatter");
    }
}

fn symmetric(job: &mut Job, random: &mut Random, count: u64) {
    let sides = [job.peers(0), job.peers(1)];
    job.run(random, |_, _, plan| plan(&Operation::Barrier));
    let found = job.run(random, |job, peer, plan| {
        let (send, recv) = (job.data(&job.send, peer, count), job.data(&job.recv, peer, count));
        plan(&Operation::Allgather { send: Some(send), recv });
    });
    for (peer, found) in found.iter().enumerate() {
        let theirs = &sides[usize::from(job.is_low(peer))];
        starts_with(found, &concatenated(theirs, 0, count), "allgather");
    }
    let found = job.run(random, |job, peer, plan| {
        let (send, recv) = (job.data(&job.send, peer, count), job.data(&job.recv, peer, count));
        plan(&Operation::Alltoall { send: Some(send), recv });
    });
    for (peer, found) in found.iter().enumerate() {
        let theirs = &sides[usize::from(job.is_low(peer))];
        let mine = u64::from(job.comms[peer].rank());
        starts_with(found, &concatenated(theirs, mine * count, count), "alltoall");
    }
}

/// Each rank of side 0 sends to rank r as many elements as the sum of r, 1 and its own rank. Side 1
/// sends nothing back.
fn lists(job: &mut Job, random: &mut Random) {
    let (low, high) = (job.peers(0), job.peers(1));
    let to = |target: usize| target as u64 + 1;
    let packed_at = |counts: &[u64]| -> Vec<i64> {
        counts
            .iter()
            .scan(0, |at, &count| {
                *at += count as i64;
                Some(*at - count as i64)
            })
            .collect()
    };
    let found = job.run(random, |job, peer, plan| {
        let is_low = job.is_low(peer);
        let mine = job.comms[peer].rank() as usize;
        let out: Vec<u64> =
            if is_low { (0..high.len()).map(to).collect() } else { vec![0; low.len()] };
        let into: Vec<u64> = if is_low { vec![0; high.len()] } else { vec![to(mine); low.len()] };
        let (from, place) = (packed_at(&out), packed_at(&into));
        let types = Types::One(int());
        plan(&Operation::Alltoallv {
            send: Some(Blocks { area: job.send[peer].area(), counts: &out, displs: &from, types }),
            recv: Blocks { area: job.recv[peer].area(), counts: &into, displs: &place, types },
        });
    });
    for (rank, &peer) in high.iter().enumerate() {
        let before: u64 = (0..rank).map(to).sum();
        starts_with(&found[peer], &concatenated(&low, before, to(rank)), "alltoallv");
    }
    low.iter().for_each(|&peer| starts_with(&found[peer], &[], "alltoallv back"));
}

fn reductions(job: &mut Job, random: &mut Random, count: u64) {
    let sides = [job.peers(0), job.peers(1)];
    let op = Op::predefined(SUM).unwrap();
    let vector = |job: &Job, peer: usize, sends: bool, receives: bool| Vector {
        send: sends.then(|| job.send[peer].area()),
        recv: receives.then(|| job.recv[peer].area()),
        ty: int(),
        handle: INT64,
        op: &op,
    };
    let at = random.below(sides[0].len() as u64) as usize;
    let root = sides[0][at];
    let found = job.run(random, |job, peer, plan| match job.is_low(peer) {
        true if peer == root => {
            plan(&Operation::Reduce {
                root: ROOT_HERE,
                vector: vector(job, peer, false, true),
                count,
            });
        }
        true => plan(&Operation::Absent { kind: CollectiveKind::Reduce }),
        false => plan(&Operation::Reduce {
            root: at as u32,
            vector: vector(job, peer, true, false),
            count,
        }),
    });
    starts_with(&found[root], &summed(&sides[1], 0, count), "reduce");
    let found = job.run(random, |job, peer, plan| {
        plan(&Operation::Allreduce { vector: vector(job, peer, true, true), count })
    });
    for (peer, found) in found.iter().enumerate() {
        starts_with(found, &summed(&sides[usize::from(job.is_low(peer))], 0, count), "allreduce");
    }
    let found = job.run(random, |job, peer, plan| {
        plan(&Operation::AllreduceOfBoth { vector: vector(job, peer, true, true), count });
    });
    let all_ranks: Vec<usize> = sides.concat();
    found
        .iter()
        .for_each(|found| starts_with(found, &summed(&all_ranks, 0, count), "allreduce of both"));
    // As many elements in all on both sides.
    let whole = (sides[0].len() * sides[1].len()) as u64;
    let each = |job: &Job, peer: usize| whole / u64::from(job.comms[peer].size());
    let found = job.run(random, |job, peer, plan| {
        plan(&Operation::ReduceScatterBlock {
            vector: vector(job, peer, true, true),
            count: each(job, peer),
        });
    });
    for (peer, found) in found.iter().enumerate() {
        let (mine, theirs) = (each(job, peer), &sides[usize::from(job.is_low(peer))]);
        let from = u64::from(job.comms[peer].rank()) * mine;
        starts_with(found, &summed(theirs, from, mine), "reduce_scatter_block");
    }
}

#[test]
fn a_group_may_be_by_itself_on_the_same_context() {
    let mut random = Random(7);
    let mut job = Job::new([2, 3], 7, &mut random);
    let sides = [job.peers(0), job.peers(1)];
    let op = Op::predefined(SUM).unwrap();
    let whole = job.comms.clone();
    for _ in 0..3 {
        job.comms = whole.iter().map(Comm::local).collect();
        let found = job.run(&mut random, |job, peer, plan| {
            let (send, recv) = (Some(job.send[peer].area()), Some(job.recv[peer].area()));
            plan(&Operation::Allreduce {
                vector: Vector { send, recv, ty: int(), handle: INT64, op: &op },
                count: 2,
            });
        });
        job.comms.clone_from(&whole);
        for (peer, found) in found.iter().enumerate() {
            starts_with(
                found,
                &summed(&sides[usize::from(!job.is_low(peer))], 0, 2),
                "within a group",
            );
        }
        job.run(&mut random, |_, _, plan| plan(&Operation::Barrier));
    }
}
