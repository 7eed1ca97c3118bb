//! Handles and statuses as integers (MPI-5.0 §19.3, §20): MPICH's are integers already. A file is
//! converted by the library below.

use std::sync::LazyLock;

use abi_client::integers::Integers;

use crate::prelude::*;

macro_rules! same {
    ($($class:ident, $toint:ident, $fromint:ident, $c2f:ident, $f2c:ident;)*) => {
        $(
            pub(crate) unsafe fn $toint(handle: $class) -> c_int {
                handle.0
            }

            pub(crate) unsafe fn $fromint(integer: c_int) -> $class {
                $class(integer)
            }

            pub(crate) unsafe fn $c2f(handle: $class) -> c_int {
                handle.0
            }

            pub(crate) unsafe fn $f2c(integer: c_int) -> $class {
                $class(integer)
            }
        )*
    };
}

// Bodies: comm_toint comm_fromint comm_c2f comm_f2c group_toint group_fromint group_c2f group_f2c
// Bodies: type_toint type_fromint type_c2f type_f2c op_toint op_fromint op_c2f op_f2c
// Bodies: request_toint request_fromint request_c2f request_f2c
// Bodies: message_toint message_fromint message_c2f message_f2c
// Bodies: win_toint win_fromint win_c2f win_f2c info_toint info_fromint info_c2f info_f2c
// Bodies: errhandler_toint errhandler_fromint errhandler_c2f errhandler_f2c
// Bodies: session_toint session_fromint session_c2f session_f2c
same! {
    MPI_Comm, comm_toint, comm_fromint, comm_c2f, comm_f2c;
    MPI_Group, group_toint, group_fromint, group_c2f, group_f2c;
    MPI_Datatype, type_toint, type_fromint, type_c2f, type_f2c;
    MPI_Op, op_toint, op_fromint, op_c2f, op_f2c;
    MPI_Request, request_toint, request_fromint, request_c2f, request_f2c;
    MPI_Message, message_toint, message_fromint, message_c2f, message_f2c;
    MPI_Win, win_toint, win_fromint, win_c2f, win_f2c;
    MPI_Info, info_toint, info_fromint, info_c2f, info_f2c;
    MPI_Errhandler, errhandler_toint, errhandler_fromint, errhandler_c2f, errhandler_f2c;
    MPI_Session, session_toint, session_fromint, session_c2f, session_f2c;
}

static FILES: LazyLock<Integers> = LazyLock::new(Integers::new);

fn file_of_library(integer: c_int) -> Standard {
    // SAFETY: takes any number.
    unsafe { (library().PMPI_File_fromint)(integer) }
}

/// MPI_FILE_NULL is 0 in MPICH's Fortran too.
pub(crate) unsafe fn file_toint(file: MPI_File) -> c_int {
    if file.0 == 0 {
        return 0;
    }
    // SAFETY: takes any handle.
    let to = |handle| unsafe { (library().PMPI_File_toint)(handle) };
    FILES.of(file.to_standard(), to, file_of_library)
}

pub(crate) unsafe fn file_fromint(file: c_int) -> MPI_File {
    match file {
        0 => MPI_File(0),
        _ => MPI_File::from_standard(FILES.handle(file, file_of_library).unwrap_or(MPI_File::NULL)),
    }
}

pub(crate) unsafe fn file_c2f(file: MPI_File) -> c_int {
    // SAFETY: the caller's argument.
    unsafe { file_toint(file) }
}

pub(crate) unsafe fn file_f2c(file: c_int) -> MPI_File {
    // SAFETY: the caller's argument.
    unsafe { file_fromint(file) }
}

/// A status is the same in C and both languages of Fortran.
macro_rules! copy_status {
    ($($body:ident, $from:ty, $to:ty;)*) => {
        $(
            pub(crate) unsafe fn $body(from: *const $from, to: *mut $to) -> c_int {
                // SAFETY: the caller's arguments.
                unsafe { *to.cast::<MPI_Status>() = *from.cast::<MPI_Status>() };
                SUCCESS
            }
        )*
    };
}

// Bodies: status_c2f status_f2c status_c2f08 status_f082c status_f082f status_f2f08
copy_status! {
    status_c2f, MPI_Status, c_int;
    status_f2c, c_int, MPI_Status;
    status_c2f08, MPI_Status, MPI_Status;
    status_f082c, MPI_Status, MPI_Status;
    status_f082f, MPI_Status, c_int;
    status_f2f08, c_int, MPI_Status;
}
