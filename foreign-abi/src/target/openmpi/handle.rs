//! Handles of Open MPI: addresses.
//!
//! A predefined handle is the address of an object ([`super::objects`]). Any other handle is the
//! standard ABI's own value, which is the address of no object: Verbena's have their class in the
//! upper bits, and those of others are addresses of memory of their own. Integers are those of the
//! standard ABI: the same number for a predefined handle, MPI_X_toint's for others.

use std::os::raw::c_int;

use abi_client::integers::{DYNAMIC, Integers, is_predefined};

use super::objects;
use crate::abi::Standard;
use crate::grequest;
use crate::handle::Handle;
use crate::library::library;

macro_rules! handles {
    ($($name:ident, $null:literal, $fromint:ident, $toint:ident $(, $probe:path)?;)*) => {
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
                        return handle as c_int;
                    }
                    // SAFETY: takes any handle.
                    let to = |handle| unsafe { (library().$toint)(handle) };
                    $name::integers().of(handle, to, $name::from_library)
                }

                fn from_integer(integer: c_int) -> $name {
                    let handle = match is_predefined(integer) {
                        true => integer as usize,
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
    MPI_Comm, 0x100, PMPI_Comm_fromint, PMPI_Comm_toint;
    MPI_Group, 0x108, PMPI_Group_fromint, PMPI_Group_toint;
    MPI_Datatype, 0x200, PMPI_Type_fromint, PMPI_Type_toint;
    MPI_Op, 0x20, PMPI_Op_fromint, PMPI_Op_toint;
    MPI_Request, 0x180, PMPI_Request_fromint, PMPI_Request_toint, grequest::is_returned;
    MPI_Message, 0x128, PMPI_Message_fromint, PMPI_Message_toint;
    MPI_Win, 0x110, PMPI_Win_fromint, PMPI_Win_toint;
    MPI_File, 0x118, PMPI_File_fromint, PMPI_File_toint;
    MPI_Info, 0x130, PMPI_Info_fromint, PMPI_Info_toint;
    MPI_Errhandler, 0x140, PMPI_Errhandler_fromint, PMPI_Errhandler_toint;
    MPI_Session, 0x120, PMPI_Session_fromint, PMPI_Session_toint;
}
