//! Views: the part of a file that a rank sees (MPI-5.0 §14.3).

#![allow(unsafe_code)]

use super::{File, signed};
use crate::datatype::traits::*;
use crate::error::{MpiError, try_call};
use crate::ffi;

impl File {
    /// Sets what this rank sees of the file, and moves all pointers to its start
    /// (`MPI_File_set_view`, MPI-5.0 §14.3).
    ///
    /// The view begins `displacement` bytes from the start of the file and repeats `filetype`, of
    /// which the rank sees the data and skips the holes. `filetype` is made of `etype`, the unit of
    /// offsets. The call is collective; ranks may give different displacements and file types.
    ///
    /// ```no_run
    /// # use mpi::{datatype::UserDatatype, error::MpiError, file::File, traits::*};
    /// # fn example(file: &File, world: &impl Communicator) -> Result<(), MpiError> {
    /// // Of each 12 numbers, each of 4 ranks sees 3.
    /// let number = f64::equivalent_datatype();
    /// let part = UserDatatype::subarray(&[12], &[3], &[3 * world.rank() as usize], &number);
    /// file.set_view(0, &number, &part)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_view<E: Datatype, F: Datatype>(
        &self,
        displacement: u64,
        etype: &E,
        filetype: &F,
    ) -> Result<(), MpiError> {
        let (displacement, representation) = (signed(displacement), c"native".as_ptr());
        let (etype, filetype, none) = (etype.as_raw(), filetype.as_raw(), ffi::MPI_INFO_NULL);
        let file = self.handle;
        // SAFETY: the file is open, the datatypes are committed, and the name is terminated.
        unsafe {
            try_call!(MPI_File_set_view(file, displacement, etype, filetype, representation, none))
        }
    }

    /// Returns the distance in bytes of an offset of the view from the start of the file
    /// (`MPI_File_get_byte_offset`, MPI-5.0 §14.4.3).
    pub fn byte_offset(&self, offset: u64) -> Result<u64, MpiError> {
        let mut bytes = 0;
        // SAFETY: the file is open.
        unsafe {
            try_call!(MPI_File_get_byte_offset(self.handle, signed(offset), &mut bytes))?;
        }
        Ok(bytes as u64)
    }
}
