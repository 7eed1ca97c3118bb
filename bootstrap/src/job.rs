//! This process's place in its job.
//!
//! [`Job::from_environment`] distinguishes four cases:
//! - our launcher started the process: `Some(job)`;
//! - no launcher did: `None`, the process is a job of its own ([`Job::singleton`]);
//! - another launcher started several tasks: an error with instructions;
//! - our launcher's variable is set, but not for this process. A descendant of a rank that is in
//!   MPI itself (a script's `subprocess`) is a job of its own, `None`. A second MPI program of the
//!   same rank, or one whose descriptors were closed, is an error: each rank would otherwise run
//!   alone.
//!
//! Afterwards the descriptors are close-on-exec, so that children cannot disturb the job. The
//! environment is not changed, which would be unsafe while other threads read it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use crate::control::{self, Control, ControlError, ToLauncher, ToRank};
use crate::environment::{ParamError, RankParams, VARIABLE};
use crate::status_entry::{RankState, StatusEntry};
use crate::status_page::{AttachError, StatusPage};
use crate::{inherited_fd, other_launchers};

/// The job's secret: 256 random bits that only its processes know.
#[derive(Clone)]
pub struct Secret([u8; 32]);

/// This process's place in its job, and its connection to the launcher.
#[derive(Debug)]
pub struct Job {
    /// The rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// The size of MPI_COMM_WORLD.
    pub size: u32,
    /// The rank among the ranks of this host.
    pub local_rank: u32,
    /// The number of ranks on this host.
    pub local_size: u32,
    /// The number of processors that the ranks of this host share.
    pub processors: u32,
    status_page: StatusPage,
    control: Option<Arc<Control>>,
    secret: Secret,
    /// The process from which all ranks of this host descend.
    ancestor: Option<u32>,
}

/// The reason why a process cannot join its job, with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// Another launcher started several tasks.
    #[error(
        "this process was started as task {number}{} by {launcher}, not by Verbena's mpiexec, so \
         the tasks would not find each other. Start the job with Verbena's own `mpiexec -n N \
         program` (inside the allocation, if there is one), or a program that runs alone with \
         `mpiexec -n 1 program`",
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
    #[error("cannot use the status page of mpiexec: {0}")]
    StatusPage(String),
    /// The control connection failed.
    #[error("cannot join the job: {0}")]
    Control(#[from] ControlError),
    /// The launcher's messages have another version.
    #[error(
        "mpiexec has version {0} of the control messages, this library version {ours}: use \
         mpiexec and library of the same installation",
        ours = control::VERSION
    )]
    Version(u32),
    /// A system call failed.
    #[error("the system refused {0}: {1}")]
    System(&'static str, Errno),
}

impl Job {
    /// Joins the job that the environment names; the module lists the cases. On success the
    /// status page shows the rank as running.
    pub fn from_environment() -> Result<Option<Job>, BootstrapError> {
        let Some(text) = std::env::var_os(VARIABLE) else {
            return match other_launchers::one_of_several(|name| std::env::var(name).ok()) {
                Some(task) => Err(BootstrapError::OtherLauncher {
                    launcher: task.launcher,
                    number: task.number,
                    count: task.count,
                }),
                None => Ok(None),
            };
        };
        let params =
            RankParams::parse(&text.to_string_lossy()).map_err(BootstrapError::RankParams)?;
        match find_status_page(&params)? {
            Found::Inherited(status_page) => Job::join(&params, status_page),
            Found::InLauncher(status_page) => match check_descendant(&params, &status_page)? {
                Some(Descendant) => Ok(None),
                None => Err(closed(&params)),
            },
            Found::Nowhere => Err(closed(&params)),
        }
    }

    /// Returns a job of one process, without a launcher.
    pub fn singleton() -> Result<Job, BootstrapError> {
        let status_page = StatusPage::private(random()?)
            .map_err(|errno| BootstrapError::System("a page of memory", errno))?;
        let pid = getpid().as_raw_nonzero().get() as u32;
        status_page.entry(0).claim(pid).expect("a new page has no owner");
        status_page.entry(0).set_state(RankState::Running);
        let secret = Secret::random()?;
        Ok(Job {
            rank: 0,
            size: 1,
            local_rank: 0,
            local_size: 1,
            processors: 1,
            status_page,
            control: None,
            secret,
            ancestor: None,
        })
    }

    fn join(params: &RankParams, status_page: StatusPage) -> Result<Option<Job>, BootstrapError> {
        if params.local_rank >= status_page.local_size() || !inherited_fd::is_socket(params.control)
        {
            return Err(closed(params));
        }
        let pid = getpid().as_raw_nonzero().get() as u32;
        let entry = status_page.entry(params.local_rank);
        if entry.claim(pid).is_err() {
            return check_descendant(params, &status_page).map(|_descendant| None);
        }
        let control =
            Control::new(inherited_fd::take(params.control).ok_or_else(|| closed(params))?);
        let secret = match control.receive()? {
            ToRank::Welcome { version: control::VERSION, secret } => Secret(secret),
            ToRank::Welcome { version, .. } => return Err(BootstrapError::Version(version)),
            _ => return Err(BootstrapError::Control(control::Malformed::Unknown.into())),
        };
        // Before Hello, so that the launcher sees the state when Hello wakes it.
        entry.set_state(RankState::Running);
        control.send(&ToLauncher::Hello { version: control::VERSION, pid })?;
        let RankParams { rank, size, local_rank, local_size, processors, .. } = *params;
        Ok(Some(Job {
            rank,
            size,
            local_rank,
            local_size,
            processors,
            status_page,
            control: Some(Arc::new(control)),
            secret,
            ancestor: Some(params.launcher),
        }))
    }

