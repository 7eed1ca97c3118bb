//! Collective operations that are started, and completed later.

#![deny(warnings)]

use mpi::Count;
use mpi::collective::{SystemOperation, UserOperation};
use mpi::datatype::{Partition, PartitionMut};
use mpi::request::scope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.immediate_barrier().wait();
    without_root(&world);
    in_parts(&world);
    reductions(&world);
    for root in 0..world.size() {
        with_root(&world, root);
        with_root_in_parts(&world, root);
    }
    several_at_once(&world);
}

fn without_root(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let sent: Vec<_> = (0..size).map(|other| 100 * rank + other).collect();
    let (mut gathered, mut received) = (vec![-1; size as usize], vec![-1; size as usize]);
    scope(|scope| {
        let gather = world.immediate_all_gather_into(scope, &rank, &mut gathered[..]);
        let exchange = world.immediate_all_to_all_into(scope, &sent[..], &mut received[..]);
        exchange.wait();
        gather.wait();
    });
    assert_eq!(gathered, (0..size).collect::<Vec<_>>());
    assert_eq!(received, (0..size).map(|other| 100 * other + rank).collect::<Vec<_>>());
}

fn in_parts(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let counts: Vec<Count> = (1..=size).collect();
    let starts: Vec<Count> = (0..size).map(|rank| rank * (rank + 1) / 2).collect();
    let expected: Vec<_> = (0..size).flat_map(|rank| vec![rank; rank as usize + 1]).collect();
    let own = vec![rank; rank as usize + 1];
    let (mut all, mut received) =
        (vec![-1; expected.len()], vec![-1; (size * (rank + 1)) as usize]);
    {
        let mut all = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        let each = vec![rank + 1; size as usize];
        let each_start: Vec<_> = (0..size).map(|other| other * (rank + 1)).collect();
        let mut received = PartitionMut::new(&mut received[..], each, each_start);
        let parts = Partition::new(&expected[..], &counts[..], &starts[..]);
        scope(|scope| {
            let gather = world.immediate_all_gather_varcount_into(scope, &own[..], &mut all);
            world.immediate_all_to_all_varcount_into(scope, &parts, &mut received).wait();
            gather.wait();
        });
    }
    assert_eq!(all, expected);
    assert!(received.iter().all(|&value| value == rank));
}

fn reductions(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let product = UserOperation::commutative(|first, second| {
        let (first, second) = (first.downcast::<f64>().unwrap(), second.downcast::<f64>());
        for (first, second) in first.iter().zip(second.unwrap()) {
            *second *= first;
        }
    });
    let values: Vec<_> = (0..size).collect();
    let (mut all, mut block, mut upto, mut before) = (0.0, -1, -1, -1);
    scope(|scope| {
        let sum = SystemOperation::sum();
        let requests = (
            world.immediate_all_reduce_into(scope, &2.0, &mut all, &product),
            world.immediate_reduce_scatter_block_into(scope, &values[..], &mut block, sum),
            world.immediate_scan_into(scope, &rank, &mut upto, sum),
            world.immediate_exclusive_scan_into(scope, &rank, &mut before, sum),
        );
        requests.0.wait();
        requests.1.wait();
        requests.2.wait();
        requests.3.wait();
    });
    assert_eq!(all, 2.0_f64.powi(size));
    assert_eq!(block, rank * size);
    assert_eq!(upto, rank * (rank + 1) / 2);
    assert_eq!(before, if rank == 0 { -1 } else { rank * (rank - 1) / 2 });
}

fn with_root(world: &SimpleCommunicator, root: i32) {
    let (rank, size, root) = (world.rank(), world.size(), world.process_at_rank(root));
    let sum = SystemOperation::sum();
    let (mut value, mut own, mut total) = (rank, -1, -1);
    let ranks: Vec<_> = (0..size).collect();
    let mut gathered = vec![-1; size as usize];
    scope(|scope| {
        let broadcast = root.immediate_broadcast_into(scope, &mut value);
        if root.is_self() {
            let gather = root.immediate_gather_into_root(scope, &rank, &mut gathered[..]);
            root.immediate_scatter_into_root(scope, &ranks[..], &mut own).wait();
            root.immediate_reduce_into_root(scope, &rank, &mut total, sum).wait();
            gather.wait();
        } else {
            let gather = root.immediate_gather_into(scope, &rank);
            root.immediate_scatter_into(scope, &mut own).wait();
            root.immediate_reduce_into(scope, &rank, sum).wait();
            gather.wait();
        }
        broadcast.wait();
    });
    assert_eq!((value, own), (root.rank(), rank));
    if root.is_self() {
        assert_eq!((gathered, total), (ranks, size * (size - 1) / 2));
    }
}

fn with_root_in_parts(world: &SimpleCommunicator, root: i32) {
    let (rank, size, root) = (world.rank(), world.size(), world.process_at_rank(root));
    // Odd ranks give and get nothing.
    let counts: Vec<Count> = (0..size).map(|rank| 1 - rank % 2).collect();
    let starts: Vec<Count> = (0..size).collect();
    let own = vec![rank; counts[rank as usize] as usize];
    let mut received = vec![-1; own.len()];
    let mut all = vec![-1; size as usize];
    let ranks: Vec<_> = (0..size).collect();
    if root.is_self() {
        let mut all = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        let parts = Partition::new(&ranks[..], &counts[..], &starts[..]);
        scope(|scope| {
            root.immediate_gather_varcount_into_root(scope, &own[..], &mut all).wait();
            root.immediate_scatter_varcount_into_root(scope, &parts, &mut received[..]).wait();
        });
    } else {
        scope(|scope| {
            root.immediate_gather_varcount_into(scope, &own[..]).wait();
            root.immediate_scatter_varcount_into(scope, &mut received[..]).wait();
        });
    }
    assert_eq!(received, own);
    if root.is_self() {
        assert!((0..size).all(|rank| all[rank as usize] == if rank % 2 == 0 { rank } else { -1 }));
    }
}

/// Operations are under way at the same time, and completed in another order.
fn several_at_once(world: &SimpleCommunicator) {
    const OPERATIONS: usize = 16;
    let (rank, size) = (world.rank(), world.size());
    let mut sums = [-1; OPERATIONS];
    scope(|scope| {
        let sum = SystemOperation::sum();
        let mut requests: Vec<_> = sums
            .iter_mut()
            .map(|result| world.immediate_all_reduce_into(scope, &rank, result, sum))
            .collect();
        while let Some(request) = requests.pop() {
            request.wait();
        }
    });
    assert_eq!(sums, [size * (size - 1) / 2; OPERATIONS]);
}
