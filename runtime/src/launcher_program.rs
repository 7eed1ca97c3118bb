//! Starts the program of a launcher for this process or for the ranks of its job: the `mpiexec` of
//! this library, or the first one in PATH.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bootstrap::callers::Callers;
use bootstrap::hand_over;

/// The name of the program.
const PROGRAM: &str = "mpiexec";

/// Starts a launcher, if its program is found. Returns the socket to it.
pub(crate) fn start_if_found(callers: &Callers) -> Option<OwnedFd> {
    find().and_then(|program| start_for(callers, &program).ok())
}

/// Starts a launcher with a stand-in for each rank. Returns the socket to it.
pub(crate) fn start_for(callers: &Callers, program: &Path) -> Result<OwnedFd, String> {
    let (ours, theirs) = hand_over::socket().map_err(|errno| errno.to_string())?;
    callers.send(ours.as_fd()).map_err(|errno| errno.to_string())?;
    start(program, hand_over::LAUNCHER_OF_SEVERAL_OPTION, theirs)
        .map_err(|error| error.to_string())?;
    Ok(ours)
}

/// Starts the program, which starts the launcher and ends.
pub(crate) fn start(program: &Path, option: &str, socket: OwnedFd) -> std::io::Result<()> {
    let child = Command::new(program).arg(option).stdin(Stdio::from(socket)).spawn();
    // A handler of the user's may wait for all children; what the launcher sends counts.
    child.map(|mut child| _ = child.wait())
}

/// Returns the `mpiexec` of this library, or the first one in PATH.
pub(crate) fn find() -> Option<PathBuf> {
    let beside = own_library().into_iter().flat_map(|library| {
        let folder = library.parent().unwrap_or(Path::new("/"));
        // As installed, and as built.
        [folder.with_file_name("bin"), folder.to_owned()]
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside.chain(std::env::split_paths(&path)).map(|it| it.join(PROGRAM)).find(|it| it.is_file())
}

/// Returns the file that this code is in.
fn own_library() -> Option<PathBuf> {
    let here = own_library as *const ();
    // SAFETY: all zeros are a valid `Dl_info`: null pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: takes any address, and writes into `info` alone.
    let found = unsafe { libc::dladdr(here.cast(), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a loaded file, which this code keeps loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}
