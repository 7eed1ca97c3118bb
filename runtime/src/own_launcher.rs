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
//! needs it: at the latest when it meets processes of other jobs. Over several hosts the ranks of
//! each must follow each other.
//!
//! A rank that has waited for long starts it, too, without joining: it reports stalls.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::control::Control;
use bootstrap::{Job, OwnLauncher, hand_over};
use config::{DEFAULT_STALL_TIMEOUT, Knobs, knob};

use crate::launcher_program::{find, start, start_for, start_if_found};
use crate::lock::with;
use crate::process::Core;
use crate::stack::Inter;

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

/// Returns how long a call waits before a launcher is started that looks for stalls; `None` in the
/// job of our launcher, and if stalls are not to be reported.
pub(crate) fn watch_after(job: &Job, knobs: &Knobs) -> Option<Duration> {
    job.process_manager()?;
    // The launcher needs the other half.
    stall_timeout(knobs).map(|timeout| timeout / 2)
}

/// Returns the time that makes a stall; `None` if stalls are not to be reported.
pub(crate) fn stall_timeout(knobs: &Knobs) -> Option<Duration> {
    let timeout = knobs.duration(knob::LAUNCH_STALL_TIMEOUT).unwrap_or(DEFAULT_STALL_TIMEOUT);
    Some(timeout).filter(|timeout| !timeout.is_zero())
}

impl Core {
    /// Records that this process has finished: no part of MPI is initialised any more.
    pub(crate) fn finish_job(&mut self) {
        self.job.mark_finalized();
        self.job.leave_own_launcher();
        self.host_listener = None;
    }

    /// Starts the launcher, or joins that of the other ranks. The error is a text for the user.
    pub(crate) fn start_launcher(&mut self) -> Result<(), String> {
        if self.job.has_left_own_launcher() {
            return Err("its launcher has ended with the last session or MPI_Finalize".into());
        }
        match self.job.process_manager() {
            None => self.start_alone(),
            Some(_) => self.start_or_join(),
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
        loop {
            let page = self.job.status_page();
            if page.own_launcher() == OwnLauncher::Running {
                break;
            }
            if page.begin_own_launcher() {
                let started = self.start_for_all(&program);
                self.job.status_page().own_launcher_started(started.is_ok());
                started.map_err(failed)?;
                break;
            }
            if began.elapsed() >= START_LIMIT {
                return Err(failed("another rank is still starting it".into()));
            }
            std::thread::sleep(START_INTERVAL);
        }
        let mpiexec = self.launcher_socket.take();
        let in_vain = || mpiexec.as_ref().is_some_and(|socket| hand_over::is_over(socket.as_fd()));
        let place = (self.job.id(), self.job.rank());
        let stand_in = hand_over::connect_to(place, START_SECONDS, in_vain);
        let stand_in = stand_in.map_err(|_| failed(NO_ANSWER.into()))?;
        let rank = hand_over::receive(stand_in.as_fd(), START_SECONDS)
            .ok_or_else(|| failed(NO_ANSWER.into()))?;
        let joined = self.job.join_own_launcher((stand_in, mpiexec), rank);
        joined.map_err(|error| failed(error.to_string()))?;
        if let (Some(addresses), Some(control)) = (&self.addresses, self.job.control()) {
            addresses.join(&control).map_err(failed)?;
        }
        if let Some(tcp) = self.stack.endpoint.inter().and_then(Inter::tcp) {
            tcp.watch_store().map_err(|error| failed(error.to_string()))?;
        }
        Ok(())
    }

    /// Starts a launcher for all ranks.
    fn start_for_all(&mut self, program: &Path) -> Result<(), String> {
        let began = Instant::now();
        let callers = loop {
            // A rank that is still in MPI_Init has no place on the status page.
            match self.job.callers()? {
                Some(callers) => break callers,
                None if began.elapsed() < START_LIMIT => std::thread::sleep(START_INTERVAL),
                None => return Err("a rank has not completed MPI_Init".into()),
            }
        };
        let socket = start_for(&callers, program)?;
        self.keep_socket(Some(socket));
        Ok(())
    }

    /// Starts a launcher that looks for stalls, if this process has waited for so long that it may
    /// be in one, and no launcher looks. If it cannot, the program goes on without.
    pub(crate) fn watch_for_stalls(&mut self, waited: Duration) {
        if self.watch_after.is_none_or(|after| waited < after) {
            return;
        }
        let callers = match self.job.callers() {
            Ok(None) => return,
            callers => callers.ok().flatten(),
        };
        self.watch_after = None;
        let Some(callers) = callers else { return };
        let page = self.job.status_page();
        if page.begin_own_launcher() {
            let started = start_if_found(&callers);
            page.own_launcher_started(started.is_some());
            self.keep_socket(started);
        }
    }

    /// Keeps the socket to a launcher that this rank has started; over several hosts that is one of
    /// the first host, which it has asked.
    fn keep_socket(&mut self, socket: Option<OwnedFd>) {
        self.launcher_socket = socket.filter(|_| self.job.local_size == self.job.size);
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
