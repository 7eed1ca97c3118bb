//! The user's functions while they run: they may call MPI, and what this process
//! was in before is still true when that call has returned.
//!
//! Who keeps that record is above this room; it says so once ([`watch`]).

use std::sync::OnceLock;

/// Runs what it is given, and keeps the record of the current call meanwhile.
pub type Around = fn(&mut dyn FnMut());

static AROUND: OnceLock<Around> = OnceLock::new();

/// From now on every function of the user's runs inside `around`. The first to
/// say so is heard.
pub fn watch(around: Around) {
    let _ = AROUND.set(around);
}

/// Calls a function of the user's. With no lock held: it may call MPI.
pub fn user<R>(function: impl FnOnce() -> R) -> R {
    run(AROUND.get().copied(), function)
}

fn run<R>(around: Option<Around>, function: impl FnOnce() -> R) -> R {
    let Some(around) = around else { return function() };
    let (mut function, mut result) = (Some(function), None);
    around(&mut || result = function.take().map(|function| function()));
    result.expect("what is around a user's function runs it")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_function_runs_inside_what_is_around_it() {
        static STEPS: AtomicU32 = AtomicU32::new(0);
        let note = |digit: u32| STEPS.store(STEPS.load(Relaxed) * 10 + digit, Relaxed);
        let around: Around = |run| {
            STEPS.store(1, Relaxed);
            run();
            STEPS.store(STEPS.load(Relaxed) * 10 + 3, Relaxed);
        };
        assert_eq!(run(Some(around), || (note(2), 7).1), 7);
        assert_eq!(STEPS.load(Relaxed), 123);
        assert_eq!(run(None, || 8), 8);
    }
}
