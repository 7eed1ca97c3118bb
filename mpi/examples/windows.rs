//! One-sided communication: all kinds of epochs, with counters, a compare-and-swap and borders.

#![deny(warnings)]

use mpi::collective::SystemOperation;
use mpi::topology::SystemGroup;
use mpi::traits::*;
use mpi::window::{Lock, Window};

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    memory_is_zero(&world);
    borders_by_fence(&world);
    borders_by_groups(&world);
    tickets(&world);
    election(&world);
    increments_under_exclusive_locks(&world);
    owner_is_alone(&world);
    operations_under_locks(&world);
    accumulates(&world);
    if cfg!(panic = "unwind") {
        misuse_panics(&world);
        panics_close_epochs(&world);
    }
}

fn neighbours(comm: &impl Communicator) -> (i32, i32) {
    let (rank, size) = (comm.rank(), comm.size());
    ((rank + size - 1) % size, (rank + 1) % size)
}

fn memory_is_zero(comm: &impl Communicator) {
    // Each rank has another number of elements, rank 0 none.
    let mut window = Window::<u32>::allocate(comm, comm.rank() as usize);
    assert_eq!((window.rank(), window.size()), (comm.rank(), comm.size()));
    assert!((0..comm.size()).all(|rank| window.length(rank) == rank as usize));
    assert!(window.read().iter().all(|&element| element == 0));
    assert_eq!(window.read().len(), comm.rank() as usize);
}

/// Each rank writes its two borders to the neighbours, and reads one of them back.
fn borders_by_fence(comm: &impl Communicator) {
    let (left, right) = neighbours(comm);
    let rank = f64::from(comm.rank());
    let mut window = Window::<f64>::allocate(comm, 2);
    let borders = [rank, rank + 0.5];
    window.fence(|epoch| {
        epoch.put(&borders[..1], left, 1);
        epoch.put(&borders[1..], right, 0);
    });
    assert_eq!(*window.read(), [f64::from(left) + 0.5, f64::from(right)]);
    let mut copy = [0.0; 2];
    window.fence(|epoch| epoch.get(&mut copy, right, 0));
    assert_eq!(copy[0], rank + 0.5);
}

/// Only neighbours synchronise.
fn borders_by_groups(comm: &impl Communicator) {
    let (left, right) = neighbours(comm);
    let mut window = Window::<i32>::allocate(comm, 1);
    let all = comm.group();
    let value = [comm.rank()];
    window.access(&all.include(&[left]), &all.include(&[right]), |epoch| {
        epoch.put(&value, right, 0);
    });
    assert_eq!(*window.read(), [left]);
    // Without any partner there is nothing to wait for.
    window.access(&SystemGroup::empty(), &SystemGroup::empty(), |_| ());
}

/// All ranks draw tickets of one counter: no number is drawn twice.
fn tickets(comm: &impl Communicator) {
    const EACH: u64 = 50;
    let mut window = Window::<u64>::allocate(comm, 1);
    let drawn: Vec<u64> = window.lock_all(|epoch| {
        (0..EACH).map(|_| epoch.fetch_and_op(1, 0, 0, SystemOperation::sum())).collect()
    });
    assert!(drawn.is_sorted());
    let mut all = vec![0; EACH as usize * comm.size() as usize];
    comm.all_gather_into(&drawn[..], &mut all[..]);
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..EACH * comm.size() as u64));
}

/// The first rank to write its number is elected.
fn election(comm: &impl Communicator) {
    let me = comm.rank() + 1;
    let mut window = Window::<i32>::allocate(comm, 1);
    let elected = window.lock(0, Lock::Shared, |epoch| {
        let before = epoch.compare_and_swap(0, me, 0, 0);
        let now = epoch.load(0, 0);
        assert_eq!(now, if before == 0 { me } else { before });
        now
    });
    let (mut least, mut most) = (0, 0);
    comm.all_reduce_into(&elected, &mut least, SystemOperation::min());
    comm.all_reduce_into(&elected, &mut most, SystemOperation::max());
    assert_eq!(least, most);
}

/// Reads and writes of several elements that no other rank may come between.
fn increments_under_exclusive_locks(comm: &impl Communicator) {
    let target = comm.size() - 1;
    let mut window = Window::<u16>::allocate(comm, 3);
    for _ in 0..20 {
        let mut next = [0; 3];
        let old = window.lock(target, Lock::Exclusive, |epoch| epoch.fetch(target, 0, 3));
        assert!(old[0] == old[1] && old[1] == old[2]);
        window.lock(target, Lock::Exclusive, |epoch| {
            let old = epoch.fetch(target, 0, 3);
            for (index, old) in old.into_iter().enumerate() {
                epoch.swap(old + 1, target, index);
            }
        });
        window.lock(target, Lock::Shared, |epoch| epoch.get(&mut next, target, 0));
        assert!(next[0] > old[0]);
        if comm.rank() == target {
            // The owner changes its memory without an epoch.
            window.write().iter_mut().for_each(|element| *element += 1);
        }
    }
    comm.barrier();
    let total = 20 * (comm.size() as u16 + 1);
    let found = window.lock(target, Lock::Shared, |epoch| epoch.fetch(target, 0, 3));
    assert_eq!(found, [total; 3]);
    comm.barrier();
}

