//! Hierarchical schedules in the model: ranks on several simulated hosts, a segment on each.

mod hierarchy;
mod model;
mod random;

use collectives::{Builder, CollArgs, Extent, Level, Position, RankLocation, Space, Topology, Ty};
use model::{Memory, RankModel, Segment, Type};
use random::Random;

const COUNT: u64 = 7;

fn sum(left: &[u8], inout: &mut [u8]) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let result = number(left).wrapping_add(number(inout));
    inout.copy_from_slice(&result.to_le_bytes());
}

/// One rank of an allreduce, with its vector in the send buffer.
fn rank_model(pos: Position, vector: &[u8]) -> RankModel {
    let ty = Type::gapless(8);
    let extent = |space, index| Extent::new(space, Ty::of(index), COUNT, ty.shape());
    let (input, output) = (extent(Space::Send, 0), extent(Space::Recv, 1));
    let mut b = Builder::new();
    hierarchy::allreduce(&mut b, &CollArgs::Allreduce { input, output, commutative: true }, pos);
    let bytes = 8 * COUNT as i64;
    let mut send = Memory::new(0, bytes, 0);
    send.unpack(&input.span(), &ty, vector);
    let recv = Memory::new(0, bytes, 0xbb);
    RankModel::new(b.finish(), send, recv, vec![ty.clone(), ty])
}

fn run(hosts: &[u64], random: &mut Random) {
    let locations: Vec<RankLocation> =
        hosts.iter().map(|&host| RankLocation::on_host(host)).collect();
    let topology = Topology::new(&locations);
    let segments: Vec<Segment> = (0..topology.groups(Level::Host))
        .map(|host| Segment::new(topology.members(Level::Host, host).len() as u32, 64 << 10))
        .collect();
    let vectors: Vec<Vec<u8>> = hosts.iter().map(|_| random.bytes(8 * COUNT)).collect();
    let mut models: Vec<RankModel> = (0..hosts.len() as u32)
        .map(|rank| {
            let pos = Position::in_topology(rank, &topology);
            let mut model = rank_model(pos, &vectors[rank as usize]);
            let me = pos.neighbors(Level::Host).position(|other| other == rank).unwrap();
            model.share(&segments[pos.group(Level::Host) as usize], me as u32);
            model
        })
        .collect();
    // Between hosts only leaders exchange messages, one in each direction.
    let leaders: Vec<u32> = topology.leaders(Level::Host).collect();
    for (rank, model) in models.iter().enumerate() {
        let is_leader = leaders.contains(&(rank as u32));
        let messages = if is_leader { 2 * (leaders.len() - 1) } else { 0 };
        assert_eq!(model.schedule.messages().len(), messages);
        assert_eq!(model.schedule.segment_rounds(), 2);
    }
    model::run(&mut models, random, &sum);
    let mut wanted = vectors[0].clone();
    for vector in &vectors[1..] {
        wanted.chunks_mut(8).zip(vector.chunks(8)).for_each(|(inout, left)| sum(left, inout));
    }
    assert!(models.iter().all(|model| model.recv.bytes == wanted), "a wrong sum");
}

#[test]
fn an_allreduce_is_one_schedule_of_segments_and_messages() {
    for seed in 0..200 {
        run(&[0, 0, 0, 1, 1, 1], &mut Random(seed));
    }
}

#[test]
fn hosts_may_be_uneven_and_ranks_scattered() {
    for seed in 0..50 {
        run(&[0, 1, 0, 1, 0, 1], &mut Random(seed));
        run(&[2, 2, 1, 2, 5, 5, 5], &mut Random(seed));
        run(&[0], &mut Random(seed));
    }
}
