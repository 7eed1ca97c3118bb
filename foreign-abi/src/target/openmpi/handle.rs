//! Handles of Open MPI: addresses.
//!
//! A predefined handle is the address of an object ([`super::objects`]). Any other handle is the
//! standard ABI's own value, which is the address of no object: Verbena's have their class in the
//! upper bits, and those of others are addresses of memory of their own. Integers of predefined
//! handles are those of Open MPI, which programs in Fortran have as constants. Those of others are
//! MPI_X_toint's.

use std::os::raw::c_int;

use abi_client::integers::{DYNAMIC, Integers, is_predefined};

use super::objects;
use crate::abi::Standard;
use crate::generated::integers;
use crate::grequest;
use crate::handle::Handle;
use crate::library::library;

macro_rules! handles {
    ($($name:ident, $null:literal, $of:ident, $fromint:ident, $toint:ident $(, $probe:path)?;)*) => {
        $(
            /// A handle of Open MPI.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            #[allow(non_camel_case_types)]
            pub(crate) struct $name(usize);

            impl Handle for $name {
                const NULL: Standard = $null;

                #[inline]
                fn to_standard(self) -> Standard {
                    objects::standard(self.0)
                }

                #[inline]
                fn from_standard(handle: Standard) -> $name {
                    $name(objects::address(handle))
                }

                fn to_integer(self) -> c_int {
                    let handle = self.to_standard();
                    if handle < DYNAMIC {
                        return integers::integer_of(handle);
                    }
                    // SAFETY: takes any handle.
                    let to = |handle| unsafe { (library().$toint)(handle) };
                    $name::integers().of(handle, to, $name::from_library)
                }

                fn from_integer(integer: c_int) -> $name {
                    let handle = match is_predefined(integer) {
                        true => integers::$of(integer),
                        false => {
                            let handle = $name::integers().handle(integer, $name::from_library);
                            handle.unwrap_or($null)
                        }
                    };
                    $name::from_standard(handle)
                }
            }

            impl $name {
                fn integers() -> &'static Integers {
                    static INTEGERS: Integers = Integers::new()$(.with_probe($probe))?;
                    &INTEGERS
                }

                /// Converts by the library alone.
                pub(crate) fn from_library(integer: c_int) -> Standard {
                    // SAFETY: takes any number.
                    unsafe { (library().$fromint)(integer) }
                }
            }
        )*
    };
}

handles! {
    MPI_Comm, 0x100, comm_of, PMPI_Comm_fromint, PMPI_Comm_toint;
    MPI_Group, 0x108, group_of, PMPI_Group_fromint, PMPI_Group_toint;
    MPI_Datatype, 0x200, datatype_of, PMPI_Type_fromint, PMPI_Type_toint;
    MPI_Op, 0x20, op_of, PMPI_Op_fromint, PMPI_Op_toint;
    MPI_Request, 0x180, request_of, PMPI_Request_fromint, PMPI_Request_toint, grequest::is_returned;
    MPI_Message, 0x128, message_of, PMPI_Message_fromint, PMPI_Message_toint;
    MPI_Win, 0x110, win_of, PMPI_Win_fromint, PMPI_Win_toint;
    MPI_File, 0x118, file_of, PMPI_File_fromint, PMPI_File_toint;
    MPI_Info, 0x130, info_of, PMPI_Info_fromint, PMPI_Info_toint;
    MPI_Errhandler, 0x140, errhandler_of, PMPI_Errhandler_fromint, PMPI_Errhandler_toint;
    MPI_Session, 0x120, session_of, PMPI_Session_fromint, PMPI_Session_toint;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The predefined handles of a class: integers in Fortran and the standard ABI's handles.
    fn predefined(class: &str) -> Vec<(c_int, Standard)> {
        let fields =
            |text: &'static str| text.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let number = |text: &str| Standard::from_str_radix(text.trim_start_matches("0x"), 16);
        let standard: Vec<_> = fields(include_str!("../../../../mpi-abi/abi/constants.csv"))
            .filter(|row| row[2] == class)
            .map(|row| (row[0], number(row[1]).expect("a handle's number")))
            .collect();
        fields(include_str!("../../../abi/openmpi/fortran.csv"))
            .filter_map(|row| {
                let known = standard.iter().find(|known| known.0 == row[0])?;
                Some((row[1].parse().expect("an integer"), known.1))
            })
            .collect()
    }

    #[test]
    fn integers_of_fortran_come_back() {
        macro_rules! check {
            ($($class:ident)*) => {$(
                let class = stringify!($class);
                let handles = predefined(class);
                assert!(handles.iter().any(|(_, standard)| *standard == $class::NULL), "{class}");
                for (integer, standard) in handles {
                    let handle = $class::from_integer(integer);
                    assert_eq!(handle.to_standard(), standard, "{class} {integer}");
                    assert_eq!(handle.to_integer(), integer, "{class} {integer}");
                }
            )*};
        }
        check! {
            MPI_Comm MPI_Group MPI_Datatype MPI_Op MPI_Request MPI_Message MPI_Win MPI_File
            MPI_Info MPI_Errhandler MPI_Session
        }
    }

    /// MPI_LOGICAL16 is in the standard alone.
    #[test]
    fn a_handle_without_an_integer_in_open_mpi_has_that_of_the_standard() {
        let logical16 = MPI_Datatype::from_standard(0x2e0);
        assert_eq!(logical16.to_integer(), 0x2e0);
        assert_eq!(MPI_Datatype::from_integer(0x2e0), logical16);
    }
}
