//! Handles of C, and their integers in Fortran (MPI-5.0 §19.3.4, §20). Their types are those of the
//! target.

use std::os::raw::c_int;

pub(crate) use crate::target::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op,
    MPI_Request, MPI_Session, MPI_Status, MPI_Win,
};

/// A class of handles.
pub(crate) trait Handle: Copy {
    /// The null handle.
    const NULL: Self;
    /// Converts from Fortran.
    fn from_fortran(integer: c_int) -> Self;
    /// Converts to Fortran.
    fn to_fortran(self) -> c_int;
}
