//! MPI-5.0 §3.7 to §3.9: completing, testing, cancelling and starting requests, and inquiries about
//! a status.

use std::os::raw::c_int;

use bootstrap::calls::Call;
use objects::{Class, Error, Result, Status, error_codes};
use runtime::request::Outcome;
use runtime::wait_test::{self, Any};
use runtime::{message, predefined, with};

use crate::abi::{MPI_Count, MPI_Datatype, MPI_Request};
use crate::args::{UNDEFINED, not_null, null_argument, put, put_status, requests, slice_mut};
use crate::convert::CountOut;

/// Returns the user's request handle for reading and writing.
unsafe fn one<'a>(request: *mut MPI_Request) -> Result<&'a mut usize> {
    not_null(request, "request")?;
    // SAFETY: not null, therefore the user's pointer; `MPI_Request` is a transparent `usize`.
    Ok(unsafe { &mut *request.cast::<usize>() })
}

/// Stores the status of a single operation and returns its error.
unsafe fn report(status: *mut Status, outcome: Outcome) -> Result<()> {
    // SAFETY: the user passes MPI_STATUS_IGNORE or a status.
    unsafe { put_status(status, &outcome.status) };
    outcome.error.map_or(Ok(()), Err)
}

/// The error of calls with arrays: MPI_ERR_IN_STATUS, with the text of the first failure.
struct InStatus {
    call: &'static str,
    statuses: *mut Status,
    failed: Option<(usize, Error)>,
}

impl InStatus {
    fn new(call: Call, statuses: *mut Status) -> InStatus {
        InStatus { call: call.name(), statuses, failed: None }
    }

    /// Stores the outcome of request `index` as entry `at` of the array.
    unsafe fn store(&mut self, at: usize, index: usize, outcome: Outcome) {
        if !self.statuses.is_null() {
            // SAFETY: the user's array holds every completed request.
            let entry = unsafe { self.statuses.add(at) };
            let code =
                outcome.error.as_ref().map_or(0, |error| error_codes().code_of(self.call, error));
            // SAFETY: the user's array of statuses holds every completed request.
            unsafe {
                put_status(entry, &outcome.status);
                if code != 0 {
                    (*entry).error = code;
                } else if self.failed.is_some() {
                    (*entry).error = 0;
                }
            }
        }
        if let Some(error) = outcome.error
            && self.failed.is_none()
        {
            self.clear_errors(at);
            self.failed = Some((index, error));
        }
    }

    /// Sets the error fields of the entries before the first failure to success.
    fn clear_errors(&self, before: usize) {
        if self.statuses.is_null() {
            return;
        }
        for at in 0..before {
            // SAFETY: entries that were stored before, in the user's array.
            unsafe { (*self.statuses.add(at)).error = 0 };
        }
    }

    fn finish(self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            Some((index, error)) => Err(Error::new(
                Class::InStatus,
                format!(
                    "the operation of request {index} failed: {}: {}",
                    error.class().name(),
                    error.detail()
                ),
            )
            .on(error.raise_on().unwrap_or(predefined::COMM_NULL))),
        }
    }
}

#[inline]
pub(crate) unsafe fn wait(request: *mut MPI_Request, status: *mut Status) -> Result<()> {
    // SAFETY: the user's pointers.
    unsafe {
        let request = one(request)?;
        report(status, wait_test::wait(request)?)
    }
}

pub(crate) unsafe fn test(
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's pointers.
    unsafe {
        let request = one(request)?;
        let outcome = wait_test::test(request)?;
        put(flag, c_int::from(outcome.is_some()), "flag")?;
        outcome.map_or(Ok(()), |outcome| report(status, outcome))
    }
}

pub(crate) unsafe fn waitany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's array and pointers.
    unsafe {
        let array = requests(array_of_requests, count)?;
        let (index, outcome) = match wait_test::wait_any(array)? {
            Any::Found(index, outcome) => (index as c_int, outcome),
            _ => (UNDEFINED, Outcome::empty()),
        };
        put(indx, index, "index")?;
        report(status, outcome)
    }
}

pub(crate) unsafe fn testany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's array and pointers.
    unsafe {
        let array = requests(array_of_requests, count)?;
        report_any(wait_test::test_any(array)?, indx, flag, status)
    }
}

pub(crate) unsafe fn request_get_status_any(
    count: c_int,
    array_of_requests: *const MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the user's array and pointers; the array is only read.
    unsafe {
        let array = requests(array_of_requests.cast_mut(), count)?;
        report_any(wait_test::status_any(array)?, indx, flag, status)
    }
}

