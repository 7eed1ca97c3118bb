//! Generalized requests (MPI-5.0 §13.2). The library below hands the extra state back; it is the
//! address of the user's functions and extra state.

use std::mem::transmute;

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

/// Makes a request, and returns whether the library turns its integer back into it. The request is
/// of no communicator, and active meanwhile.
#[cold]
pub(crate) fn is_returned() -> bool {
    unsafe extern "C" fn query(_: *mut c_void, _: *mut StandardStatus) -> c_int {
        SUCCESS
    }
    unsafe extern "C" fn free(_: *mut c_void) -> c_int {
        SUCCESS
    }
    unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
        SUCCESS
    }
    let mut request = MPI_Request::NULL;
    // SAFETY: functions of the types that MPI calls them by, which use no state, and the address
    // of a handle. The request is complete when it is freed.
    unsafe {
        let code = (library().PMPI_Grequest_start)(
            query as *const c_void,
            free as *const c_void,
            cancel as *const c_void,
            std::ptr::null_mut(),
            &raw mut request,
        );
        if code != SUCCESS {
            return false;
        }
        let integer = (library().PMPI_Request_toint)(request);
        let is_returned = MPI_Request::from_library(integer) == request;
        (library().PMPI_Grequest_complete)(request);
        (library().PMPI_Request_free)(&raw mut request);
        is_returned
    }
}
