//! Values that are being received.
//!
//! Invariant: while the request is open, the memory of the value is MPI's, and is not freed.

#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;

use super::Status;
use crate::datatype::{Equivalence, address_mut};
use crate::error::call;
use crate::ffi::{self, MPI_Comm};
use crate::raw::traits::*;
use crate::request::{Request, StaticScope};
use crate::{Rank, Tag};

/// A value that is being received (MPI-5.0 §3.7.2).
///
/// # Panics
/// If it is dropped before the value is received.
#[must_use = "a value that is being received must be waited for"]
pub struct ReceiveFuture<T> {
    /// Where the value goes: a box, owned again once the request is complete.
    value: *mut MaybeUninit<T>,
    request: Request<'static, ()>,
}

impl<T> ReceiveFuture<T>
where
    T: Equivalence,
{
    pub(super) fn new(source: Rank, tag: Tag, comm: MPI_Comm) -> Self {
        let value = Box::into_raw(Box::new(MaybeUninit::<T>::uninit()));
        let mut request = ffi::MPI_REQUEST_NULL;
        let datatype = T::equivalent_datatype();
        // SAFETY: the box has room for one element, and is not freed before the request is
        // complete.
        let request = unsafe {
            call!(MPI_Irecv_c(
                address_mut(value),
                1,
                datatype.as_raw(),
                source,
                tag,
                comm,
                &mut request
            ));
            Request::from_raw(request, &(), StaticScope)
        };
        ReceiveFuture { value, request }
    }

    /// Waits for the value.
    ///
    /// # Panics
    /// If the message does not have exactly one.
    #[track_caller]
    pub fn get(self) -> (T, Status) {
        let status = self.request.wait();
        // SAFETY: the receive is complete.
        unsafe { received(self.value, status) }
    }

    /// Returns the value if it is received, or this future if it is not.
    ///
    /// # Panics
    /// If the message does not have exactly one.
    #[track_caller]
    pub fn r#try(mut self) -> Result<(T, Status), Self> {
        match self.request.test() {
            // SAFETY: the receive is complete.
            Ok(status) => Ok(unsafe { received(self.value, status) }),
            Err(request) => {
                self.request = request;
                Err(self)
            }
        }
    }
}

/// Returns the value in a box.
///
/// # Safety
/// The box is the caller's, and a receive of one `T` into it is complete with this status.
#[track_caller]
unsafe fn received<T: Equivalence>(value: *mut MaybeUninit<T>, status: Status) -> (T, Status) {
    // SAFETY: the box is the caller's.
    let value = unsafe { Box::from_raw(value) };
    status.expect_value::<T>();
    // SAFETY: the message had a whole element of the datatype of `T`, so all its bytes are written.
    (*unsafe { value.assume_init() }, status)
}

impl<T> fmt::Debug for ReceiveFuture<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReceiveFuture")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
