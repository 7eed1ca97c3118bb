//! Operations that are prepared once and started again and again (MPI-5.0 §3.9).
//!
//! States: inactive, in which the program can use the buffer; active, from
//! [`PersistentRequest::start`] until it is complete, in which MPI does. An active request is
//! registered with its scope.
//!
//! Invariant: MPI uses the buffer only where it lay when the request was made, and [`start`] panics
//! if it lies elsewhere.
//!
//! [`start`]: PersistentRequest::start

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::NonNull;

use super::Status;
use crate::datatype::{Buffer, BufferMut};
use crate::environment::is_finalized;
use crate::error::{self, call};
use crate::ffi::{self, MPI_Count, MPI_Request, MPI_Status};
use crate::raw::traits::*;
use crate::request::{Scope, StaticScope};

/// Where a buffer lies, and the number of its elements.
type Region = (*const c_void, MPI_Count);

/// Returns the region of a buffer that is sent.
pub(super) fn sent<B: Buffer + ?Sized>(buffer: &mut B) -> Region {
    (buffer.pointer(), buffer.large_count())
}

/// Returns the region of a buffer that is received into.
pub(super) fn received<B: BufferMut + ?Sized>(buffer: &mut B) -> Region {
    (buffer.pointer_mut(), buffer.large_count())
}

/// An operation on a buffer that can be started again and again (MPI-5.0 §3.9).
///
/// The type has no counterpart in the crate rsmpi.
///
/// ```no_run
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let next = world.process_at_rank((world.rank() + 1) % world.size());
/// let (mut sent, mut received) = (world.rank(), 0);
/// mpi::request::scope(|scope| {
///     let mut send = next.send_init(scope, &mut sent);
///     let mut receive = world.any_process().receive_init_into(scope, &mut received);
///     for _ in 0..world.size() {
///         receive.start();
///         send.start();
///         send.wait();
///         receive.wait();
///         *send.data_mut() = *receive.data();
///     }
///     assert_eq!(*send.data(), world.rank());
/// });
/// ```
///
/// # Panics
/// If it is dropped while it is active.
pub struct PersistentRequest<'a, D: ?Sized, S: Scope<'a> = StaticScope> {
    request: MPI_Request,
    /// A pointer, since MPI uses the buffer while the request is active.
    data: NonNull<D>,
    /// What MPI was told of the buffer.
    region: Region,
    region_of: fn(&mut D) -> Region,
    active: bool,
    scope: S,
    phantom: PhantomData<&'a mut D>,
}

// SAFETY: another thread can complete the request and use the buffer as well as this one.
unsafe impl<'a, D: ?Sized + Send, S: Scope<'a> + Send> Send for PersistentRequest<'a, D, S> {}

