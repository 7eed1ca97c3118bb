//! Collective operations without a root: all processes give data, and all get some.
//!
//! A buffer that an immediate operation uses is borrowed until its request is complete, and so is
//! the operation of a reduction: a value of [`Operation`] that is an owner cannot be passed, only a
//! reference to it.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::buffers::{lent, lent_parts, received, received_parts, sent, sent_parts, started};
use super::{Operation, communicator_calls as calls};
use crate::datatype::{Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut};
use crate::error::call;
use crate::request::{Request, Scope, StaticScope};
use crate::topology::Communicator;

/// Collective operations without a root (MPI-5.0 §6). All communicators have them.
///
/// On an inter-communicator the data comes from the processes of the other group.
///
/// # Panics
/// All methods panic if a buffer is too small for the operation, or if the process would send
/// itself another number of bytes than it receives from itself.
pub trait CommunicatorCollectives: Communicator {
    /// Waits until all processes have made this call (MPI-5.0 §6.3).
    fn barrier(&self) {
        // SAFETY: the communicator is valid.
        unsafe { call!(MPI_Barrier(self.as_raw())) };
    }

    /// Gathers the send buffers of all processes in all receive buffers, in the order of ranks
    /// (MPI-5.0 §6.7).
    ///
    /// `sendbuf` has the same number of elements in all processes, and `recvbuf` as many of each.
    #[track_caller]
    fn all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe {
            calls::all_gather(self.as_handle(), *sent(sendbuf), *received(recvbuf), None);
        }
    }

    /// Gathers the send buffers of all processes in all receive buffers (MPI-5.0 §6.7).
    ///
    /// `sendbuf` has as many elements as the process's part of `recvbuf`.
    #[track_caller]
    fn all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (send, recv) = (sent(sendbuf), received_parts(recvbuf));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { calls::all_gather_varcount(self.as_handle(), *send, *recv, None) };
    }

    /// Sends a block of the send buffer to each process, and receives one of each, in the order of
    /// ranks (MPI-5.0 §6.8).
    ///
    /// Both buffers have as many elements for each process.
    #[track_caller]
    fn all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe {
            calls::all_to_all(self.as_handle(), *sent(sendbuf), *received(recvbuf), None);
        }
    }

    /// Sends a part of the send buffer to each process, and receives one of each (MPI-5.0 §6.8).
    #[track_caller]
    fn all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: PartitionedBuffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (send, recv) = (sent_parts(sendbuf), received_parts(recvbuf));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { calls::all_to_all_varcount(self.as_handle(), *send, *recv, None) };
    }

    /// Reduces the send buffers of all processes, element by element, and writes the result in all
    /// receive buffers (MPI-5.0 §6.9.6).
    #[track_caller]
    fn all_reduce_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (send, recv) = (sent(sendbuf), received(recvbuf));
        // SAFETY: both buffers and the operation live until the call is complete.
        unsafe { calls::all_reduce(self.as_handle(), *send, *recv, op.as_raw(), None) };
    }

    /// Reduces the send buffers of all processes, element by element, and scatters the result: each
    /// process gets a block of it, in the order of ranks (MPI-5.0 §6.10.1).
    ///
    /// `sendbuf` has as many elements for each process as `recvbuf`.
    #[track_caller]
    fn reduce_scatter_block_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (send, recv) = (sent(sendbuf), received(recvbuf));
        // SAFETY: both buffers and the operation live until the call is complete.
        unsafe { calls::reduce_scatter_block(self.as_handle(), *send, *recv, op.as_raw(), None) };
    }

    /// Reduces the send buffers of the processes up to this one, element by element
    /// (MPI-5.0 §6.11.1).
    #[track_caller]
    fn scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (send, recv) = (sent(sendbuf), received(recvbuf));
        // SAFETY: both buffers and the operation live until the call is complete.
        unsafe { calls::scan(self.as_handle(), *send, *recv, op.as_raw(), None) };
    }

    /// Reduces the send buffers of the processes before this one, element by element
    /// (MPI-5.0 §6.11.2). The receive buffer of rank 0 stays as it is.
    #[track_caller]
    fn exclusive_scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (send, recv) = (sent(sendbuf), received(recvbuf));
        // SAFETY: both buffers and the operation live until the call is complete.
        unsafe { calls::exclusive_scan(self.as_handle(), *send, *recv, op.as_raw(), None) };
    }

    /// Starts a [`barrier`](Self::barrier) (MPI-5.0 §6.12.1). Its request is complete once all
    /// processes have started it.
    fn immediate_barrier(&self) -> Request<'static, ()> {
        // SAFETY: the communicator is valid, and there are no buffers.
        unsafe {
            started(StaticScope, NonNull::from(&()), |request| {
                call!(MPI_Ibarrier(self.as_raw(), request.expect("a request to write")));
            })
        }
    }

    /// Starts [`all_gather_into`](Self::all_gather_into) (MPI-5.0 §6.12.5).
    fn immediate_all_gather_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, send, (data, recv)) = (self.as_handle(), sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe { started(scope, data, |request| calls::all_gather(comm, *send, *recv, request)) }
    }

    /// Starts [`all_gather_varcount_into`](Self::all_gather_varcount_into) (MPI-5.0 §6.12.5).
    fn immediate_all_gather_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + PartitionedBufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, send, (data, recv)) = (self.as_handle(), sent(sendbuf), lent_parts(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| calls::all_gather_varcount(comm, *send, *recv, request))
        }
    }

    /// Starts [`all_to_all_into`](Self::all_to_all_into) (MPI-5.0 §6.12.6).
    fn immediate_all_to_all_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, send, (data, recv)) = (self.as_handle(), sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe { started(scope, data, |request| calls::all_to_all(comm, *send, *recv, request)) }
    }

    /// Starts [`all_to_all_varcount_into`](Self::all_to_all_varcount_into) (MPI-5.0 §6.12.6).
    fn immediate_all_to_all_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + PartitionedBuffer + ?Sized,
        R: 'a + PartitionedBufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let comm = self.as_handle();
        let (send, (data, recv)) = (sent_parts(sendbuf), lent_parts(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| calls::all_to_all_varcount(comm, *send, *recv, request))
        }
    }

    /// Starts [`all_reduce_into`](Self::all_reduce_into) (MPI-5.0 §6.12.8).
    fn immediate_all_reduce_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (comm, op) = (self.as_handle(), op.as_raw());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers and the operation are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| calls::all_reduce(comm, *send, *recv, op, request))
        }
    }

    /// Starts [`reduce_scatter_block_into`](Self::reduce_scatter_block_into) (MPI-5.0 §6.12.9).
    fn immediate_reduce_scatter_block_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (comm, op) = (self.as_handle(), op.as_raw());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers and the operation are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| {
                calls::reduce_scatter_block(comm, *send, *recv, op, request);
            })
        }
    }

    /// Starts [`scan_into`](Self::scan_into) (MPI-5.0 §6.12.11).
    fn immediate_scan_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (comm, op) = (self.as_handle(), op.as_raw());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers and the operation are borrowed for `'a`.
        unsafe { started(scope, data, |request| calls::scan(comm, *send, *recv, op, request)) }
    }

    /// Starts [`exclusive_scan_into`](Self::exclusive_scan_into) (MPI-5.0 §6.12.12).
    fn immediate_exclusive_scan_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (comm, op) = (self.as_handle(), op.as_raw());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers and the operation are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| calls::exclusive_scan(comm, *send, *recv, op, request))
        }
    }
}

impl<C: Communicator + ?Sized> CommunicatorCollectives for C {}
