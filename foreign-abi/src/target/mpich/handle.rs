//! Handles of MPICH, and those of the standard ABI for them.
//!
//! Predefined handles have numbers in both ABIs. Other handles are integers by the library's
//! MPI_X_toint and MPI_X_fromint, or by `Integers` where these do not return them. MPICH marks its
//! predefined and null handles by the upper six bits; no integer may be one of them. Verbena's
//! integers are below 0x04000000 for fewer than 67 million objects of a class, and its requests
//! have bits 29 or 30 with numbers of messages that are under way; MPICH's own have bit 31.

use std::os::raw::c_int;
use std::sync::LazyLock;

use abi_client::integers::Integers;

use crate::abi::Standard;
use crate::generated::handles as predefined;
use crate::grequest;
use crate::handle::Handle;
use crate::library::library;

macro_rules! handles {
    ($($name:ident, $null:literal, $to:ident, $from:ident, $fromint:ident, $toint:ident
        $(, $probe:path)?;)*) => {
        $(
            /// A handle of MPICH.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            #[allow(non_camel_case_types)]
            pub(crate) struct $name(pub(crate) c_int);

            impl Handle for $name {
                const NULL: Standard = $null;

                #[inline]
                fn to_standard(self) -> Standard {
                    match predefined::$to(self.0 as u32) {
                        0 => $name::dynamic(self.0),
                        handle => handle,
                    }
                }

                #[inline]
                fn from_standard(handle: Standard) -> $name {
                    match predefined::$from(handle) {
                        0 => {
                            // SAFETY: takes any handle.
                            let to = |handle| unsafe { (library().$toint)(handle) };
                            let integer = $name::integers().of(handle, to, $name::from_library);
                            debug_assert_eq!(predefined::$to(integer as u32), 0);
                            $name(integer)
                        }
                        integer => $name(integer as c_int),
                    }
                }

                fn to_integer(self) -> c_int {
                    self.0
                }

                fn from_integer(integer: c_int) -> $name {
                    $name(integer)
                }
            }

            impl $name {
                #[inline]
                fn integers() -> &'static Integers {
                    static INTEGERS: Integers = Integers::new()$(.with_probe($probe))?;
                    &INTEGERS
                }

                fn dynamic(integer: c_int) -> Standard {
                    $name::integers().handle(integer, $name::from_library).unwrap_or($null)
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
    MPI_Comm, 0x100, comm_to, comm_from, PMPI_Comm_fromint, PMPI_Comm_toint;
    MPI_Group, 0x108, group_to, group_from, PMPI_Group_fromint, PMPI_Group_toint;
    MPI_Datatype, 0x200, datatype_to, datatype_from, PMPI_Type_fromint, PMPI_Type_toint;
    MPI_Op, 0x20, op_to, op_from, PMPI_Op_fromint, PMPI_Op_toint;
    MPI_Request, 0x180, request_to, request_from, PMPI_Request_fromint, PMPI_Request_toint,
        grequest::is_returned;
    MPI_Message, 0x128, message_to, message_from, PMPI_Message_fromint, PMPI_Message_toint;
    MPI_Win, 0x110, win_to, win_from, PMPI_Win_fromint, PMPI_Win_toint;
    MPI_Info, 0x130, info_to, info_from, PMPI_Info_fromint, PMPI_Info_toint;
    MPI_Errhandler, 0x140, errhandler_to, errhandler_from, PMPI_Errhandler_fromint,
        PMPI_Errhandler_toint;
    MPI_Session, 0x120, session_to, session_from, PMPI_Session_fromint, PMPI_Session_toint;
}

/// A file: the pointer of the library below; null and 0 in Fortran for MPI_FILE_NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[allow(non_camel_case_types)]
pub(crate) struct MPI_File(pub(crate) usize);

static FILES: LazyLock<Integers> = LazyLock::new(Integers::new);

fn file_of_library(integer: c_int) -> Standard {
    // SAFETY: takes any number.
    unsafe { (library().PMPI_File_fromint)(integer) }
}

impl Handle for MPI_File {
    const NULL: Standard = 0x118;

    #[inline]
    fn to_standard(self) -> Standard {
        if self.0 == 0 { MPI_File::NULL } else { self.0 }
    }

    #[inline]
    fn from_standard(handle: Standard) -> MPI_File {
        MPI_File(if handle == MPI_File::NULL { 0 } else { handle })
    }

    fn to_integer(self) -> c_int {
        if self.0 == 0 {
            return 0;
        }
        // SAFETY: takes any handle.
        let to = |handle| unsafe { (library().PMPI_File_toint)(handle) };
        FILES.of(self.to_standard(), to, file_of_library)
    }

    fn from_integer(integer: c_int) -> MPI_File {
        match integer {
            0 => MPI_File(0),
            _ => {
                let handle = FILES.handle(integer, file_of_library);
                MPI_File::from_standard(handle.unwrap_or(MPI_File::NULL))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_handles_come_back() {
        macro_rules! check {
            ($($class:ident)*) => {$(
                let class = stringify!($class);
                let numbers = predefined(class);
                assert!(numbers.iter().any(|(_, standard)| *standard == $class::NULL), "{class}");
                for (mpich, standard) in numbers {
                    assert_eq!($class(mpich as c_int).to_standard(), standard, "{class} {mpich:x}");
                    let back = $class::from_standard(standard);
                    assert!(back == $class(mpich as c_int) || mpich == REAL2, "{class} {mpich:x}");
                }
            )*};
        }
        check! {
            MPI_Comm MPI_Group MPI_Datatype MPI_Op MPI_Request MPI_Message MPI_Win MPI_Info
            MPI_Errhandler MPI_Session
        }
    }

    /// MPICH has two handles for MPI_REAL2 of the standard; MPIX_C_FLOAT16, the older one, comes
    /// back.
    const REAL2: u32 = 0x4c00_0226;

    /// The predefined handles of a class in both tables, MPICH's first.
    fn predefined(class: &str) -> Vec<(u32, usize)> {
        let fields =
            |text: &'static str| text.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let standard = fields(include_str!("../../../../mpi-abi/abi/constants.csv"))
            .filter(|row| row[2] == class)
            .map(|row| (row[0], number(row[1]) as usize))
            .collect::<Vec<_>>();
        let known = |name: &str| standard.iter().find(|row| row.0 == name).map(|row| row.1);
        fields(include_str!("../../../abi/mpich/constants.csv"))
            .filter_map(|row| known(row[0]).map(|standard| (number(row[1]), standard)))
            .collect()
    }
}
