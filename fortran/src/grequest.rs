//! Generalized requests and data representations in Fortran (MPI-5.0 §13.2, §14.5.3). C hands the
//! extra state back; it is the address of the procedures and of Fortran's extra state.

use std::mem::transmute;

use crate::prelude::*;

/// A generalized request; freed by its free function, which MPI calls last.
struct Generalized {
    query: *const c_void,
    free: *const c_void,
    cancel: *const c_void,
    extra_state: i64,
}

unsafe extern "C" fn query(extra_state: *mut c_void, out: *mut MPI_Status) -> c_int {
    type Query = unsafe extern "C" fn(*mut i64, *mut MPI_Status, *mut c_int);
    let mut error = SUCCESS;
    // SAFETY: `extra_state` is a live `Generalized`, with a procedure of this type.
    unsafe {
        let state = extra_state.cast::<Generalized>();
        let procedure: Query = transmute((*state).query);
        procedure(&raw mut (*state).extra_state, out, &raw mut error);
    }
    error
}

unsafe extern "C" fn free(extra_state: *mut c_void) -> c_int {
    type Free = unsafe extern "C" fn(*mut i64, *mut c_int);
    let mut error = SUCCESS;
    // SAFETY: `extra_state` is a live `Generalized`, used for the last time.
    unsafe {
        let mut state = Box::from_raw(extra_state.cast::<Generalized>());
        let procedure: Free = transmute(state.free);
        procedure(&raw mut state.extra_state, &raw mut error);
    }
    error
}

unsafe extern "C" fn cancel(extra_state: *mut c_void, complete: c_int) -> c_int {
    type Cancel = unsafe extern "C" fn(*mut i64, *mut c_int, *mut c_int);
    let (mut error, mut complete) = (SUCCESS, to_logical(complete));
    // SAFETY: `extra_state` is a live `Generalized`, with a procedure of this type.
    unsafe {
        let state = extra_state.cast::<Generalized>();
        let procedure: Cancel = transmute((*state).cancel);
        procedure(&raw mut (*state).extra_state, &raw mut complete, &raw mut error);
    }
    error
}

pub(crate) unsafe fn grequest_start<const P: bool>(
    query_fn: *const c_void,
    free_fn: *const c_void,
    cancel_fn: *const c_void,
    extra_state: *mut i64,
    request: *mut c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let state = Box::into_raw(Box::new(Generalized {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            extra_state: *extra_state,
        }));
        let mut handle = MPI_Request::NULL;
        let code = pick!(P, MPI_Grequest_start, PMPI_Grequest_start)(
            query as *const c_void,
            free as *const c_void,
            cancel as *const c_void,
            state.cast(),
            &raw mut handle,
        );
        match code {
            SUCCESS => *request = handle.to_fortran(),
            _ => drop(Box::from_raw(state)),
        }
        code
    }
}

/// A data representation; never removed.
struct Representation {
    read: *const c_void,
    write: *const c_void,
    extent: *const c_void,
    extra_state: i64,
}

macro_rules! conversions {
    ($($name:ident, $procedure:ident, $count:ty;)*) => {
        $(
            unsafe extern "C" fn $name(
                userbuf: *mut c_void,
                datatype: MPI_Datatype,
                mut count: $count,
                filebuf: *mut c_void,
                mut position: i64,
                extra_state: *mut c_void,
            ) -> c_int {
                type Conversion = unsafe extern "C" fn(
                    *mut c_void,
                    *mut c_int,
                    *mut $count,
                    *mut c_void,
                    *mut i64,
                    *mut i64,
                    *mut c_int,
                );
                let (mut datatype, mut error) = (datatype.to_fortran(), SUCCESS);
                // SAFETY: `extra_state` is a `Representation` with a procedure of this type.
                unsafe {
                    let state = extra_state.cast::<Representation>();
                    let procedure: Conversion = transmute((*state).$procedure);
                    procedure(
                        userbuf,
                        &raw mut datatype,
                        &raw mut count,
                        filebuf,
                        &raw mut position,
                        &raw mut (*state).extra_state,
                        &raw mut error,
                    );
                }
                error
            }
        )*
    };
}

conversions! {
    read, read, c_int;
    write, write, c_int;
    read_c, read, i64;
    write_c, write, i64;
}

unsafe extern "C" fn extent(
    datatype: MPI_Datatype,
    bytes: *mut i64,
    extra_state: *mut c_void,
) -> c_int {
    type Extent = unsafe extern "C" fn(*mut c_int, *mut i64, *mut i64, *mut c_int);
    let (mut datatype, mut error) = (datatype.to_fortran(), SUCCESS);
    // SAFETY: `extra_state` is a `Representation` with a procedure of this type.
    unsafe {
        let state = extra_state.cast::<Representation>();
        let procedure: Extent = transmute((*state).extent);
        procedure(&raw mut datatype, bytes, &raw mut (*state).extra_state, &raw mut error);
    }
    error
}

/// MPI_CONVERSION_FN_NULL: a name to pass; no call reaches it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_conversion_fn_null_() {}
names!(mpi_conversion_fn_null_:
    mpi_conversion_fn_null mpi_conversion_fn_null__ MPI_CONVERSION_FN_NULL);

fn is_null(procedure: *const c_void) -> bool {
    type Nothing = unsafe extern "C" fn();
    let names: [Nothing; 4] = [
        mpi_conversion_fn_null_,
        mpi_conversion_fn_null,
        mpi_conversion_fn_null__,
        MPI_CONVERSION_FN_NULL,
    ];
    names.iter().any(|name| *name as *const c_void == procedure)
        || crate::target::is_null_conversion(procedure)
}

macro_rules! register {
    ($($body:ident, $read:ident, $write:ident, $call:ident, $profiled:ident;)*) => {
        $(
            pub(crate) unsafe fn $body<const P: bool>(
                datarep: *mut c_char,
                read_fn: *const c_void,
                write_fn: *const c_void,
                extent_fn: *const c_void,
                extra_state: *mut i64,
                datarep_len: usize,
            ) -> c_int {
                let given = |procedure: *const c_void, function: *const c_void| {
                    if is_null(procedure) { std::ptr::null() } else { function }
                };
                // SAFETY: the caller's arguments. The state is needed until the program ends.
                unsafe {
                    let name = TextIn::new(datarep, datarep_len);
                    let state = Box::into_raw(Box::new(Representation {
                        read: read_fn,
                        write: write_fn,
                        extent: extent_fn,
                        extra_state: *extra_state,
                    }));
                    let code = pick!(P, $call, $profiled)(
                        name.as_ptr(),
                        given(read_fn, $read as *const c_void),
                        given(write_fn, $write as *const c_void),
                        extent as *const c_void,
                        state.cast(),
                    );
                    if code != SUCCESS {
                        drop(Box::from_raw(state));
                    }
                    code
                }
            }
        )*
    };
}

// Bodies: register_datarep register_datarep_c
register! {
    register_datarep, read, write, MPI_Register_datarep, PMPI_Register_datarep;
    register_datarep_c, read_c, write_c, MPI_Register_datarep_c, PMPI_Register_datarep_c;
}
