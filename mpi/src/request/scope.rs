//! Scopes: what keeps buffers alive until the operations on them are complete.
//!
//! Invariant: a scope does not end while a request of it is open. It aborts the process instead.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::process;

/// Something that counts open requests, whose buffers outlive `'a`.
///
/// # Safety
/// Buffers live until each request that was registered is unregistered. The two types of this
/// module do that; programs have no need of others.
pub unsafe trait Scope<'a> {
    /// Counts an open request.
    fn register(&self);

    /// Counts an open request no more.
    ///
    /// # Safety
    /// The request was registered, and is complete or registered elsewhere.
    unsafe fn unregister(&self);
}

/// The scope of buffers that are never freed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StaticScope;

// SAFETY: buffers that live for 'static outlive each request.
unsafe impl Scope<'static> for StaticScope {
    fn register(&self) {}

    unsafe fn unregister(&self) {}
}

/// The scope of buffers that outlive a call of [`scope`] or
/// [`multiple_scope`](super::multiple_scope).
///
/// If it ends with open requests, the process aborts.
#[derive(Debug)]
pub struct LocalScope<'a> {
    open: Cell<usize>,
    /// Makes the lifetime invariant: a scope must not pass for one of a shorter life.
    phantom: PhantomData<Cell<&'a ()>>,
}

impl LocalScope<'_> {
    pub(super) fn new() -> Self {
        Self { open: Cell::new(0), phantom: PhantomData }
    }
}

// SAFETY: only `scope` and `multiple_scope` make a value, and lend it: programs cannot forget it,
// and when it ends it aborts unless each request was unregistered.
unsafe impl<'a> Scope<'a> for &LocalScope<'a> {
    fn register(&self) {
        self.open.set(self.open.get() + 1);
    }

    unsafe fn unregister(&self) {
        self.open.set(self.open.get() - 1);
    }
}

impl Drop for LocalScope<'_> {
    fn drop(&mut self) {
        if self.open.get() != 0 {
            abort("a scope", self.open.get());
        }
    }
}

/// Ends the process: MPI still works on buffers that are about to end.
#[cold]
pub(super) fn abort(ended: &str, open: usize) -> ! {
    eprintln!(
        "{ended} of mpi::request ended with open requests: {open}. Their buffers end too, and the \
         process aborts, since MPI would go on using them.\n\
         Call wait() on each request, or test() until it succeeds, or wrap it in a WaitGuard or a \
         CancelGuard."
    );
    process::abort()
}

/// Calls `f` with a scope for requests. Their buffers must have been made before the call.
///
/// If requests of the scope are open when `f` returns or panics, the process aborts.
///
/// ```no_run
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let value = 7_i32;
/// mpi::request::scope(|scope| {
///     let request = world.this_process().immediate_send(scope, &value);
///     world.this_process().receive::<i32>();
///     request.wait();
/// });
/// ```
///
/// A buffer that ends with the closure, or before the scope, is refused:
///
/// ```compile_fail,E0597
/// # use mpi::traits::*;
/// # let universe = mpi::initialize().unwrap();
/// # let world = universe.world();
/// mpi::request::scope(|scope| {
///     let value = 7_i32;
///     world.this_process().immediate_send(scope, &value).wait();
/// });
/// ```
pub fn scope<'a, F, R>(f: F) -> R
where
    F: FnOnce(&LocalScope<'a>) -> R,
{
    f(&LocalScope::new())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// Tells this test's own process that it is the one to abort.
    const VARIABLE: &str = "VERBENA_TEST_OPEN_SCOPE";

    #[test]
    fn a_scope_that_ends_with_open_requests_aborts() {
        if std::env::var_os(VARIABLE).is_some() {
            scope(|scope| scope.register());
            return;
        }
        let name = "request::scope::tests::a_scope_that_ends_with_open_requests_aborts";
        let mut test = process::Command::new(std::env::current_exe().unwrap());
        let ended =
            test.args(["--exact", "--nocapture", name]).env(VARIABLE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{text}");
        assert!(text.contains("ended with open requests: 1."), "{text}");
    }

    #[test]
    fn a_scope_ends_once_each_request_is_unregistered() {
        let returned = scope(|scope| {
            scope.register();
            scope.register();
            // SAFETY: two requests were registered.
            unsafe {
                scope.unregister();
                scope.unregister();
            }
            7
        });
        assert_eq!(returned, 7);
    }
}
