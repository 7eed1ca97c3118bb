//! Attributes: values that communicators keep.

#![deny(warnings)]

use std::sync::atomic::{AtomicUsize, Ordering};

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// How often the communicator was duplicated on its way here.
#[derive(Debug, PartialEq)]
struct Generation(u32);

impl CommAttribute for Generation {
    const CLONE_ON_DUP: bool = true;
}

impl Clone for Generation {
    fn clone(&self) -> Self {
        Generation(self.0 + 1)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Label(String);

impl CommAttribute for Label {}

fn dropped() -> usize {
    DROPPED.load(Ordering::Relaxed)
}

fn label(comm: &mut dyn Communicator, text: &str) {
    comm.set_attr(Label(text.to_owned()));
}

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if let Some(size) = universe.size() {
        assert!(size >= 1);
    }
    assert!(universe.appnum().is_none_or(|number| number >= 0));

    let mut first = world.duplicate();
    assert_eq!(first.get_attr::<Generation>(), None);
    first.set_attr(Generation(0));
    label(&mut first, "first");
    let second = first.duplicate();
    assert_eq!(second.get_attr::<Generation>(), Some(&Generation(1)));
    assert_eq!(second.get_attr::<Label>(), None);
    let before = dropped();
    first.set_attr(Generation(7));
    assert_eq!(dropped(), before + 1, "a value that is replaced is dropped");
    drop(first);
    assert_eq!(dropped(), before + 2, "a communicator drops its values");
    assert_eq!(second.get_attr::<Generation>(), Some(&Generation(1)));

    // Any number of values stand for the world, so that one may lend what another replaces.
    let mut one = SimpleCommunicator::world();
    one.set_attr(Label("old".to_owned()));
    let lent = one.get_attr::<Label>().unwrap();
    SimpleCommunicator::world().set_attr(Label("new".to_owned()));
    assert_eq!(lent.0, "old");
    assert_eq!(world.get_attr::<Label>().unwrap().0, "new");
    // A process only borrows its communicator.
    assert_eq!(second.this_process().get_attr::<Generation>(), Some(&Generation(1)));
    drop(second);
    drop(universe);
    assert_eq!(lent.0, "old");
}
