//! MPI-5.0 §11.2, §11.4: initialization, finalization and MPI_Abort.

use std::os::raw::{c_char, c_int};

use objects::Result;
use runtime::{InitState, with};

use crate::abi::MPI_Comm;
use crate::args::put;

/// MPI_THREAD_SINGLE.
const THREAD_SINGLE: c_int = 0;

pub(crate) unsafe fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    runtime::init(THREAD_SINGLE).map(|_| ())
}

pub(crate) unsafe fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> Result<()> {
    let level = runtime::init(required)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(provided, level, "provided") }
}

pub(crate) unsafe fn initialized(flag: *mut c_int) -> Result<()> {
    let begun = with(|p| p.world_model.init_state != InitState::Before);
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(flag, c_int::from(begun), "flag") }
}

pub(crate) unsafe fn finalized(flag: *mut c_int) -> Result<()> {
    let ended = with(|p| p.world_model.init_state == InitState::Finalized);
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(flag, c_int::from(ended), "flag") }
}

pub(crate) unsafe fn finalize() -> Result<()> {
    with(|p| p.comm(runtime::predefined::COMM_WORLD).map(|_| ()))?;
    crate::attribute::delete_all_of_self()?;
    runtime::finalize()
}

pub(crate) unsafe fn query_thread(provided: *mut c_int) -> Result<()> {
    let level = with(|p| p.core().map(|_| ()).map(|()| p.world_model.thread_level))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(provided, level, "provided") }
}

pub(crate) unsafe fn is_thread_main(flag: *mut c_int) -> Result<()> {
    let main = with(|p| {
        p.core()
            .map(|_| ())
            .map(|()| p.world_model.main_thread == Some(std::thread::current().id()))
    })?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(flag, c_int::from(main), "flag") }
}

pub(crate) unsafe fn abort(comm: MPI_Comm, errorcode: c_int) -> Result<()> {
    let name = with(|p| {
        p.comm(comm.0).map_or_else(|_| "no communicator".to_owned(), |comm| comm.describe())
    });
    runtime::abort(&name, errorcode)
}
