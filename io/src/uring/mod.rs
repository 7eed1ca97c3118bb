//! Nonblocking accesses by io_uring: one run of memory and one run of a file, which the kernel
//! moves.
//!
//! Accesses through the cache of the system are short ones ([`takes`]): longer ones are copied by
//! threads in any case, and the threads of this crate need no signal of the kernel for each.
//!
//! A process has one pair of rings, made for the first such access. Where the kernel refuses them,
//! as many containers make it do, or the knob `io.uring` is off, all accesses run on threads
//! ([`workers`](crate::workers)). Completions are found by progress, tests and waits, which call
//! [`reap`]; a thread that sleeps polls the descriptor of [`wake`](crate::wake).

mod engine;
mod kernel;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use engine::Engine;
pub(crate) use engine::MAX_INLINE_BYTES;
pub(crate) use engine::Transfer;
use kernel::KernelQueue;

/// The rings are wanted.
static IS_WANTED: AtomicBool = AtomicBool::new(true);
/// The rings, or why there are none.
static RINGS: OnceLock<Result<Mutex<Engine<KernelQueue>>, String>> = OnceLock::new();
/// Transfers under way.
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

/// Sets whether nonblocking accesses may use io_uring.
pub fn allow(is_wanted: bool) {
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
}

fn open() -> Result<Mutex<Engine<KernelQueue>>, String> {
    match KernelQueue::open() {
        Ok(queue) => Ok(Mutex::new(Engine::new(queue))),
        Err(error) => Err(crate::errno::sentence(&error)),
    }
}

fn locked(engine: &Mutex<Engine<KernelQueue>>) -> MutexGuard<'_, Engine<KernelQueue>> {
    engine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if transfers of so many bytes go by the rings.
pub(crate) fn takes(bytes: usize, is_direct: bool) -> bool {
    is_direct || bytes <= MAX_INLINE_BYTES
}

/// Starts the transfer that `make` returns; false if there are no rings.
pub(crate) fn start(make: impl FnOnce() -> Transfer) -> bool {
    if !IS_WANTED.load(Ordering::Relaxed) {
        return false;
    }
    let Ok(engine) = RINGS.get_or_init(open) else { return false };
    let mut engine = locked(engine);
    engine.start(make());
    IN_FLIGHT.store(engine.in_flight(), Ordering::SeqCst);
    true
}

/// Ends the transfers that are complete; returns the number of completions.
#[inline]
pub(crate) fn reap() -> usize {
    if IN_FLIGHT.load(Ordering::SeqCst) == 0 { 0 } else { reap_some() }
}

#[cold]
fn reap_some() -> usize {
    let Some(Ok(engine)) = RINGS.get() else { return 0 };
    // A thread that holds the lock looks itself.
    let Ok(mut engine) = engine.try_lock() else { return 0 };
    let seen = engine.reap();
    IN_FLIGHT.store(engine.in_flight(), Ordering::SeqCst);
    seen
}

/// Asks the kernel to cancel all transfers. They end by [`reap`].
pub(crate) fn cancel_all() {
    if let Some(Ok(engine)) = RINGS.get() {
        let mut engine = locked(engine);
        engine.cancel_all();
        IN_FLIGHT.store(engine.in_flight(), Ordering::SeqCst);
    }
}

/// Returns how nonblocking accesses are carried out, and why not by io_uring, for `--explain`.
pub(crate) fn describe() -> String {
    match (IS_WANTED.load(Ordering::Relaxed), RINGS.get()) {
        (false, _) => "by threads: io.uring is off".to_owned(),
        (true, Some(Err(why))) => format!("by threads: the kernel refuses io_uring ({why})"),
        (true, _) => {
            let most = MAX_INLINE_BYTES >> 10;
            format!("up to {most} KiB by io_uring, longer ones by threads")
        }
    }
}