unsafe fn report_any(
    any: Any,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let (done, index, outcome) = match any {
        Any::Found(index, outcome) => (1, index as c_int, Some(outcome)),
        Any::NoneActive => (1, UNDEFINED, Some(Outcome::empty())),
        Any::Pending => (0, UNDEFINED, None),
    };
    // SAFETY: the user's pointers; null is refused or ignored.
    unsafe {
        put(flag, done, "flag")?;
        put(indx, index, "index")?;
        outcome.map_or(Ok(()), |outcome| report(status, outcome))
    }
}

pub(crate) unsafe fn waitall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    array_of_statuses: *mut Status,
) -> Result<()> {
    // SAFETY: the user's arrays, of `count` elements each.
    unsafe {
        let array = requests(array_of_requests, count)?;
        let mut errors = InStatus::new(Call::Waitall, array_of_statuses);
        wait_test::wait_all(array, |index, outcome| errors.store(index, index, outcome))?;
        errors.finish()
    }
}

pub(crate) unsafe fn testall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut Status,
) -> Result<()> {
    // SAFETY: the user's arrays, of `count` elements each.
    unsafe {
        let array = requests(array_of_requests, count)?;
        let mut errors = InStatus::new(Call::Testall, array_of_statuses);
        let all = wait_test::test_all(array, |index, outcome| errors.store(index, index, outcome))?;
        put(flag, c_int::from(all), "flag")?;
        errors.finish()
    }
}

pub(crate) unsafe fn request_get_status_all(
    count: c_int,
    array_of_requests: *const MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut Status,
) -> Result<()> {
    // SAFETY: the user's arrays, of `count` elements each; the requests are only read.
    unsafe {
        let array = requests(array_of_requests.cast_mut(), count)?;
        let mut errors = InStatus::new(Call::Request_get_status_all, array_of_statuses);
        let all =
            wait_test::status_all(array, |index, outcome| errors.store(index, index, outcome))?;
        put(flag, c_int::from(all), "flag")?;
        errors.finish()
    }
}

/// Stores the results of Waitsome, Testsome and Request_get_status_some.
unsafe fn some(
    call: Call,
    array: &mut [usize],
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
    look: impl FnOnce(&mut [usize], &mut dyn FnMut(usize, Outcome)) -> Result<Option<usize>>,
) -> Result<()> {
    let mut errors = InStatus::new(call, statuses);
    // SAFETY: the user's array of `incount` indices.
    let places = unsafe { slice_mut(indices, array.len() as MPI_Count, "array_of_indices")? };
    let mut at = 0;
    let found = look(array, &mut |index, outcome| {
        places[at] = index as c_int;
        // SAFETY: the user's array of `incount` statuses, and `at` is below that.
        unsafe { errors.store(at, index, outcome) };
        at += 1;
    })?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(outcount, found.map_or(UNDEFINED, |found| found as c_int), "outcount")? };
    errors.finish()
}

pub(crate) unsafe fn waitsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> Result<()> {
    // SAFETY: the user's arrays, of `incount` elements each.
    unsafe {
        let array = requests(array_of_requests, incount)?;
        some(Call::Waitsome, array, outcount, array_of_indices, array_of_statuses, |array, each| {
            wait_test::wait_some(array, each)
        })
    }
}

pub(crate) unsafe fn testsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> Result<()> {
    // SAFETY: the user's arrays, of `incount` elements each.
    unsafe {
        let array = requests(array_of_requests, incount)?;
        some(Call::Testsome, array, outcount, array_of_indices, array_of_statuses, |array, each| {
            wait_test::test_some(array, each)
        })
    }
}

pub(crate) unsafe fn request_get_status_some(
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> Result<()> {
    // SAFETY: the user's arrays, of `incount` elements each; the requests are only read.
    unsafe {
        let array = requests(array_of_requests.cast_mut(), incount)?;
        some(
            Call::Request_get_status_some,
            array,
            outcount,
            array_of_indices,
            array_of_statuses,
            |array, each| wait_test::status_some(array, each),
        )
    }
}

pub(crate) unsafe fn request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let outcome = wait_test::status(request.0)?;
    // SAFETY: the user's pointers; null is refused or ignored.
    unsafe {
        put(flag, c_int::from(outcome.is_some()), "flag")?;
        if let Some(outcome) = outcome {
            put_status(status, &outcome.status);
        }
    }
    Ok(())
}

