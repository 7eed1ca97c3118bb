//! A launcher for a process that was started without one: the process starts it when it first
//! spawns processes, opens a port or uses a name of a service.
//!
//! From then on the process is the only rank of a job of that launcher ([`bootstrap::hand_over`]).
//! Nothing else changes for it: its number was 0 before, and it had no peers.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bootstrap::control::Control;
use bootstrap::hand_over;

use crate::lock::with;
use crate::process::Core;

/// The name of the launcher's program.
const PROGRAM: &str = "mpiexec";
/// Seconds that it has to start: more than on a busy machine.
const START_SECONDS: i64 = 60;

/// Returns the connection to the launcher of this process, which is started if there is none. The
/// error is a text for the user.
pub(crate) fn launcher() -> Result<Arc<Control>, String> {
    with(|p| {
        let core = p.core().map_err(|error| error.to_string())?;
        if core.job.control().is_none() {
            core.start_launcher()?;
        }
        core.job.control().ok_or_else(|| "this process has no launcher".to_owned())
    })
}

impl Core {
    /// Records that this process has finished: no part of MPI is initialised any more.
    pub(crate) fn finish_job(&mut self) {
        self.job.mark_finalized();
        self.job.leave_own_launcher();
    }

    fn start_launcher(&mut self) -> Result<(), String> {
        if let Some(name) = self.job.process_manager() {
            return Err(format!("{name} started this job; start it with mpiexec of Verbena"));
        }
        if self.job.ancestor().is_some() {
            return Err("its launcher has ended with the last session or MPI_Finalize".into());
        }
        let remedy = "start the program with `mpiexec -n 1` of Verbena";
        let program = find().ok_or_else(|| {
            format!(
                "this process was started without mpiexec, and finds none beside its library or in \
                 PATH; {remedy}"
            )
        })?;
        let failed = |why: String| {
            let program = program.display();
            format!(
                "this process was started without mpiexec, and {program} does not serve it: {why}; \
                 {remedy}"
            )
        };
        let (ours, theirs) = hand_over::socket().map_err(|errno| failed(errno.to_string()))?;
        start(&program, theirs).map_err(|error| failed(error.to_string()))?;
        let rank = hand_over::receive(ours.as_fd(), START_SECONDS)
            .ok_or_else(|| failed("it is that of another MPI, or has reported an error".into()))?;
        self.job.join_own_launcher(ours, rank).map_err(|error| failed(error.to_string()))?;
        crate::status_page::attach(self.job.status_entry());
        Ok(())
    }
}

/// Starts the program, which starts the launcher and ends.
fn start(program: &Path, socket: OwnedFd) -> std::io::Result<()> {
    let mut command = Command::new(program);
    let child = command.arg(hand_over::LAUNCHER_OPTION).stdin(Stdio::from(socket)).spawn();
    // A handler of the user's may wait for all children; what the launcher sends counts.
    child.map(|mut child| _ = child.wait())
}

/// Returns the `mpiexec` of this library, or the first one in PATH.
fn find() -> Option<PathBuf> {
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
