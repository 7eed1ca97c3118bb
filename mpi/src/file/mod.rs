//! Files that the ranks of a communicator read and write together (MPI-5.0 §14).
//!
//! A file is open until [`File::close`], or until it is dropped. Each rank sees it through a
//! [view](File::set_view), at first as bytes. Offsets, positions and the like are numbers of
//! *etypes* of the view, unless a function says bytes. Each read has a write of the same form:
//!
//! | positioned by | one rank | all ranks together |
//! |---|---|---|
//! | an offset | [`File::read_at`] | [`File::read_at_all`] |
//! | the rank's pointer | [`File::read`] | [`File::read_all`] |
//! | the shared pointer | [`File::read_shared`] | [`File::read_ordered`] |
//!
//! Reading returns the number of elements of the buffer that were read in full: fewer than it has
//! at the end of the file. Only buffers of [`PlainData`] can be read into, as a file contains any
//! bytes.
//!
//! Errors of files are returned (MPI-5.0 §14.7); [`MpiError::class`] tells them apart.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub use self::options::OpenOptions;
use crate::environment::frees_objects;
use crate::error::{MpiError, try_call};
use crate::ffi::{self, MPI_File, MPI_Offset};
use crate::info::Info;
pub use crate::plain::{PlainBufferMut, PlainData};
use crate::raw::traits::*;
use crate::topology::traits::Communicator;

mod access;
mod immediate;
mod options;
mod shared;
mod view;

/// A file that all ranks of a communicator have opened.
///
/// All of them must close it, as this is collective. Dropping it closes it too, and ignores errors;
/// a rank that panics does not take part.
///
/// ```no_run
/// use mpi::file::{File, OpenOptions};
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let mine = [world.rank() as u8; 100];
/// let file = File::open(&world, "result", OpenOptions::new().write(true).create(true))?;
/// file.write_at_all(100 * world.rank() as u64, &mine)?;
/// file.close()?;
/// # Ok::<(), mpi::error::MpiError>(())
/// ```
#[derive(Debug)]
pub struct File {
    handle: MPI_File,
}

