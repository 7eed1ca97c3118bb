//! Calls that complete several requests (MPI-5.0 §3.7.5), and those that start them.

use smallvec::SmallVec;

use crate::array::slice;
use crate::prelude::*;

/// The elements of an array of the user's, on the stack if these are few.
type Converted<T> = SmallVec<[T; 32]>;

/// The requests of a call.
struct Requests<'a> {
    users: &'a mut [MPI_Request],
    standard: Converted<Standard>,
}

impl<'a> Requests<'a> {
    /// # Safety
    /// `array` has `count` requests, unless it is null.
    unsafe fn new(array: *mut MPI_Request, count: c_int) -> Requests<'a> {
        let users: &mut [MPI_Request] = match usize::try_from(count) {
            // SAFETY: the caller's promise.
            Ok(count) if !array.is_null() => unsafe {
                std::slice::from_raw_parts_mut(array, count)
            },
            _ => &mut [],
        };
        let standard = users.iter().map(|request| request.to_standard()).collect();
        Requests { users, standard }
    }

    /// Null if there are none, as the user's array may be.
    fn address(&mut self) -> *mut Standard {
        address(&self.standard).cast_mut()
    }

    /// Gives the user one request back.
    fn store(&mut self, index: usize) {
        if let Some(user) = self.users.get_mut(index) {
            *user = MPI_Request::from_standard(self.standard[index]);
        }
    }

    /// Gives the user all requests back. Only a completed request changes; it becomes null.
    fn store_all(&mut self) {
        for (user, request) in self.users.iter_mut().zip(&self.standard) {
            if *request == MPI_Request::NULL {
                *user = MPI_Request::from_standard(*request);
            }
        }
    }
}

/// The statuses of a call; none if they are ignored.
struct Statuses {
    users: *mut MPI_Status,
    standard: Converted<StandardStatus>,
}

impl Statuses {
    fn new(users: *mut MPI_Status, count: c_int) -> Statuses {
        let count = if is_ignored(users) { 0 } else { usize::try_from(count).unwrap_or(0) };
        Statuses { users, standard: SmallVec::from_elem(StandardStatus::UNSET, count) }
    }

    fn address(&mut self) -> *mut StandardStatus {
        match is_ignored(self.users) {
            true => std::ptr::null_mut(),
            false => self.standard.as_mut_ptr(),
        }
    }

    /// Gives the user the first `count` statuses, if `code` says that these are set.
    ///
    /// # Safety
    /// The user's array has as many, or is ignored.
    unsafe fn store(&mut self, count: c_int, code: c_int) {
        if code != SUCCESS && !code::is_in_status(code) {
            return;
        }
        let count = usize::try_from(count).unwrap_or(0);
        for (at, status) in self.standard.iter().take(count).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { (*self.users.add(at)).assign(status) };
        }
    }
}

pub(crate) unsafe fn waitall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let mut requests = Requests::new(array_of_requests, count);
        let mut statuses = Statuses::new(array_of_statuses, count);
        let code = (library().PMPI_Waitall)(count, requests.address(), statuses.address());
        requests.store_all();
        statuses.store(count, code);
        code::from_standard(code)
    }
}

pub(crate) unsafe fn testall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let mut requests = Requests::new(array_of_requests, count);
        let mut statuses = Statuses::new(array_of_statuses, count);
        let code = (library().PMPI_Testall)(count, requests.address(), flag, statuses.address());
        requests.store_all();
        if code != SUCCESS || *flag != 0 {
            statuses.store(count, code);
        }
        code::from_standard(code)
    }
}

pub(crate) unsafe fn waitany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let mut requests = Requests::new(array_of_requests, count);
        let mut out = StatusOut::new(status);
        let mut index = -1;
        let code =
            (library().PMPI_Waitany)(count, requests.address(), &raw mut index, out.address());
        requests.store(index as usize);
        if code == SUCCESS || !indx.is_null() {
            *indx = index;
        }
        out.finish();
        code::from_standard(code)
    }
}

pub(crate) unsafe fn testany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let mut requests = Requests::new(array_of_requests, count);
        let mut out = StatusOut::new(status);
        let mut index = -1;
        let code = (library().PMPI_Testany)(
            count,
            requests.address(),
            &raw mut index,
            flag,
            out.address(),
        );
        requests.store(index as usize);
        if code == SUCCESS || !indx.is_null() {
            *indx = index;
        }
        out.finish();
        code::from_standard(code)
    }
}

macro_rules! some {
    ($($body:ident, $function:ident;)*) => {
        $(
            pub(crate) unsafe fn $body(
                incount: c_int,
                array_of_requests: *mut MPI_Request,
                outcount: *mut c_int,
                array_of_indices: *mut c_int,
                array_of_statuses: *mut MPI_Status,
            ) -> c_int {
                // SAFETY: the caller's arguments.
                unsafe {
                    let mut requests = Requests::new(array_of_requests, incount);
                    let mut statuses = Statuses::new(array_of_statuses, incount);
                    let code = (library().$function)(
                        incount,
                        requests.address(),
                        outcount,
                        array_of_indices,
                        statuses.address(),
                    );
                    if code == SUCCESS || code::is_in_status(code) {
                        for &index in slice(array_of_indices, *outcount) {
                            requests.store(index as usize);
                        }
                        statuses.store(*outcount, code);
                    }
                    code::from_standard(code)
                }
            }
        )*
    };
}

// Bodies: waitsome testsome
some! {
    waitsome, PMPI_Waitsome;
    testsome, PMPI_Testsome;
}

pub(crate) unsafe fn startall(count: c_int, array_of_requests: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let mut requests = Requests::new(array_of_requests, count);
        code::from_standard((library().PMPI_Startall)(count, requests.address()))
    }
}

pub(crate) unsafe fn request_get_status_all(
    count: c_int,
    array_of_requests: *const MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let requests = handles(array_of_requests, count);
        let mut statuses = Statuses::new(array_of_statuses, count);
        let code = (library().PMPI_Request_get_status_all)(
            count,
            address(&requests),
            flag,
            statuses.address(),
        );
        if code != SUCCESS || *flag != 0 {
            statuses.store(count, code);
        }
        code::from_standard(code)
    }
}

pub(crate) unsafe fn request_get_status_some(
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let requests = handles(array_of_requests, incount);
        let mut statuses = Statuses::new(array_of_statuses, incount);
        let code = (library().PMPI_Request_get_status_some)(
            incount,
            address(&requests),
            outcount,
            array_of_indices,
            statuses.address(),
        );
        if code == SUCCESS || code::is_in_status(code) {
            statuses.store(*outcount, code);
        }
        code::from_standard(code)
    }
}
