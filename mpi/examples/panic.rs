//! A rank that panics ends the job, although the others wait for it.

#![deny(warnings)]

use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let copy = world.duplicate();
    if copy.rank() == copy.size() - 1 {
        panic!("the last rank panicked, as it should");
    }
    copy.barrier();
    unreachable!("the last rank never comes to the barrier");
}