impl<'a, D: ?Sized, S: Scope<'a>> PersistentRequest<'a, D, S> {
    /// Makes an inactive request of a handle.
    ///
    /// # Safety
    /// The request is persistent and inactive, nothing else uses it, and it works on the region of
    /// `data` alone that `region_of` returns.
    pub(super) unsafe fn new(
        request: MPI_Request,
        data: &'a mut D,
        region_of: fn(&mut D) -> Region,
        scope: S,
    ) -> Self {
        let region = region_of(data);
        let data = NonNull::from(data);
        Self { request, data, region, region_of, active: false, scope, phantom: PhantomData }
    }

    /// Starts the operation.
    ///
    /// # Panics
    /// If it is active. If the buffer was moved or has another length than at first, as a vector
    /// that grew: MPI would use memory that may be free.
    #[track_caller]
    pub fn start(&mut self) {
        self.expect_inactive();
        // SAFETY: the buffer is borrowed mutably for `'a`, and MPI does not use it now.
        let region = (self.region_of)(unsafe { self.data.as_mut() });
        assert!(
            region == self.region,
            "the buffer of a persistent request was moved or has another length: only its elements \
             can be changed"
        );
        // SAFETY: the request is inactive, and the buffer lies where MPI was told. The scope ends
        // only after it is complete.
        unsafe { call!(MPI_Start(&mut self.request)) };
        self.active = true;
        self.scope.register();
    }

    /// Waits until the operation is complete. The status is empty if it was not started.
    pub fn wait(&mut self) -> Status {
        let mut status = MPI_Status::default();
        // SAFETY: the request is valid, and the status can be written.
        let code = unsafe { ffi::MPI_Wait(&mut self.request, &mut status) };
        // A failed operation is over as well.
        self.completed();
        error::expect("MPI_Wait", code);
        Status::from_raw(status)
    }

    /// Tests whether the operation is complete. The status is empty if it was not started.
    pub fn test(&mut self) -> Option<Status> {
        let (mut flag, mut status) = (0, MPI_Status::default());
        // SAFETY: the request is valid, and the outputs can be written.
        unsafe { call!(MPI_Test(&mut self.request, &mut flag, &mut status)) };
        if flag == 0 {
            return None;
        }
        self.completed();
        Some(Status::from_raw(status))
    }

    /// Returns the buffer, whose elements can be changed between two operations.
    ///
    /// # Panics
    /// If the operation is active.
    pub fn data_mut(&mut self) -> &mut D {
        self.expect_inactive();
        // SAFETY: the buffer is borrowed mutably for `'a`, and MPI does not use it now.
        unsafe { self.data.as_mut() }
    }

    /// Returns the buffer.
    ///
    /// # Panics
    /// If the operation is active.
    pub fn data(&self) -> &D {
        self.expect_inactive();
        // SAFETY: as above, and `start` needs a mutable borrow of `self`.
        unsafe { self.data.as_ref() }
    }

    /// Returns whether the operation was started and is not known to be complete.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Makes the request inactive.
    fn completed(&mut self) {
        if self.active {
            self.active = false;
            // SAFETY: `start` registered the request, and it is complete.
            unsafe { self.scope.unregister() };
        }
    }

    #[track_caller]
    fn expect_inactive(&self) {
        assert!(
            !self.active,
            "a persistent request is active: it must be complete, by wait() first"
        );
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> Drop for PersistentRequest<'a, D, S> {
    fn drop(&mut self) {
        if !self.active {
            if !is_finalized() {
                // SAFETY: the value owns the request, which is inactive, and ends.
                unsafe { call!(MPI_Request_free(&mut self.request)) };
            }
        } else if !std::thread::panicking() {
            panic!(
                "a persistent request was dropped before it was complete: call wait() or test()"
            );
        }
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> fmt::Debug for PersistentRequest<'a, D, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The buffer is not shown: MPI may be writing it.
        formatter
            .debug_struct("PersistentRequest")
            .field("request", &self.request)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

// SAFETY: the value owns the request.
unsafe impl<'a, D: ?Sized, S: Scope<'a>> AsRaw for PersistentRequest<'a, D, S> {
    type Raw = MPI_Request;

    fn as_raw(&self) -> Self::Raw {
        self.request
    }
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;

    use super::*;

    fn request(buffer: Vec<u8>) -> ManuallyDrop<PersistentRequest<'static, Vec<u8>>> {
        let buffer = Box::leak(Box::new(buffer));
        // SAFETY: the request is never started nor dropped.
        let request =
            unsafe { PersistentRequest::new(ffi::MPI_REQUEST_NULL, buffer, received, StaticScope) };
        ManuallyDrop::new(request)
    }

    #[test]
    #[should_panic(expected = "was moved or has another length")]
    fn a_buffer_that_was_replaced_is_refused() {
        let mut request = request(vec![0; 4]);
        let before = std::mem::replace(request.data_mut(), vec![0; 4]);
        request.start();
        drop(before);
    }

    #[test]
    #[should_panic(expected = "was moved or has another length")]
    fn a_buffer_that_became_shorter_is_refused() {
        let mut request = request(vec![0; 4]);
        request.data_mut().pop();
        request.start();
    }
}
