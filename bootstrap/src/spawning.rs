//! Processes that a running job starts (MPI-5.0 §11.8): requests to the launcher, and its answers.
//!
//! All processes that one `mpiexec` has started share a numbering, the *process numbers*: the job's
//! own ranks have 0 to its size - 1, each spawned job the next ones, and no number is used twice.
//! The jobs of a group (`mpiexec --group`) share one that begins at 1. A process has a rank in its
//! own MPI_COMM_WORLD, and its number is the number of rank 0 there plus that rank. Transports, the
//! store and context ids know processes by their numbers.

use std::ffi::OsString;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The largest number of processes that one `mpiexec`, or those of a group, may start, with those
/// that have ended: context ids have 24 bits for a process.
pub const MAX_PROCESSES: u32 = 1 << 24;

/// A request to start a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// Its programs, in the order of their ranks.
    pub sections: Vec<SpawnSection>,
}

/// A program of a spawned job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnSection {
    /// The program as the user wrote it.
    pub program: OsString,
    /// The arguments, without the program's name.
    pub arguments: Vec<OsString>,
    /// The number of processes that run it.
    pub processes: u32,
    /// Their working directory, if not that of `mpiexec` (info key `wdir`).
    pub directory: Option<String>,
    /// Their hosts, if not those of the job (info key `host`).
    pub hosts: Option<String>,
    /// Folders in which the program is looked for first (info key `path`).
    pub path: Option<String>,
}

/// The answer to a [`SpawnRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnAnswer {
    /// All processes were started.
    Started {
        /// The process number of rank 0.
        first: u32,
    },
    /// None was; a text for the user.
    Refused(String),
}

/// Processes of another job that have ended, or can be reached no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedProcesses {
    /// Their process numbers.
    pub numbers: Range<u32>,
    /// How they have failed, in a sentence; `None` if their job has ended in order.
    pub failure: Option<String>,
}

impl EndedProcesses {
    /// Returns one process that has failed, by its number.
    pub fn failed(number: u32, why: &str) -> EndedProcesses {
        let numbers = number..number.saturating_add(1);
        EndedProcesses { numbers, failure: Some(why.to_owned()) }
    }
}
