//! Packing data into bytes, and unpacking it (MPI-5.0 §5.2).

#![allow(unsafe_code)]

use crate::Count;
use crate::datatype::{Buffer, BufferMut, Pointer as _, PointerMut as _};
use crate::error::call;
use crate::ffi::{self, MPI_Comm, MPI_Count};
use crate::raw::AsRaw as _;

/// Returns how many bytes packing `count` elements takes at most.
///
/// # Safety
/// Both handles are valid.
pub(super) unsafe fn size(comm: MPI_Comm, count: MPI_Count, kind: ffi::MPI_Datatype) -> MPI_Count {
    let mut size = 0;
    // SAFETY: as the caller promises.
    unsafe { call!(MPI_Pack_size_c(count, kind, comm, &mut size)) };
    size
}

/// Packs a buffer into `bytes` from `position`, and returns the position after it.
///
/// # Safety
/// The communicator is valid.
pub(super) unsafe fn pack<B>(comm: MPI_Comm, buffer: &B, bytes: &mut [u8], position: Count) -> Count
where
    B: ?Sized + Buffer,
{
    let datatype = buffer.as_datatype();
    let mut position = start(position, bytes.len());
    // SAFETY: the buffer can be read, the bytes written within their length, which MPI checks, from
    // a position within them. The datatype lives until after the call.
    unsafe {
        call!(MPI_Pack_c(
            buffer.pointer(),
            buffer.large_count(),
            datatype.as_raw(),
            bytes.pointer_mut(),
            bytes.len() as MPI_Count,
            &mut position,
            comm,
        ));
    }
    end(position)
}

/// Unpacks a buffer from `bytes` from `position`, and returns the position after it.
///
/// # Safety
/// The communicator is valid. The bytes are of a packed buffer that matches this one.
pub(super) unsafe fn unpack<B>(
    comm: MPI_Comm,
    bytes: &[u8],
    buffer: &mut B,
    position: Count,
) -> Count
where
    B: ?Sized + BufferMut,
{
    let datatype = buffer.as_datatype();
    let mut position = start(position, bytes.len());
    // SAFETY: the bytes can be read within their length, which MPI checks, from a position within
    // them, and the buffer written. The datatype lives until after the call.
    unsafe {
        call!(MPI_Unpack_c(
            bytes.pointer(),
            bytes.len() as MPI_Count,
            &mut position,
            buffer.pointer_mut(),
            buffer.large_count(),
            datatype.as_raw(),
            comm,
        ));
    }
    end(position)
}

/// Panics unless the position lies within the bytes.
fn start(position: Count, len: usize) -> MPI_Count {
    assert!(
        usize::try_from(position).is_ok_and(|position| position <= len),
        "invalid position {position} in {len} packed bytes: must be 0 to {len}",
    );
    MPI_Count::from(position)
}

fn end(position: MPI_Count) -> Count {
    position.try_into().expect("packed data of more than 2147483647 bytes has no Count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_at_most_the_length() {
        assert_eq!(start(3, 3), 3);
    }

    #[test]
    #[should_panic(expected = "invalid position 4 in 3 packed bytes")]
    fn a_position_after_the_end_panics() {
        start(4, 3);
    }

    #[test]
    #[should_panic(expected = "invalid position -1")]
    fn a_negative_position_panics() {
        start(-1, 3);
    }
}
