//! Reduction operations and error handlers written in Fortran (MPI-5.0 §6.9.5, §9.3).
//!
//! C calls a function of a slot, which calls the Fortran procedure with integers for handles. The
//! forms of `mpif.h` and `mpi_f08` are called alike.

use std::mem::transmute;

use abi_client::slots::{Slots, table};

use crate::prelude::*;
use crate::target::ERR_OTHER;

type CUser = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
type FortranUser = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);
type CLargeUser = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut MPI_Datatype);
type FortranLargeUser = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut c_int);

static USERS: Slots = Slots::new();
static LARGE_USERS: Slots = Slots::new();

unsafe extern "C" fn user<const N: usize>(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut c_int,
    datatype: *mut MPI_Datatype,
) {
    // SAFETY: the slot holds a procedure of this type, and C passes valid arguments.
    unsafe {
        let procedure: FortranUser = transmute(USERS.procedure(N));
        let mut datatype = (*datatype).to_fortran();
        procedure(invec, inoutvec, len, &raw mut datatype);
    }
}

unsafe extern "C" fn large_user<const N: usize>(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut i64,
    datatype: *mut MPI_Datatype,
) {
    // SAFETY: the slot holds a procedure of this type, and C passes valid arguments.
    unsafe {
        let procedure: FortranLargeUser = transmute(LARGE_USERS.procedure(N));
        let mut datatype = (*datatype).to_fortran();
        procedure(invec, inoutvec, len, &raw mut datatype);
    }
}

pub(crate) unsafe fn op_create<const P: bool>(
    user_fn: *const c_void,
    commute: *mut c_int,
    op: *mut c_int,
) -> c_int {
    let Some(slot) = USERS.find(user_fn) else { return ERR_OTHER };
    let function = table!(user: CUser)[slot];
    let mut handle = MPI_Op::NULL;
    // SAFETY: the caller's arguments; `function` has the type that C asks for.
    unsafe {
        let code = pick!(P, MPI_Op_create, PMPI_Op_create)(
            function as *const c_void,
            from_logical(*commute),
            &raw mut handle,
        );
        if code == SUCCESS {
            *op = handle.to_fortran();
        }
        code
    }
}

pub(crate) unsafe fn op_create_c<const P: bool>(
    user_fn: *const c_void,
    commute: *mut c_int,
    op: *mut c_int,
) -> c_int {
    let Some(slot) = LARGE_USERS.find(user_fn) else { return ERR_OTHER };
    let function = table!(large_user: CLargeUser)[slot];
    let mut handle = MPI_Op::NULL;
    // SAFETY: the caller's arguments; `function` has the type that C asks for.
    unsafe {
        let code = pick!(P, MPI_Op_create_c, PMPI_Op_create_c)(
            function as *const c_void,
            from_logical(*commute),
            &raw mut handle,
        );
        if code == SUCCESS {
            *op = handle.to_fortran();
        }
        code
    }
}

type FortranHandler = unsafe extern "C" fn(*mut c_int, *mut c_int);

/// C declares error handlers as variadic; the arguments after the second are not used.
macro_rules! handlers {
    ($($body:ident, $class:ident, $slots:ident, $function:ident, $call:ident, $profiled:ident;)*) => {
        $(
            static $slots: Slots = Slots::new();

            unsafe extern "C" fn $function<const N: usize>(object: *mut $class, code: *mut c_int) {
                // SAFETY: the slot holds a procedure of this type; C passes valid arguments.
                unsafe {
                    let procedure: FortranHandler = transmute($slots.procedure(N));
                    let mut integer = (*object).to_fortran();
                    procedure(&raw mut integer, code);
                }
            }

            pub(crate) unsafe fn $body<const P: bool>(
                procedure: *const c_void,
                errhandler: *mut c_int,
            ) -> c_int {
                type Handler = unsafe extern "C" fn(*mut $class, *mut c_int);
                let Some(slot) = $slots.find(procedure) else { return ERR_OTHER };
                let function = table!($function: Handler)[slot];
                let mut handle = MPI_Errhandler::NULL;
                // SAFETY: the caller's arguments; `function` fits C's type as said above.
                unsafe {
                    let code =
                        pick!(P, $call, $profiled)(function as *const c_void, &raw mut handle);
                    if code == SUCCESS {
                        *errhandler = handle.to_fortran();
                    }
                    code
                }
            }
        )*
    };
}

// Bodies: comm_create_errhandler win_create_errhandler
// Bodies: file_create_errhandler session_create_errhandler
handlers! {
    comm_create_errhandler, MPI_Comm, COMM_HANDLERS, comm_handler,
        MPI_Comm_create_errhandler, PMPI_Comm_create_errhandler;
    win_create_errhandler, MPI_Win, WIN_HANDLERS, win_handler,
        MPI_Win_create_errhandler, PMPI_Win_create_errhandler;
    file_create_errhandler, MPI_File, FILE_HANDLERS, file_handler,
        MPI_File_create_errhandler, PMPI_File_create_errhandler;
    session_create_errhandler, MPI_Session, SESSION_HANDLERS, session_handler,
        MPI_Session_create_errhandler, PMPI_Session_create_errhandler;
}
