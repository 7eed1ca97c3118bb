//! Calls of user functions. A user function may call MPI; after that call, the record of the outer
//! MPI call must still be right.
//!
//! The runtime keeps that record. It registers a hook once ([`set_hook`]), and every user function
//! runs inside it. This module knows neither the record nor the calls.

use std::sync::OnceLock;

/// A hook that runs its argument and restores the record of the current call afterwards.
pub type CallbackHook = fn(&mut dyn FnMut());

static HOOK: OnceLock<CallbackHook> = OnceLock::new();

/// Runs every user function inside `hook` from now on. Only the first call has an effect.
pub fn set_hook(hook: CallbackHook) {
    let _ = HOOK.set(hook);
}

/// Calls a user function inside the hook. The caller holds no lock: the function may call MPI.
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
