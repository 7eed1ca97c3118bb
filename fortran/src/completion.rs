//! Start and completion of requests. Indices count from 1 in Fortran; copies of sections are
//! loaded at a start and stored when a completion is first reported (`pending`).

use crate::pending::{self, Kept};
use crate::prelude::*;
use crate::target::{ERR_IN_STATUS, UNDEFINED};

pub(crate) unsafe fn wait<const P: bool>(request: *mut c_int, out: *mut MPI_Status) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let kept = pending::kept(*request);
        let mut handle = MPI_Request::from_fortran(*request);
        let code = pick!(P, MPI_Wait, PMPI_Wait)(&raw mut handle, c_status(out));
        *request = handle.to_fortran();
        kept.completed();
        code
    }
}

pub(crate) unsafe fn test<const P: bool>(
    request: *mut c_int,
    flag: *mut c_int,
    out: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let (kept, mut done) = (pending::kept(*request), 0);
        let mut handle = MPI_Request::from_fortran(*request);
        let code = pick!(P, MPI_Test, PMPI_Test)(&raw mut handle, &raw mut done, c_status(out));
        *request = handle.to_fortran();
        *flag = to_logical(done);
        if done != 0 {
            kept.completed();
        }
        code
    }
}

/// Stores the handles after a call that completes all of them, or with an error some.
unsafe fn store_all(requests: &mut Handles<MPI_Request>, kept: &[Kept], code: c_int) {
    // SAFETY: by the contract of the callers.
    unsafe {
        requests.store();
        for (kept, &request) in kept.iter().zip(requests.integers()) {
            if code == SUCCESS || (code == ERR_IN_STATUS && request != kept.request()) {
                kept.completed();
            }
        }
    }
}

/// Stores the handle of a request that a call has completed.
unsafe fn store_one(requests: &mut Handles<MPI_Request>, kept: &[Kept], at: usize) {
    // SAFETY: by the contract of the callers.
    unsafe { requests.store_one(at) };
    if let Some(kept) = kept.get(at) {
        kept.completed();
    }
}

pub(crate) unsafe fn waitall<const P: bool>(
    count: *mut c_int,
    array_of_requests: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*count));
        let kept = pending::all_kept(requests.integers());
        let statuses = c_statuses(array_of_statuses);
        let code = pick!(P, MPI_Waitall, PMPI_Waitall)(*count, requests.as_mut_ptr(), statuses);
        store_all(&mut requests, &kept, code);
        code
    }
}

pub(crate) unsafe fn testall<const P: bool>(
    count: *mut c_int,
    array_of_requests: *mut c_int,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*count));
        let kept = pending::all_kept(requests.integers());
        let (statuses, mut done) = (c_statuses(array_of_statuses), 0);
        let code = pick!(P, MPI_Testall, PMPI_Testall)(
            *count,
            requests.as_mut_ptr(),
            &raw mut done,
            statuses,
        );
        *flag = to_logical(done);
        if done != 0 || code != SUCCESS {
            store_all(&mut requests, &kept, code);
        }
        code
    }
}

pub(crate) unsafe fn start<const P: bool>(request: *mut c_int) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        pending::starts(*request);
        let mut handle = MPI_Request::from_fortran(*request);
        let code = pick!(P, MPI_Start, PMPI_Start)(&raw mut handle);
        *request = handle.to_fortran();
        code
    }
}

pub(crate) unsafe fn startall<const P: bool>(
    count: *mut c_int,
    array_of_requests: *mut c_int,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*count));
        if pending::any() {
            requests.integers().iter().for_each(|&request| pending::starts(request));
        }
        let code = pick!(P, MPI_Startall, PMPI_Startall)(*count, requests.as_mut_ptr());
        requests.store();
        code
    }
}

pub(crate) unsafe fn request_free<const P: bool>(request: *mut c_int) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let taken = pending::taken(*request);
        let mut handle = MPI_Request::from_fortran(*request);
        let code = pick!(P, MPI_Request_free, PMPI_Request_free)(&raw mut handle);
        *request = handle.to_fortran();
        if code == SUCCESS {
            taken.freed();
        } else {
            taken.put_back();
        }
        code
    }
}

/// Makes an index of C's one of Fortran's.
fn from_one(index: c_int) -> c_int {
    if index == UNDEFINED { index } else { index + 1 }
}

pub(crate) unsafe fn waitany<const P: bool>(
    count: *mut c_int,
    array_of_requests: *mut c_int,
    index: *mut c_int,
    out: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*count));
        let kept = pending::all_kept(requests.integers());
        let mut at = UNDEFINED;
        let code = pick!(P, MPI_Waitany, PMPI_Waitany)(
            *count,
            requests.as_mut_ptr(),
            &raw mut at,
            c_status(out),
        );
        if let Ok(at) = usize::try_from(at) {
            store_one(&mut requests, &kept, at);
        }
        *index = from_one(at);
        code
    }
}

