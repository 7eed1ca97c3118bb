//! The ABI of Open MPI 4 and 5: `libmpi.so.40`.
//!
//! Handles of C are addresses; their integers in Fortran are small numbers where they are
//! predefined, and the library below converts both. A status has six INTEGERs. Procedures of
//! `mpi_f08` have names of their own, and take buffers by address as those of `mpif.h`.

mod modules;
mod sentinels;

use std::os::raw::{c_int, c_void};
use std::ptr::without_provenance_mut;

use super::Predefined;
use crate::handle::Handle;
use crate::target::converted;

pub(crate) use self::modules::variables;
pub(crate) use self::sentinels::*;
pub(crate) use crate::target::modules::is_null_conversion;

/// Objects of the library below, whose addresses are predefined handles.
macro_rules! objects {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(static $name: c_void;)*
        }
    };
}

objects! {
    ompi_mpi_comm_world ompi_mpi_comm_null ompi_mpi_group_null ompi_mpi_datatype_null
    ompi_mpi_op_null ompi_request_null ompi_message_null ompi_mpi_win_null ompi_mpi_file_null
    ompi_mpi_info_null ompi_mpi_errhandler_null ompi_mpi_instance_null
}

converted::handles! {
    /// A communicator.
    MPI_Comm, &raw const ompi_mpi_comm_null, PMPI_Comm_f2c, PMPI_Comm_c2f;
    /// A group.
    MPI_Group, &raw const ompi_mpi_group_null, PMPI_Group_f2c, PMPI_Group_c2f;
    /// A datatype.
    MPI_Datatype, &raw const ompi_mpi_datatype_null, PMPI_Type_f2c, PMPI_Type_c2f;
    /// A reduction operation.
    MPI_Op, &raw const ompi_mpi_op_null, PMPI_Op_f2c, PMPI_Op_c2f;
    /// A request.
    MPI_Request, &raw const ompi_request_null, PMPI_Request_f2c, PMPI_Request_c2f;
    /// A message taken by a matched probe.
    MPI_Message, &raw const ompi_message_null, PMPI_Message_f2c, PMPI_Message_c2f;
    /// A window.
    MPI_Win, &raw const ompi_mpi_win_null, PMPI_Win_f2c, PMPI_Win_c2f;
    /// A file.
    MPI_File, &raw const ompi_mpi_file_null, PMPI_File_f2c, PMPI_File_c2f;
    /// An info object.
    MPI_Info, &raw const ompi_mpi_info_null, PMPI_Info_f2c, PMPI_Info_c2f;
    /// An error handler.
    MPI_Errhandler, &raw const ompi_mpi_errhandler_null, PMPI_Errhandler_f2c, PMPI_Errhandler_c2f;
    /// A session.
    MPI_Session, &raw const ompi_mpi_instance_null, PMPI_Session_f2c, PMPI_Session_c2f;
}

/// A status: in Fortran the same six INTEGERs, of which C has the last two as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(non_camel_case_types, non_snake_case)]
pub(crate) struct MPI_Status {
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
    pub(crate) internal: [c_int; 3],
}

/// The communicator of all processes.
pub(crate) const COMM_WORLD: MPI_Comm = MPI_Comm(&raw const ompi_mpi_comm_world);

/// C's values of constants that are passed in place of addresses. There is no
/// MPI_BUFFER_AUTOMATIC.
pub(crate) const BOTTOM: usize = 0;
pub(crate) const IN_PLACE: usize = 1;
pub(crate) const BUFFER_AUTOMATIC: usize = 0;
pub(crate) const STATUS_IGNORE: usize = 0;

/// C's MPI_UNWEIGHTED.
pub(crate) fn unweighted() -> *mut c_int {
    without_provenance_mut(2)
}

/// C's MPI_WEIGHTS_EMPTY.
pub(crate) fn weights_empty() -> *mut c_int {
    without_provenance_mut(3)
}

/// Classes of errors.
pub(crate) const ERR_BUFFER: c_int = 1;
pub(crate) const ERR_ARG: c_int = 13;
pub(crate) const ERR_OTHER: c_int = 16;
pub(crate) const ERR_IN_STATUS: c_int = 18;

/// MPI_UNDEFINED.
pub(crate) const UNDEFINED: c_int = -32766;

/// Kinds of topologies.
pub(crate) const CART: c_int = 1;
pub(crate) const GRAPH: c_int = 2;
pub(crate) const DIST_GRAPH: c_int = 3;

/// Lengths of strings with their end mark.
pub(crate) mod limits {
    pub(crate) const MPI_MAX_DATAREP_STRING: usize = 128;
    pub(crate) const MPI_MAX_ERROR_STRING: usize = 256;
    pub(crate) const MPI_MAX_INFO_KEY: usize = 36;
    pub(crate) const MPI_MAX_LIBRARY_VERSION_STRING: usize = 256;
    pub(crate) const MPI_MAX_OBJECT_NAME: usize = 64;
    pub(crate) const MPI_MAX_PORT_NAME: usize = 1024;
    pub(crate) const MPI_MAX_PROCESSOR_NAME: usize = 256;
}

/// C's number of a keyval: the same as in Fortran.
pub(crate) fn c_keyval(number: c_int) -> c_int {
    number
}

/// The kind of a predefined attribute, by its number in Fortran.
pub(crate) fn predefined(number: c_int) -> Option<Predefined> {
    const WIN_BASE: c_int = 7;
    const WIN_SIZE: c_int = 8;
    match number {
        WIN_BASE => Some(Predefined::Address),
        WIN_SIZE => Some(Predefined::Aint),
        0..=6 | 9..=11 => Some(Predefined::Int),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_keyvals_are_those_of_c() {
        let kinds = [
            (0, Predefined::Int),
            (7, Predefined::Address),
            (8, Predefined::Aint),
            (11, Predefined::Int),
        ];
        for (number, kind) in kinds {
            assert_eq!((c_keyval(number), predefined(number)), (number, Some(kind)));
        }
        for own in [-1, 12, 700] {
            assert_eq!((c_keyval(own), predefined(own)), (own, None));
        }
    }

    #[test]
    fn constants_by_address_are_told_apart() {
        let (bottom, ignored): (*const c_int, *const c_int) = addresses();
        assert!(is_bottom(bottom) && !is_in_place(bottom) && !is_status_ignore(bottom));
        assert!(is_status_ignore(ignored) && !is_statuses_ignore(ignored));
        assert!(!is_bottom(std::ptr::null::<c_int>()) && !is_buffer_automatic(bottom));
    }
}
