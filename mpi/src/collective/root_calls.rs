//! The calls of the collective operations with a root, after the checks of their buffers.
//!
//! For each function the caller promises: the buffers are valid until the operation is complete,
//! and nothing else uses those that it writes. Where a process gives or gets nothing, it passes
//! `NONE`, which MPI does not look at.

#![allow(unsafe_code)]

use super::buffers::{Elements, Parts, Start, check_own, start};
use crate::ffi::{self, MPI_Op};
use crate::raw::AsRaw as _;
use crate::topology::Rank;
use crate::topology::handle::CommunicatorHandle;

/// Panics unless this process gives the buffer of the root exactly if it is the root. On an
/// inter-communicator it is the root if it says so.
#[track_caller]
fn check_role(comm: &CommunicatorHandle, root: Rank, gives_buffer: bool, buffer: &str) {
    let is_root = if comm.is_inter_comm() { root == ffi::MPI_ROOT } else { root == comm.rank() };
    assert!(
        gives_buffer || !is_root,
        "this process is the root {root}: it must call the method with a {buffer} buffer",
    );
    assert!(
        is_root || !gives_buffer,
        "this process is not the root {root}: it must call the method without a {buffer} buffer",
    );
}

/// # Safety
/// As the module says.
pub(super) unsafe fn broadcast(
    comm: &CommunicatorHandle,
    root: Rank,
    buffer: Elements,
    start: Start,
) {
    // SAFETY: as the module says.
    unsafe {
        start!(
            start,
            MPI_Bcast_c or MPI_Ibcast_c,
            buffer.pointer,
            buffer.count,
            buffer.datatype,
            root,
            comm.as_raw(),
        );
    }
}

/// The receive buffer is that of the root.
///
/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn gather(
    comm: &CommunicatorHandle,
    root: Rank,
    send: Elements,
    recv: Option<Elements>,
    start: Start,
) {
    check_role(comm, root, recv.is_some(), "receive");
    let mut count = 0;
    if let Some(recv) = recv {
        count = recv.per_process(comm);
        check_own(comm, (send.count, send.datatype), (count, recv.datatype));
    }
    let recv = recv.unwrap_or(Elements::NONE);
    // SAFETY: the receive buffer of the root holds `count` elements of each process; the rest as
    // the module says.
    unsafe {
        start!(
            start,
            MPI_Gather_c or MPI_Igather_c,
            send.pointer,
            send.count,
            send.datatype,
            recv.pointer,
            count,
            recv.datatype,
            root,
            comm.as_raw(),
        );
    }
}

/// The receive buffer is that of the root.
///
/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn gather_varcount(
    comm: &CommunicatorHandle,
    root: Rank,
    send: Elements,
    recv: Option<Parts<'_>>,
    start: Start,
) {
    check_role(comm, root, recv.is_some(), "receive");
    if let Some(recv) = recv {
        recv.check_number(comm);
        if !comm.is_inter_comm() {
            check_own(comm, (send.count, send.datatype), (recv.of(root), recv.datatype));
        }
    }
    let recv = recv.unwrap_or(Parts::NONE);
    // SAFETY: at the root there is a part for each process, and all lie within the receive buffer;
    // the rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Gatherv or MPI_Igatherv,
            send.pointer,
            send.int_count(),
            send.datatype,
            recv.pointer,
            recv.counts(),
            recv.displacements(),
            recv.datatype,
            root,
            comm.as_raw(),
        );
    }
}

/// The send buffer is that of the root.
///
/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn scatter(
    comm: &CommunicatorHandle,
    root: Rank,
    send: Option<Elements>,
    recv: Elements,
    start: Start,
) {
    check_role(comm, root, send.is_some(), "send");
    let mut count = 0;
    if let Some(send) = send {
        count = send.per_process(comm);
        check_own(comm, (count, send.datatype), (recv.count, recv.datatype));
    }
    let send = send.unwrap_or(Elements::NONE);
    // SAFETY: the send buffer of the root holds `count` elements for each process; the rest as the
    // module says.
    unsafe {
        start!(
            start,
            MPI_Scatter_c or MPI_Iscatter_c,
            send.pointer,
            count,
            send.datatype,
            recv.pointer,
            recv.count,
            recv.datatype,
            root,
            comm.as_raw(),
        );
    }
}

/// The send buffer is that of the root.
///
/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn scatter_varcount(
    comm: &CommunicatorHandle,
    root: Rank,
    send: Option<Parts<'_>>,
    recv: Elements,
    start: Start,
) {
    check_role(comm, root, send.is_some(), "send");
    if let Some(send) = send {
        send.check_number(comm);
        if !comm.is_inter_comm() {
            check_own(comm, (send.of(root), send.datatype), (recv.count, recv.datatype));
        }
    }
    let send = send.unwrap_or(Parts::NONE);
    // SAFETY: at the root there is a part for each process, and all lie within the send buffer; the
    // rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Scatterv or MPI_Iscatterv,
            send.pointer,
            send.counts(),
            send.displacements(),
            send.datatype,
            recv.pointer,
            recv.int_count(),
            recv.datatype,
            root,
            comm.as_raw(),
        );
    }
}

/// The receive buffer is that of the root.
///
/// # Safety
/// As the module says, and the operation is valid.
#[track_caller]
pub(super) unsafe fn reduce(
    comm: &CommunicatorHandle,
    root: Rank,
    send: Elements,
    recv: Option<Elements>,
    op: MPI_Op,
    start: Start,
) {
    check_role(comm, root, recv.is_some(), "receive");
    if let Some(recv) = recv {
        recv.check_result_of(&send);
    }
    let recv = recv.unwrap_or(Elements::NONE);
    // SAFETY: the receive buffer of the root holds the result; the rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Reduce_c or MPI_Ireduce_c,
            send.pointer,
            recv.pointer,
            send.count,
            send.datatype,
            op,
            root,
            comm.as_raw(),
        );
    }
}
