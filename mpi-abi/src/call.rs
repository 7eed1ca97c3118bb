//! The frame of every entry point: it records the call on the status page, runs the body, and
//! raises the body's error through an error handler.
//!
//! Without an error this is two stores. A call with a body `..._now` tries that first, and the
//! other one where it is false ([`ends_at_once`]). Bodies return `objects::Result<()>`. An error
//! goes to the handler of the call's object, or of the communicator that the error names
//! (`Error::on`).

use std::os::raw::c_int;

use bootstrap::calls::Call;
use objects::{Class, Error, Result};
use runtime::{Process, status_page};

pub(crate) use runtime::RaiseOn;

use crate::constants::MPI_SUCCESS;

/// Runs the body of `call`.
#[inline(always)]
pub(crate) fn call(call: Call, on: RaiseOn, body: impl FnOnce() -> Result<()>) -> c_int {
    let recorded = Recorded::enter(call);
    let result = body();
    let code = match result {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(call, on, error),
    };
    drop(recorded);
    code
}

/// Runs the part of a call that ends at once or does nothing; true if it has ended, and well. Code
/// of a few instructions, whose caller leaves everything else to another function with the same
/// arguments: then this needs no stack.
#[inline(always)]
pub(crate) fn ends_at_once(call: Call, body: impl FnOnce(&mut Process) -> bool) -> bool {
    let _recorded = Recorded::enter(call);
    runtime::with_alone(body) == Some(true)
}

/// Runs the body of a call of the tool interface, whose errors are codes that go to no handler
/// (MPI-5.0 §15.3).
#[inline(always)]
pub(crate) fn tool(call: Call, body: impl FnOnce() -> c_int) -> c_int {
    let _recorded = Recorded::enter(call);
    body()
}

/// Raises the error of a call that has no body yet.
#[allow(
    dead_code,
    reason = "all rows of the table have bodies; one that is added has none at first"
)]
#[cold]
pub(crate) fn unsupported(call: Call, on: RaiseOn) -> c_int {
    let detail = format!("{} is not implemented in this version of Verbena", call.name());
    self::call(call, on, || Err(Error::new(Class::UnsupportedOperation, detail)))
}

/// Reads the handle at the address that a call like MPI_Comm_free gets; the null handle for a null
/// address.
///
/// # Safety
/// `handle` is null or valid.
#[inline]
pub(crate) unsafe fn handle_at<T: Copy + Default>(handle: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.copied().unwrap_or_default()
}

#[cold]
#[inline(never)]
fn raise(call: Call, on: RaiseOn, error: Error) -> c_int {
    runtime::raise(call.name(), on, error)
}

/// Records on the status page that this rank is in a call, until it is dropped.
struct Recorded;

impl Recorded {
    #[inline(always)]
    fn enter(call: Call) -> Recorded {
        status_page::entry().enter(call.index());
        Recorded
    }
}

impl Drop for Recorded {
    #[inline(always)]
    fn drop(&mut self) {
        status_page::entry().leave();
    }
}

/// Exports another name of an entry point. The function is naked, so that any number of arguments
/// arrives as it was passed.
macro_rules! jump {
    ($name:ident to $target:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {}", sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {}", sym $target);
        }
    };
}
pub(crate) use jump;
