//! A send and a receive at once (MPI-5.0 §3.11): neither waits for the other.

#![allow(unsafe_code)]

use super::value::receive_value;
use super::{Destination, Source, Status};
use crate::Tag;
use crate::datatype::{AsDatatype as _, Buffer, BufferMut, Equivalence, Pointer as _};
use crate::error::call;
use crate::ffi::{self, MPI_Comm, MPI_Status};
use crate::raw::traits::*;
use crate::topology::{Communicator as _, CommunicatorRelation};

/// Returns the communicator of both, which must be one.
///
/// # Panics
/// If they are of two communicators.
#[track_caller]
fn common_communicator<D: Destination, S: Source>(destination: &D, source: &S) -> MPI_Comm {
    let (to, from) = (destination.as_communicator(), source.as_communicator());
    assert!(
        to.as_raw() == from.as_raw() || to.compare(from) == CommunicatorRelation::Identical,
        "the destination and the source of a send_receive must be of one communicator"
    );
    to.as_raw()
}

/// Sends a value with the tag `sendtag`, and receives one with the tag `receivetag`.
///
/// # Panics
/// If the message does not have exactly one value, or the processes are not of one communicator.
#[track_caller]
pub fn send_receive_with_tags<M, D, R, S>(
    msg: &M,
    destination: &D,
    sendtag: Tag,
    source: &S,
    receivetag: Tag,
) -> (R, Status)
where
    M: Equivalence,
    D: Destination,
    R: Equivalence,
    S: Source,
{
    let comm = common_communicator(destination, source);
    // SAFETY: the message is one element and borrowed, and there is room for one element.
    receive_value(|value, datatype, status| unsafe {
        call!(MPI_Sendrecv_c(
            msg.pointer(),
            1,
            msg.as_datatype().as_raw(),
            destination.destination_rank(),
            sendtag,
            value,
            1,
            datatype,
            source.source_rank(),
            receivetag,
            comm,
            status,
        ));
    })
}

/// Sends a value with tag 0, and receives one with any tag.
///
/// # Panics
/// If the message does not have exactly one value, or the processes are not of one communicator.
#[track_caller]
pub fn send_receive<R, M, D, S>(msg: &M, destination: &D, source: &S) -> (R, Status)
where
    M: Equivalence,
    D: Destination,
    R: Equivalence,
    S: Source,
{
    send_receive_with_tags(msg, destination, Tag::default(), source, ffi::MPI_ANY_TAG)
}

/// Sends a buffer with the tag `sendtag`, and receives a message with the tag `receivetag` into
/// another.
///
/// # Panics
/// If the processes are not of one communicator.
#[track_caller]
pub fn send_receive_into_with_tags<M, D, B, S>(
    msg: &M,
    destination: &D,
    sendtag: Tag,
    buf: &mut B,
    source: &S,
    receivetag: Tag,
) -> Status
where
    M: Buffer + ?Sized,
    D: Destination,
    B: BufferMut + ?Sized,
    S: Source,
{
    let comm = common_communicator(destination, source);
    let mut status = MPI_Status::default();
    // SAFETY: both buffers have these elements and are borrowed, the second mutably.
    unsafe {
        call!(MPI_Sendrecv_c(
            msg.pointer(),
            msg.large_count(),
            msg.as_datatype().as_raw(),
            destination.destination_rank(),
            sendtag,
            buf.pointer_mut(),
            buf.large_count(),
            buf.as_datatype().as_raw(),
            source.source_rank(),
            receivetag,
            comm,
            &mut status,
        ));
    }
    Status::from_raw(status)
}

/// Sends a buffer with tag 0, and receives a message with any tag into another.
///
/// # Panics
/// If the processes are not of one communicator.
#[track_caller]
pub fn send_receive_into<M, D, B, S>(msg: &M, destination: &D, buf: &mut B, source: &S) -> Status
where
    M: Buffer + ?Sized,
    D: Destination,
    B: BufferMut + ?Sized,
    S: Source,
{
    let tag = Tag::default();
    send_receive_into_with_tags(msg, destination, tag, buf, source, ffi::MPI_ANY_TAG)
}

/// Sends a buffer with the tag `sendtag`, and replaces what it has by a message with the tag
/// `receivetag`.
///
/// # Panics
/// If the processes are not of one communicator.
#[track_caller]
pub fn send_receive_replace_into_with_tags<B, D, S>(
    buf: &mut B,
    destination: &D,
    sendtag: Tag,
    source: &S,
    receivetag: Tag,
) -> Status
where
    B: BufferMut + ?Sized,
    D: Destination,
    S: Source,
{
    let comm = common_communicator(destination, source);
    let mut status = MPI_Status::default();
    // SAFETY: the buffer has these elements and is borrowed mutably.
    unsafe {
        call!(MPI_Sendrecv_replace_c(
            buf.pointer_mut(),
            buf.large_count(),
            buf.as_datatype().as_raw(),
            destination.destination_rank(),
            sendtag,
            source.source_rank(),
            receivetag,
            comm,
            &mut status,
        ));
    }
    Status::from_raw(status)
}

/// Sends a buffer with tag 0, and replaces what it has by a message with any tag.
///
/// # Panics
/// If the processes are not of one communicator.
#[track_caller]
pub fn send_receive_replace_into<B, D, S>(buf: &mut B, destination: &D, source: &S) -> Status
where
    B: BufferMut + ?Sized,
    D: Destination,
    S: Source,
{
    let tag = Tag::default();
    send_receive_replace_into_with_tags(buf, destination, tag, source, ffi::MPI_ANY_TAG)
}
