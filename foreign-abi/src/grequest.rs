//! Generalized requests (MPI-5.0 §13.2). The library below hands the extra state back; it is the
//! address of the user's functions and extra state.

use std::mem::transmute;

use abi_client::probe::request_comes_back;

use crate::prelude::*;

/// A generalized request; freed by its free function, which MPI calls last.
struct Generalized {
    query: *const c_void,
    free: *const c_void,
    cancel: *const c_void,
    extra_state: *mut c_void,
}

unsafe extern "C" fn query(extra_state: *mut c_void, out: *mut StandardStatus) -> c_int {
    type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
    // SAFETY: `extra_state` is a live `Generalized`, with a function of this type.
    unsafe {
        let state = &*extra_state.cast::<Generalized>();
        let users: Query = transmute(state.query);
        let mut status = MPI_Status::default();
        status.assign(&*out);
        let code = users(state.extra_state, &raw mut status);
        let error = (*out).MPI_ERROR;
        *out = StandardStatus { MPI_ERROR: error, ..status.to_standard() };
        code::to_standard(code)
    }
}

unsafe extern "C" fn free(extra_state: *mut c_void) -> c_int {
    type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
    // SAFETY: `extra_state` is a live `Generalized`, used for the last time.
    unsafe {
        let state = Box::from_raw(extra_state.cast::<Generalized>());
        let users: Free = transmute(state.free);
        code::to_standard(users(state.extra_state))
    }
}

unsafe extern "C" fn cancel(extra_state: *mut c_void, complete: c_int) -> c_int {
    type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
    // SAFETY: `extra_state` is a live `Generalized`, with a function of this type.
    unsafe {
        let state = &*extra_state.cast::<Generalized>();
        let users: Cancel = transmute(state.cancel);
        code::to_standard(users(state.extra_state, complete))
    }
}

pub(crate) unsafe fn grequest_start(
    query_fn: *const c_void,
    free_fn: *const c_void,
    cancel_fn: *const c_void,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> c_int {
    let state = Generalized { query: query_fn, free: free_fn, cancel: cancel_fn, extra_state };
    let state = Box::into_raw(Box::new(state));
    let mut handle = MPI_Request::NULL;
    // SAFETY: the caller's arguments.
    unsafe {
        let code = (library().PMPI_Grequest_start)(
            query as *const c_void,
            free as *const c_void,
            cancel as *const c_void,
            state.cast(),
            &raw mut handle,
        );
        match code {
            SUCCESS => *request = MPI_Request::from_standard(handle),
            _ => drop(Box::from_raw(state)),
        }
        code::from_standard(code)
    }
}

/// Whether the library turns the integers of requests back into them.
#[cold]
pub(crate) fn is_returned() -> bool {
    request_comes_back!(
        MPI_Request::NULL,
        (library().PMPI_Grequest_start),
        (library().PMPI_Grequest_complete),
        (library().PMPI_Request_free),
        (library().PMPI_Request_toint),
        MPI_Request::from_library
    )
}
