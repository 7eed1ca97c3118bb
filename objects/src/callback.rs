//! The user's functions while they run: they may call MPI, and what this process
//! was in before is still true when that call has returned.
//!
//! Who keeps that record is above this room; it says so once ([`set_hook`]).

use std::sync::OnceLock;

/// Runs what it is given, and keeps the record of the current call meanwhile.
pub type CallbackHook = fn(&mut dyn FnMut());

static HOOK: OnceLock<CallbackHook> = OnceLock::new();

/// From now on every function of the user's runs inside `hook`. The first to
/// say so is heard.
pub fn set_hook(hook: CallbackHook) {
    let _ = HOOK.set(hook);
}

/// Calls a function of the user's. With no lock held: it may call MPI.
pub fn user<R>(function: impl FnOnce() -> R) -> R {
    run(HOOK.get().copied(), function)
}

fn run<R>(hook: Option<CallbackHook>, function: impl FnOnce() -> R) -> R {
    let Some(hook) = hook else { return function() };
    let (mut function, mut result) = (Some(function), None);
    hook(&mut || result = function.take().map(|function| function()));
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
        let hook: CallbackHook = |run| {
            STEPS.store(1, Relaxed);
            run();
            STEPS.store(STEPS.load(Relaxed) * 10 + 3, Relaxed);
        };
        assert_eq!(run(Some(hook), || (note(2), 7).1), 7);
        assert_eq!(STEPS.load(Relaxed), 123);
        assert_eq!(run(None, || 8), 8);
    }
}
