//! Atomics of a process's device on its own memory, whose queue pair breaks.

use fabric::{Atomic, AtomicFailure, OwnAtomics, Peer};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{InProcessStore, Rails};

use crate::stand_in::{alone, control, settings};

/// Adds one to the word, by the device alone.
fn add(atomics: &dyn OwnAtomics, word: &Bytes) -> Result<u64, AtomicFailure> {
    atomics.change(word.buffer().memory().expect("one run"), Atomic::Add(1))
}

#[test]
fn a_queue_pair_that_breaks_is_made_again() {
    alone("own_atomics::a_queue_pair_that_breaks_is_made_again", "", || {
        let store = Box::new(InProcessStore::default());
        let rails = Rails::open(settings(), Peer(0), 2, [3; 32], store).expect("a transport");
        let word = Bytes::new(Shape::Run, &[0; 8]);
        let memory = word.buffer().memory().expect("one run");
        let atomics = rails.own_atomics(memory).expect("own atomics");
        assert_eq!(add(&*atomics, &word), Ok(0));
        control("broken=1000000");
        for _ in 0..2 {
            assert_eq!(add(&*atomics, &word), Err(AtomicFailure::Unclear));
        }
        control("broken=0 move=1");
        let old = add(&*atomics, &word).expect("another queue pair");
        assert_eq!(add(&*atomics, &word), Ok(old + 1));
        control("remove=1");
        // What was under way may have been done; afterwards nobody but processors changes it.
        assert_eq!(add(&*atomics, &word), Err(AtomicFailure::Unclear));
        assert_eq!(add(&*atomics, &word), Err(AtomicFailure::Gone));
    });
}
