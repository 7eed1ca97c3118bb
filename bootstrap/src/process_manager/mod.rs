//! A process manager that is not ours: it has started this process as one of several, and offers a
//! key-value store. Slurm's `srun` speaks PMI-2 or PMIx, MPICH's and Intel's `mpiexec` (Hydra) and
//! Flux speak PMI-1, PRRTE's `prterun` speaks PMIx.
//!
//! The protocols differ in bytes, and here they are one trait: [`Client`]. Values become visible at
//! a fence; a value that is not there afterwards was not put. [`ProcessManager`] adds what they
//! have in common: names, text in place of bytes, values in pieces.
//!
//! States: connected -> finalized. Afterwards every call is an error. Calls block for an answer of
//! the manager's process on this host; a fence waits for all processes.

mod client;
mod host_map;
mod pieces;
mod pmi1;
mod pmi2;
mod pmix;
mod wire;

use std::sync::{Mutex, PoisonError};

pub use client::ManagerError;
use client::{Client, Variable};

use crate::store_key::putter;
pub use host_map::ranks_of_node;
pub use wire::{Pairs, parse_line, parse_pairs};

/// The connection to a process manager. Any thread may call.
pub struct ProcessManager {
    client: Mutex<Box<dyn Client>>,
    name: &'static str,
    rank: u32,
    size: u32,
}

/// What the environment names.
#[derive(Debug)]
pub(crate) enum Found {
    /// No manager, or one that has started this process alone by the variables.
    Nothing,
    /// A manager that says that it has started this process alone. It is not needed.
    Alone,
    /// The manager of several processes.
    Manager(ProcessManager),
}

/// Returns the rank that the environment names, before a manager is asked.
pub fn announced_rank() -> Option<u32> {
    let number = |name| std::env::var(name).ok()?.trim().parse().ok();
    number("PMI_RANK").or_else(|| number("PMIX_RANK"))
}

impl std::fmt::Debug for ProcessManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProcessManager({}, {} of {})", self.name, self.rank, self.size)
    }
}

impl ProcessManager {
    /// Connects to the manager that the environment names.
    pub(crate) fn connect(variable: Variable<'_>) -> Result<Found, ManagerError> {
        let is_alone = |name: &str| variable(name).is_some_and(|count| count.trim() == "1");
        if is_alone("PMI_SIZE") {
            return Ok(Found::Nothing);
        }
        let client: Option<Box<dyn Client>> = if variable("PMI_FD").is_some() {
            // Slurm's plug-in sets the same descriptor for both protocols, and launchers within a
            // step of Slurm leave its variables.
            match variable("SLURM_PROCID") {
                Some(_) => pmi2::connect(variable)?,
                None => pmi1::connect(variable)?,
            }
        } else if variable("PMI_PORT").is_some() {
            pmi1::connect(variable)?
        } else if variable("PMIX_NAMESPACE").is_some() && variable("PMIX_RANK").is_some() {
            pmix::connect()?
        } else {
            None
        };
        let Some(client) = client else { return Ok(Found::Nothing) };
        let (name, (rank, size)) = (client.name(), client.place());
        if rank >= size {
            return Err(ManagerError(format!("{name} gives rank {rank} of {size}")));
        }
        let manager = ProcessManager { client: Mutex::new(client), name, rank, size };
        if size == 1 {
            manager.finalize()?;
            return Ok(Found::Alone);
        }
        Ok(Found::Manager(manager))
    }

    /// Returns the protocol and its speaker, in words.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns this process's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of this process's program on the manager's command line; `None` if the
    /// manager does not know.
    pub(crate) fn appnum(&self) -> Result<Option<u32>, ManagerError> {
        self.lock().appnum()
    }

    /// Returns the processes of this host in rising order; `None` if the manager does not know.
    pub(crate) fn local_ranks(&self) -> Result<Option<Vec<u32>>, ManagerError> {
        let known = self.lock().local_ranks()?;
        let is_usable = |ranks: &Vec<u32>| {
            ranks.contains(&self.rank)
                && ranks.is_sorted_by(|a, b| a < b)
                && ranks.last().is_some_and(|last| *last < self.size)
        };
        Ok(known.filter(is_usable))
    }

    /// Stores a value. Other processes see it after [`ProcessManager::fence`].
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), ManagerError> {
        let mut client = self.lock();
        let pieces = pieces::encode(value, client.max_value());
        for (index, piece) in pieces.iter().enumerate() {
            client.put(&pieces::key(key, index), piece)?;
        }
        Ok(())
    }

    /// Returns a value; `None` if no process put it before the last fence.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, ManagerError> {
        let mut client = self.lock();
        let from = putter(key);
        pieces::decode(|index| client.get(&pieces::key(key, index), from))
            .map_err(|why| ManagerError(format!("{} has an unusable {key}: {why}", self.name)))
    }

    /// Waits until all processes have called it. All values that were put before are visible then.
    pub fn fence(&self) -> Result<(), ManagerError> {
        self.lock().fence()
    }

    /// Requests the end of all processes.
    pub fn abort(&self, code: i32, message: &str) {
        self.lock().abort(code, message);
    }

    /// Takes leave: this process may end without ending the job.
    pub fn finalize(&self) -> Result<(), ManagerError> {
        self.lock().finalize()
    }

    /// Returns true once the manager has closed the connection. Never blocks.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Box<dyn Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