impl File {
    /// Opens a file (`MPI_File_open`, MPI-5.0 §14.2.1).
    ///
    /// The call is collective: all ranks name the same file, with the same options. The view is
    /// that of bytes, and all pointers are at the start, or at the end if the options say append.
    pub fn open<C: Communicator + ?Sized>(
        comm: &C,
        path: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<File, MpiError> {
        let path = terminated(path.as_ref(), "MPI_File_open")?;
        let hints = Info::of_hints(options.hints())?;
        let mut handle = ffi::MPI_FILE_NULL;
        // SAFETY: the communicator and the hints are valid, and the name is terminated.
        unsafe {
            let (comm, mode) = (comm.as_raw(), options.mode());
            try_call!(MPI_File_open(comm, path.as_ptr(), mode, hints.as_raw(), &mut handle))?;
        }
        Ok(File { handle })
    }

    /// Closes the file (`MPI_File_close`, MPI-5.0 §14.2.2). The call is collective.
    pub fn close(self) -> Result<(), MpiError> {
        let mut handle = self.handle;
        std::mem::forget(self);
        // SAFETY: the handle belonged to this value. Requests borrow the file, so that none is
        // open.
        unsafe { try_call!(MPI_File_close(&mut handle)) }
    }

    /// Deletes a file that is not open (`MPI_File_delete`, MPI-5.0 §14.2.3). One rank calls it.
    pub fn delete(path: impl AsRef<Path>) -> Result<(), MpiError> {
        let path = terminated(path.as_ref(), "MPI_File_delete")?;
        // SAFETY: the name is terminated.
        unsafe { try_call!(MPI_File_delete(path.as_ptr(), ffi::MPI_INFO_NULL)) }
    }

    /// Returns the size in bytes (`MPI_File_get_size`, MPI-5.0 §14.2.6).
    pub fn size(&self) -> Result<u64, MpiError> {
        let mut bytes = 0;
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_get_size(self.handle, &mut bytes))? };
        Ok(bytes as u64)
    }

    /// Shortens or extends the file to this many bytes (`MPI_File_set_size`, MPI-5.0 §14.2.4). The
    /// call is collective.
    pub fn set_size(&self, bytes: u64) -> Result<(), MpiError> {
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_set_size(self.handle, signed(bytes))) }
    }

    /// Has the file system reserve space for the first `bytes` of the file
    /// (`MPI_File_preallocate`, MPI-5.0 §14.2.5). The call is collective.
    pub fn preallocate(&self, bytes: u64) -> Result<(), MpiError> {
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_preallocate(self.handle, signed(bytes))) }
    }

    /// Writes all data to the storage, and makes that of other ranks visible if they called this
    /// too (`MPI_File_sync`, MPI-5.0 §14.6.1). The call is collective.
    pub fn sync(&self) -> Result<(), MpiError> {
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_sync(self.handle)) }
    }

    /// Says whether each access is atomic: another rank sees all of a write, or nothing of it
    /// (`MPI_File_set_atomicity`, MPI-5.0 §14.6.1). At first it is not. The call is collective.
    pub fn set_atomicity(&self, is_atomic: bool) -> Result<(), MpiError> {
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_set_atomicity(self.handle, is_atomic.into())) }
    }

    /// Returns whether each access is atomic (`MPI_File_get_atomicity`, MPI-5.0 §14.6.1).
    pub fn is_atomic(&self) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: the file is open.
        unsafe { try_call!(MPI_File_get_atomicity(self.handle, &mut flag))? };
        Ok(flag != 0)
    }

    /// Returns the hints in use: keys and values (`MPI_File_get_info`, MPI-5.0 §14.2.8).
    pub fn hints(&self) -> Result<Vec<(String, String)>, MpiError> {
        let mut info = ffi::MPI_INFO_NULL;
        // SAFETY: the file is open; the new object belongs to the value.
        let hints = unsafe {
            try_call!(MPI_File_get_info(self.handle, &mut info))?;
            Info::from_raw(info)
        };
        hints.entries()
    }

    /// Changes hints: keys and values (`MPI_File_set_info`, MPI-5.0 §14.2.8). The library ignores
    /// hints that it does not know. The call is collective.
    ///
    /// # Panics
    /// The call panics if a key or value has a zero byte.
    pub fn set_hints(&self, hints: &[(&str, &str)]) -> Result<(), MpiError> {
        let hints = Info::of_hints(hints.iter().copied())?;
        // SAFETY: the file is open and the hints are valid.
        unsafe { try_call!(MPI_File_set_info(self.handle, hints.as_raw())) }
    }
}

// SAFETY: the value closes its file when it is dropped.
unsafe impl AsRaw for File {
    type Raw = MPI_File;

    fn as_raw(&self) -> MPI_File {
        self.handle
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if frees_objects() {
            // SAFETY: the file is open. Requests borrow it, so that none is open. There is nowhere
            // to report an error to: `close` does.
            let _ = unsafe { try_call!(MPI_File_close(&mut self.handle)) };
        }
    }
}

/// Returns the name of a file as C has it.
fn terminated(path: &Path, call: &'static str) -> Result<CString, MpiError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| MpiError::Call {
        call,
        code: ffi::MPI_ERR_BAD_FILE,
        text: format!("invalid file name {path:?}: must not have a zero byte"),
    })
}

/// Returns a number of bytes or etypes as MPI has it. Beyond its limit no file has any, and the
/// library says so.
fn signed(number: u64) -> MPI_Offset {
    MPI_Offset::try_from(number).unwrap_or(MPI_Offset::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_zero_byte_is_an_error() {
        let text = terminated(Path::new("a\0b"), "MPI_File_open").unwrap_err().to_string();
        assert_eq!(text, "MPI_File_open: invalid file name \"a\\0b\": must not have a zero byte");
    }

    #[test]
    fn numbers_beyond_the_limit_become_the_limit() {
        assert_eq!((signed(7), signed(u64::MAX)), (7, MPI_Offset::MAX));
    }
}
