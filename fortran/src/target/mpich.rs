//! The MPICH ABI: `libmpi.so.12` of MPICH and of Intel MPI.
//!
//! Handles of C are integers, and the same integers in Fortran; that of a file is a pointer. A
//! status has five INTEGERs. Names of common blocks, of module data and of module procedures are
//! those that programs refer to which were compiled with the modules of these libraries.

mod constants;
mod descriptor;
mod modules;
mod sentinels;

use std::os::raw::{c_int, c_void};

use super::Predefined;
use crate::handle::Handle;
use crate::target::converted;

pub(crate) use self::descriptor::{Described, Foreign as Passed};
pub(crate) use self::sentinels::*;
pub(crate) use crate::target::modules::is_null_conversion;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident, $null:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            #[allow(non_camel_case_types)]
            pub(crate) struct $name(c_int);

            impl Handle for $name {
                const NULL: $name = $name($null);

                #[inline]
                fn from_fortran(integer: c_int) -> $name {
                    $name(integer)
                }

                #[inline]
                fn to_fortran(self) -> c_int {
                    self.0
                }
            }
        )*
    };
}

handles! {
    /// A communicator.
    MPI_Comm, 0x0400_0000;
    /// A group.
    MPI_Group, 0x0800_0000;
    /// A datatype.
    MPI_Datatype, 0x0c00_0000;
    /// A reduction operation.
    MPI_Op, 0x1800_0000;
    /// A request.
    MPI_Request, 0x2c00_0000;
    /// A message taken by a matched probe.
    MPI_Message, 0x2c00_0000;
    /// A window.
    MPI_Win, 0x2000_0000;
    /// An info object.
    MPI_Info, 0x1c00_0000;
    /// An error handler.
    MPI_Errhandler, 0x1400_0000;
    /// A session.
    MPI_Session, 0x3800_0000;
}

converted::handles! {
    /// A file.
    MPI_File, std::ptr::null(), PMPI_File_f2c, PMPI_File_c2f;
}

unsafe extern "C" {
    static MPI_UNWEIGHTED: *mut c_int;
    static MPI_WEIGHTS_EMPTY: *mut c_int;
}

/// A status: in Fortran the same five INTEGERs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(non_camel_case_types, non_snake_case)]
pub(crate) struct MPI_Status {
    pub(crate) internal: [c_int; 2],
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
}

/// The communicator of all processes.
pub(crate) const COMM_WORLD: MPI_Comm = MPI_Comm(0x4400_0000);

/// C's values of constants that are passed in place of addresses.
pub(crate) const BOTTOM: usize = 0;
pub(crate) const IN_PLACE: usize = -1_isize as usize;
pub(crate) const BUFFER_AUTOMATIC: usize = -2_isize as usize;
pub(crate) const STATUS_IGNORE: usize = 1;

/// C's MPI_UNWEIGHTED.
pub(crate) fn unweighted() -> *mut c_int {
    // SAFETY: a constant of the MPI library.
    unsafe { MPI_UNWEIGHTED }
}

/// C's MPI_WEIGHTS_EMPTY.
pub(crate) fn weights_empty() -> *mut c_int {
    // SAFETY: a constant of the MPI library.
    unsafe { MPI_WEIGHTS_EMPTY }
}

/// Classes of errors.
pub(crate) const ERR_BUFFER: c_int = 1;
pub(crate) const ERR_ARG: c_int = 12;
pub(crate) const ERR_OTHER: c_int = 15;
pub(crate) const ERR_IN_STATUS: c_int = 17;

/// MPI_UNDEFINED.
pub(crate) const UNDEFINED: c_int = -32766;

/// Kinds of topologies.
pub(crate) const CART: c_int = 2;
pub(crate) const GRAPH: c_int = 1;
pub(crate) const DIST_GRAPH: c_int = 3;

/// Lengths of strings with their end mark.
pub(crate) mod limits {
    pub(crate) const MPI_MAX_DATAREP_STRING: usize = 128;
    pub(crate) const MPI_MAX_ERROR_STRING: usize = 512;
    pub(crate) const MPI_MAX_INFO_KEY: usize = 255;
    pub(crate) const MPI_MAX_LIBRARY_VERSION_STRING: usize = 8192;
    pub(crate) const MPI_MAX_OBJECT_NAME: usize = 128;
    pub(crate) const MPI_MAX_PORT_NAME: usize = 256;
    pub(crate) const MPI_MAX_PROCESSOR_NAME: usize = 128;
}

/// The C standard's form of a descriptor that an entry point was passed.
macro_rules! described {
    ($passed:expr) => {
        $crate::target::Described::new($passed).as_ptr()
    };
}
pub(crate) use described;

/// The descriptor of a CHARACTER argument.
macro_rules! described_text {
    ($text:expr, $len:expr) => {
        $crate::target::Described::text($text, $len).as_ptr()
    };
}
pub(crate) use described_text;

/// Predefined keyvals in Fortran: each is C's, plus one.
const TAG_UB: c_int = 0x6440_0002;
const APPNUM: c_int = 0x6440_000e;
const WIN_BASE: c_int = 0x6600_0002;
const WIN_SIZE: c_int = 0x6600_0004;
const WIN_MODEL: c_int = 0x6600_000a;

/// C's number of a keyval.
pub(crate) fn c_keyval(number: c_int) -> c_int {
    if predefined(number).is_some() { number - 1 } else { number }
}

/// The kind of a predefined attribute, by its number in Fortran.
pub(crate) fn predefined(number: c_int) -> Option<Predefined> {
    match number {
        WIN_BASE => Some(Predefined::Address),
        WIN_SIZE => Some(Predefined::Aint),
        TAG_UB..=APPNUM | WIN_BASE..=WIN_MODEL if number % 2 == 0 => Some(Predefined::Int),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_keyvals_of_fortran_become_those_of_c() {
        let kinds = [(0x6440_0002, Predefined::Int), (0x6600_0004, Predefined::Aint)];
        for (number, kind) in kinds {
            assert_eq!((c_keyval(number), predefined(number)), (number - 1, Some(kind)));
        }
        for own in [0x6440_0000, 0x6400_0001, 0x6440_0010, -1] {
            assert_eq!((c_keyval(own), predefined(own)), (own, None));
        }
    }
}
