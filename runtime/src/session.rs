//! Sessions (MPI-5.0 §11.3): handles to MPI that come and go, before, beside
//! and after the world model.
//!
//! A session holds nothing of its own but its error handler and what was asked
//! of it: the engine starts with the first session (or MPI_Init) and stays until
//! the process ends. When the last session ends and the world model is not
//! running, everything that others wait for has left, and the launcher is told
//! that the process may exit.

use objects::{Class, Errhandler, Error, Group, Result};

use crate::init::{THREAD_LEVELS, start_engine};
use crate::lock::{block_on, with};
pub use crate::process::Session;
use crate::process::{InitState, Process, bad_handle, bad_predefined, predefined};

/// The process sets that every session has.
pub const PSETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

impl Process {
    /// The session of a handle. MPI_ERR_SESSION when it is none.
    pub fn session(&self, handle: usize) -> Result<&Session> {
        if handle < predefined::END {
            return Err(bad_predefined(
                Class::Session,
                "session",
                handle,
                predefined::SESSION_NULL,
            ));
        }
        self.sessions
            .get(handle as u64)
            .map_err(|stale| bad_handle(Class::Session, "session", stale))
    }

    /// As [`Process::session`], to change it.
    pub fn session_mut(&mut self, handle: usize) -> Result<&mut Session> {
        self.session(handle)?;
        self.sessions
            .get_mut(handle as u64)
            .map_err(|stale| bad_handle(Class::Session, "session", stale))
    }

    /// The members of a process set. MPI_ERR_ARG when there is none of that name.
    pub fn pset(&self, name: &str) -> Result<Group> {
        let core =
            self.core.as_deref().ok_or_else(|| crate::process::not_running(self.init_state))?;
        match PSETS.iter().position(|known| known.eq_ignore_ascii_case(name)) {
            Some(0) => Ok(core.world.group().clone()),
            Some(_) => Ok(core.comm_self.group().clone()),
            None => {
                let help = format!(
                    "there is no process set \"{name}\": there are {} and {}",
                    PSETS[0], PSETS[1]
                );
                Err(Error::new(Class::Arg, help))
            }
        }
    }
}

/// MPI_Session_init: the handle. `level` is the thread level asked for; where
/// nothing is said it is the highest, since libraries that open sessions of
/// their own do not know of each other's threads.
pub fn init(errhandler: Errhandler, level: Option<i32>) -> Result<usize> {
    let thread_level = start_engine(level.unwrap_or(THREAD_LEVELS[3]))?;
    Ok(with(|p| {
        if let Some(core) = &p.core
            && p.sessions.is_empty()
            && p.init_state != InitState::Running
        {
            core.job.mark_running();
        }
        p.sessions.insert(Session { errhandler, thread_level }) as usize
    }))
}

/// MPI_Session_finalize. The last one out waits until all that this process owes
/// to others has left.
pub fn finalize(handle: usize) -> Result<()> {
    with(|p| p.session(handle).map(|_| ()))?;
    block_on(|p| p.bsend.is_drained(handle).then_some(()));
    if with(|p| p.init_state != InitState::Running && p.sessions.len() == 1) {
        block_on(|p| p.owes_nothing().then_some(()));
    }
    with(|p| {
        p.bsend.detach(handle);
        let _ = p.sessions.remove(handle as u64);
        if p.init_state != InitState::Running && p.sessions.is_empty() {
            p.core()?.job.mark_finalized();
        }
        Ok(())
    })
}

impl Process {
    fn owes_nothing(&mut self) -> bool {
        let core_is_idle = self
            .core
            .as_deref_mut()
            .is_none_or(|core| core.collectives.is_empty() && core.stack.is_drained());
        core_is_idle && self.bsend.is_idle()
    }
}
