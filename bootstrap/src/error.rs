//! The reasons why a process cannot join its job.

use rustix::io::Errno;

use crate::control::{self, ControlError};
use crate::environment::ParamError;
use crate::versions;

/// The reason why a process cannot join its job, with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// Another launcher started several tasks.
    #[error(
        "this process was started as task {number}{} by {launcher}, not by Verbena's mpiexec, so \
         the tasks would not find each other. Start the job with Verbena's own `mpiexec -n N \
         program` (inside the allocation, if there is one), by a launcher that offers PMI or PMIx \
         (`srun --mpi=pmi2`, `srun --mpi=pmix`), or a program that runs alone with `mpiexec -n 1 \
         program`",
        count.map(|count| format!(" of {count}")).unwrap_or_default()
    )]
    OtherLauncher {
        /// The launcher, in params.
        launcher: &'static str,
        /// The number of the task, from 0.
        number: u32,
        /// The number of tasks, if known.
        count: Option<u32>,
    },
    /// A process manager offers a store, but it cannot be used.
    #[error("cannot join the job: {0}")]
    Manager(String),
    /// The variable cannot be parsed.
    #[error("cannot use the variable VERBENA_BOOTSTRAP: {0}")]
    RankParams(ParamError),
    /// A program between launcher and process closed the descriptors.
    #[error(
        "this process is rank {rank} of {size}, but the descriptors {control} and {status_page} \
         that mpiexec opened for it were closed by a program in between (Python's subprocess \
         needs close_fds=False). Let a wrapper script exec the MPI program, or remove \
         VERBENA_BOOTSTRAP from the environment to run it alone"
    )]
    Closed {
        /// The rank in MPI_COMM_WORLD.
        rank: u32,
        /// The size of MPI_COMM_WORLD.
        size: u32,
        /// The number of the control descriptor.
        control: i32,
        /// The number of the status page's descriptor.
        status_page: i32,
    },
    /// This rank has run an MPI program before.
    #[error(
        "rank {rank} has already run an MPI program (process {pid}): start each program by an \
         mpiexec of its own, or remove VERBENA_BOOTSTRAP from the environment to run it alone"
    )]
    Used {
        /// The rank in MPI_COMM_WORLD.
        rank: u32,
        /// The process that was in MPI.
        pid: u32,
    },
    /// The status page has another version.
    #[error(
        "cannot use the status page of mpiexec: {0}: use mpiexec and library of the same \
         installation"
    )]
    StatusPage(String),
    /// The control connection failed.
    #[error("cannot join the job: {0}")]
    Control(#[from] ControlError),
    /// The launcher's messages have a version that is too old.
    #[error(
        "mpiexec has version {0} of the control messages, this library versions {oldest} to \
         {ours}: use a newer mpiexec, or that of the library's installation",
        oldest = control::OLDEST,
        ours = control::VERSION
    )]
    Version(u32),
    /// Another rank of this host has a library of another version.
    #[error("cannot join the ranks of this host: one of them joined first, and {why}",
        why = versions::mismatch(*.0, ""))]
    Peers(u32),
    /// A system call failed.
    #[error("the system refused {0}: {1}")]
    System(&'static str, Errno),
}
