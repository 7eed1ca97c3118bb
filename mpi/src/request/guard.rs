//! Guards: requests that are completed when they are dropped.

#![allow(unsafe_code)]

use super::{Request, Scope, StaticScope};
use crate::ffi::MPI_Request;
use crate::raw::traits::*;

/// A request that is waited for when the guard is dropped.
///
/// A request becomes a guard and a guard a request by `From` and `Into`.
#[derive(Debug)]
pub struct WaitGuard<'a, D: ?Sized, S: Scope<'a> = StaticScope>(
    /// The request, unless the guard became one.
    Option<Request<'a, D, S>>,
);

impl<'a, D: ?Sized, S: Scope<'a>> Drop for WaitGuard<'a, D, S> {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.wait_without_status();
        }
    }
}

// SAFETY: the guard owns the request.
unsafe impl<'a, D: ?Sized, S: Scope<'a>> AsRaw for WaitGuard<'a, D, S> {
    type Raw = MPI_Request;

    fn as_raw(&self) -> Self::Raw {
        self.0.as_ref().expect("a guard that lives has a request").as_raw()
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<WaitGuard<'a, D, S>> for Request<'a, D, S> {
    fn from(mut guard: WaitGuard<'a, D, S>) -> Self {
        guard.0.take().expect("a guard that lives has a request")
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<Request<'a, D, S>> for WaitGuard<'a, D, S> {
    fn from(request: Request<'a, D, S>) -> Self {
        WaitGuard(Some(request))
    }
}

/// A request that MPI is asked to cancel, and that is waited for, when the guard is dropped.
///
/// A request or a [`WaitGuard`] becomes one by `From` and `Into`.
#[derive(Debug)]
pub struct CancelGuard<'a, D: ?Sized, S: Scope<'a> = StaticScope>(WaitGuard<'a, D, S>);

impl<'a, D: ?Sized, S: Scope<'a>> Drop for CancelGuard<'a, D, S> {
    fn drop(&mut self) {
        // The guard inside waits after that.
        if let Some(request) = &self.0.0 {
            request.cancel();
        }
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<CancelGuard<'a, D, S>> for WaitGuard<'a, D, S> {
    fn from(mut guard: CancelGuard<'a, D, S>) -> Self {
        WaitGuard(guard.0.0.take())
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<WaitGuard<'a, D, S>> for CancelGuard<'a, D, S> {
    fn from(guard: WaitGuard<'a, D, S>) -> Self {
        CancelGuard(guard)
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<Request<'a, D, S>> for CancelGuard<'a, D, S> {
    fn from(request: Request<'a, D, S>) -> Self {
        CancelGuard(request.into())
    }
}
