//! Calls that complete several requests (MPI-5.0 §3.7.5), and those that start them.

use crate::array::slice;
use crate::prelude::*;

/// Requests and statuses up to this many need no memory of the heap.
const SHORT: usize = 32;

/// Memory for as many as a call has, on the stack if these are few.
struct Memory<T> {
    short: [T; SHORT],
    long: Vec<T>,
}

impl<T: Copy> Memory<T> {
    #[inline]
    fn new(initial: T) -> Memory<T> {
        Memory { short: [initial; SHORT], long: Vec::new() }
    }

    /// The first `count` elements.
    #[inline]
    fn of(&mut self, count: usize) -> &mut [T] {
        if count <= SHORT {
            return &mut self.short[..count];
        }
        self.long.resize(count, self.short[0]);
        &mut self.long
    }
}

/// The requests of a call.
struct Requests<'a> {
    users: &'a mut [MPI_Request],
    memory: Memory<Standard>,
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
        let mut memory = Memory::new(MPI_Request::NULL);
        for (to, from) in memory.of(users.len()).iter_mut().zip(users.iter()) {
            *to = from.to_standard();
        }
        Requests { users, memory }
    }

    /// Null if there are none, as the user's array may be.
    fn address(&mut self) -> *mut Standard {
        address(self.memory.of(self.users.len())).cast_mut()
    }

    /// Gives the user one request back.
    fn store(&mut self, index: usize) {
        let count = self.users.len();
        if let Some(user) = self.users.get_mut(index) {
            *user = MPI_Request::from_standard(self.memory.of(count)[index]);
        }
    }

    /// Gives the user all requests back. Only a completed request changes; it becomes null.
    fn store_all(&mut self) {
        let count = self.users.len();
        for (user, request) in self.users.iter_mut().zip(self.memory.of(count)) {
            if *request == MPI_Request::NULL {
                *user = MPI_Request::from_standard(*request);
            }
        }
    }
}

/// The statuses of a call.
struct Statuses {
    users: *mut MPI_Status,
    memory: Memory<StandardStatus>,
}

impl Statuses {
    fn new(users: *mut MPI_Status) -> Statuses {
        Statuses { users, memory: Memory::new(StandardStatus::UNSET) }
    }

    fn address(&mut self, count: c_int) -> *mut StandardStatus {
        if is_ignored(self.users) {
            return std::ptr::null_mut();
        }
        self.memory.of(usize::try_from(count).unwrap_or(0)).as_mut_ptr()
    }

    /// Gives the user the first `count` statuses, if `code` says that these are set.
    ///
    /// # Safety
    /// The user's array has as many, or is ignored.
    unsafe fn store(&mut self, count: c_int, code: c_int) {
        if is_ignored(self.users) || code != SUCCESS && !code::is_in_status(code) {
            return;
        }
        let count = usize::try_from(count).unwrap_or(0);
        for (at, status) in self.memory.of(count).iter().enumerate() {
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
        let mut statuses = Statuses::new(array_of_statuses);
        let code = (library().PMPI_Waitall)(count, requests.address(), statuses.address(count));
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
        let mut statuses = Statuses::new(array_of_statuses);
        let code =
            (library().PMPI_Testall)(count, requests.address(), flag, statuses.address(count));
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
                    let mut statuses = Statuses::new(array_of_statuses);
                    let code = (library().$function)(
                        incount,
                        requests.address(),
                        outcount,
                        array_of_indices,
                        statuses.address(incount),
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
        let mut statuses = Statuses::new(array_of_statuses);
        let code = (library().PMPI_Request_get_status_all)(
            count,
            address(&requests),
            flag,
            statuses.address(count),
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
        let mut statuses = Statuses::new(array_of_statuses);
        let code = (library().PMPI_Request_get_status_some)(
            incount,
            address(&requests),
            outcount,
            array_of_indices,
            statuses.address(incount),
        );
        if code == SUCCESS || code::is_in_status(code) {
            statuses.store(*outcount, code);
        }
        code::from_standard(code)
    }
}
