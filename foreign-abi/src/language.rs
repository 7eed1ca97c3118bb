//! Handles and statuses as integers (MPI-5.0 §19.3, §20).

use crate::prelude::*;

macro_rules! integers {
    ($($class:ident, $toint:ident, $fromint:ident, $c2f:ident, $f2c:ident;)*) => {
        $(
            pub(crate) unsafe fn $toint(handle: $class) -> c_int {
                handle.to_integer()
            }

            pub(crate) unsafe fn $fromint(integer: c_int) -> $class {
                $class::from_integer(integer)
            }

            pub(crate) unsafe fn $c2f(handle: $class) -> c_int {
                handle.to_integer()
            }

            pub(crate) unsafe fn $f2c(integer: c_int) -> $class {
                $class::from_integer(integer)
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
// Bodies: file_toint file_fromint file_c2f file_f2c
integers! {
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
    MPI_File, file_toint, file_fromint, file_c2f, file_f2c;
}

/// A status has the same bytes in C and both languages of Fortran, where it may be less aligned.
macro_rules! copy_status {
    ($($body:ident, $from:ty, $to:ty;)*) => {
        $(
            pub(crate) unsafe fn $body(from: *const $from, to: *mut $to) -> c_int {
                // SAFETY: the caller's arguments.
                unsafe {
                    let status = from.cast::<MPI_Status>().read_unaligned();
                    to.cast::<MPI_Status>().write_unaligned(status);
                }
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
