//! Reads and writes that return before they are complete, by offset (MPI-5.0 §14.4.2).
//!
//! The request borrows the file, which therefore stays open. [`Status::count`] of the completed
//! request is the number of elements that were read.
//!
//! [`Status::count`]: crate::point_to_point::Status::count

#![allow(unsafe_code)]

use std::os::raw::{c_int, c_void};
use std::ptr::NonNull;

use super::{File, PlainBufferMut, signed};
use crate::datatype::traits::*;
use crate::error::{MpiError, check};
use crate::ffi::{self, MPI_Count, MPI_Datatype, MPI_Request};
use crate::raw::traits::*;
use crate::request::{Request, Scope};

impl File {
    /// Starts to read from an offset on (`MPI_File_iread_at`, MPI-5.0 §14.4.2).
    ///
    /// ```no_run
    /// # use mpi::file::File;
    /// # fn example(file: &File) -> Result<(), mpi::error::MpiError> {
    /// let mut values = [0.0_f64; 100];
    /// mpi::request::scope(|scope| {
    ///     let request = file.immediate_read_at(scope, 0, &mut values)?;
    ///     // Here the rank computes.
    ///     request.wait();
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// Until the end of the scope the buffer cannot be used, and the file cannot be closed:
    ///
    /// ```compile_fail,E0502
    /// # use mpi::file::File;
    /// # fn example(file: &File) -> Result<(), mpi::error::MpiError> {
    /// let mut values = [0.0_f64; 100];
    /// mpi::request::scope(|scope| {
    ///     let request = file.immediate_read_at(scope, 0, &mut values)?;
    ///     println!("{}", values[0]);
    ///     request.wait();
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0505
    /// # use mpi::file::File;
    /// # fn example(file: File) -> Result<(), mpi::error::MpiError> {
    /// let mut values = [0.0_f64; 100];
    /// mpi::request::scope(|scope| {
    ///     let request = file.immediate_read_at(scope, 0, &mut values)?;
    ///     file.close()?;
    ///     request.wait();
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn immediate_read_at<'a, Sc, B>(
        &'a self,
        scope: Sc,
        offset: u64,
        buffer: &'a mut B,
    ) -> Result<Request<'a, B, Sc>, MpiError>
    where
        Sc: Scope<'a>,
        B: PlainBufferMut + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: the arguments are those of a buffer, which is borrowed until the request is
        // complete.
        start_read("MPI_File_iread_at_c", scope, buffer, |data, count, datatype, out| unsafe {
            ffi::MPI_File_iread_at_c(file, offset, data, count, datatype, out)
        })
    }

    /// Starts to write from an offset on (`MPI_File_iwrite_at`, MPI-5.0 §14.4.2).
    pub fn immediate_write_at<'a, Sc, B>(
        &'a self,
        scope: Sc,
        offset: u64,
        buffer: &'a B,
    ) -> Result<Request<'a, B, Sc>, MpiError>
    where
        Sc: Scope<'a>,
        B: Buffer + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: as for `immediate_read_at`.
        start_write("MPI_File_iwrite_at_c", scope, buffer, |data, count, datatype, out| unsafe {
            ffi::MPI_File_iwrite_at_c(file, offset, data, count, datatype, out)
        })
    }

    /// Starts to read from an offset on, together with all ranks (`MPI_File_iread_at_all`, MPI-5.0
    /// §14.4.2). The call is collective.
    pub fn immediate_read_at_all<'a, Sc, B>(
        &'a self,
        scope: Sc,
        offset: u64,
        buffer: &'a mut B,
    ) -> Result<Request<'a, B, Sc>, MpiError>
    where
        Sc: Scope<'a>,
        B: PlainBufferMut + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: as for `immediate_read_at`.
        start_read("MPI_File_iread_at_all_c", scope, buffer, |data, count, datatype, out| unsafe {
            ffi::MPI_File_iread_at_all_c(file, offset, data, count, datatype, out)
        })
    }

    /// Starts to write from an offset on, together with all ranks (`MPI_File_iwrite_at_all`,
    /// MPI-5.0 §14.4.2). The call is collective.
    pub fn immediate_write_at_all<'a, Sc, B>(
        &'a self,
        scope: Sc,
        offset: u64,
        buffer: &'a B,
    ) -> Result<Request<'a, B, Sc>, MpiError>
    where
        Sc: Scope<'a>,
        B: Buffer + ?Sized,
    {
        let (file, offset) = (self.handle, signed(offset));
        // SAFETY: as for `immediate_read_at`.
        start_write(
            "MPI_File_iwrite_at_all_c",
            scope,
            buffer,
            |data, count, datatype, out| unsafe {
                ffi::MPI_File_iwrite_at_all_c(file, offset, data, count, datatype, out)
            },
        )
    }
}

/// Has `access` start to read into a buffer.
fn start_read<'a, Sc: Scope<'a>, B: PlainBufferMut + ?Sized>(
    call: &'static str,
    scope: Sc,
    buffer: &'a mut B,
    access: impl FnOnce(*mut c_void, MPI_Count, MPI_Datatype, &mut MPI_Request) -> c_int,
) -> Result<Request<'a, B, Sc>, MpiError> {
    let datatype = buffer.as_datatype();
    let (count, mut request) = (buffer.large_count(), ffi::MPI_REQUEST_NULL);
    check(call, access(buffer.pointer_mut(), count, datatype.as_raw(), &mut request))?;
    // SAFETY: the request is open; its buffer is borrowed mutably for 'a.
    Ok(unsafe { Request::with_pointer(request, NonNull::from(buffer), scope) })
}

/// Has `access` start to write a buffer.
fn start_write<'a, Sc: Scope<'a>, B: Buffer + ?Sized>(
    call: &'static str,
    scope: Sc,
    buffer: &'a B,
    access: impl FnOnce(*const c_void, MPI_Count, MPI_Datatype, &mut MPI_Request) -> c_int,
) -> Result<Request<'a, B, Sc>, MpiError> {
    let datatype = buffer.as_datatype();
    let (count, mut request) = (buffer.large_count(), ffi::MPI_REQUEST_NULL);
    check(call, access(buffer.pointer(), count, datatype.as_raw(), &mut request))?;
    // SAFETY: the request is open; its buffer is borrowed for 'a.
    Ok(unsafe { Request::from_raw(request, buffer, scope) })
}
