//! Several requests that are completed together.
//!
//! Invariants: the vectors have one length, a place for each request that was added. A place has
//! its buffer exactly while its request is open; after that its handle is MPI_REQUEST_NULL. A
//! collection does not end while a request of it is open: it aborts the process instead.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::ptr::NonNull;

use super::scope::abort;
use super::single::array_length;
use super::{LocalScope, Request, Scope};
use crate::error;
use crate::ffi::{self, MPI_Request, MPI_Status};
use crate::point_to_point::Status;

/// Requests that are completed together (MPI-5.0 §3.7.5). [`multiple_scope`] makes one.
///
/// A request is known by its index, which is the number of requests that were added before. If
/// requests are open when the collection ends, the process aborts.
pub struct RequestCollection<'a, D: ?Sized> {
    requests: Vec<MPI_Request>,
    data: Vec<Option<NonNull<D>>>,
    statuses: Vec<MPI_Status>,
    /// The indices that a call reports.
    indices: Vec<c_int>,
    phantom: PhantomData<&'a D>,
}

// SAFETY: another thread can complete the requests as well as this one, and then gets shared
// references to the buffers.
unsafe impl<D: ?Sized + Sync> Send for RequestCollection<'_, D> {}

impl<'a, D: ?Sized> RequestCollection<'a, D> {
    pub(super) fn new(reserve: usize) -> RequestCollection<'a, D> {
        RequestCollection {
            requests: Vec::with_capacity(reserve),
            data: Vec::with_capacity(reserve),
            statuses: Vec::with_capacity(reserve),
            indices: Vec::with_capacity(reserve),
            phantom: PhantomData,
        }
    }

    /// Adds a request and returns its index. The request leaves its scope: the collection sees to
    /// its completion.
    pub fn add<S>(&mut self, req: Request<'a, D, S>) -> usize
    where
        S: Scope<'a>,
    {
        let index = self.requests.len();
        self.statuses.push(MPI_Status::default());
        self.indices.push(0);
        // SAFETY: the collection does not end before the request is complete, and lives no longer
        // than the scope.
        let (request, data, _) = unsafe { req.into_parts() };
        self.requests.push(request);
        self.data.push(Some(data));
        index
    }

    /// Waits until any request is complete. Returns its index, status and buffer, or `None` if
    /// none is open.
    pub fn wait_any(&mut self) -> Option<(usize, Status, &'a D)> {
        let (mut index, mut status) = (ffi::MPI_UNDEFINED, MPI_Status::default());
        let n = array_length(&self.requests);
        // SAFETY: the array has this length.
        let code =
            unsafe { ffi::MPI_Waitany(n, self.requests.as_mut_ptr(), &mut index, &mut status) };
        self.check("MPI_Waitany", code);
        self.take(usize::try_from(index).ok()?, status)
    }

    /// Waits until some requests are complete, and puts the index, status and buffer of each into
    /// `result`, which is cleared first. It stays empty if no request is open.
    pub fn wait_some(&mut self, result: &mut Vec<(usize, Status, &'a D)>) {
        self.complete_some("MPI_Waitsome", result, |n, requests, count, indices, statuses| {
            // SAFETY: the arrays have the length `n`.
            unsafe { ffi::MPI_Waitsome(n, requests, count, indices, statuses) }
        });
    }

    /// Waits until all requests are complete, and puts the index, status and buffer of each into
    /// `result`, which is cleared first. Requests that were complete before are not there.
    pub fn wait_all(&mut self, result: &mut Vec<(usize, Status, &'a D)>) {
        let n = array_length(&self.requests);
        // SAFETY: the arrays have this length.
        let code =
            unsafe { ffi::MPI_Waitall(n, self.requests.as_mut_ptr(), self.statuses.as_mut_ptr()) };
        self.check("MPI_Waitall", code);
        self.take_all(result);
    }

    /// Tests whether any request is complete. Returns its index, status and buffer, or `None` if
    /// none is.
    pub fn test_any(&mut self) -> Option<(usize, Status, &'a D)> {
        let (mut index, mut flag, mut status) = (ffi::MPI_UNDEFINED, 0, MPI_Status::default());
        let n = array_length(&self.requests);
        // SAFETY: the array has this length.
        let code = unsafe {
            ffi::MPI_Testany(n, self.requests.as_mut_ptr(), &mut index, &mut flag, &mut status)
        };
        self.check("MPI_Testany", code);
        if flag == 0 {
            return None;
        }
        self.take(usize::try_from(index).ok()?, status)
    }

    /// Puts the index, status and buffer of each request that is complete now into `result`, which
    /// is cleared first.
    pub fn test_some(&mut self, result: &mut Vec<(usize, Status, &'a D)>) {
        self.complete_some("MPI_Testsome", result, |n, requests, count, indices, statuses| {
            // SAFETY: the arrays have the length `n`.
            unsafe { ffi::MPI_Testsome(n, requests, count, indices, statuses) }
        });
    }

    /// Tests whether all requests are complete. If so, it puts the index, status and buffer of each
    /// into `result`, which is cleared first. Requests that were complete before are not there.
    pub fn test_all(&mut self, result: &mut Vec<(usize, Status, &'a D)>) -> bool {
        let mut flag = 0;
        let n = array_length(&self.requests);
        // SAFETY: the arrays have this length.
        let code = unsafe {
            ffi::MPI_Testall(n, self.requests.as_mut_ptr(), &mut flag, self.statuses.as_mut_ptr())
        };
        self.check("MPI_Testall", code);
        result.clear();
        if flag != 0 {
            self.take_all(result);
        }
        flag != 0
    }

    /// Returns the number of open requests.
    pub fn incomplete(&self) -> usize {
        self.data.iter().flatten().count()
    }

    /// Panics if a call failed. Requests that it completed are open no more.
    fn check(&mut self, name: &'static str, code: c_int) {
        if code == ffi::MPI_SUCCESS {
            return;
        }
        for (data, &request) in self.data.iter_mut().zip(&self.requests) {
            if request == ffi::MPI_REQUEST_NULL {
                *data = None;
            }
        }
        error::expect(name, code);
    }

    /// Takes the buffer of a request that MPI has completed; `None` if it was complete before.
    fn take(&mut self, index: usize, status: MPI_Status) -> Option<(usize, Status, &'a D)> {
        assert_eq!(self.requests[index], ffi::MPI_REQUEST_NULL, "MPI frees complete requests");
        let data = self.data[index].take()?;
        // SAFETY: the buffer was borrowed for `'a`, and no operation works on it any more.
        Some((index, Status::from_raw(status), unsafe { data.as_ref() }))
    }

    /// Takes the buffers of the requests whose indices `call` reports. It gets the number of all
    /// requests, and where they, the number of indices, the indices and their statuses lie.
    fn complete_some(
        &mut self,
        name: &'static str,
        result: &mut Vec<(usize, Status, &'a D)>,
        call: impl FnOnce(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status) -> c_int,
    ) {
        let mut count = 0;
        let code = call(
            array_length(&self.requests),
            self.requests.as_mut_ptr(),
            &mut count,
            self.indices.as_mut_ptr(),
            self.statuses.as_mut_ptr(),
        );
        self.check(name, code);
        result.clear();
        // The count is MPI_UNDEFINED, a negative number, if no request was open.
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let index = usize::try_from(self.indices[at]).expect("MPI reports indices");
            result.extend(self.take(index, self.statuses[at]));
        }
    }

    /// Takes all buffers.
    fn take_all(&mut self, result: &mut Vec<(usize, Status, &'a D)>) {
        result.clear();
        for index in 0..self.requests.len() {
            result.extend(self.take(index, self.statuses[index]));
        }
    }
}

impl<D: ?Sized> Drop for RequestCollection<'_, D> {
    fn drop(&mut self) {
        if self.incomplete() != 0 {
            abort("a collection", self.incomplete());
        }
    }
}

impl<D: ?Sized> fmt::Debug for RequestCollection<'_, D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RequestCollection")
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}

/// Calls `f` with a scope and a collection of requests, which has room for `reserve` at first.
///
/// If requests of either are open when `f` returns or panics, the process aborts. All requests of
/// the collection have buffers of the same type `D`.
pub fn multiple_scope<'a, F, R, D>(reserve: usize, f: F) -> R
where
    D: 'a + ?Sized,
    F: FnOnce(&LocalScope<'a>, &mut RequestCollection<'a, D>) -> R,
{
    f(&LocalScope::new(), &mut RequestCollection::new(reserve))
}
