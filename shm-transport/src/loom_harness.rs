//! Runs small programs under loom: in every order of their memory accesses.

use loom::model::Builder;
use loom::thread;

/// Waits until the condition holds.
pub(crate) fn wait(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// Runs a program in every order of its memory accesses, with at most so many preemptions.
pub(crate) fn in_every_order(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(run);
}

/// Runs `work` for both members of a new segment, each in its own thread.
pub(crate) fn together<M: Send + 'static>(
    preemptions: usize,
    members: fn() -> [M; 2],
    work: fn(&M),
) {
    in_every_order(preemptions, move || {
        let [one, other] = members();
        let other = thread::spawn(move || work(&other));
        work(&one);
        other.join().unwrap();
    });
}
