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
        let Some((shared, hook)) = self.0.get() else { return };
        // The child of a fork that exits has a copy of this value, but is not the thread.
        // SAFETY: takes no pointers.
        if unsafe { libc::gettid() } == ThreadId::this().0 {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fake;

    /// Ends the process with an error if it is not the one that has made the hook.
    struct Hook(u32);

    impl ExitHook for Hook {
        fn thread_ended(&self, _: ThreadId) {
            if std::process::id() != self.0 {
                // SAFETY: takes no pointers.
                unsafe { libc::_exit(1) };
            }
        }
    }

    #[test]
    fn a_forked_child_that_exits_is_no_thread_of_its_parent() {
        let (lock, _) = fake::lock();
        let hook: &Hook = Box::leak(Box::new(Hook(std::process::id())));
        ThreadId::counted(&lock.shared, hook);
        // SAFETY: the child does nothing but drop this thread's values and end.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::exit(0) };
        }
        let mut status = -1;
        // SAFETY: a valid place for the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
