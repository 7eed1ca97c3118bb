//! One request.
//!
//! Invariant: a value has an open request, which is registered with its scope. Its buffer is not
//! read or written by this process until the request is complete.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::os::raw::c_int;
use std::ptr::{self, NonNull};

use super::{Scope, StaticScope};
use crate::error::{self, call};
use crate::ffi::{self, MPI_Request, MPI_Status};
use crate::point_to_point::Status;
use crate::raw::traits::*;

/// An operation that has started, on a buffer that is borrowed for `'a` (MPI-5.0 §3.7.1).
///
/// # Panics
/// If a request is dropped. Complete it by [`wait`](Self::wait) or [`test`](Self::test), or wrap
/// it in a [`WaitGuard`](super::WaitGuard) or a [`CancelGuard`](super::CancelGuard).
#[must_use = "a request panics if it is dropped before it is complete"]
pub struct Request<'a, D: ?Sized, S: Scope<'a> = StaticScope> {
    request: MPI_Request,
    /// A pointer, since MPI may be writing the buffer; it is a reference again after that.
    data: NonNull<D>,
    scope: S,
    /// Makes the lifetime invariant, as the scope's is.
    phantom: PhantomData<(&'a D, Cell<&'a ()>)>,
}

// SAFETY: another thread can complete a request as well as this one, and then gets a shared
// reference to the buffer.
unsafe impl<'a, D: ?Sized + Sync, S: Scope<'a> + Send> Send for Request<'a, D, S> {}

impl<'a, D: ?Sized, S: Scope<'a>> Request<'a, D, S> {
    /// Makes a request of a handle, and registers it with `scope`.
    ///
    /// # Safety
    /// `request` is an open request and not persistent, and nothing else completes it. Its buffers
    /// outlive `'a`. If it writes to `data`, that was borrowed mutably for `'a`.
    pub unsafe fn from_raw(request: MPI_Request, data: &'a D, scope: S) -> Self {
        // SAFETY: as the caller promised.
        unsafe { Self::with_pointer(request, NonNull::from(data), scope) }
    }

    /// Makes a request of a handle and a pointer to its buffer.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw), and `data` can be read for `'a` once the request is
    /// complete.
    pub(crate) unsafe fn with_pointer(request: MPI_Request, data: NonNull<D>, scope: S) -> Self {
        debug_assert_ne!(request, ffi::MPI_REQUEST_NULL, "a request must be open");
        scope.register();
        Self { request, data, scope, phantom: PhantomData }
    }

    /// Returns the parts of the request, which is registered with its scope no more.
    ///
    /// # Safety
    /// The caller completes the request before the scope ends, and does not read or write the
    /// buffer before that.
    pub unsafe fn into_raw(self) -> (MPI_Request, &'a D, S) {
        // SAFETY: the data was borrowed for `'a`; the caller uses it after completion only.
        let (request, data, scope) = unsafe { self.into_parts() };
        // SAFETY: as above.
        (request, unsafe { data.as_ref() }, scope)
    }

    /// Returns the parts like [`into_raw`](Self::into_raw), with a pointer for the buffer.
    ///
    /// # Safety
    /// The request is complete, or the caller completes it before the scope ends.
    pub(super) unsafe fn into_parts(self) -> (MPI_Request, NonNull<D>, S) {
        let (request, data) = (self.request, self.data);
        // SAFETY: `self` is forgotten, so that the scope is moved out and not copied.
        let scope = unsafe { ptr::read(&self.scope) };
        mem::forget(self);
        // SAFETY: the request was registered when the value was made.
        unsafe { scope.unregister() };
        (request, data, scope)
    }

    /// Ends the value after a call that may have completed the request, and left `request` of it.
    ///
    /// # Panics
    /// If the call failed. If the request is open nevertheless, the scope then aborts.
    fn completed(self, name: &'static str, code: c_int, request: MPI_Request) -> &'a D {
        if request != ffi::MPI_REQUEST_NULL {
            error::expect(name, code);
            panic!("{name} completed a persistent request, which is none of this type");
        }
        // SAFETY: MPI freed the request, so it is complete.
        let (_, data, _) = unsafe { self.into_raw() };
        error::expect(name, code);
        data
    }

    fn wait_with(self, status: &mut MPI_Status) -> &'a D {
        let mut request = self.request;
        // SAFETY: the request is open, and the status can be written.
        let code = unsafe { ffi::MPI_Wait(&mut request, status) };
        self.completed("MPI_Wait", code, request)
    }

    /// Waits until the operation is complete, and returns its buffer.
    pub fn wait_for_data(self) -> &'a D {
        self.wait_with(&mut MPI_Status::default())
    }

    /// Waits until the operation is complete (MPI-5.0 §3.7.3).
    pub fn wait(self) -> Status {
        let mut status = MPI_Status::default();
        self.wait_with(&mut status);
        Status::from_raw(status)
    }

    /// Waits until the operation is complete (MPI-5.0 §3.7.3).
    pub fn wait_without_status(self) {
        self.wait_with(&mut MPI_Status::default());
    }

    /// Tests whether the operation is complete, and returns the request if it is not
    /// (MPI-5.0 §3.7.3).
    pub fn test(self) -> Result<Status, Self> {
        self.test_with_data().map(|(status, _)| status)
    }

    /// Tests whether the operation is complete. Returns its status and buffer, or the request.
    pub fn test_with_data(self) -> Result<(Status, &'a D), Self> {
        let (mut request, mut flag, mut status) = (self.request, 0, MPI_Status::default());
        // SAFETY: the request is open, and the outputs can be written.
        let code = unsafe { ffi::MPI_Test(&mut request, &mut flag, &mut status) };
        if flag == 0 && code == ffi::MPI_SUCCESS {
            return Err(self);
        }
        let data = self.completed("MPI_Test", code, request);
        Ok((Status::from_raw(status), data))
    }

    /// Asks MPI to cancel the operation, which must be completed all the same (MPI-5.0 §3.8.4).
    ///
    /// The operation may complete normally. [`Status::is_cancelled`] says whether it did not.
    pub fn cancel(&self) {
        let mut request = self.request;
        // SAFETY: the request is open, and stays so.
        unsafe { call!(MPI_Cancel(&mut request)) };
    }

    /// Moves the request to a scope that ends earlier.
    pub fn shrink_scope_to<'b, S2>(self, scope: S2) -> Request<'b, D, S2>
    where
        'a: 'b,
        S2: Scope<'b>,
    {
        // SAFETY: the request is registered with the new scope at once, and what outlives `'a`
        // outlives `'b`.
        unsafe {
            let (request, data, _) = self.into_parts();
            Request::with_pointer(request, data, scope)
        }
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> Drop for Request<'a, D, S> {
    fn drop(&mut self) {
        // During a panic its text comes first; a local scope aborts after that.
        assert!(
            std::thread::panicking(),
            "a request was dropped before it was complete: call wait() or test(), or wrap it in a \
             WaitGuard or a CancelGuard"
        );
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> fmt::Debug for Request<'a, D, S>
where
    D: fmt::Debug,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The buffer is not shown: MPI may be writing it.
        formatter.debug_struct("Request").field("request", &self.request).finish_non_exhaustive()
    }
}