pub(crate) unsafe fn request_free(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the user's pointer; null is refused.
    let request = unsafe { one(request)? };
    let generalized = with(|p| p.free_request(*request))?;
    *request = predefined::REQUEST_NULL;
    generalized.map_or(Ok(()), |generalized| generalized.free())
}

pub(crate) unsafe fn cancel(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the user's pointer; null is refused.
    message::cancel(unsafe { *one(request)? })
}

pub(crate) unsafe fn start(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the user's pointer; null is refused.
    message::start(*unsafe { one(request)? })
}

pub(crate) unsafe fn startall(count: c_int, array_of_requests: *mut MPI_Request) -> Result<()> {
    // SAFETY: the user's array of `count` requests.
    unsafe { requests(array_of_requests, count)? }
        .iter()
        .try_for_each(|&request| message::start(request))
}

/// Returns the user's status, which must not be MPI_STATUS_IGNORE here.
unsafe fn status_ref<'a>(status: *const Status) -> Result<&'a Status> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { status.as_ref() }.ok_or_else(|| null_argument("status"))
}

unsafe fn status_mut<'a>(status: *mut Status) -> Result<&'a mut Status> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { status.as_mut() }.ok_or_else(|| null_argument("status"))
}

pub(crate) unsafe fn test_cancelled(status: *const Status, flag: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointers; null is refused.
    unsafe { put(flag, c_int::from(status_ref(status)?.is_cancelled()), "flag") }
}

pub(crate) unsafe fn status_get_error(status: *const Status, error: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointers; null is refused.
    unsafe { put(error, status_ref(status)?.error, "error") }
}

pub(crate) unsafe fn status_get_source(status: *const Status, source: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointers; null is refused.
    unsafe { put(source, status_ref(status)?.source, "source") }
}

pub(crate) unsafe fn status_get_tag(status: *const Status, tag: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointers; null is refused.
    unsafe { put(tag, status_ref(status)?.tag, "tag") }
}

pub(crate) unsafe fn status_set_error(status: *mut Status, error: c_int) -> Result<()> {
    // SAFETY: the user's pointer; null is refused.
    unsafe { status_mut(status)? }.error = error;
    Ok(())
}

pub(crate) unsafe fn status_set_source(status: *mut Status, source: c_int) -> Result<()> {
    // SAFETY: the user's pointer; null is refused.
    unsafe { status_mut(status)? }.source = source;
    Ok(())
}

pub(crate) unsafe fn status_set_tag(status: *mut Status, tag: c_int) -> Result<()> {
    // SAFETY: the user's pointer; null is refused.
    unsafe { status_mut(status)? }.tag = tag;
    Ok(())
}

pub(crate) unsafe fn status_set_cancelled(status: *mut Status, flag: c_int) -> Result<()> {
    // SAFETY: the user's pointer; null is refused.
    unsafe { status_mut(status)? }.set_cancelled(flag != 0);
    Ok(())
}

pub(crate) unsafe fn status_set_elements(
    status: *mut Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    let count = crate::args::checked_count(count, "count")?;
    let bytes = with(|p| p.datatype(datatype.0).map(|datatype| datatype.bytes_of(count)))?;
    // SAFETY: the user's pointer; null is refused.
    unsafe { status_mut(status)? }.set_bytes(bytes);
    Ok(())
}

pub(crate) unsafe fn status_set_elements_x(
    status: *mut Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { status_set_elements(status, datatype, count) }
}

pub(crate) unsafe fn get_count(
    status: *const Status,
    datatype: MPI_Datatype,
    count: CountOut,
) -> Result<()> {
    // SAFETY: the user's pointers; null is refused.
    unsafe {
        let bytes = status_ref(status)?.bytes();
        let size = with(|p| p.datatype(datatype.0).map(objects::Datatype::size))?;
        let items = match size {
            0 if bytes == 0 => Some(0),
            0 => None,
            size => (bytes % size == 0).then_some(bytes / size),
        };
        count.put_or_undefined(items, "count")
    }
}

pub(crate) unsafe fn get_elements(
    status: *const Status,
    datatype: MPI_Datatype,
    count: CountOut,
) -> Result<()> {
    // SAFETY: the user's pointers; null is refused.
    unsafe {
        let bytes = status_ref(status)?.bytes();
        let (elements, partial) =
            with(|p| p.datatype(datatype.0).map(|datatype| datatype.elements_of(bytes)))?;
        count.put_or_undefined((!partial).then_some(elements), "count")
    }
}

pub(crate) unsafe fn get_elements_x(
    status: *const Status,
    datatype: MPI_Datatype,
    count: *mut MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { get_elements(status, datatype, CountOut::Large(count)) }
}
