//! Destinations of messages: sends.

#![allow(unsafe_code)]

use super::{PersistentRequest, persistent};
use crate::datatype::Buffer;
use crate::error::call;
use crate::ffi;
use crate::raw::traits::*;
use crate::request::{Request, Scope};
use crate::topology::{AsCommunicator, Process};
use crate::{Rank, Tag};

/// Sends a buffer by a blocking function of MPI.
macro_rules! send {
    ($name:ident, $self:ident, $buf:ident, $tag:ident) => {
        // SAFETY: the buffer has these elements and is borrowed until MPI returns.
        unsafe {
            call!($name(
                $buf.pointer(),
                $buf.large_count(),
                $buf.as_datatype().as_raw(),
                $self.destination_rank(),
                $tag,
                $self.as_communicator().as_raw(),
            ))
        }
    };
}

/// Starts a send by a function of MPI; the value is a [`Request`].
macro_rules! start_send {
    ($name:ident, $self:ident, $scope:ident, $buf:ident, $tag:ident) => {{
        let mut request = ffi::MPI_REQUEST_NULL;
        // SAFETY: the buffer has these elements, and is borrowed for as long as the scope lets the
        // request be open.
        unsafe {
            call!($name(
                $buf.pointer(),
                $buf.large_count(),
                $buf.as_datatype().as_raw(),
                $self.destination_rank(),
                $tag,
                $self.as_communicator().as_raw(),
                &mut request,
            ));
            Request::from_raw(request, $buf, $scope)
        }
    }};
}

/// Something that messages go to: a process (MPI-5.0 §3.2.3).
pub trait Destination: AsCommunicator {
    /// Returns the destination's rank.
    fn destination_rank(&self) -> Rank;

    /// Sends a buffer with this tag (MPI-5.0 §3.2.1).
    fn send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: Buffer + ?Sized,
    {
        send!(MPI_Send_c, self, buf, tag);
    }

    /// Sends a buffer (MPI-5.0 §3.2.1).
    fn send<Buf>(&self, buf: &Buf)
    where
        Buf: Buffer + ?Sized,
    {
        self.send_with_tag(buf, Tag::default())
    }

    /// Sends a buffer with this tag in buffered mode (MPI-5.0 §3.4).
    fn buffered_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: Buffer + ?Sized,
    {
        send!(MPI_Bsend_c, self, buf, tag);
    }

    /// Sends a buffer in buffered mode (MPI-5.0 §3.4).
    fn buffered_send<Buf>(&self, buf: &Buf)
    where
        Buf: Buffer + ?Sized,
    {
        self.buffered_send_with_tag(buf, Tag::default())
    }

    /// Sends a buffer with this tag in synchronous mode (MPI-5.0 §3.4).
    fn synchronous_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: Buffer + ?Sized,
    {
        send!(MPI_Ssend_c, self, buf, tag);
    }

    /// Sends a buffer in synchronous mode (MPI-5.0 §3.4).
    fn synchronous_send<Buf>(&self, buf: &Buf)
    where
        Buf: Buffer + ?Sized,
    {
        self.synchronous_send_with_tag(buf, Tag::default())
    }

    /// Sends a buffer with this tag in ready mode (MPI-5.0 §3.4).
    ///
    /// # Safety
    /// The matching receive has started. Without it the outcome is undefined.
    unsafe fn ready_send_with_tag<Buf>(&self, buf: &Buf, tag: Tag)
    where
        Buf: Buffer + ?Sized,
    {
        send!(MPI_Rsend_c, self, buf, tag);
    }

    /// Sends a buffer in ready mode (MPI-5.0 §3.4).
    ///
    /// # Safety
    /// The matching receive has started. Without it the outcome is undefined.
    unsafe fn ready_send<Buf>(&self, buf: &Buf)
    where
        Buf: Buffer + ?Sized,
    {
        // SAFETY: as the caller promised.
        unsafe { self.ready_send_with_tag(buf, Tag::default()) }
    }

    /// Starts to send a buffer with this tag (MPI-5.0 §3.7.2).
    fn immediate_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        start_send!(MPI_Isend_c, self, scope, buf, tag)
    }

    /// Starts to send a buffer (MPI-5.0 §3.7.2).
    fn immediate_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_send_with_tag(scope, buf, Tag::default())
    }

    /// Starts to send a buffer with this tag in buffered mode (MPI-5.0 §3.4, §3.7.2).
    fn immediate_buffered_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        start_send!(MPI_Ibsend_c, self, scope, buf, tag)
    }

    /// Starts to send a buffer in buffered mode (MPI-5.0 §3.4, §3.7.2).
    fn immediate_buffered_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_buffered_send_with_tag(scope, buf, Tag::default())
    }

    /// Starts to send a buffer with this tag in synchronous mode (MPI-5.0 §3.4, §3.7.2).
    fn immediate_synchronous_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        start_send!(MPI_Issend_c, self, scope, buf, tag)
    }

    /// Starts to send a buffer in synchronous mode (MPI-5.0 §3.4, §3.7.2).
    fn immediate_synchronous_send<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_synchronous_send_with_tag(scope, buf, Tag::default())
    }

    /// Starts to send a buffer with this tag in ready mode (MPI-5.0 §3.4, §3.7.2).
    ///
    /// # Safety
    /// The matching receive has started. Without it the outcome is undefined.
    unsafe fn immediate_ready_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        start_send!(MPI_Irsend_c, self, scope, buf, tag)
    }

    /// Starts to send a buffer in ready mode (MPI-5.0 §3.4, §3.7.2).
    ///
    /// # Safety
    /// The matching receive has started. Without it the outcome is undefined.
    unsafe fn immediate_ready_send<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        // SAFETY: as the caller promised.
        unsafe { self.immediate_ready_send_with_tag(scope, buf, Tag::default()) }
    }

    /// Prepares to send a buffer with this tag (MPI-5.0 §3.9). [`PersistentRequest::start`] starts
    /// to send what it has then.
    fn send_init_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
        tag: Tag,
    ) -> PersistentRequest<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        let mut request = ffi::MPI_REQUEST_NULL;
        // SAFETY: the buffer has these elements, and is borrowed for as long as the scope lets the
        // request be active.
        unsafe {
            call!(MPI_Send_init_c(
                buf.pointer(),
                buf.large_count(),
                buf.as_datatype().as_raw(),
                self.destination_rank(),
                tag,
                self.as_communicator().as_raw(),
                &mut request,
            ));
            PersistentRequest::new(request, buf, persistent::sent, scope)
        }
    }

    /// Prepares to send a buffer (MPI-5.0 §3.9).
    fn send_init<'a, Sc, Buf>(&self, scope: Sc, buf: &'a mut Buf) -> PersistentRequest<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        self.send_init_with_tag(scope, buf, Tag::default())
    }
}

impl Destination for Process<'_> {
    fn destination_rank(&self) -> Rank {
        self.rank()
    }
}
