//! Processes that start others, and talk to them.

#![deny(warnings)]

use std::env;
use std::process::Command;

use mpi::collective::{Root, SystemOperation};
use mpi::topology::{InterCommunicator, MergeOrder, Rank};
use mpi::traits::*;

/// What a spawned process gets as its argument.
const ARGUMENT: &str = "spawned";

fn main() -> Result<(), mpi::MpiError> {
    let mut universe = mpi::initialize().unwrap();
    let world = universe.world();
    if let Some(parent) = world.parent() {
        child(&parent);
        assert_eq!(world.parent().map(|parent| parent.remote_size()), Some(parent.remote_size()));
        universe.disconnect_parent();
        assert!(universe.world().parent().is_none());
        return Ok(());
    }

    let mut command = Command::new(env::current_exe().unwrap());
    command.arg(ARGUMENT).current_dir(env::temp_dir());
    let root = world.process_at_rank(world.size() - 1);
    let children = root.spawn(&command, 2)?;
    assert_eq!(children.remote_size(), 2);
    parent(&children, root.rank());
    drop(children);

    let mut other = Command::new(env::current_exe().unwrap());
    other.args([ARGUMENT, "more"]).current_dir(env::temp_dir());
    let children = root.spawn_multiple(&[command, other], &[1, 2])?;
    assert_eq!(children.remote_size(), 3);
    parent(&children, root.rank());
    Ok(())
}

/// The root of an operation on an inter-communicator, in the root's own group.
struct OwnRoot<'a>(&'a InterCommunicator, Rank);

impl AsCommunicator for OwnRoot<'_> {
    type Out = InterCommunicator;

    fn as_communicator(&self) -> &InterCommunicator {
        self.0
    }
}

impl Root for OwnRoot<'_> {
    fn root_rank(&self) -> Rank {
        if self.0.rank() == self.1 { mpi::ffi::MPI_ROOT } else { mpi::ffi::MPI_PROC_NULL }
    }
}

fn parent(children: &InterCommunicator, root: Rank) {
    let own_root = OwnRoot(children, root);
    let is_root = children.rank() == root;
    let mut number = if is_root { root } else { -1 };
    own_root.broadcast_into(&mut number);
    if is_root {
        let mut ranks = vec![-1; children.remote_size() as usize];
        let nothing: [Rank; 0] = [];
        own_root.gather_into_root(&nothing[..], &mut ranks[..]);
        assert_eq!(ranks, (0..children.remote_size()).collect::<Vec<_>>());
    } else {
        own_root.gather_into(&[0; 0][..]);
    }
    merged(children, MergeOrder::Low);
}

fn child(parent: &InterCommunicator) {
    assert_eq!(env::args().nth(1).as_deref(), Some(ARGUMENT));
    let here = env::current_dir().unwrap();
    assert_eq!(here.canonicalize().unwrap(), env::temp_dir().canonicalize().unwrap());
    let root = parent.process_at_rank(parent.remote_size() - 1);
    let mut number = -1;
    root.broadcast_into(&mut number);
    assert_eq!(number, root.rank());
    root.gather_into(&parent.rank());
    merged(parent, MergeOrder::High);
}

fn merged(comm: &InterCommunicator, order: MergeOrder) {
    let merged = comm.merge(order);
    assert_eq!(merged.size(), comm.size() + comm.remote_size());
    let first = if let MergeOrder::Low = order { 0 } else { comm.remote_size() };
    assert_eq!(merged.rank(), first + comm.rank());
    let mut sum = 0;
    merged.all_reduce_into(&1, &mut sum, SystemOperation::sum());
    assert_eq!(sum, merged.size());
}
