//! Groups: sets of processes, made of those of a communicator.

#![deny(warnings)]

use mpi::topology::{GroupRelation, SystemGroup};
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let all = world.group();
    assert_eq!((all.size(), all.rank()), (size, Some(rank)));

    let odd_ranks: Vec<_> = (0..size).filter(|rank| rank % 2 == 1).collect();
    let (odd, even) = (all.include(&odd_ranks), all.exclude(&odd_ranks));
    assert_eq!((odd.size(), even.size()), (size / 2, (size + 1) / 2));
    let (one, other) = if rank % 2 == 1 { (&odd, &even) } else { (&even, &odd) };
    assert_eq!((one.rank(), other.rank()), (Some(rank / 2), None));

    let empty = SystemGroup::empty();
    assert_eq!(empty.size(), 0);
    assert_eq!(odd.intersection(&even).compare(&empty), GroupRelation::Identical);
    assert_eq!(all.difference(&odd).compare(&even), GroupRelation::Identical);
    let order = if size < 3 { GroupRelation::Identical } else { GroupRelation::Similar };
    assert_eq!(even.union(&odd).compare(&all), order);
    let relation = if size == 1 { GroupRelation::Identical } else { GroupRelation::Unequal };
    assert_eq!(even.compare(&all), relation);

    let ranks: Vec<_> = (0..size).collect();
    let expected: Vec<_> = ranks.iter().map(|rank| (rank % 2 == 0).then_some(rank / 2)).collect();
    assert_eq!(all.translate_ranks(&ranks, &even), expected);
    assert_eq!(all.translate_rank(0, &odd), None);

    // A group may outlive MPI: it is not freed then.
    drop(universe);
    drop(all);
}
