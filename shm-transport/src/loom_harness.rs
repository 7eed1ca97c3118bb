//! How the words of arenas are run under loom.

use loom::model::Builder;
use loom::thread;

/// Looks until it is so.
pub(crate) fn wait(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// Every order of memory accesses, with so many preemptions at most.
pub(crate) fn in_every_order(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(run);
}

/// Both members of a new arena do this, each in its thread.
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