pub(crate) unsafe fn testany<const P: bool>(
    count: *mut c_int,
    array_of_requests: *mut c_int,
    index: *mut c_int,
    flag: *mut c_int,
    out: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*count));
        let kept = pending::all_kept(requests.integers());
        let (mut at, mut done) = (UNDEFINED, 0);
        let code = pick!(P, MPI_Testany, PMPI_Testany)(
            *count,
            requests.as_mut_ptr(),
            &raw mut at,
            &raw mut done,
            c_status(out),
        );
        if let Ok(at) = usize::try_from(at) {
            store_one(&mut requests, &kept, at);
        }
        *index = from_one(at);
        *flag = to_logical(done);
        code
    }
}

/// MPI_Waitsome, MPI_Testsome or MPI_Request_get_status_some.
type Some =
    unsafe extern "C" fn(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status) -> c_int;

unsafe fn some(
    call: Some,
    incount: *mut c_int,
    array_of_requests: *mut c_int,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*incount));
        let kept = pending::all_kept(requests.integers());
        *outcount = UNDEFINED;
        let statuses = c_statuses(array_of_statuses);
        let code = call(*incount, requests.as_mut_ptr(), outcount, array_of_indices, statuses);
        for nth in 0..usize::try_from(*outcount).unwrap_or(0) {
            let index = array_of_indices.add(nth);
            if let Ok(at) = usize::try_from(*index) {
                store_one(&mut requests, &kept, at);
            }
            *index = from_one(*index);
        }
        code
    }
}

pub(crate) unsafe fn waitsome<const P: bool>(
    incount: *mut c_int,
    array_of_requests: *mut c_int,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    let call: Some = pick!(P, MPI_Waitsome, PMPI_Waitsome);
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe { some(call, incount, array_of_requests, outcount, array_of_indices, array_of_statuses) }
}

pub(crate) unsafe fn testsome<const P: bool>(
    incount: *mut c_int,
    array_of_requests: *mut c_int,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    let call: Some = pick!(P, MPI_Testsome, PMPI_Testsome);
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe { some(call, incount, array_of_requests, outcount, array_of_indices, array_of_statuses) }
}

pub(crate) unsafe fn request_get_status<const P: bool>(
    request: *mut c_int,
    flag: *mut c_int,
    out: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut done = 0;
        let handle = MPI_Request::from_fortran(*request);
        let call = pick!(P, MPI_Request_get_status, PMPI_Request_get_status);
        let code = call(handle, &raw mut done, c_status(out));
        *flag = to_logical(done);
        if done != 0 {
            pending::reported(*request);
        }
        code
    }
}

pub(crate) unsafe fn request_get_status_all<const P: bool>(
    count: *mut c_int,
    array_of_requests: *mut c_int,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*count));
        let mut done = 0;
        let code = pick!(P, MPI_Request_get_status_all, PMPI_Request_get_status_all)(
            *count,
            requests.as_mut_ptr(),
            &raw mut done,
            c_statuses(array_of_statuses),
        );
        *flag = to_logical(done);
        if done != 0 && pending::any() {
            requests.integers().iter().for_each(|&request| pending::reported(request));
        }
        code
    }
}

pub(crate) unsafe fn request_get_status_any<const P: bool>(
    count: *mut c_int,
    array_of_requests: *mut c_int,
    index: *mut c_int,
    flag: *mut c_int,
    out: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*count));
        let (mut at, mut done) = (UNDEFINED, 0);
        let code = pick!(P, MPI_Request_get_status_any, PMPI_Request_get_status_any)(
            *count,
            requests.as_mut_ptr(),
            &raw mut at,
            &raw mut done,
            c_status(out),
        );
        if let Ok(at) = usize::try_from(at) {
            pending::reported(*array_of_requests.add(at));
        }
        *index = from_one(at);
        *flag = to_logical(done);
        code
    }
}

pub(crate) unsafe fn request_get_status_some<const P: bool>(
    incount: *mut c_int,
    array_of_requests: *mut c_int,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut requests = Handles::<MPI_Request>::new(array_of_requests, i64::from(*incount));
        *outcount = UNDEFINED;
        let code = pick!(P, MPI_Request_get_status_some, PMPI_Request_get_status_some)(
            *incount,
            requests.as_mut_ptr(),
            outcount,
            array_of_indices,
            c_statuses(array_of_statuses),
        );
        for nth in 0..usize::try_from(*outcount).unwrap_or(0) {
            let index = array_of_indices.add(nth);
            if let Ok(at) = usize::try_from(*index) {
                pending::reported(*array_of_requests.add(at));
            }
            *index = from_one(*index);
        }
        code
    }
}
