//! A launcher for processes that were started without one, or by a process manager that cannot
//! start further ones: it is started when it is first needed to spawn processes, to open a port or
//! for a name of a service.
//!
//! From then on a process that was started alone is the only rank of a job of that launcher
//! ([`bootstrap::hand_over`]). Nothing else changes for it: its number was 0 before, and it had no
//! peers.
//!
//! The ranks of a process manager's job share one launcher, in whose job they have the same ranks.
//! The first rank that needs it starts it; their status page says so. Each other one joins when it
//! needs it: at the latest when it meets processes of other jobs. All ranks must be on one host.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::control::Control;
use bootstrap::{OwnLauncher, hand_over};

use crate::lock::with;
use crate::process::Core;

/// The name of the launcher's program.
const PROGRAM: &str = "mpiexec";
/// Seconds that it has to start: more than on a busy machine.
const START_SECONDS: i64 = 60;
/// The same, for a rank that waits for another one to start it.
const START_LIMIT: Duration = Duration::from_secs(START_SECONDS as u64);
/// Time from one look at the status page to the next.
const START_INTERVAL: Duration = Duration::from_millis(2);
/// Why a launcher has not answered.
const NO_ANSWER: &str = "it is that of another MPI, or has reported an error";

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

    /// Starts the launcher, or joins that of the other ranks. The error is a text for the user.
    pub(crate) fn start_launcher(&mut self) -> Result<(), String> {
        if self.job.has_left_own_launcher() {
            return Err("its launcher has ended with the last session or MPI_Finalize".into());
        }
        match self.job.process_manager() {
            None => self.start_alone(),
            Some(_) if self.job.local_size == self.job.size => self.start_or_join(),
            Some(name) => Err(format!(
                "{name} has started this job on several hosts, and starts no further processes; \
                 start the job with Verbena's mpiexec, which takes the hosts of an allocation \
                 (`mpiexec -n {} PROGRAM`)",
                self.job.size
            )),
        }
    }

    /// Starts a launcher for a process that was started alone.
    fn start_alone(&mut self) -> Result<(), String> {
        const HOW: &str = "without mpiexec";
        let remedy = "start the program with `mpiexec -n 1` of Verbena";
        let program = program(HOW, remedy)?;
        let failed = |why: String| unserved(HOW, &program, &why, remedy);
        let (ours, theirs) = hand_over::socket().map_err(|errno| failed(errno.to_string()))?;
        start(&program, hand_over::LAUNCHER_OPTION, theirs)
            .map_err(|error| failed(error.to_string()))?;
        let rank = hand_over::receive(ours.as_fd(), START_SECONDS)
            .ok_or_else(|| failed(NO_ANSWER.into()))?;
        let joined = self.job.join_own_launcher((ours, None), rank);
        joined.map_err(|error| failed(error.to_string()))?;
        crate::status_page::attach(self.job.status_entry());
        Ok(())
    }

    /// Starts a launcher for all ranks of a process manager's job, or joins it.
    fn start_or_join(&mut self) -> Result<(), String> {
        let how = format!("by {}", self.job.process_manager().unwrap_or_default());
        let remedy = format!("start the program with `mpiexec -n {}` of Verbena", self.job.size);
        let program = program(&how, &remedy)?;
        let failed = |why: String| unserved(&how, &program, &why, &remedy);
        let began = Instant::now();
        let mpiexec = loop {
            let page = self.job.status_page();
            if page.own_launcher() == OwnLauncher::Running {
                break None;
            }
            if page.begin_own_launcher() {
                let started = self.start_for_all(&program);
                self.job.status_page().own_launcher_started(started.is_ok());
                break Some(started.map_err(failed)?);
            }
            if began.elapsed() >= START_LIMIT {
                return Err(failed("another rank is still starting it".into()));
            }
            std::thread::sleep(START_INTERVAL);
        };
        let in_vain = || mpiexec.as_ref().is_some_and(|socket| hand_over::is_over(socket.as_fd()));
        let place = (self.job.id(), self.job.rank());
        let stand_in = hand_over::connect_to(place, START_SECONDS, in_vain);
        let stand_in = stand_in.map_err(|_| failed(NO_ANSWER.into()))?;
        let rank = hand_over::receive(stand_in.as_fd(), START_SECONDS)
            .ok_or_else(|| failed(NO_ANSWER.into()))?;
        let joined = self.job.join_own_launcher((stand_in, mpiexec), rank);
        joined.map_err(|error| failed(error.to_string()))?;
        // Those of the manager's store.
        self.addresses = None;
        Ok(())
    }

    /// Starts a launcher with a stand-in for each rank. Returns the socket to it.
    fn start_for_all(&self, program: &Path) -> Result<OwnedFd, String> {
        let began = Instant::now();
        let callers = loop {
            // A rank that is still in MPI_Init has no place on the status page.
            match self.job.callers() {
                Some(callers) => break callers,
                None if began.elapsed() < START_LIMIT => std::thread::sleep(START_INTERVAL),
                None => return Err("a rank has not completed MPI_Init".into()),
            }
        };
        let (ours, theirs) = hand_over::socket().map_err(|errno| errno.to_string())?;
        callers.send(ours.as_fd()).map_err(|errno| errno.to_string())?;
        start(program, hand_over::LAUNCHER_OF_SEVERAL_OPTION, theirs)
            .map_err(|error| error.to_string())?;
        Ok(ours)
    }
}

/// Returns the program of the launcher. The error is a text for the user.
fn program(how: &str, remedy: &str) -> Result<PathBuf, String> {
    find().ok_or_else(|| {
        format!(
            "this process was started {how}, and finds no mpiexec beside its library or in PATH; \
             {remedy}"
        )
    })
}

fn unserved(how: &str, program: &Path, why: &str, remedy: &str) -> String {
    let program = program.display();
    format!("this process was started {how}, and {program} does not serve it: {why}; {remedy}")
}

/// Starts the program, which starts the launcher and ends.
fn start(program: &Path, option: &str, socket: OwnedFd) -> std::io::Result<()> {
    let child = Command::new(program).arg(option).stdin(Stdio::from(socket)).spawn();
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
