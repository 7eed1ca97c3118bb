//! Collective calls with random arguments, and what they should give.

use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::Arc;

use collectives::{Blocks, Data, Edges, Operation, Plan, Types, Vector};
use objects::datatype::Counting;
use objects::op::{UserFunction, UserOp};
use objects::{Buffer, Comm, Datatype, Op};

use crate::random::Random;
use crate::world::{Bytes, World, packed};

pub(crate) const SUM: usize = 0x21;
pub(crate) const INT64: usize = 0x258;

/// A collective that is ready to start on all ranks, and what it should give.
pub(crate) struct Case {
    pub(crate) plans: Vec<Plan>,
    pub(crate) expected: Vec<(Buffer, Vec<u8>)>,
    pub(crate) keep: Vec<Bytes>,
}

impl Case {
    pub(crate) fn check(&self, what: &str) {
        for (buffer, wanted) in &self.expected {
            assert!(packed(buffer) == *wanted, "wrong result: {what}");
        }
        assert!(self.keep.iter().all(|bytes| bytes.area().address() != 0));
    }
}

/// A type of eight bytes: 64-bit integers, close or far apart.
pub(crate) fn any_type(random: &mut Random) -> Datatype {
    let int = Datatype::predefined(INT64).unwrap();
    match random.below(4) {
        0 => Datatype::resized(Counting::Int, int, 0, 24).unwrap(),
        1 => Datatype::resized(Counting::Int, int, -8, 16).unwrap(),
        _ => int.clone(),
    }
}

/// x -> a x + b, composed: associative, and order matters. The "datatype
/// handle" is the extent.
pub(crate) extern "C" fn compose(
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

pub(crate) fn user_op(commutative: bool) -> Op {
    // SAFETY: used with types of eight bytes and their extents as handles only.
    Op::User(Arc::new(unsafe { UserOp::new(UserFunction::Int(compose), commutative) }))
}

/// The reduction of `vectors` from left to right.
pub(crate) fn reduced(vectors: &[Vec<u8>], op: &Op) -> Vec<u8> {
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
pub(crate) struct Inputs {
    pub(crate) vectors: Vec<Vec<u8>>,
    pub(crate) datatype: Datatype,
    pub(crate) op: Op,
    pub(crate) send: Vec<Option<Bytes>>,
    pub(crate) recv: Vec<Bytes>,
}

pub(crate) fn inputs(
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
    pub(crate) fn vector(&self, rank: usize, has_output: bool) -> Vector<'_> {
        Vector {
            send: self.send[rank].as_ref().map(Bytes::area),
            recv: has_output.then(|| self.recv[rank].area()),
            ty: &self.datatype,
            handle: self.datatype.extent().1 as usize,
            op: &self.op,
        }
    }

    pub(crate) fn result(&self, rank: usize, count: u64) -> Buffer {
        self.recv[rank].area().buffer(0, count, &self.datatype)
    }

    pub(crate) fn keep(self) -> Vec<Bytes> {
        self.recv.into_iter().chain(self.send.into_iter().flatten()).collect()
    }
}

pub(crate) fn reduction(
    world: &mut World,
    comms: &[Comm],
    random: &mut Random,
) -> (Case, &'static str) {
    let n = comms.len();
    let root = random.below(n as u64) as usize;
    let each = world.any_count(random);
    let which = random.below(6);
    let counts: Vec<u64> =
        (0..n).map(|_| if which == 2 { world.any_count(random) } else { each }).collect();
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

pub(crate) fn process_of(comm: &Comm) -> usize {
    comm.group().peer_of(comm.rank()).unwrap().0 as usize
}

/// Blocks for each of `counts`, with gaps of two elements between them.
pub(crate) struct Layout {
    pub(crate) counts: Vec<u64>,
    pub(crate) displs: Vec<i64>,
    pub(crate) datatype: Datatype,
    pub(crate) datatypes: Vec<Datatype>,
    pub(crate) byte_displs: Vec<i64>,
    pub(crate) bytes: Bytes,
}

impl Layout {
    pub(crate) fn new(counts: Vec<u64>, gap: i64, random: &mut Random, fill: u8) -> Layout {
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

    pub(crate) fn blocks(&self) -> Blocks<'_> {
        let types = Types::One(&self.datatype);
        Blocks { area: self.bytes.area(), counts: &self.counts, displs: &self.displs, types }
    }

    pub(crate) fn blocks_w(&self) -> Blocks<'_> {
        let types = Types::Each(&self.datatypes);
        Blocks { area: self.bytes.area(), counts: &self.counts, displs: &self.byte_displs, types }
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data { area: self.bytes.area(), count: self.counts[0], ty: &self.datatype }
    }

    pub(crate) fn block(&self, index: usize) -> Buffer {
        self.bytes.area().buffer(self.byte_displs[index], self.counts[index], &self.datatype)
    }
}

/// Gather, scatter, allgather and broadcast in all their forms: the blocks of
/// all ranks on one side, one block at each rank on the other.
pub(crate) fn one_to_all(
    world: &mut World,
    comms: &[Comm],
    random: &mut Random,
) -> (Case, &'static str) {
    let n = comms.len();
    let root = random.below(n as u64) as usize;
    let (which, each) = (random.below(7), world.any_count(random));
    let regular = matches!(which, 0 | 2 | 4 | 6);
    let counts: Vec<u64> =
        (0..n).map(|_| if regular { each } else { world.any_count(random) }).collect();
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
pub(crate) fn all_to_all(
    world: &mut World,
    comms: &[Comm],
    random: &mut Random,
) -> (Case, &'static str) {
    let n = comms.len();
    let (which, each) = (random.below(6), world.any_count(random));
    let ring = which > 2;
    let degree = if ring { 2 } else { n };
    // `others[rank][k]`: the peer with which block k is exchanged; in the ring the block that
    // leaves to one side arrives from the other.
    let other = |rank: usize, k: usize| match (ring, k) {
        (false, k) => k,
        (true, 0) => (rank + n - 1) % n,
        (true, _) => (rank + 1) % n,
    };
    let back = |k: usize, rank: usize| if ring { 1 - k } else { rank };
    let counts: Vec<Vec<u64>> = (0..n)
        .map(|_| {
            (0..degree)
                .map(|_| if which % 3 == 0 { each } else { world.any_count(random) })
                .collect()
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