// SAFETY: the handle is valid until the request is completed, which takes the value.
unsafe impl<'a, D: ?Sized, S: Scope<'a>> AsRaw for Request<'a, D, S> {
    type Raw = MPI_Request;

    fn as_raw(&self) -> Self::Raw {
        self.request
    }
}

/// Waits until one of the requests is complete, and takes it out of the vector (MPI-5.0 §3.7.5).
///
/// Returns its former index and its status, or `None` if the vector is empty.
pub fn wait_any<'a, D, S: Scope<'a>>(
    requests: &mut Vec<Request<'a, D, S>>,
) -> Option<(usize, Status)> {
    let mut handles: Vec<_> = requests.iter().map(AsRaw::as_raw).collect();
    let (mut index, mut status) = (ffi::MPI_UNDEFINED, MPI_Status::default());
    // SAFETY: the array has this length, and each request in it is open.
    let code = unsafe {
        ffi::MPI_Waitany(array_length(&handles), handles.as_mut_ptr(), &mut index, &mut status)
    };
    let Ok(index) = usize::try_from(index) else {
        error::expect("MPI_Waitany", code);
        return None;
    };
    requests.remove(index).completed("MPI_Waitany", code, handles[index]);
    Some((index, Status::from_raw(status)))
}

/// Returns the length of an array of requests.
///
/// # Panics
/// If it is larger than 2^31 - 1.
pub(super) fn array_length(requests: &[MPI_Request]) -> c_int {
    requests.len().try_into().expect("a call must have at most 2147483647 requests")
}
