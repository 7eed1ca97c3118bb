//! What every entry point does around its body: it writes the call into the
//! status page, and raises the body's error through an error handler.
//!
//! Without an error this is two stores. Bodies return `objects::Result<()>`;
//! their errors go to the handler of the object that the call is made on, or to
//! that of the communicator which the error names (`Error::on`).

use std::os::raw::c_int;

use bootstrap::calls::Call;
use objects::{Class, Error, Result};
use runtime::status_page;

pub(crate) use runtime::RaiseOn;

use crate::constants::{MPI_SUCCESS, MPI_T_ERR_NOT_SUPPORTED};

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

/// Runs the body of a call of the tool interface, whose errors are codes that no
/// handler sees (MPI-5.0 §15.3).
#[allow(dead_code, reason = "no tool call has a body yet")]
#[inline(always)]
pub(crate) fn tool(call: Call, body: impl FnOnce() -> c_int) -> c_int {
    let _recorded = Recorded::enter(call);
    body()
}

/// A call that has no body yet.
#[cold]
pub(crate) fn unsupported(call: Call, on: RaiseOn) -> c_int {
    let detail = format!("{} is not implemented in this version of Verbena", call.name());
    self::call(call, on, || Err(Error::new(Class::UnsupportedOperation, detail)))
}

/// A call of the tool interface that has no body yet.
#[cold]
pub(crate) fn unsupported_tool(_: Call) -> c_int {
    MPI_T_ERR_NOT_SUPPORTED
}

/// The handle behind the address that a call like MPI_Comm_free gets.
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

/// The board says that this rank is in a call, as long as this lives.
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

/// Exports a name that is another entry point. Naked, so that any arguments, of
/// any number, arrive as they were passed.
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
