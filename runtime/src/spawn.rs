//! MPI_Comm_spawn (MPI-5.0 §11.8): `mpiexec` starts the processes as a job of its own.
//!
//! The root asks its launcher, which answers when all processes run. Then parents and children
//! create an intercommunicator like groups that meet at a port, on a channel that the number of the
//! first child names. The children do so at the end of MPI_Init.

use bootstrap::spawning::{SpawnAnswer, SpawnRequest};
use fabric::Peer;
use objects::{Class, Comm, Error, Result};

use crate::control_channel::ControlChannel;
use crate::intercomm::create_with;
use crate::lock::with;
use crate::own_launcher;
use crate::process::{Process, predefined};

/// Performs MPI_Comm_spawn_multiple. Only `root` calls `request`. MPI_ERR_SPAWN if the processes
/// cannot be started.
pub fn spawn(
    local: usize,
    root: u32,
    request: impl FnOnce() -> Result<SpawnRequest>,
) -> Result<Comm> {
    create_with(local, root, |_| {
        let first = start(request()?)?;
        Ok((channel(first), Peer(first)))
    })
}

/// Starts processes; returns the process number of the first one.
fn start(request: SpawnRequest) -> Result<u32> {
    let refused = |why: &str| Error::new(Class::Spawn, format!("cannot spawn: {why}"));
    let control = own_launcher::launcher().map_err(|why| refused(&why))?;
    // Before there are processes that cannot be reached.
    with(|p| p.core()?.meet_other_jobs())?;
    match control.ask_spawn(request) {
        Ok(SpawnAnswer::Started { first }) => Ok(first),
        Ok(SpawnAnswer::Refused(why)) => Err(refused(&why)),
        Err(error) => Err(refused(&error.to_string())),
    }
}

/// Returns the channel on which the leaders of parents and children meet.
fn channel(first: u32) -> ControlChannel {
    ControlChannel::from_tag(format!("spawn:{first}"))
}

/// Creates the intercommunicator to the parents, at the end of MPI_Init. Collective over
/// MPI_COMM_WORLD.
pub(crate) fn meet_parents() -> Result<()> {
    let (first, parent) = with(|p| p.core().map(|core| (core.job.first, core.job.parent)))?;
    let Some(parent) = parent else { return Ok(()) };
    let mut comm = create_with(predefined::COMM_WORLD, 0, |_| Ok((channel(first), Peer(parent))))?;
    comm.set_name("MPI_COMM_PARENT");
    with(|p| {
        let handle = p.comms.insert(comm) as usize;
        p.core()?.parent_comm = handle;
        Ok(())
    })
}

impl Process {
    /// Returns the handle of the intercommunicator to the processes that have spawned this job;
    /// MPI_COMM_NULL if it was not spawned, or has disconnected.
    pub fn parent_comm(&mut self) -> Result<usize> {
        let handle = self.core()?.parent_comm;
        let is_there = handle >= predefined::END && self.comms.get(handle as u64).is_ok();
        Ok(if is_there { handle } else { predefined::COMM_NULL })
    }
}
