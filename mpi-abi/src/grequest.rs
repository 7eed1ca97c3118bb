//! MPI-5.0 §13.2: generalized requests.

use std::os::raw::c_void;

use objects::{Class, Error, Result};
use runtime::generalized::Generalized;
use runtime::request::State;
use runtime::{Request, predefined, with};

use crate::abi::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function,
    MPI_Request,
};
use crate::args::{not_null, null_argument, put};

pub(crate) unsafe fn grequest_start(
    query_fn: Option<MPI_Grequest_query_function>,
    free_fn: Option<MPI_Grequest_free_function>,
    cancel_fn: Option<MPI_Grequest_cancel_function>,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<()> {
    let query = query_fn.ok_or_else(|| null_argument("query_fn"))?;
    let free = free_fn.ok_or_else(|| null_argument("free_fn"))?;
    let cancel = cancel_fn.ok_or_else(|| null_argument("cancel_fn"))?;
    not_null(request, "request")?;
    let generalized =
        Generalized { query, free, cancel, extra_state, complete: false, freed: false };
    let handle = with(|p| {
        p.core()?;
        let state = State::Generalized(Box::new(generalized));
        Ok(p.requests.insert(Request {
            comm: predefined::COMM_SELF,
            state,
            persistent: None,
            then: None,
        }) as usize)
    })?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

/// Completes a generalized request for all waits. A request that was freed before is removed now,
/// and its `free` function is called (MPI-5.0 §13.2).
pub(crate) unsafe fn grequest_complete(request: MPI_Request) -> Result<()> {
    let last = with(|p| {
        let State::Generalized(generalized) = &mut p.request(request.0)?.state else {
            return Err(Error::new(
                Class::Request,
                "invalid request: it was not created by MPI_Grequest_start",
            ));
        };
        if std::mem::replace(&mut generalized.complete, true) {
            return Err(Error::new(Class::Request, "invalid request: it is already complete"));
        }
        if generalized.freed { p.free_request(request.0) } else { Ok(None) }
    })?;
    last.map_or(Ok(()), |generalized| generalized.free())
}
