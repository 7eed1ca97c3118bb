//! Handles of C, and their integers in Fortran (MPI-5.0 §19.3.4, §20).
//!
//! A predefined handle is a number below 0x1000, and the same number in Fortran. Other handles are
//! converted by the library's MPI_X_toint and MPI_X_fromint, or get integers of their own if these
//! do not return them (`integers`).

use std::os::raw::c_int;

use abi_client::integers::{DYNAMIC, Integers, is_predefined};

use crate::generated::c;
use crate::grequest;

/// A class of handles.
pub(crate) trait Handle: Copy {
    /// The null handle.
    const NULL: Self;
    /// Converts from Fortran.
    fn from_fortran(integer: c_int) -> Self;
    /// Converts to Fortran.
    fn to_fortran(self) -> c_int;
}

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
    MPI_Request, 0x180, PMPI_Request_fromint, PMPI_Request_toint, grequest::is_returned;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The predefined handles of a class, from the table of the ABI.
    fn predefined(class: &str) -> Vec<usize> {
        let rows = include_str!("../../mpi-abi/abi/constants.csv").lines();
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
