//! A window in memory that all ranks of a host map: loads and stores instead of messages.

#![deny(warnings)]

use mpi::collective::SystemOperation;
use mpi::traits::*;
use mpi::window::{Lock, Window};

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let host = world.split_shared(0);
    let (rank, size) = (host.rank(), host.size());
    let right = (rank + 1) % size;

    let mut window = Window::<f64>::allocate_shared(&host, 1000);
    window.write().fill(f64::from(rank));
    host.barrier();

    let sum: f64 = window.lock_all(|epoch| {
        let memory = epoch.shared(right).expect("the memory of a rank of this host");
        assert_eq!(memory.len(), epoch.length(right));
        (0..memory.len()).map(|index| memory.load(index)).sum()
    });
    assert_eq!(sum, 1000.0 * f64::from(right));

    // All ranks write to all others, and read their own memory once all have.
    host.barrier();
    window.lock_all(|epoch| {
        for other in 0..size {
            let memory = epoch.shared(other).expect("the memory of a rank of this host");
            memory.store(rank as usize, -1.5);
            memory.copy_from(100 + 2 * rank as usize, &[0.25, 0.5]);
        }
        epoch.sync();
        host.barrier();
        epoch.sync();
        let own = epoch.shared(rank).expect("a rank's own memory");
        assert!((0..size as usize).all(|index| own.load(index) == -1.5));
        let mut pairs = vec![0.0; 2 * size as usize];
        own.copy_to(100, &mut pairs);
        assert!(pairs.chunks(2).all(|pair| pair == [0.25, 0.5]));
    });

    // The owner's exclusive lock keeps the others out.
    host.barrier();
    window.write().fill(0.0);
    host.barrier();
    for _ in 0..20 {
        window.lock(0, Lock::Exclusive, |epoch| {
            let memory = epoch.shared(0).expect("the memory of rank 0");
            memory.store(0, memory.load(0) + 1.0);
        });
        if rank == 0 {
            window.write()[0] += 1.0;
        }
    }
    host.barrier();
    let total = window.lock(0, Lock::Shared, |epoch| epoch.fetch(0, 0, 1))[0];
    assert_eq!(total, f64::from(20 * (size + 1)));

    // Memory of one rank alone.
    let mut window = Window::<u16>::allocate_shared(&host, if rank == 0 { 8 } else { 0 });
    window.lock_all(|epoch| {
        let memory = epoch.shared(0).expect("the memory of rank 0");
        epoch.fetch_and_op(1, 0, 7, SystemOperation::sum());
        host.barrier();
        epoch.sync();
        assert_eq!(memory.load(7), size as u16);
        if size > 1 {
            assert!(epoch.shared(1).is_none());
        }
    });
}
