//! Atomics, mutexes, yields and the clock: the real ones, or loom's under `--cfg loom`.

use std::time::Instant;

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

/// Returns the time. Under loom it stands still: a run must not depend on how fast it is.
pub(crate) fn now() -> Instant {
    #[cfg(loom)]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now)
    }
    #[cfg(not(loom))]
    Instant::now()
}

/// Returns nanoseconds since the first call.
pub(crate) fn nanos() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    now().saturating_duration_since(*START.get_or_init(now)).as_nanos() as u64
}

/// Declares a constructor that is `const`, for statics, except under loom, whose atomics have no
/// such constructor.
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty $body:block) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        $vis const fn $name($($arg: $ty),*) -> $ret $body
        #[cfg(loom)]
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) -> $ret $body
    };
}
pub(crate) use const_fn;
