//! Sources of messages: receives and probes.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::value::receive_value;
use super::{
    MatchedReceiveVec as _, Message, PersistentRequest, ReceiveFuture, Status, persistent,
};
use crate::datatype::{BufferMut, Equivalence};
use crate::error::call;
use crate::ffi::{self, MPI_Status};
use crate::raw::traits::*;
use crate::request::{Request, Scope};
use crate::topology::{AnyProcess, AsCommunicator, Process};
use crate::{Rank, Tag};

/// Something that messages come from: a process, or any of a communicator (MPI-5.0 §3.2.4).
///
/// # Safety
/// The rank is one of the communicator's processes, `MPI_ANY_SOURCE` or `MPI_PROC_NULL`.
pub unsafe trait Source: AsCommunicator {
    /// Returns the source's rank, or `MPI_ANY_SOURCE`.
    fn source_rank(&self) -> Rank;

    /// Waits for a message with this tag, and leaves it where it is (MPI-5.0 §3.8.1).
    ///
    /// Another thread can receive it first.
    /// [`matched_probe_with_tag`](Self::matched_probe_with_tag) prevents that.
    fn probe_with_tag(&self, tag: Tag) -> Status {
        let mut status = MPI_Status::default();
        let comm = self.as_communicator().as_raw();
        // SAFETY: the communicator is borrowed, and the status can be written.
        unsafe { call!(MPI_Probe(self.source_rank(), tag, comm, &mut status)) };
        Status::from_raw(status)
    }

    /// Waits for a message with any tag, and leaves it where it is (MPI-5.0 §3.8.1).
    fn probe(&self) -> Status {
        self.probe_with_tag(ffi::MPI_ANY_TAG)
    }

    /// Waits for a message with this tag, and takes it (MPI-5.0 §3.8.2). It must be received by
    /// functions of [`Message`].
    fn matched_probe_with_tag(&self, tag: Tag) -> (Message, Status) {
        let (mut message, mut status) = (ffi::MPI_MESSAGE_NULL, MPI_Status::default());
        let comm = self.as_communicator().as_raw();
        // SAFETY: the communicator is borrowed, and the outputs can be written. The message is
        // the value's alone.
        let message = unsafe {
            call!(MPI_Mprobe(self.source_rank(), tag, comm, &mut message, &mut status));
            Message::from_raw(message)
        };
        (message, Status::from_raw(status))
    }

    /// Waits for a message with any tag, and takes it (MPI-5.0 §3.8.2).
    fn matched_probe(&self) -> (Message, Status) {
        self.matched_probe_with_tag(ffi::MPI_ANY_TAG)
    }

