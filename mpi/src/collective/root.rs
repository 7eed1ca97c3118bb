//! Collective operations with a root: one process gives data to all, or gets data of all.
//!
//! The root calls the methods whose names end in `_root`, at the same time as all others call those
//! without. A buffer that an immediate operation uses is borrowed until its request is complete,
//! and so is the operation of a reduction.

#![allow(unsafe_code)]

use std::process::Command;
use std::ptr::NonNull;

use super::buffers::{lent, lent_parts, received, received_parts, sent, sent_parts, started};
use super::{Operation, root_calls as calls, spawn};
use crate::MpiError;
use crate::datatype::{Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut};
use crate::request::{Request, Scope};
use crate::topology::handle::{AsHandle as _, CommunicatorHandle};
use crate::topology::{AsCommunicator, InterCommunicator, Process, Rank};

/// The root of collective operations (MPI-5.0 §6). A [`Process`] is one.
///
/// On an inter-communicator, the root is a process of the other group. The processes of the root's
/// own group need another value of this trait: its rank is MPI_ROOT in the root and MPI_PROC_NULL
/// in the others (MPI-5.0 §6.2.3).
///
/// # Panics
/// All methods panic if a buffer is too small for the operation, if the process would send itself
/// another number of bytes than it receives from itself, or if the root calls the method for the
/// others, or the other way round.
pub trait Root: AsCommunicator {
    /// Returns the root's rank.
    fn root_rank(&self) -> Rank;

    /// Copies the root's buffer to those of all processes (MPI-5.0 §6.4).
    ///
    /// The buffers have the same number of elements.
    #[track_caller]
    fn broadcast_into<Buf>(&self, buffer: &mut Buf)
    where
        Buf: BufferMut + ?Sized,
    {
        // SAFETY: the buffer is borrowed until the call is complete.
        unsafe { calls::broadcast(handle(self), self.root_rank(), *received(buffer), None) };
    }

    /// Gathers the buffers of all processes at the root (MPI-5.0 §6.5). For processes other than
    /// the root.
    #[track_caller]
    fn gather_into<S>(&self, sendbuf: &S)
    where
        S: Buffer + ?Sized,
    {
        // SAFETY: the buffer is borrowed until the call is complete.
        unsafe { calls::gather(handle(self), self.root_rank(), *sent(sendbuf), None, None) };
    }

