//! The application's threads: their ids, and how many of them wait in this process.

#![allow(unsafe_code)]

use std::cell::Cell;

use crate::shared::Shared;
use crate::sync::Ordering;

/// A thread, by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadId(pub(crate) libc::pid_t);

/// The hook for the end of a counted thread.
pub(crate) trait ExitHook: Sync {
    /// Called by the thread itself, when its thread-local values are dropped.
    fn thread_ended(&self, thread: ThreadId);
}

/// Counts its thread while it lives.
struct Counted(Cell<Option<(&'static Shared, &'static dyn ExitHook)>>);

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some((shared, hook)) = self.0.get() {
            shared.threads.fetch_sub(1, Ordering::Relaxed);
            hook.thread_ended(ThreadId::this());
        }
    }
}

impl ThreadId {
    /// No thread.
    pub(crate) const NONE: ThreadId = ThreadId(0);

    /// Returns the calling thread.
    #[cfg(not(loom))]
    pub(crate) fn this() -> ThreadId {
        thread_local! { static THIS: Cell<ThreadId> = const { Cell::new(ThreadId::NONE) } }
        THIS.with(|this| {
            if this.get() == ThreadId::NONE {
                // SAFETY: takes no pointers.
                this.set(ThreadId(unsafe { libc::gettid() }));
            }
            this.get()
        })
    }

    /// Returns the calling thread: loom runs all of its threads on one of the kernel's.
    #[cfg(loom)]
    pub(crate) fn this() -> ThreadId {
        static NEXT: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(1);
        loom::thread_local! {
            static THIS: ThreadId = ThreadId(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
        THIS.with(|this| *this)
    }

    /// Returns the calling thread and counts it from now on; `hook` is called at its end.
    pub(crate) fn counted(shared: &'static Shared, hook: &'static dyn ExitHook) -> ThreadId {
        thread_local! { static COUNTED: Counted = const { Counted(Cell::new(None)) } }
        // A thread that is ending is not counted. Loom's have no ends of their own.
        let _ = COUNTED.try_with(|counted| {
            if !cfg!(loom) && counted.0.get().is_none() {
                counted.0.set(Some((shared, hook)));
                shared.threads.fetch_add(1, Ordering::Relaxed);
            }
        });
        ThreadId::this()
    }
}