    /// Receives a value with this tag (MPI-5.0 §3.2.4).
    ///
    /// # Panics
    /// If the message does not have exactly one.
    #[track_caller]
    fn receive_with_tag<Msg>(&self, tag: Tag) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        let (source, comm) = (self.source_rank(), self.as_communicator().as_raw());
        // SAFETY: there is room for one element, and the communicator is borrowed.
        receive_value(|value, datatype, status| unsafe {
            call!(MPI_Recv_c(value, 1, datatype, source, tag, comm, status));
        })
    }

    /// Receives a value with any tag (MPI-5.0 §3.2.4).
    ///
    /// # Panics
    /// If the message does not have exactly one.
    #[track_caller]
    fn receive<Msg>(&self) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        self.receive_with_tag(ffi::MPI_ANY_TAG)
    }

    /// Receives a message with this tag into a buffer (MPI-5.0 §3.2.4). It may be shorter than the
    /// buffer: [`Status::count`] says how long it was.
    fn receive_into_with_tag<Buf>(&self, buf: &mut Buf, tag: Tag) -> Status
    where
        Buf: BufferMut + ?Sized,
    {
        let mut status = MPI_Status::default();
        // SAFETY: the buffer has these elements and is borrowed mutably.
        unsafe {
            call!(MPI_Recv_c(
                buf.pointer_mut(),
                buf.large_count(),
                buf.as_datatype().as_raw(),
                self.source_rank(),
                tag,
                self.as_communicator().as_raw(),
                &mut status,
            ));
        }
        Status::from_raw(status)
    }

    /// Receives a message with any tag into a buffer (MPI-5.0 §3.2.4).
    fn receive_into<Buf>(&self, buf: &mut Buf) -> Status
    where
        Buf: BufferMut + ?Sized,
    {
        self.receive_into_with_tag(buf, ffi::MPI_ANY_TAG)
    }

    /// Receives the values of a message with this tag, however many they are.
    ///
    /// # Panics
    /// If the message does not have a whole number of them. It is then lost.
    #[track_caller]
    fn receive_vec_with_tag<Msg>(&self, tag: Tag) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        self.matched_probe_with_tag(tag).matched_receive_vec()
    }

    /// Receives the values of a message with any tag, however many they are.
    ///
    /// # Panics
    /// If the message does not have a whole number of them. It is then lost.
    #[track_caller]
    fn receive_vec<Msg>(&self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        self.receive_vec_with_tag(ffi::MPI_ANY_TAG)
    }

    /// Starts to receive a message with this tag into a buffer (MPI-5.0 §3.7.2).
    fn immediate_receive_into_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let mut request = ffi::MPI_REQUEST_NULL;
        // SAFETY: the buffer has these elements, and is borrowed mutably for as long as the scope
        // lets the request be open.
        unsafe {
            call!(MPI_Irecv_c(
                buf.pointer_mut(),
                buf.large_count(),
                buf.as_datatype().as_raw(),
                self.source_rank(),
                tag,
                self.as_communicator().as_raw(),
                &mut request,
            ));
            Request::with_pointer(request, NonNull::from(buf), scope)
        }
    }

    /// Starts to receive a message with any tag into a buffer (MPI-5.0 §3.7.2).
    fn immediate_receive_into<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_receive_into_with_tag(scope, buf, ffi::MPI_ANY_TAG)
    }

    /// Starts to receive a value with this tag (MPI-5.0 §3.7.2).
    fn immediate_receive_with_tag<Msg>(&self, tag: Tag) -> ReceiveFuture<Msg>
    where
        Msg: Equivalence,
    {
        ReceiveFuture::new(self.source_rank(), tag, self.as_communicator().as_raw())
    }

    /// Starts to receive a value with any tag (MPI-5.0 §3.7.2).
    fn immediate_receive<Msg>(&self) -> ReceiveFuture<Msg>
    where
        Msg: Equivalence,
    {
        self.immediate_receive_with_tag(ffi::MPI_ANY_TAG)
    }

    /// Returns the status of a message with this tag if there is one, and leaves it where it is
    /// (MPI-5.0 §3.8.1).
    fn immediate_probe_with_tag(&self, tag: Tag) -> Option<Status> {
        let (mut flag, mut status) = (0, MPI_Status::default());
        let comm = self.as_communicator().as_raw();
        // SAFETY: the communicator is borrowed, and the outputs can be written.
        unsafe { call!(MPI_Iprobe(self.source_rank(), tag, comm, &mut flag, &mut status)) };
        (flag != 0).then(|| Status::from_raw(status))
    }

    /// Returns the status of a message with any tag if there is one, and leaves it where it is
    /// (MPI-5.0 §3.8.1).
    fn immediate_probe(&self) -> Option<Status> {
        self.immediate_probe_with_tag(ffi::MPI_ANY_TAG)
    }

    /// Takes a message with this tag if there is one (MPI-5.0 §3.8.2). It must be received by
    /// functions of [`Message`].
    fn immediate_matched_probe_with_tag(&self, tag: Tag) -> Option<(Message, Status)> {
        let (mut flag, mut status) = (0, MPI_Status::default());
        let mut message = ffi::MPI_MESSAGE_NULL;
        let (source, comm) = (self.source_rank(), self.as_communicator().as_raw());
        // SAFETY: the communicator is borrowed, and the outputs can be written.
        unsafe { call!(MPI_Improbe(source, tag, comm, &mut flag, &mut message, &mut status)) };
        // SAFETY: with the flag set the message is a valid one, and the value's alone.
        (flag != 0).then(|| (unsafe { Message::from_raw(message) }, Status::from_raw(status)))
    }

    /// Takes a message with any tag if there is one (MPI-5.0 §3.8.2).
    fn immediate_matched_probe(&self) -> Option<(Message, Status)> {
        self.immediate_matched_probe_with_tag(ffi::MPI_ANY_TAG)
    }

    /// Prepares to receive messages with this tag into a buffer (MPI-5.0 §3.9).
    /// [`PersistentRequest::start`] starts to receive one.
    fn receive_init_into_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
        tag: Tag,
    ) -> PersistentRequest<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let mut request = ffi::MPI_REQUEST_NULL;
        // SAFETY: the buffer has these elements, and is borrowed mutably for as long as the scope
        // lets the request be active.
        unsafe {
            call!(MPI_Recv_init_c(
                buf.pointer_mut(),
                buf.large_count(),
                buf.as_datatype().as_raw(),
                self.source_rank(),
                tag,
                self.as_communicator().as_raw(),
                &mut request,
            ));
            PersistentRequest::new(request, buf, persistent::received, scope)
        }
    }

    /// Prepares to receive messages with any tag into a buffer (MPI-5.0 §3.9).
    fn receive_init_into<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> PersistentRequest<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        self.receive_init_into_with_tag(scope, buf, ffi::MPI_ANY_TAG)
    }
}

// SAFETY: the rank stands for all of the communicator's processes.
unsafe impl Source for AnyProcess<'_> {
    fn source_rank(&self) -> Rank {
        ffi::MPI_ANY_SOURCE
    }
}

// SAFETY: a process has a rank of its communicator.
unsafe impl Source for Process<'_> {
    fn source_rank(&self) -> Rank {
        self.rank()
    }
}
