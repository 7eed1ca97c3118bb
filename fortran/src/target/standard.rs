//! The standard ABI (MPI-5.0 §20).
//!
//! A predefined handle is a number below 0x1000, and the same number in Fortran. Other handles are
//! converted by the library's MPI_X_toint and MPI_X_fromint, or get integers of their own if these
//! do not return them (`abi_client::integers`).

use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_void};

use abi_client::integers::{DYNAMIC, Integers, is_predefined};
use abi_client::probe::request_comes_back;

use super::Predefined;
use crate::generated::c;
use crate::handle::Handle;

macro_rules! handles {
    ($(
        $(#[$doc:meta])*
        $name:ident, $null:literal, $from:ident, $to:ident $(, $probe:path)?;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            #[allow(non_camel_case_types)]
            pub(crate) struct $name(pub(crate) usize);

            impl Handle for $name {
                const NULL: $name = $name($null);

                #[inline]
                fn from_fortran(integer: c_int) -> $name {
                    if is_predefined(integer) {
                        return $name(integer as usize);
                    }
                    $name::integers().handle(integer, $name::from_mpi).map_or($name::NULL, $name)
                }

                #[inline]
                fn to_fortran(self) -> c_int {
                    if self.0 < DYNAMIC {
                        return self.0 as c_int;
                    }
                    // SAFETY: takes any handle.
                    let to = |handle| unsafe { c::$to($name(handle)) };
                    $name::integers().of(self.0, to, $name::from_mpi)
                }
            }

            impl $name {
                #[inline]
                fn integers() -> &'static Integers {
                    static INTEGERS: Integers = Integers::new()$(.with_probe($probe))?;
                    &INTEGERS
                }

                /// Converts by the MPI alone.
                #[inline]
                pub(crate) fn from_mpi(integer: c_int) -> usize {
                    // SAFETY: takes any number.
                    unsafe { c::$from(integer) }.0
                }
            }
        )*
    };
}

handles! {
    /// A communicator.
    MPI_Comm, 0x100, PMPI_Comm_fromint, PMPI_Comm_toint;
    /// A group.
    MPI_Group, 0x108, PMPI_Group_fromint, PMPI_Group_toint;
    /// A datatype.
    MPI_Datatype, 0x200, PMPI_Type_fromint, PMPI_Type_toint;
    /// A reduction operation.
    MPI_Op, 0x20, PMPI_Op_fromint, PMPI_Op_toint;
    /// A request.
    MPI_Request, 0x180, PMPI_Request_fromint, PMPI_Request_toint, is_returned;
    /// A message taken by a matched probe.
    MPI_Message, 0x128, PMPI_Message_fromint, PMPI_Message_toint;
    /// A window.
    MPI_Win, 0x110, PMPI_Win_fromint, PMPI_Win_toint;
    /// A file.
    MPI_File, 0x118, PMPI_File_fromint, PMPI_File_toint;
    /// An info object.
    MPI_Info, 0x130, PMPI_Info_fromint, PMPI_Info_toint;
    /// An error handler.
    MPI_Errhandler, 0x140, PMPI_Errhandler_fromint, PMPI_Errhandler_toint;
    /// A session.
    MPI_Session, 0x120, PMPI_Session_fromint, PMPI_Session_toint;
}

/// A status: in Fortran the same eight INTEGERs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(non_camel_case_types, non_snake_case)]
pub(crate) struct MPI_Status {
    pub(crate) MPI_SOURCE: c_int,
    pub(crate) MPI_TAG: c_int,
    pub(crate) MPI_ERROR: c_int,
    pub(crate) internal: [c_int; 5],
}

/// The communicator of all processes.
pub(crate) const COMM_WORLD: MPI_Comm = MPI_Comm(0x101);

/// C's values of constants that are passed in place of addresses.
pub(crate) const BOTTOM: usize = 0;
pub(crate) const IN_PLACE: usize = 1;
pub(crate) const BUFFER_AUTOMATIC: usize = 2;
pub(crate) const STATUS_IGNORE: usize = 0;

/// C's MPI_UNWEIGHTED.
pub(crate) fn unweighted() -> *mut c_int {
    std::ptr::without_provenance_mut(10)
}

/// C's MPI_WEIGHTS_EMPTY.
pub(crate) fn weights_empty() -> *mut c_int {
    std::ptr::without_provenance_mut(11)
}

/// Classes of errors.
pub(crate) const ERR_BUFFER: c_int = 1;
pub(crate) const ERR_ARG: c_int = 12;
pub(crate) const ERR_OTHER: c_int = 16;
pub(crate) const ERR_IN_STATUS: c_int = 18;

/// MPI_UNDEFINED.
pub(crate) const UNDEFINED: c_int = -32766;

/// Kinds of topologies.
pub(crate) const CART: c_int = 211;
pub(crate) const GRAPH: c_int = 212;
pub(crate) const DIST_GRAPH: c_int = 213;

