//! Collective operations, with and without a root, and the checks of their buffers.

#![deny(warnings)]

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use mpi::Count;
use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.barrier();
    without_root(&world);
    without_root_in_parts(&world);
    for root in 0..world.size() {
        with_root(&world, root);
        with_root_in_parts(&world, root);
    }
    reductions(&world);
    empty_buffers(&world);
    short_buffers_are_refused(&world);
}

/// Process `i` has `i + 1` elements.
fn parts(size: i32) -> (Vec<Count>, Vec<Count>, Vec<i32>) {
    let counts: Vec<Count> = (1..=size).collect();
    let starts = (0..size).map(|rank| rank * (rank + 1) / 2).collect();
    let values = (0..size).flat_map(|rank| vec![rank; rank as usize + 1]).collect();
    (counts, starts, values)
}

fn without_root(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let mut ranks = vec![-1; size as usize];
    world.all_gather_into(&rank, &mut ranks[..]);
    assert_eq!(ranks, (0..size).collect::<Vec<_>>());

    let sent: Vec<_> = (0..size).map(|other| 100 * rank + other).collect();
    let mut received = vec![-1; size as usize];
    world.all_to_all_into(&sent[..], &mut received[..]);
    assert_eq!(received, (0..size).map(|other| 100 * other + rank).collect::<Vec<_>>());
}

fn without_root_in_parts(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let (counts, starts, expected) = parts(size);
    let mut all = vec![-1; expected.len()];
    let own = vec![rank; rank as usize + 1];
    let mut partition = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
    world.all_gather_varcount_into(&own[..], &mut partition);
    assert_eq!(all, expected);

    // Each process gets as many elements of all as its rank says.
    let each = vec![rank + 1; size as usize];
    let each_start: Vec<_> = (0..size).map(|other| other * (rank + 1)).collect();
    let mut received = vec![-1; (size * (rank + 1)) as usize];
    world.all_to_all_varcount_into(
        &Partition::new(&expected[..], &counts[..], &starts[..]),
        &mut PartitionMut::new(&mut received[..], each, each_start),
    );
    assert!(received.iter().all(|&value| value == rank));
}

fn with_root(world: &SimpleCommunicator, root: i32) {
    let (rank, size, root) = (world.rank(), world.size(), world.process_at_rank(root));
    let mut value = [rank, -rank];
    root.broadcast_into(&mut value[..]);
    assert_eq!(value, [root.rank(), -root.rank()]);

    if root.is_self() {
        let mut ranks = vec![-1; size as usize];
        root.gather_into_root(&rank, &mut ranks[..]);
        assert_eq!(ranks, (0..size).collect::<Vec<_>>());
        let mut own = -1;
        root.scatter_into_root(&ranks[..], &mut own);
        assert_eq!(own, rank);
        let mut sum = -1;
        root.reduce_into_root(&rank, &mut sum, SystemOperation::sum());
        assert_eq!(sum, size * (size - 1) / 2);
    } else {
        root.gather_into(&rank);
        let mut own = -1;
        root.scatter_into(&mut own);
        assert_eq!(own, rank);
        root.reduce_into(&rank, SystemOperation::sum());
    }
}

fn with_root_in_parts(world: &SimpleCommunicator, root: i32) {
    let (rank, root) = (world.rank(), world.process_at_rank(root));
    let (counts, starts, expected) = parts(world.size());
    let own = vec![rank; rank as usize + 1];
    let mut received = vec![-1; own.len()];
    if root.is_self() {
        let mut all = vec![-1; expected.len()];
        let mut partition = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        root.gather_varcount_into_root(&own[..], &mut partition);
        assert_eq!(all, expected);
        let partition = Partition::new(&all[..], &counts[..], &starts[..]);
        root.scatter_varcount_into_root(&partition, &mut received[..]);
    } else {
        root.gather_varcount_into(&own[..]);
        root.scatter_varcount_into(&mut received[..]);
    }
    assert_eq!(received, own);
}

fn reductions(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let (mut largest, mut before, mut upto) = ([0; 2], -1, -1);
    world.all_reduce_into(&[rank, -rank][..], &mut largest[..], SystemOperation::max());
    assert_eq!(largest, [size - 1, 0]);
    world.scan_into(&rank, &mut upto, SystemOperation::sum());
    assert_eq!(upto, rank * (rank + 1) / 2);
    world.exclusive_scan_into(&rank, &mut before, SystemOperation::sum());
    assert_eq!(before, if rank == 0 { -1 } else { rank * (rank - 1) / 2 });

    let ones: Vec<_> = (0..2 * size).collect();
    let mut block = [0; 2];
    world.reduce_scatter_block_into(&ones[..], &mut block[..], SystemOperation::sum());
    assert_eq!(block, [2 * rank * size, (2 * rank + 1) * size]);
}

/// An empty slice of bytes lies at the address that is MPI_IN_PLACE.
fn empty_buffers(world: &SimpleCommunicator) {
    let (empty, mut none): ([u8; 0], [u8; 0]) = ([], []);
    world.all_gather_into(&empty[..], &mut none[..]);
    world.all_reduce_into(&empty[..], &mut none[..], SystemOperation::sum());
    world.process_at_rank(0).broadcast_into(&mut none[..]);
    // Only the last process has anything to give.
    let (rank, last) = (world.rank(), world.size() - 1);
    let mut counts = vec![0; world.size() as usize];
    counts[last as usize] = 1;
    let starts = vec![0; world.size() as usize];
    let mut value = [0_u8];
    let own: &[u8] = if rank == last { &[7] } else { &[] };
    let mut partition = PartitionMut::new(&mut value[..], counts, starts);
    world.all_gather_varcount_into(own, &mut partition);
    assert_eq!(value, [7]);
}

fn short_buffers_are_refused(world: &SimpleCommunicator) {
    let size = world.size() as usize;
    let (two, mut one) = ([1_i32, 2], [0_i32]);
    let root = world.this_process();
    assert!(refuses(|| world.all_reduce_into(&two[..], &mut one[..], SystemOperation::sum())));
    assert!(refuses(|| world.scan_into(&1_i32, &mut 0_i64, SystemOperation::sum())));
    assert!(refuses(|| world.all_gather_into(&two[..], &mut vec![0_i32; size][..])));
    assert!(refuses(|| world.all_to_all_into(&vec![0_i64; size][..], &mut vec![0_i32; size][..])));
    assert!(refuses(|| root.gather_into_root(&two[..], &mut vec![0_i32; size][..])));
    assert!(refuses(|| root.gather_into(&two[..])));
    let other = world.process_at_rank((world.rank() + 1) % world.size());
    assert!(refuses(|| other.scatter_into_root(&two[..], &mut [0_i32; 3][..])));
    let mut few = PartitionMut::new(&mut one[..], vec![0; size - 1], vec![0; size - 1]);
    assert!(refuses(|| root.gather_varcount_into_root(&two[..], &mut few)));
    assert!(refuses(|| world.reduce_scatter_block_into(
        &vec![0_i32; size + 1][..],
        &mut [0_i32],
        SystemOperation::sum()
    )));
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
