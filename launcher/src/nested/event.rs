//! What a job learns from another one, and what it needs to know of a job that it has started.

use std::ops::Range;

use bootstrap::service_names::NameRequest;
use bootstrap::spawning::{EndedProcesses, SpawnAnswer, SpawnRequest};
use rustix::process::Pid;

use crate::tree::store::{Party, StoreMessage};

/// What a job learns from another one.
#[derive(Debug)]
pub(crate) enum JobEvent {
    /// A message about the store, of this neighbour.
    Store(Party, StoreMessage),
    /// A process requests further ones.
    Spawn {
        /// Its number.
        asker: u32,
        /// The request.
        request: SpawnRequest,
    },
    /// The answer to that.
    Answer {
        /// The number of the process that has asked.
        asker: u32,
        /// The answer.
        answer: SpawnAnswer,
    },
    /// A spawned job has failed.
    Failed {
        /// Its exit code.
        code: u8,
        /// A line for the user.
        line: String,
        /// Others can go on without these processes, if the user wants that; `None`: they cannot.
        lost: Option<EndedProcesses>,
    },
    /// The ranks of a spawned job have stalled, or continue.
    Stalled,
    /// The outermost `mpiexec` was sent this signal.
    Stop(i32),
    /// It has found that the ranks of all jobs wait, and prints what they do.
    Table,
    /// It ends all jobs, or has ended.
    End,
    /// The answer of the group's keeper to a request for numbers: the first one.
    Numbers(Option<u32>),
    /// The keeper has found that the ranks of all jobs of the group wait.
    Stall,
    /// Processes of a spawned job have failed, and it goes on, or all have ended in order.
    ProcessesEnded(EndedProcesses),
    /// Processes of a job have ended that is neither this one nor its parent.
    OthersEnded(EndedProcesses),
    /// The keeper has ended.
    GroupLost {
        /// A line for the user.
        line: String,
        /// The requests about names that it has not answered, with the processes.
        asked: Vec<(u32, NameRequest)>,
    },
}

/// A job that was started.
#[derive(Debug)]
pub(crate) struct NewJob {
    /// Its number, for [`Party::Job`].
    pub(crate) id: usize,
    /// The numbers of its processes.
    pub(crate) numbers: Range<u32>,
    /// Its `mpiexec`.
    pub(crate) pid: Pid,
}
