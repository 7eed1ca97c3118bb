//! Messages that a matched probe took.
//!
//! Invariant: a value has a message that is not received yet. A receive takes the value and leaves
//! MPI_MESSAGE_NULL.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::Status;
use super::value::receive_value;
use crate::datatype::{BufferMut, Equivalence, address_mut};
use crate::error::call;
use crate::ffi::{self, MPI_Count, MPI_Message, MPI_Status};
use crate::raw::traits::*;
use crate::request::{Request, Scope};

/// A message that a matched probe took, to be received (MPI-5.0 §3.8.2).
///
/// # Panics
/// If it is dropped without being received.
#[derive(Debug)]
#[must_use = "a message that a matched probe took must be received"]
pub struct Message(MPI_Message);

impl Message {
    /// Returns whether the source was the null process: the message is empty.
    pub fn is_no_proc(&self) -> bool {
        self.0 == ffi::MPI_MESSAGE_NO_PROC
    }

    /// Receives a value (MPI-5.0 §3.8.3).
    ///
    /// # Panics
    /// If the message does not have exactly one.
    #[track_caller]
    pub fn matched_receive<Msg>(mut self) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        // SAFETY: there is room for one element, and the message is not received yet.
        receive_value(|value, datatype, status| unsafe {
            call!(MPI_Mrecv_c(value, 1, datatype, &mut self.0, status));
        })
    }

    /// Receives into a buffer (MPI-5.0 §3.8.3). The message may be shorter: [`Status::count`] says
    /// how long it was.
    pub fn matched_receive_into<Buf>(mut self, buf: &mut Buf) -> Status
    where
        Buf: BufferMut + ?Sized,
    {
        let mut status = MPI_Status::default();
        // SAFETY: the buffer has these elements and is borrowed mutably. The message is not
        // received yet.
        unsafe {
            call!(MPI_Mrecv_c(
                buf.pointer_mut(),
                buf.large_count(),
                buf.as_datatype().as_raw(),
                &mut self.0,
                &mut status,
            ));
        }
        Status::from_raw(status)
    }

    /// Starts to receive into a buffer (MPI-5.0 §3.8.3).
    pub fn immediate_matched_receive_into<'a, Sc, Buf>(
        mut self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let mut request = ffi::MPI_REQUEST_NULL;
        // SAFETY: the buffer has these elements, and is borrowed mutably for as long as the scope
        // lets the request be open. The message is not received yet.
        unsafe {
            call!(MPI_Imrecv_c(
                buf.pointer_mut(),
                buf.large_count(),
                buf.as_datatype().as_raw(),
                &mut self.0,
                &mut request,
            ));
            Request::with_pointer(request, NonNull::from(buf), scope)
        }
    }

    /// Makes a value of a message.
    ///
    /// # Safety
    /// The message is not received yet, and nothing else receives it.
    pub(super) unsafe fn from_raw(message: MPI_Message) -> Self {
        Message(message)
    }
}

// SAFETY: the message is valid until it is received, which takes the value.
unsafe impl AsRaw for Message {
    type Raw = MPI_Message;

    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

// SAFETY: the pointer is to the value's own handle.
unsafe impl AsRawMut for Message {
    fn as_raw_mut(&mut self) -> *mut <Self as AsRaw>::Raw {
        &mut self.0
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let received = self.0 == ffi::MPI_MESSAGE_NULL || self.is_no_proc();
        // During a panic its text comes first.
        assert!(
            received || std::thread::panicking(),
            "a message that a matched probe took was dropped: it must be received"
        );
    }
}

/// A message of a known length, as a matched probe returns it.
pub trait MatchedReceiveVec {
    /// Receives the message's values (MPI-5.0 §3.8.3).
    ///
    /// # Panics
    /// If the message does not have a whole number of them. It is then lost.
    fn matched_receive_vec<Msg>(self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence;
}

impl MatchedReceiveVec for (Message, Status) {
    #[track_caller]
    fn matched_receive_vec<Msg>(self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        let (mut message, probed) = self;
        let capacity = probed.values::<Msg>();
        let mut values = Vec::<Msg>::with_capacity(capacity);
        let datatype = Msg::equivalent_datatype();
        let mut status = MPI_Status::default();
        // SAFETY: the vector has room for these elements. The message is not received yet.
        unsafe {
            call!(MPI_Mrecv_c(
                address_mut(values.as_mut_ptr()),
                capacity as MPI_Count,
                datatype.as_raw(),
                &mut message.0,
                &mut status,
            ));
        }
        // The pair can be of two probes: only the receive's own status is that of the message.
        let status = Status::from_raw(status);
        let received = status.values::<Msg>();
        assert!(received <= capacity, "MPI received {received} values where {capacity} fit");
        // SAFETY: there is room for them, and MPI has written whole elements of the datatype of
        // `Msg`.
        unsafe { values.set_len(received) };
        (values, status)
    }
}