    /// Returns the ranks of this host, in MPI_COMM_WORLD.
    pub fn local_ranks(&self) -> std::ops::Range<u32> {
        let first = self.rank - self.local_rank;
        first..first + self.local_size
    }

    /// Returns true if this host has more ranks than processors.
    pub fn is_oversubscribed(&self) -> bool {
        self.is_oversubscribed_with(0)
    }

    /// Returns true if this host has more ranks and other busy threads than processors.
    pub fn is_oversubscribed_with(&self, others: u32) -> bool {
        self.local_size + others > self.processors
    }

    /// Requests the launcher to print `message` and end all ranks. Returns false if there is no
    /// launcher. The caller exits by itself.
    pub fn abort(&self, code: i32, message: &str) -> bool {
        self.control.as_ref().is_some_and(|control| control.abort(code, message).is_ok())
    }

    /// Records that MPI is in use, again or still, after a finalize that was not the last.
    pub fn mark_running(&self) {
        self.status_entry().set_state(RankState::Running);
    }

    /// Records that MPI_Finalize begins.
    pub fn mark_finalizing(&self) {
        self.status_entry().set_state(RankState::Finalizing);
    }

    /// Records that MPI_Finalize is about to return: from now on the process may exit without
    /// ending the job.
    pub fn mark_finalized(&self) {
        self.status_entry().set_state(RankState::Finalized);
        if let Some(control) = &self.control {
            // A launcher that has ended needs no message.
            let _ = control.send(&ToLauncher::Finalized);
        }
    }

    /// Stores a value for all ranks of the job.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), ControlError> {
        self.control.as_ref().ok_or(ControlError::Gone)?.put(key, value)
    }

    /// Waits for the value that a rank stores under `key`.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, ControlError> {
        self.control.as_ref().ok_or(ControlError::Gone)?.get(key)
    }

    /// Returns the connection to the launcher, for requests without waiting.
    pub fn control(&self) -> Option<Arc<Control>> {
        self.control.clone()
    }

    /// Returns true once the launcher has ended, and with it the job. One system call: for
    /// processes that are about to sleep, not for the fast path.
    pub fn launcher_exited(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.is_closed())
    }

    /// Returns the process from which all ranks of this host descend; `None` for a singleton.
    pub fn ancestor(&self) -> Option<u32> {
        self.ancestor
    }

    /// Returns the job's number, the same on all of its ranks.
    pub fn id(&self) -> u64 {
        self.status_page.job()
    }

    /// Returns the status page of this host.
    pub fn status_page(&self) -> &StatusPage {
        &self.status_page
    }

    /// Returns this rank's entry of the status page.
    #[inline]
    pub fn status_entry(&self) -> &'static StatusEntry {
        self.status_page.entry(self.local_rank)
    }

    /// Returns the memory file that the host's ranks share, and the offset from which it belongs
    /// to the transport; `None` for a singleton.
    pub fn segment(&self) -> Option<(BorrowedFd<'_>, u64)> {
        Some((self.status_page.file()?, StatusPage::transport_offset(self.local_size)))
    }

    /// Returns the secret, which proves to other processes that this one belongs to the job.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl Secret {
    /// Returns the secret of a new job.
    pub fn random() -> Result<Secret, BootstrapError> {
        let params: [u64; 4] = [random()?, random()?, random()?, random()?];
        let mut bytes = [0; 32];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(params) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        Ok(Secret(bytes))
    }

    /// Returns the bits. Never print or log them.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Returns 64 random bits from the kernel.
pub fn random() -> Result<u64, BootstrapError> {
    let mut bytes = [0u8; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(BootstrapError::System("random bytes", errno)),
        }
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// This process descends from the process that is in MPI as this rank.
struct Descendant;

/// Where the status page of the job was found.
enum Found {
    /// By the inherited descriptor.
    Inherited(StatusPage),
    /// By the launcher's descriptor: the inherited one is closed.
    InLauncher(StatusPage),
    Nowhere,
}

fn find_status_page(params: &RankParams) -> Result<Found, BootstrapError> {
    if let Some(fd) = inherited_fd::duplicate(params.status_page) {
        match StatusPage::attach(fd) {
            Ok(status_page) if status_page.job() == params.job => {
                // The duplicate is kept; children must not inherit the original.
                drop(inherited_fd::take(params.status_page));
                return Ok(Found::Inherited(status_page));
            }
            Err(version @ AttachError::Version(_)) => {
                return Err(BootstrapError::StatusPage(version.to_string()));
            }
            _ => {}
        }
    }
    let path = format!("/proc/{}/fd/{}", params.launcher, params.status_page);
    let opened = rustix::fs::open(
        path,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let status_page = opened.ok().and_then(|fd| StatusPage::attach(fd).ok());
    Ok(status_page
        .filter(|status_page| status_page.job() == params.job)
        .map_or(Found::Nowhere, Found::InLauncher))
}

/// Returns how a process relates to the owner of its rank's entry: a descendant, or `None` if
/// the entry has no owner. An owner that has ended, or is this process, is an error.
fn check_descendant(
    params: &RankParams,
    status_page: &StatusPage,
) -> Result<Option<Descendant>, BootstrapError> {
    if params.local_rank >= status_page.local_size() {
        return Err(closed(params));
    }
    let Some(owner) = status_page.entry(params.local_rank).pid() else { return Ok(None) };
    let alive = i32::try_from(owner)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    if alive && owner != getpid().as_raw_nonzero().get() as u32 {
        Ok(Some(Descendant))
    } else {
        Err(BootstrapError::Used { rank: params.rank, pid: owner })
    }
}

fn closed(params: &RankParams) -> BootstrapError {
    BootstrapError::Closed {
        rank: params.rank,
        size: params.size,
        control: params.control,
        status_page: params.status_page,
    }
}
