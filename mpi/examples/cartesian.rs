//! Grids, and other graphs of neighbours.

#![deny(warnings)]

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use mpi::topology::{IntoTopology, SimpleCommunicator, Topology};
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    ring(&world);
    rows_and_columns(&world);
    assert!(world.cartesian_map(&[world.size()], &[false]).is_some());
    let small = world.create_cartesian_communicator(&[1], &[false], false);
    assert_eq!(small.map(|grid| grid.size()), (world.rank() == 0).then_some(1));
    graph(&world);
}

fn ring(world: &SimpleCommunicator) {
    let size = world.size();
    let ring = world.create_cartesian_communicator(&[size], &[true], false).unwrap();
    let rank = ring.rank();
    assert_eq!(ring.num_dimensions(), 1);
    let layout = ring.get_layout();
    assert_eq!((layout.dims, layout.periods, layout.coords), (vec![size], vec![true], vec![rank]));
    assert_eq!(ring.coordinates_to_rank(&[rank - size]), rank);
    assert_eq!(ring.rank_to_coordinates(rank), [rank]);
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    assert_eq!(ring.shift(0, 1), (Some(left), Some(right)));

    let mut neighbors = [-1; 2];
    ring.neighbor_all_gather_into(&rank, &mut neighbors[..]);
    assert_eq!(neighbors, [left, right]);

    let mut given = [-1; 4];
    ring.neighbor_all_to_all_into(&[rank, 1, rank, 2][..], &mut given[..]);
    // The left one sends 2 to its right, and the right one 1 to its left. If both are the same
    // process, its blocks may come in its own order.
    let crossed = size < 3 && given == [left, 1, right, 2];
    assert!(crossed || given == [left, 2, right, 1], "{given:?}");
    assert!(is_grid(ring.duplicate()));
}

fn is_grid(comm: SimpleCommunicator) -> bool {
    matches!(comm.into_topology(), IntoTopology::Cartesian(_))
}

fn rows_and_columns(world: &SimpleCommunicator) {
    let rows = if world.size() % 2 == 0 { 2 } else { 1 };
    let columns = world.size() / rows;
    let grid =
        world.create_cartesian_communicator(&[rows, columns], &[false, true], false).unwrap();
    let coordinates = grid.rank_to_coordinates(grid.rank());
    assert_eq!(grid.coordinates_to_rank(&coordinates), grid.rank());
    assert_eq!(grid.get_layout().coords, coordinates);
    let (above, below) = grid.shift(0, 1);
    assert_eq!(above.is_some(), coordinates[0] > 0);
    assert_eq!(below.is_some(), coordinates[0] + 1 < rows);
    let row = grid.subgroup(&[false, true]);
    assert_eq!((row.size(), row.rank()), (columns, coordinates[1]));

    // The grid has no such places, dimensions and ranks.
    assert!(refuses(|| _ = grid.coordinates_to_rank(&[rows, 0])));
    assert!(refuses(|| _ = grid.coordinates_to_rank(&[0])));
    assert!(refuses(|| _ = grid.rank_to_coordinates(grid.size())));
    assert!(refuses(|| _ = grid.shift(2, 1)));
    assert!(refuses(|| grid.neighbor_all_gather_into(&0, &mut [0; 3][..])));
}

/// Each process has an edge to the next.
fn graph(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    let (before, after) = ((rank + size - 1) % size, (rank + 1) % size);
    let graph = world.create_graph_communicator(&[before], &[after], false);
    assert_eq!(graph.neighbors(), (vec![before], vec![after]));
    assert!(!graph.is_weighted());
    let mut received = -1;
    graph.neighbor_all_gather_into(&rank, &mut received);
    assert_eq!(received, before);
    received = -1;
    mpi::request::scope(|scope| {
        graph.immediate_neighbor_all_to_all_into(scope, &rank, &mut received).wait();
    });
    assert_eq!(received, before);
    let copy = graph.duplicate();
    assert_eq!(copy.topology(), Topology::DistributedGraph);
    assert!(matches!(copy.into_topology(), IntoTopology::DistributedGraph(_)));
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