    /// Gathers the buffers of all processes in `recvbuf`, in the order of ranks (MPI-5.0 §6.5). For
    /// the root.
    ///
    /// `sendbuf` has the same number of elements in all processes, and `recvbuf` as many of each.
    #[track_caller]
    fn gather_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (send, recv) = (sent(sendbuf), received(recvbuf));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { calls::gather(handle(self), self.root_rank(), *send, Some(*recv), None) };
    }

    /// Gathers the buffers of all processes at the root (MPI-5.0 §6.5). For processes other than
    /// the root.
    #[track_caller]
    fn gather_varcount_into<S>(&self, sendbuf: &S)
    where
        S: Buffer + ?Sized,
    {
        let send = sent(sendbuf);
        // SAFETY: the buffer is borrowed until the call is complete.
        unsafe { calls::gather_varcount(handle(self), self.root_rank(), *send, None, None) };
    }

    /// Gathers the buffers of all processes in the parts of `recvbuf` (MPI-5.0 §6.5). For the root.
    ///
    /// The buffer of each process has as many elements as its part.
    #[track_caller]
    fn gather_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (send, recv) = (sent(sendbuf), Some(*received_parts(recvbuf)));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { calls::gather_varcount(handle(self), self.root_rank(), *send, recv, None) };
    }

    /// Receives this process's block of the root's buffer (MPI-5.0 §6.6). For processes other than
    /// the root.
    #[track_caller]
    fn scatter_into<R>(&self, recvbuf: &mut R)
    where
        R: BufferMut + ?Sized,
    {
        // SAFETY: the buffer is borrowed until the call is complete.
        unsafe { calls::scatter(handle(self), self.root_rank(), None, *received(recvbuf), None) };
    }

    /// Sends each process a block of `sendbuf`, in the order of ranks (MPI-5.0 §6.6). For the root.
    ///
    /// `recvbuf` has the same number of elements in all processes, and `sendbuf` as many for each.
    #[track_caller]
    fn scatter_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (send, recv) = (sent(sendbuf), received(recvbuf));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { calls::scatter(handle(self), self.root_rank(), Some(*send), *recv, None) };
    }

    /// Receives this process's part of the root's buffer (MPI-5.0 §6.6). For processes other than
    /// the root.
    #[track_caller]
    fn scatter_varcount_into<R>(&self, recvbuf: &mut R)
    where
        R: BufferMut + ?Sized,
    {
        let recv = received(recvbuf);
        // SAFETY: the buffer is borrowed until the call is complete.
        unsafe { calls::scatter_varcount(handle(self), self.root_rank(), None, *recv, None) };
    }

    /// Sends each process its part of `sendbuf` (MPI-5.0 §6.6). For the root.
    ///
    /// The buffer of each process has as many elements as its part.
    #[track_caller]
    fn scatter_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: PartitionedBuffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (send, recv) = (Some(*sent_parts(sendbuf)), received(recvbuf));
        // SAFETY: both buffers are borrowed until the call is complete.
        unsafe { calls::scatter_varcount(handle(self), self.root_rank(), send, *recv, None) };
    }

    /// Reduces the buffers of all processes, element by element (MPI-5.0 §6.9.1). For processes
    /// other than the root, which gets the result.
    #[track_caller]
    fn reduce_into<S, O>(&self, sendbuf: &S, op: O)
    where
        S: Buffer + ?Sized,
        O: Operation,
    {
        let (send, op) = (sent(sendbuf), op.as_raw());
        // SAFETY: the buffer and the operation live until the call is complete.
        unsafe { calls::reduce(handle(self), self.root_rank(), *send, None, op, None) };
    }

    /// Reduces the buffers of all processes, element by element, and writes the result in `recvbuf`
    /// (MPI-5.0 §6.9.1). For the root.
    #[track_caller]
    fn reduce_into_root<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (send, recv) = (sent(sendbuf), Some(*received(recvbuf)));
        // SAFETY: both buffers and the operation live until the call is complete.
        unsafe { calls::reduce(handle(self), self.root_rank(), *send, recv, op.as_raw(), None) };
    }

    /// Starts [`broadcast_into`](Self::broadcast_into) (MPI-5.0 §6.12.2).
    fn immediate_broadcast_into<'a, Buf, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, root, (data, buffer)) = (handle(self), self.root_rank(), lent(buf));
        // SAFETY: the buffer is borrowed for `'a`.
        unsafe { started(scope, data, |request| calls::broadcast(comm, root, *buffer, request)) }
    }

    /// Starts [`gather_into`](Self::gather_into) (MPI-5.0 §6.12.3).
    fn immediate_gather_into<'a, S, Sc>(&self, scope: Sc, sendbuf: &'a S) -> Request<'a, S, Sc>
    where
        S: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, root, send) = (handle(self), self.root_rank(), sent(sendbuf));
        // SAFETY: the buffer is borrowed for `'a`.
        unsafe {
            started(scope, NonNull::from(sendbuf), |request| {
                calls::gather(comm, root, *send, None, request);
            })
        }
    }

    /// Starts [`gather_into_root`](Self::gather_into_root) (MPI-5.0 §6.12.3).
    fn immediate_gather_into_root<'a, S, R, Sc>(
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
        let (comm, root) = (handle(self), self.root_rank());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| calls::gather(comm, root, *send, Some(*recv), request))
        }
    }

    /// Starts [`gather_varcount_into`](Self::gather_varcount_into) (MPI-5.0 §6.12.3).
    fn immediate_gather_varcount_into<'a, Sc, S>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
    ) -> Request<'a, S, Sc>
    where
        S: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, root, send) = (handle(self), self.root_rank(), sent(sendbuf));
        // SAFETY: the buffer is borrowed for `'a`.
        unsafe {
            started(scope, NonNull::from(sendbuf), |request| {
                calls::gather_varcount(comm, root, *send, None, request);
            })
        }
    }

    /// Starts [`gather_varcount_into_root`](Self::gather_varcount_into_root) (MPI-5.0 §6.12.3).
    fn immediate_gather_varcount_into_root<'a, Sc, S, R>(
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
        let (comm, root) = (handle(self), self.root_rank());
        let (send, (data, recv)) = (sent(sendbuf), lent_parts(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| {
                calls::gather_varcount(comm, root, *send, Some(*recv), request);
            })
        }
    }

    /// Starts [`scatter_into`](Self::scatter_into) (MPI-5.0 §6.12.4).
    fn immediate_scatter_into<'a, Sc, R>(&self, scope: Sc, recvbuf: &'a mut R) -> Request<'a, R, Sc>
    where
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, root, (data, recv)) = (handle(self), self.root_rank(), lent(recvbuf));
        // SAFETY: the buffer is borrowed for `'a`.
        unsafe { started(scope, data, |request| calls::scatter(comm, root, None, *recv, request)) }
    }

    /// Starts [`scatter_into_root`](Self::scatter_into_root) (MPI-5.0 §6.12.4).
    fn immediate_scatter_into_root<'a, Sc, S, R>(
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
        let (comm, root) = (handle(self), self.root_rank());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| calls::scatter(comm, root, Some(*send), *recv, request))
        }
    }

    /// Starts [`scatter_varcount_into`](Self::scatter_varcount_into) (MPI-5.0 §6.12.4).
    fn immediate_scatter_varcount_into<'a, Sc, R>(
        &self,
        scope: Sc,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, root, (data, recv)) = (handle(self), self.root_rank(), lent(recvbuf));
        // SAFETY: the buffer is borrowed for `'a`.
        unsafe {
            started(scope, data, |request| {
                calls::scatter_varcount(comm, root, None, *recv, request);
            })
        }
    }

    /// Starts [`scatter_varcount_into_root`](Self::scatter_varcount_into_root) (MPI-5.0 §6.12.4).
    fn immediate_scatter_varcount_into_root<'a, Sc, S, R>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + PartitionedBuffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (comm, root) = (handle(self), self.root_rank());
        let (send, (data, recv)) = (sent_parts(sendbuf), lent(recvbuf));
        // SAFETY: both buffers are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| {
                calls::scatter_varcount(comm, root, Some(*send), *recv, request);
            })
        }
    }

    /// Starts [`reduce_into`](Self::reduce_into) (MPI-5.0 §6.12.7).
    fn immediate_reduce_into<'a, Sc, S, O>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        op: O,
    ) -> Request<'a, S, Sc>
    where
        S: 'a + Buffer + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (comm, root, op) = (handle(self), self.root_rank(), op.as_raw());
        let send = sent(sendbuf);
        // SAFETY: the buffer and the operation are borrowed for `'a`.
        unsafe {
            started(scope, NonNull::from(sendbuf), |request| {
                calls::reduce(comm, root, *send, None, op, request);
            })
        }
    }

    /// Starts [`reduce_into_root`](Self::reduce_into_root) (MPI-5.0 §6.12.7).
    fn immediate_reduce_into_root<'a, Sc, S, R, O>(
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
        let (comm, root, op) = (handle(self), self.root_rank(), op.as_raw());
        let (send, (data, recv)) = (sent(sendbuf), lent(recvbuf));
        // SAFETY: both buffers and the operation are borrowed for `'a`.
        unsafe {
            started(scope, data, |request| {
                calls::reduce(comm, root, *send, Some(*recv), op, request);
            })
        }
    }

    /// Starts `maxprocs` processes of a program, and returns the inter-communicator with them
    /// (MPI-5.0 §11.8.2). Collective; only the arguments of the root count.
    ///
    /// The processes get the arguments of `command`, and its folder if that is set. They reach this
    /// process by [`parent`](crate::topology::Communicator::parent).
    ///
    /// # Errors
    /// If not all processes were started, and the communicator's error handler returns errors. By
    /// default the job ends. If a text of the command has a zero byte.
    ///
    /// # Panics
    /// If `command` changes the environment, which MPI cannot pass on.
    #[track_caller]
    fn spawn(&self, command: &Command, maxprocs: Rank) -> Result<InterCommunicator, MpiError> {
        spawn::one(handle(self), self.root_rank(), command, maxprocs)
    }

    /// Starts processes of several programs, and returns the inter-communicator with them, in the
    /// order of the programs (MPI-5.0 §11.8.3). Collective; only the arguments of the root count.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    ///
    /// # Panics
    /// If there are not as many numbers of processes as commands, or a command changes the
    /// environment.
    #[track_caller]
    fn spawn_multiple(
        &self,
        commands: &[Command],
        maxprocs: &[Rank],
    ) -> Result<InterCommunicator, MpiError> {
        spawn::several(handle(self), self.root_rank(), commands, maxprocs)
    }
}

impl Root for Process<'_> {
    fn root_rank(&self) -> Rank {
        self.rank()
    }
}

fn handle<R: Root + ?Sized>(root: &R) -> &CommunicatorHandle {
    root.as_communicator().as_handle()
}
