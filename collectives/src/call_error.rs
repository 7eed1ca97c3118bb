//! Errors of a collective call, in sentences for the user.

use fabric::CollectiveKind;
use objects::{Class, Error, Result};

/// MPI_ERR_ARG unless a list has the wanted length.
pub(crate) fn check_length(length: usize, wanted: usize) -> Result<()> {
    if length == wanted { Ok(()) } else { Err(wrong_length(length, wanted)) }
}

#[cold]
fn wrong_length(length: usize, wanted: usize) -> Error {
    Error::new(Class::Arg, format!("invalid list of {length} entries: must have {wanted}"))
}

#[cold]
pub(crate) fn bad_root(root: u32, size: u32) -> Error {
    let last = size.saturating_sub(1);
    Error::new(Class::Root, format!("invalid root {root}: must be 0 to {last}"))
}

#[cold]
pub(crate) fn too_many(count: u64) -> Error {
    Error::new(
        Class::Count,
        format!("invalid count {count}: the buffer spans more than 2^63 - 1 bytes"),
    )
}

#[cold]
pub(crate) fn unequal_blocks(own: u64, received: u64) -> Error {
    let text = format!(
        "this rank sends {own} bytes to itself, but receives {received}: both must be equal"
    );
    Error::new(Class::Truncate, text)
}

#[cold]
pub(crate) fn no_recv_buffer() -> Error {
    Error::new(Class::Buffer, "missing recvbuf: this rank receives the result")
}

#[cold]
pub(crate) fn same_buffers(kind: CollectiveKind, is_intercomm: bool) -> Error {
    let text = match kind {
        _ if is_intercomm => "sendbuf and recvbuf are the same: must not overlap",
        CollectiveKind::NeighborAllgather | CollectiveKind::NeighborAlltoall => {
            "sendbuf and recvbuf are the same: must not overlap"
        }
        CollectiveKind::Scatter => {
            "sendbuf and recvbuf are the same: the root passes MPI_IN_PLACE as recvbuf"
        }
        _ => "sendbuf and recvbuf are the same: pass MPI_IN_PLACE as sendbuf",
    };
    Error::new(Class::Buffer, text)
}

#[cold]
pub(crate) fn not_on_intercomm(kind: CollectiveKind) -> Error {
    let text = format!("{} is not defined on intercommunicators", name(kind));
    Error::new(Class::Comm, text)
}

#[cold]
pub(crate) fn in_place_on_intercomm(kind: CollectiveKind) -> Error {
    let text = format!("MPI_IN_PLACE is not allowed in {} on intercommunicators", name(kind));
    Error::new(Class::Buffer, text)
}

fn name(kind: CollectiveKind) -> &'static str {
    CollectiveKind::name(kind as u8).unwrap_or("this operation")
}
