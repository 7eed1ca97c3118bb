//! Communicators: the environment, duplicates, splits, names, and packed data.

#![deny(warnings)]

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use mpi::Threading;
use mpi::topology::{Color, CommunicatorRelation, InterCommunicator, MergeOrder};
use mpi::topology::{SimpleCommunicator, SplitType, Topology};
use mpi::traits::*;

fn main() {
    let (mut universe, threading) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    assert!(mpi::initialize().is_none(), "MPI is initialised once");
    assert_eq!(mpi::environment::threading_support(), threading);
    environment();
    universe.set_buffer_size(1 << 16);
    assert_eq!(universe.buffer_size(), 1 << 16);
    universe.detach_buffer();
    assert_eq!(universe.buffer_size(), 0);

    let world = universe.world();
    ranks(&world);
    duplicates(&world);
    splits(&world);
    packed(&world);
    if world.size() > 1 {
        inter_communicators(&world);
    }
}

fn environment() {
    assert!(mpi::environment::version() >= (3, 1));
    assert!(!mpi::environment::library_version().unwrap().is_empty());
    assert!(!mpi::environment::processor_name().unwrap().is_empty());
    let before = mpi::time();
    assert!(mpi::time() >= before && mpi::time_resolution() > 0.0);
}

fn ranks(world: &SimpleCommunicator) {
    let rank = world.rank();
    assert!((0..world.size()).contains(&rank));
    assert!(world.this_process().is_self() && world.process_at_rank(rank).is_self());
    assert_eq!((world.target_size(), world.test_inter()), (world.size(), false));
    assert_eq!(world.topology(), Topology::Undefined);
    let myself = SimpleCommunicator::self_comm();
    assert_eq!((myself.rank(), myself.size()), (0, 1));
    assert!(refuses(|| _ = world.process_at_rank(-1)), "there is no rank -1");
}

fn duplicates(world: &SimpleCommunicator) {
    let copy = world.duplicate();
    assert_eq!(world.compare(world), CommunicatorRelation::Identical);
    assert_eq!(world.compare(&copy), CommunicatorRelation::Congruent);
    copy.set_name("a copy of the world");
    assert_eq!(copy.get_name(), "a copy of the world");
    assert_eq!(world.get_name(), "MPI_COMM_WORLD");
    // Processes of a communicator stand for it as well.
    assert_eq!(copy.process_at_rank(0).compare(&copy), CommunicatorRelation::Identical);
}

fn splits(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let parity = world.split_by_color(Color::with_value(rank % 2)).unwrap();
    assert_eq!((parity.rank(), parity.size()), (rank / 2, (size + 1 - rank % 2) / 2));

    let backwards = world.split_by_color_with_key(Color::with_value(0), -rank).unwrap();
    assert_eq!(backwards.rank(), size - 1 - rank);
    let expected = match size {
        1 => CommunicatorRelation::Congruent,
        _ => CommunicatorRelation::Similar,
    };
    assert_eq!(world.compare(&backwards), expected);

    let color = if rank == 0 { Color::undefined() } else { Color::with_value(1) };
    let others = world.split_by_color(color);
    assert_eq!(others.map(|others| others.size()), (rank > 0).then_some(size - 1));

    let first = world.group().include(&[0]);
    assert_eq!(world.split_by_subgroup_collective(&first).is_some(), rank == 0);
    if rank == 0 {
        let alone = world.split_by_subgroup_with_tag(&first, 7).unwrap();
        assert_eq!(alone.size(), 1);
        assert_eq!(world.split_by_subgroup(&first).unwrap().size(), 1);
    }

    let machine = world.split_shared(rank);
    assert!(machine.size() <= size);
    let shared = world.split_by_type(SplitType::Shared, rank).unwrap();
    assert_eq!(shared.size(), machine.size());
    if let Some(part) = machine.split_by_type(SplitType::Hardware, 0) {
        assert!(part.size() < machine.size(), "a part of the machine is smaller");
    }
}

fn packed(world: &SimpleCommunicator) {
    let bytes = world.pack(&[1_i16, 2, 3][..]);
    assert!(bytes.len() <= world.pack_size(3, &i16::equivalent_datatype()) as usize);
    let mut values = [0_i16; 3];
    // SAFETY: the bytes are of three such numbers.
    let end = unsafe { world.unpack_into(&bytes, &mut values[..], 0) };
    assert_eq!((values, end as usize), ([1, 2, 3], bytes.len()));

    let mut bytes = [0; 64];
    let middle = world.pack_into(&7_u32, &mut bytes, 0);
    world.pack_into(&0.5_f64, &mut bytes, middle);
    let (mut first, mut second) = (0_u32, 0.0_f64);
    // SAFETY: the bytes are of these two numbers.
    unsafe {
        let middle = world.unpack_into(&bytes, &mut first, 0);
        world.unpack_into(&bytes, &mut second, middle);
    }
    assert_eq!((first, second), (7, 0.5));
}

/// Joins the lower and the upper half of the world.
fn inter_communicators(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let is_upper = rank >= size / 2;
    let half = world.split_by_color(Color::with_value(i32::from(is_upper))).unwrap();
    let (own, other) =
        if is_upper { (size - size / 2, size / 2) } else { (size / 2, size - size / 2) };
    let remote_leader = if is_upper { 0 } else { size / 2 };
    let mut handle = mpi::ffi::MPI_COMM_NULL;
    // SAFETY: both communicators are valid, and the leaders are members of both.
    let inter = unsafe {
        let (half, world) = (half.as_raw(), world.as_raw());
        mpi::ffi::MPI_Intercomm_create(half, 0, world, remote_leader, 3, &mut handle);
        InterCommunicator::try_from_raw(handle).unwrap()
    };
    assert!(inter.test_inter());
    assert_eq!((inter.size(), inter.remote_size(), inter.target_size()), (own, other, other));
    assert_eq!(inter.remote_group().size(), other);
    assert_eq!(inter.process_at_rank(0).target_size(), other);
    assert_eq!(inter.compare(&inter.duplicate()), CommunicatorRelation::Congruent);

    let mut ranks = vec![-1; other as usize];
    inter.all_gather_into(&rank, &mut ranks[..]);
    let first = if is_upper { 0 } else { size / 2 };
    assert_eq!(ranks, (first..first + other).collect::<Vec<_>>());

    let merged = inter.merge(if is_upper { MergeOrder::High } else { MergeOrder::Low });
    assert_eq!((merged.rank(), merged.size()), (rank, size));
}

/// Returns whether a call panics. The question ends a program that cannot unwind.
fn refuses(call: impl FnOnce()) -> bool {
    if cfg!(panic = "abort") {
        return true;
    }
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let refused = catch_unwind(AssertUnwindSafe(call)).is_err();
    set_hook(hook);
    refused
}
