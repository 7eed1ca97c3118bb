//! Sessions (MPI-5.0 §11.3): handles to MPI that are created and finalised before, beside and after
//! the world model.
//!
//! A session owns its error handler and its thread level only. The protocol stack starts with the
//! first session (or MPI_Init) and stays until the process ends. If the last session ends while the
//! world model is not running, MPI_Session_finalize first waits until everything that peers wait
//! for has left. Then it reports to the launcher that the process may exit.

use objects::{Class, Errhandler, Error, Group, Result};

use crate::init::{THREAD_LEVELS, start_engine};
use crate::lock::{block_on, with};
pub use crate::process::Session;
use crate::process::{InitState, Process, bad_handle, bad_predefined, predefined};
use crate::wait_target::WaitTarget;

/// Names of the process sets that every session has.
pub const PSETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

impl Process {
    /// Returns the session of a handle; MPI_ERR_SESSION if the handle names none.
    pub fn session(&self, handle: usize) -> Result<&Session> {
        if handle < predefined::END {
            return Err(bad_predefined(
                Class::Session,
                "session",
                handle,
                predefined::SESSION_NULL,
            ));
        }
        self.tables
            .sessions
            .get(handle as u64)
            .map_err(|stale| bad_handle(Class::Session, "session", stale))
    }

    /// Returns the session of a handle, to change it.
    pub fn session_mut(&mut self, handle: usize) -> Result<&mut Session> {
        self.session(handle)?;
        self.tables
            .sessions
            .get_mut(handle as u64)
            .map_err(|stale| bad_handle(Class::Session, "session", stale))
    }

    /// Returns the members of a process set; MPI_ERR_ARG if no set has this name.
    pub fn pset(&self, name: &str) -> Result<Group> {
        let core = self
            .core
            .as_deref()
            .ok_or_else(|| crate::process::not_running(self.world_model.init_state))?;
        match PSETS.iter().position(|known| known.eq_ignore_ascii_case(name)) {
            Some(0) => Ok(core.world.group().clone()),
            Some(_) => Ok(core.comm_self.group().clone()),
            None => {
                let text =
                    format!("invalid process set \"{name}\": must be {} or {}", PSETS[0], PSETS[1]);
                Err(Error::new(Class::Arg, text))
            }
        }
    }
}

/// Performs MPI_Session_init; returns the handle. `level` is the requested thread level. The
/// default is the highest, since libraries that open sessions do not know of each other's threads.
pub fn init(errhandler: Errhandler, level: Option<i32>) -> Result<usize> {
    let thread_level = start_engine(level.unwrap_or(THREAD_LEVELS[3]))?;
    Ok(with(|p| {
        if let Some(core) = &p.core
            && p.tables.sessions.is_empty()
            && p.world_model.init_state != InitState::Running
        {
            core.job.mark_in_session();
        }
        p.tables.sessions.insert(Session { errhandler, thread_level }) as usize
    }))
}

/// Performs MPI_Session_finalize. The last session waits until everything that peers wait for has
/// left this process.
pub fn finalize(handle: usize) -> Result<()> {
    with(|p| p.session(handle).map(|_| ()))?;
    block_on(|p| p.bsend.is_drained(handle).then_some(()));
    if with(|p| p.world_model.init_state != InitState::Running && p.tables.sessions.len() == 1) {
        block_on(Process::drain);
    }
    with(|p| {
        p.bsend.detach(handle);
        let _ = p.tables.sessions.remove(handle as u64);
        if p.world_model.init_state != InitState::Running && p.tables.sessions.is_empty() {
            p.core()?.finish_job();
        }
        Ok(())
    })
}

impl Process {
    /// Returns `None` while something that a peer waits for is still to leave this process.
    fn drain(&mut self) -> Option<()> {
        let is_idle = self.bsend.is_idle()
            && self.core.as_deref().is_none_or(|core| core.collectives.is_drained());
        is_idle.then(|| self.drain_stack())?
    }

    /// Returns `None` while a message is still to leave this process, and records the send whose
    /// receive is missing: its user has let go of it.
    pub(crate) fn drain_stack(&mut self) -> Option<()> {
        let Some(stack) = self.stack() else { return Some(()) };
        if stack.is_drained() {
            return Some(());
        }
        if let Some(send) = stack.pt2pt().unmatched_send() {
            self.wait_target = WaitTarget::Message(send);
        }
        None
    }
}