/// Lengths of strings with their end mark.
pub(crate) mod limits {
    pub(crate) const MPI_MAX_DATAREP_STRING: usize = 128;
    pub(crate) const MPI_MAX_ERROR_STRING: usize = 512;
    pub(crate) const MPI_MAX_INFO_KEY: usize = 256;
    pub(crate) const MPI_MAX_LIBRARY_VERSION_STRING: usize = 8192;
    pub(crate) const MPI_MAX_OBJECT_NAME: usize = 128;
    pub(crate) const MPI_MAX_PORT_NAME: usize = 1024;
    pub(crate) const MPI_MAX_PROCESSOR_NAME: usize = 256;
}

/// C's number of a keyval: the same as in Fortran.
pub(crate) fn c_keyval(number: c_int) -> c_int {
    number
}

/// The kind of a predefined attribute, by its number in Fortran.
pub(crate) fn predefined(number: c_int) -> Option<Predefined> {
    const WIN_BASE: c_int = 601;
    const WIN_SIZE: c_int = 603;
    match number {
        WIN_BASE => Some(Predefined::Address),
        WIN_SIZE => Some(Predefined::Aint),
        501..=507 | 601..=605 => Some(Predefined::Int),
        _ => None,
    }
}

/// MPI_CONVERSION_FN_NULL is an external procedure alone.
pub(crate) fn is_null_conversion(_procedure: *const c_void) -> bool {
    false
}

/// Memory that is compared by address only.
#[repr(C, align(16))]
pub(crate) struct Block<const N: usize>(UnsafeCell<[c_int; N]>);

// SAFETY: nothing here reads or writes the contents.
unsafe impl<const N: usize> Sync for Block<N> {}

/// Variables in common blocks with a C name, one for each constant.
macro_rules! sentinels {
    ($($(#[$doc:meta])* $symbol:ident: $integers:literal, $test:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            pub(crate) static $symbol: Block<$integers> = Block(UnsafeCell::new([0; $integers]));

            $(#[$doc])*
            #[inline]
            pub(crate) fn $test<T>(address: *const T) -> bool {
                std::ptr::addr_eq(address, &raw const $symbol)
            }
        )*
    };
}

sentinels! {
    /// MPI_BOTTOM.
    verbena_bottom: 1, is_bottom;
    /// MPI_IN_PLACE.
    verbena_in_place: 1, is_in_place;
    /// MPI_BUFFER_AUTOMATIC.
    verbena_buffer_automatic: 1, is_buffer_automatic;
    /// MPI_STATUS_IGNORE.
    verbena_status_ignore: 8, is_status_ignore;
    /// MPI_STATUSES_IGNORE.
    verbena_statuses_ignore: 8, is_statuses_ignore;
    /// MPI_ERRCODES_IGNORE.
    verbena_errcodes_ignore: 1, is_errcodes_ignore;
    /// MPI_ARGV_NULL.
    verbena_argv_null: 1, is_argv_null;
    /// MPI_ARGVS_NULL.
    verbena_argvs_null: 1, is_argvs_null;
    /// MPI_UNWEIGHTED.
    verbena_unweighted: 1, is_unweighted;
    /// MPI_WEIGHTS_EMPTY.
    verbena_weights_empty: 1, is_weights_empty;
}

/// Whether the MPI turns the integers of requests back into them.
#[cold]
fn is_returned() -> bool {
    request_comes_back!(
        MPI_Request::NULL,
        c::PMPI_Grequest_start,
        c::PMPI_Grequest_complete,
        c::PMPI_Request_free,
        c::PMPI_Request_toint,
        |integer| MPI_Request(MPI_Request::from_mpi(integer))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The predefined handles of a class, from the table of the ABI.
    fn predefined(class: &str) -> Vec<usize> {
        let rows = include_str!("../../../mpi-abi/abi/constants.csv").lines();
        let fields = rows.map(|row| row.split(',').collect::<Vec<_>>());
        let of_class = fields.filter(|fields| fields[2] == class);
        let number = |text: &str| usize::from_str_radix(text.trim_start_matches("0x"), 16);
        of_class.map(|fields| number(fields[1]).expect("a handle's number")).collect()
    }

    /// Unit tests have no MPI library (`stand_in`): its conversions would return chance numbers.
    fn are_not_converted<H: Handle>(class: &str, to_c: fn(H) -> usize, from_c: fn(usize) -> H) {
        let handles = predefined(class);
        assert!(handles.contains(&to_c(H::NULL)), "{class}: {handles:x?}");
        for handle in handles {
            assert_eq!(to_c(H::from_fortran(handle as c_int)), handle, "{class}");
            assert_eq!(from_c(handle).to_fortran(), handle as c_int, "{class}");
        }
    }

    #[test]
    fn a_predefined_handle_is_its_own_number() {
        macro_rules! check {
            ($($class:ident)*) => {
                $(are_not_converted(stringify!($class), |it: $class| it.0, $class);)*
            };
        }
        check! {
            MPI_Comm MPI_Group MPI_Datatype MPI_Op MPI_Request MPI_Message MPI_Win MPI_File
            MPI_Info MPI_Errhandler MPI_Session
        }
    }
}
