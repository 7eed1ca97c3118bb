//! Reads and writes by the pointer that all ranks share (MPI-5.0 §14.4.4).
//!
//! All ranks must have the same view.

#![allow(unsafe_code)]

use std::io::SeekFrom;

use super::access::{raw_seek, read, write};
use super::{File, PlainBufferMut};
use crate::datatype::traits::*;
use crate::error::{MpiError, try_call};
use crate::ffi;

impl File {
    /// Reads at the shared pointer and moves it (`MPI_File_read_shared`, MPI-5.0 §14.4.4); returns
    /// the number of elements that were read. Calls of several ranks are in any order.
    pub fn read_shared<B>(&self, buffer: &mut B) -> Result<usize, MpiError>
    where
        B: PlainBufferMut + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        read("MPI_File_read_shared_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_read_shared_c(self.handle, data, count, datatype, status)
        })
    }

    /// Writes at the shared pointer and moves it (`MPI_File_write_shared`, MPI-5.0 §14.4.4). Calls
    /// of several ranks are in any order.
    pub fn write_shared<B>(&self, buffer: &B) -> Result<(), MpiError>
    where
        B: Buffer + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        write("MPI_File_write_shared_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_write_shared_c(self.handle, data, count, datatype, status)
        })
    }

    /// Reads at the shared pointer, one rank after the other (`MPI_File_read_ordered`, MPI-5.0
    /// §14.4.4); returns the number of elements that were read. The call is collective.
    pub fn read_ordered<B>(&self, buffer: &mut B) -> Result<usize, MpiError>
    where
        B: PlainBufferMut + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        read("MPI_File_read_ordered_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_read_ordered_c(self.handle, data, count, datatype, status)
        })
    }

    /// Writes at the shared pointer, one rank after the other (`MPI_File_write_ordered`, MPI-5.0
    /// §14.4.4). The call is collective.
    pub fn write_ordered<B>(&self, buffer: &B) -> Result<(), MpiError>
    where
        B: Buffer + ?Sized,
    {
        // SAFETY: the arguments are those of a buffer.
        write("MPI_File_write_ordered_c", buffer, |data, count, datatype, status| unsafe {
            ffi::MPI_File_write_ordered_c(self.handle, data, count, datatype, status)
        })
    }

    /// Moves the shared pointer (`MPI_File_seek_shared`, MPI-5.0 §14.4.4). The call is collective;
    /// all ranks name the same place.
    pub fn seek_shared(&self, to: SeekFrom) -> Result<(), MpiError> {
        let (offset, whence) = raw_seek(to);
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_seek_shared(self.handle, offset, whence)) }
    }

    /// Returns the offset of the shared pointer (`MPI_File_get_position_shared`, MPI-5.0 §14.4.4).
    pub fn position_shared(&self) -> Result<u64, MpiError> {
        let mut offset = 0;
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_get_position_shared(self.handle, &mut offset))? };
        Ok(offset as u64)
    }
}
