//! The calls of the collective operations without a root, after the checks of their buffers.
//!
//! For each function the caller promises: the buffers are valid until the operation is complete,
//! and nothing else uses those that it writes.

#![allow(unsafe_code)]

use super::buffers::{Elements, Parts, Start, check_own, start};
use crate::ffi::{MPI_Count, MPI_Op};
use crate::raw::AsRaw as _;
use crate::topology::handle::CommunicatorHandle;

/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn all_gather(
    comm: &CommunicatorHandle,
    send: Elements,
    recv: Elements,
    start: Start,
) {
    let count = recv.per_process(comm);
    check_own(comm, (send.count, send.datatype), (count, recv.datatype));
    // SAFETY: the receive buffer holds `count` elements of each process; the rest as the module
    // says.
    unsafe {
        start!(
            start,
            MPI_Allgather_c or MPI_Iallgather_c,
            send.pointer,
            send.count,
            send.datatype,
            recv.pointer,
            count,
            recv.datatype,
            comm.as_raw(),
        );
    }
}

/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn all_gather_varcount(
    comm: &CommunicatorHandle,
    send: Elements,
    recv: Parts<'_>,
    start: Start,
) {
    recv.check_number(comm);
    if !comm.is_inter_comm() {
        check_own(comm, (send.count, send.datatype), (recv.of(comm.rank()), recv.datatype));
    }
    // SAFETY: there is a part for each process, and all lie within the receive buffer; the rest as
    // the module says.
    unsafe {
        start!(
            start,
            MPI_Allgatherv or MPI_Iallgatherv,
            send.pointer,
            send.int_count(),
            send.datatype,
            recv.pointer,
            recv.counts(),
            recv.displacements(),
            recv.datatype,
            comm.as_raw(),
        );
    }
}

/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn all_to_all(
    comm: &CommunicatorHandle,
    send: Elements,
    recv: Elements,
    start: Start,
) {
    let (sent, received) = (send.per_process(comm), recv.per_process(comm));
    check_own(comm, (sent, send.datatype), (received, recv.datatype));
    // SAFETY: both buffers hold that many elements for each process; the rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Alltoall_c or MPI_Ialltoall_c,
            send.pointer,
            sent,
            send.datatype,
            recv.pointer,
            received,
            recv.datatype,
            comm.as_raw(),
        );
    }
}

/// # Safety
/// As the module says.
#[track_caller]
pub(super) unsafe fn all_to_all_varcount(
    comm: &CommunicatorHandle,
    send: Parts<'_>,
    recv: Parts<'_>,
    start: Start,
) {
    send.check_number(comm);
    recv.check_number(comm);
    if !comm.is_inter_comm() {
        let rank = comm.rank();
        check_own(comm, (send.of(rank), send.datatype), (recv.of(rank), recv.datatype));
    }
    // SAFETY: there is a part for each process, and all lie within the buffers; the rest as the
    // module says.
    unsafe {
        start!(
            start,
            MPI_Alltoallv or MPI_Ialltoallv,
            send.pointer,
            send.counts(),
            send.displacements(),
            send.datatype,
            recv.pointer,
            recv.counts(),
            recv.displacements(),
            recv.datatype,
            comm.as_raw(),
        );
    }
}

/// Reduces to a result in all processes.
///
/// # Safety
/// As the module says, and the operation is valid.
#[track_caller]
pub(super) unsafe fn all_reduce(
    comm: &CommunicatorHandle,
    send: Elements,
    recv: Elements,
    op: MPI_Op,
    start: Start,
) {
    recv.check_result_of(&send);
    // SAFETY: the receive buffer holds the result; the rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Allreduce_c or MPI_Iallreduce_c,
            send.pointer,
            recv.pointer,
            send.count,
            send.datatype,
            op,
            comm.as_raw(),
        );
    }
}

/// # Safety
/// As the module says, and the operation is valid.
#[track_caller]
pub(super) unsafe fn reduce_scatter_block(
    comm: &CommunicatorHandle,
    send: Elements,
    recv: Elements,
    op: MPI_Op,
    start: Start,
) {
    let blocks = MPI_Count::from(comm.size());
    assert!(
        recv.count.checked_mul(blocks) == Some(send.count),
        "the send buffer has {} elements: must have {blocks} times {}, as the receive buffer",
        send.count,
        recv.count,
    );
    recv.check_result_of(&Elements { count: recv.count, ..send });
    // SAFETY: the send buffer holds as many elements for each process as the receive buffer; the
    // rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Reduce_scatter_block_c or MPI_Ireduce_scatter_block_c,
            send.pointer,
            recv.pointer,
            recv.count,
            send.datatype,
            op,
            comm.as_raw(),
        );
    }
}

/// # Safety
/// As the module says, and the operation is valid.
#[track_caller]
pub(super) unsafe fn scan(
    comm: &CommunicatorHandle,
    send: Elements,
    recv: Elements,
    op: MPI_Op,
    start: Start,
) {
    recv.check_result_of(&send);
    // SAFETY: the receive buffer holds the result; the rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Scan_c or MPI_Iscan_c,
            send.pointer,
            recv.pointer,
            send.count,
            send.datatype,
            op,
            comm.as_raw(),
        );
    }
}

/// # Safety
/// As the module says, and the operation is valid.
#[track_caller]
pub(super) unsafe fn exclusive_scan(
    comm: &CommunicatorHandle,
    send: Elements,
    recv: Elements,
    op: MPI_Op,
    start: Start,
) {
    recv.check_result_of(&send);
    // SAFETY: the receive buffer holds the result; the rest as the module says.
    unsafe {
        start!(
            start,
            MPI_Exscan_c or MPI_Iexscan_c,
            send.pointer,
            recv.pointer,
            send.count,
            send.datatype,
            op,
            comm.as_raw(),
        );
    }
}