/// While rank 0 borrows its memory, others that lock it, even shared, wait.
fn owner_is_alone(comm: &impl Communicator) {
    let mut window = Window::<u32>::allocate(comm, 1);
    comm.barrier();
    for _ in 0..20 {
        if comm.rank() > 0 {
            for _ in 0..10 {
                window.lock(0, Lock::Shared, |epoch| {
                    epoch.fetch_and_op(1, 0, 0, SystemOperation::sum());
                });
            }
            continue;
        }
        let own = window.read();
        let before = own[0];
        std::thread::sleep(std::time::Duration::from_micros(500));
        assert_eq!(std::hint::black_box(&own)[0], before);
    }
    comm.barrier();
    if comm.rank() == 0 {
        assert_eq!(window.read()[0], 200 * (comm.size() as u32 - 1));
    }
}

fn operations_under_locks(comm: &impl Communicator) {
    let (left, right) = neighbours(comm);
    let mut window = Window::<i64>::allocate(comm, 4);
    let mine = [i64::from(comm.rank()); 3];
    window.lock_all(|epoch| {
        epoch.put(&mine[..2], right, 0);
        epoch.flush(right);
        assert_eq!(epoch.fetch(right, 0, 2), mine[..2]);
        epoch.replace(&mine[2..], right, 2);
        epoch.flush_all();
        assert_eq!(epoch.swap(7, right, 2), mine[2]);
    });
    comm.barrier();
    let left = i64::from(left);
    assert_eq!(*window.read(), [left, left, 7, 0]);
}

fn accumulates(comm: &impl Communicator) {
    let size = comm.size();
    let ones = vec![1_i32; size as usize];
    let mut before = vec![-1; size as usize];
    let mut window = Window::<i32>::allocate(comm, size as usize);
    window.fence(|epoch| {
        for rank in 0..size {
            epoch.accumulate(&ones, rank, 0, SystemOperation::sum());
        }
    });
    assert!(window.read().iter().all(|&sum| sum == size));
    window.fence(|epoch| epoch.get_accumulate(&ones, &mut before, 0, 0, SystemOperation::sum()));
    assert!(before.iter().all(|&sum| (size..2 * size).contains(&sum)));
    let expected = if comm.rank() == 0 { 2 * size } else { size };
    assert!(window.read().iter().all(|&sum| sum == expected));
}

/// Accesses beyond the memory are refused before anything happens.
fn misuse_panics(comm: &impl Communicator) {
    let mut window = Window::<u8>::allocate(comm, 3);
    let (bytes, size) = ([1; 2], comm.size());
    assert_panics("elements from element 2 on of rank 0: must be within its 3", || {
        window.lock_all(|epoch| epoch.put(&bytes, 0, 2));
    });
    assert_panics("invalid rank", || window.lock(size, Lock::Shared, |_| ()));
    assert_panics("access to rank 0 under a lock: must be to rank", || {
        window.lock(size - 1, Lock::Shared, |epoch| {
            epoch.flush(size - 1);
            // With one rank, all accesses are to it.
            assert!(size > 1, "access to rank 0 under a lock: must be to rank");
            epoch.put(&bytes, 0, 0);
        });
    });
}

/// A panic within an epoch ends it: the window can be used again.
fn panics_close_epochs(comm: &impl Communicator) {
    let mut window = Window::<i32>::allocate(comm, 1);
    let value = [comm.rank()];
    let (left, right) = neighbours(comm);
    assert_panics("in a fence", || {
        window.fence(|epoch| {
            epoch.put(&value, right, 0);
            panic!("in a fence");
        });
    });
    assert_eq!(*window.read(), [left]);
    assert_panics("under a lock", || {
        window.lock(right, Lock::Exclusive, |_| panic!("under a lock"))
    });
    assert_panics("under all locks", || window.lock_all(|_| panic!("under all locks")));
    assert_panics("while writing", || {
        let _own = window.write();
        panic!("while writing");
    });
    window.lock(right, Lock::Exclusive, |epoch| assert_eq!(epoch.fetch(right, 0, 1), value));
}

/// Runs `work`, which panics with a text that contains `expected`.
fn assert_panics(expected: &str, work: impl FnOnce()) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    let payload = result.expect_err(expected);
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(text.contains(expected), "{text}");
}
