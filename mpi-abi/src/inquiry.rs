//! MPI-5.0 §9.1 and §9.6, §4.1.5, §15.2: versions, clocks, addresses, the name of the machine. All
//! of these may be called before MPI_Init.

use std::ffi::OsStr;
use std::os::raw::{c_char, c_double, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use objects::Result;

use crate::abi::MPI_Aint;
use crate::args::put;
use crate::constants::{
    MPI_MAX_LIBRARY_VERSION_STRING, MPI_MAX_PROCESSOR_NAME, MPI_SUBVERSION, MPI_VERSION,
};
use crate::text::put_text;

/// The text of MPI_Get_library_version.
const LIBRARY: &str =
    concat!("Verbena ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, standard ABI 1.0)");

pub(crate) unsafe fn get_version(version: *mut c_int, subversion: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(version, MPI_VERSION, "version")?;
        put(subversion, MPI_SUBVERSION, "subversion")
    }
}

pub(crate) unsafe fn get_library_version(
    version: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // SAFETY: the user's buffer of MPI_MAX_LIBRARY_VERSION_STRING characters.
    unsafe { put_text(version, MPI_MAX_LIBRARY_VERSION_STRING, resultlen, LIBRARY) }
}

pub(crate) unsafe fn get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> Result<()> {
    let mut host = [0_u8; MPI_MAX_PROCESSOR_NAME as usize];
    // SAFETY: the length is the buffer's.
    let failed = unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) } != 0;
    let end = host.iter().position(|&byte| byte == 0).unwrap_or(host.len());
    let words = OsStr::from_bytes(if failed { b"unknown" } else { &host[..end] });
    // SAFETY: the user's buffer of MPI_MAX_PROCESSOR_NAME characters.
    unsafe { put_text(name, MPI_MAX_PROCESSOR_NAME, resultlen, words) }
}

/// Returns the seconds of the monotonic clock, which all ranks of a host share.
#[inline]
pub(crate) unsafe fn wtime() -> c_double {
    seconds(libc::clock_gettime)
}

pub(crate) unsafe fn wtick() -> c_double {
    seconds(libc::clock_getres)
}

type Clock = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

#[inline]
fn seconds(ask: Clock) -> c_double {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours, and both functions write one timespec. They cannot
    // fail: Linux has this clock.
    unsafe { ask(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as c_double + time.tv_nsec as c_double * 1e-9
}

pub(crate) unsafe fn get_address(location: *const c_void, address: *mut MPI_Aint) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(address, location as MPI_Aint, "address") }
}

pub(crate) unsafe fn address(location: *mut c_void, address: *mut MPI_Aint) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { get_address(location, address) }
}

/// Subtracts addresses, which wrap as pointers do.
pub(crate) unsafe fn aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

pub(crate) unsafe fn aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

/// Does nothing; tools replace it (MPI-5.0 §15.2.4).
pub(crate) unsafe fn pcontrol(_level: c_int) -> Result<()> {
    Ok(())
}
