//! How the threads of a process share the making of progress: a process-wide lock,
//! Leader/Followers, parking and back-off.
//!
//! [`ProcessLock`] guards a state that implements [`Guarded`]; that trait is all that this crate
//! knows of the state. Below multithreaded operation the lock costs one branch, and the waiting
//! thread polls, backs off and parks by itself. With several threads one of them leads: it polls
//! for all. The others follow: they sleep until the leader, or a thread that leaves the lock, finds
//! their wait predicate true.
//!
//! What it does not do: any I/O of its own. The state decides what to poll and what to park on.

#![deny(unsafe_code)]
// allowed in `affinity`, `fd_waker`, `futex`, `global_lock`, `leader_followers`, `park`, `signals`
// and `thread`
#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod absent;
mod affinity;
mod backoff;
#[cfg(test)]
mod fake;
#[cfg(not(loom))]
mod fd_waker;
mod futex;
mod global_lock;
mod guarded;
mod leader_followers;
#[cfg(all(test, loom))]
mod loom_tests;
mod park;
mod parker;
mod poll;
#[cfg(not(loom))]
mod progress_thread;
mod shared;
#[cfg(not(loom))]
mod signals;
mod sync;
mod thread;
mod wait;
mod waiter;
mod wakes;

pub use global_lock::{ProcessGuard, ProcessLock};
pub use guarded::{Guarded, Progress};
pub use park::ParkTarget;
pub use shared::Settings;
#[cfg(not(loom))]
pub use signals::with_signals_blocked;
pub use waiter::REPORT_AFTER;
