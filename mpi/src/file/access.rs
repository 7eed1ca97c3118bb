//! Blocking reads and writes, by offset and by the rank's own pointer (MPI-5.0 §14.4.2, §14.4.3).

#![allow(unsafe_code)]

use std::io::SeekFrom;
use std::os::raw::{c_int, c_void};

use super::{File, PlainBufferMut, signed};
use crate::datatype::traits::*;
use crate::error::{MpiError, check, try_call};
use crate::ffi::{self, MPI_Count, MPI_Datatype, MPI_Offset, MPI_Status};
use crate::raw::traits::*;

/// Accesses at an offset. Pointers do not move.
impl File {
    /// Reads from an offset on (`MPI_File_read_at`, MPI-5.0 §14.4.2); returns the number of
    /// elements that were read.
    pub fn read_at<B>(&self, offset: u64, buffer: &mut B) -> Result<usize, MpiError>
    where
        B: PlainBufferMut + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: the arguments are those of a buffer.
        read("MPI_File_read_at_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_read_at_c(file, offset, data, count, datatype, status)
        })
    }

    /// Writes from an offset on (`MPI_File_write_at`, MPI-5.0 §14.4.2).
    pub fn write_at<B>(&self, offset: u64, buffer: &B) -> Result<(), MpiError>
    where
        B: Buffer + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: the arguments are those of a buffer.
        write("MPI_File_write_at_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_write_at_c(file, offset, data, count, datatype, status)
        })
    }

    /// Reads from an offset on, together with all ranks (`MPI_File_read_at_all`, MPI-5.0 §14.4.2);
    /// returns the number of elements that were read. The call is collective.
    pub fn read_at_all<B>(&self, offset: u64, buffer: &mut B) -> Result<usize, MpiError>
    where
        B: PlainBufferMut + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: the arguments are those of a buffer.
        read("MPI_File_read_at_all_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_read_at_all_c(file, offset, data, count, datatype, status)
        })
    }

    /// Writes from an offset on, together with all ranks (`MPI_File_write_at_all`, MPI-5.0
    /// §14.4.2). The call is collective.
    pub fn write_at_all<B>(&self, offset: u64, buffer: &B) -> Result<(), MpiError>
    where
        B: Buffer + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: the arguments are those of a buffer.
        write("MPI_File_write_at_all_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_write_at_all_c(file, offset, data, count, datatype, status)
        })
    }
}

/// Accesses at the rank's own pointer, which moves by what was accessed.
impl File {
    /// Reads at the pointer (`MPI_File_read`, MPI-5.0 §14.4.3); returns the number of elements that
    /// were read.
    pub fn read<B>(&self, buffer: &mut B) -> Result<usize, MpiError>
    where
        B: PlainBufferMut + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        read("MPI_File_read_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_read_c(self.handle, data, count, datatype, status)
        })
    }

    /// Writes at the pointer (`MPI_File_write`, MPI-5.0 §14.4.3).
    pub fn write<B>(&self, buffer: &B) -> Result<(), MpiError>
    where
        B: Buffer + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        write("MPI_File_write_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_write_c(self.handle, data, count, datatype, status)
        })
    }

    /// Reads at the pointer, together with all ranks (`MPI_File_read_all`, MPI-5.0 §14.4.3);
    /// returns the number of elements that were read. The call is collective.
    pub fn read_all<B>(&self, buffer: &mut B) -> Result<usize, MpiError>
    where
        B: PlainBufferMut + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        read("MPI_File_read_all_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_read_all_c(self.handle, data, count, datatype, status)
        })
    }

    /// Writes at the pointer, together with all ranks (`MPI_File_write_all`, MPI-5.0 §14.4.3). The
    /// call is collective.
    pub fn write_all<B>(&self, buffer: &B) -> Result<(), MpiError>
    where
        B: Buffer + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        write("MPI_File_write_all_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_write_all_c(self.handle, data, count, datatype, status)
        })
    }

    /// Moves the pointer, and returns its new offset (`MPI_File_seek`, MPI-5.0 §14.4.3).
    pub fn seek(&self, to: SeekFrom) -> Result<u64, MpiError> {
        let (offset, whence) = raw_seek(to);
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_seek(self.handle, offset, whence))? };
        self.position()
    }

    /// Returns the pointer's offset (`MPI_File_get_position`, MPI-5.0 §14.4.3).
    pub fn position(&self) -> Result<u64, MpiError> {
        let mut offset = 0;
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_get_position(self.handle, &mut offset))? };
        Ok(offset as u64)
    }
}

/// Returns the offset and the constant `MPI_SEEK` of a place.
pub(super) fn raw_seek(to: SeekFrom) -> (MPI_Offset, c_int) {
    match to {
        SeekFrom::Start(offset) => (signed(offset), ffi::MPI_SEEK_SET),
        SeekFrom::Current(offset) => (offset, ffi::MPI_SEEK_CUR),
        SeekFrom::End(offset) => (offset, ffi::MPI_SEEK_END),
    }
}

/// Has `access` read into a buffer, and returns the number of elements that were read.
pub(super) fn read<B: PlainBufferMut + ?Sized>(
    call: &'static str,
    buffer: &mut B,
    access: impl FnOnce(*mut c_void, MPI_Count, MPI_Datatype, &mut MPI_Status) -> c_int,
) -> Result<usize, MpiError> {
    let datatype = buffer.as_datatype();
    let (count, mut status) = (buffer.large_count(), MPI_Status::default());
    check(call, access(buffer.pointer_mut(), count, datatype.as_raw(), &mut status))?;
    let (mut bytes, mut size) = (0, 0);
    // SAFETY: the status is that of a completed access, and the datatypes are committed.
    unsafe {
        try_call!(MPI_Get_count_c(&status, ffi::MPI_BYTE, &mut bytes))?;
        try_call!(MPI_Type_size_c(datatype.as_raw(), &mut size))?;
    }
    // Elements without bytes are all there.
    let elements = if size == 0 { count } else { bytes / size };
    Ok(elements as usize)
}

/// Has `access` write a buffer.
pub(super) fn write<B: Buffer + ?Sized>(
    call: &'static str,
    buffer: &B,
    access: impl FnOnce(*const c_void, MPI_Count, MPI_Datatype, &mut MPI_Status) -> c_int,
) -> Result<(), MpiError> {
    let datatype = buffer.as_datatype();
    let (count, mut status) = (buffer.large_count(), MPI_Status::default());
    check(call, access(buffer.pointer(), count, datatype.as_raw(), &mut status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_their_constants() {
        assert_eq!(raw_seek(SeekFrom::Start(3)), (3, ffi::MPI_SEEK_SET));
        assert_eq!(raw_seek(SeekFrom::Current(-3)), (-3, ffi::MPI_SEEK_CUR));
        assert_eq!(raw_seek(SeekFrom::End(-1)), (-1, ffi::MPI_SEEK_END));
    }
}
