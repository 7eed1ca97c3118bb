//! Reduction operations and error handlers of the user's (MPI-5.0 §6.9.5, §9.3). The library below
//! calls a function of a slot, which calls the user's with the program's handles and codes.

use std::mem::transmute;

use abi_client::slots::{Slots, table};

use crate::prelude::*;

macro_rules! operations {
    ($($body:ident, $slots:ident, $function:ident, $count:ty, $below:ident;)*) => {
        $(
            static $slots: Slots = Slots::new();

            unsafe extern "C" fn $function<const N: usize>(
                invec: *mut c_void,
                inoutvec: *mut c_void,
                len: *mut $count,
                datatype: *mut Standard,
            ) {
                type Users =
                    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut $count, *mut MPI_Datatype);
                // SAFETY: the slot holds a function of this type; the arguments are the library's.
                unsafe {
                    let users: Users = transmute($slots.procedure(N));
                    let mut datatype = MPI_Datatype::from_standard(*datatype);
                    users(invec, inoutvec, len, &raw mut datatype);
                }
            }

            pub(crate) unsafe fn $body(
                user_fn: *const c_void,
                commute: c_int,
                op: *mut MPI_Op,
            ) -> c_int {
                type Function =
                    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut $count, *mut Standard);
                let Some(slot) = $slots.find(user_fn) else { return code::OTHER };
                let function = table!($function: Function)[slot];
                let mut handle = MPI_Op::NULL;
                // SAFETY: the caller's arguments; `function` has the type that is asked for.
                unsafe {
                    let code =
                        (library().$below)(function as *const c_void, commute, &raw mut handle);
                    if code == SUCCESS {
                        *op = MPI_Op::from_standard(handle);
                    }
                    code::from_standard(code)
                }
            }
        )*
    };
}

// Bodies: op_create op_create_c
operations! {
    op_create, USERS, user, c_int, PMPI_Op_create;
    op_create_c, LARGE_USERS, large_user, i64, PMPI_Op_create_c;
}

macro_rules! handlers {
    ($($body:ident, $class:ident, $slots:ident, $function:ident, $below:ident;)*) => {
        $(
            static $slots: Slots = Slots::new();

            /// Declared as variadic by MPI; the arguments after the second are not used.
            unsafe extern "C" fn $function<const N: usize>(object: *mut Standard, code: *mut c_int) {
                type Users = unsafe extern "C" fn(*mut $class, *mut c_int, ...);
                // SAFETY: the slot holds a function of this type; the arguments are the library's.
                unsafe {
                    let users: Users = transmute($slots.procedure(N));
                    let mut object = $class::from_standard(*object);
                    let mut code = code::from_standard(*code);
                    users(&raw mut object, &raw mut code);
                }
            }

            pub(crate) unsafe fn $body(
                function: *const c_void,
                errhandler: *mut MPI_Errhandler,
            ) -> c_int {
                type Function = unsafe extern "C" fn(*mut Standard, *mut c_int);
                let Some(slot) = $slots.find(function) else { return code::OTHER };
                let function = table!($function: Function)[slot];
                let mut handle = MPI_Errhandler::NULL;
                // SAFETY: the caller's arguments; `function` fits the type as said above.
                unsafe {
                    let code = (library().$below)(function as *const c_void, &raw mut handle);
                    if code == SUCCESS {
                        *errhandler = MPI_Errhandler::from_standard(handle);
                    }
                    code::from_standard(code)
                }
            }
        )*
    };
}

// Bodies: comm_create_errhandler win_create_errhandler
// Bodies: file_create_errhandler session_create_errhandler
handlers! {
    comm_create_errhandler, MPI_Comm, COMM_HANDLERS, comm_handler, PMPI_Comm_create_errhandler;
    win_create_errhandler, MPI_Win, WIN_HANDLERS, win_handler, PMPI_Win_create_errhandler;
    file_create_errhandler, MPI_File, FILE_HANDLERS, file_handler, PMPI_File_create_errhandler;
    session_create_errhandler, MPI_Session, SESSION_HANDLERS, session_handler,
        PMPI_Session_create_errhandler;
}

/// MPI_Errhandler_create of MPI-1.
pub(crate) unsafe fn errhandler_create(
    function: *const c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { comm_create_errhandler(function, errhandler) }
}
