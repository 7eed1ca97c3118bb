//! Who this process is in its job.
//!
//! [`Job::from_environment`] decides between four cases:
//! - our launcher started us: `Some(job)`;
//! - nobody did: `None`, the process is a job of its own ([`Job::singleton`]);
//! - another launcher started several of us: an error with instructions;
//! - our launcher's words are there but are not for us. A descendant of a rank
//!   that is in MPI itself (a script's helper, a `subprocess`) is a job of its
//!   own, `None`. A second MPI program of the same rank, or one whose
//!   descriptors were closed on the way, is an error: it would otherwise run N
//!   times alone.
//!
//! After that the descriptors are close-on-exec, so children have nothing that
//! could disturb the job. The environment stays as it is: changing it is not
//! safe while other threads read it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use crate::control::{self, Control, ControlError, ToLauncher, ToRank};
use crate::environment::{ParamError, RankParams, VARIABLE};
use crate::status_page::{AttachError, RankState, StatusEntry, StatusPage};
use crate::{inherited_fd, other_launchers};

/// 256 random bits that only the processes of one job know.
#[derive(Clone)]
pub struct Secret([u8; 32]);

/// This process's place in its job, and its line to the launcher.
#[derive(Debug)]
pub struct Job {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Rank among the ranks of this host.
    pub local_rank: u32,
    /// Number of ranks on this host.
    pub local_size: u32,
    /// Processors that the ranks of this host have in all; fewer than ranks
    /// means that they must take turns.
    pub processors: u32,
    status_page: StatusPage,
    control: Option<Arc<Control>>,
    secret: Secret,
}

/// Why a process can't join its job. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// Another launcher started several tasks.
    #[error(
        "this process was started as task {number}{} by {manager}, not by Verbena's mpiexec, so the tasks would not \
         find each other. Start the job with Verbena's own `mpiexec -n N program` (inside the allocation, if there \
         is one); for a program that is meant to run alone, `mpiexec -n 1 program`",
        of.map(|of| format!(" of {of}")).unwrap_or_default()
    )]
    OtherLauncher {
        /// Who, in words.
        manager: &'static str,
        /// The task's number, from 0.
        number: u32,
        /// The number of tasks, if known.
        of: Option<u32>,
    },
    /// The launcher's words make no sense.
    #[error("the variable VERBENA_BOOTSTRAP can't be used: {0}")]
    RankParams(ParamError),
    /// The descriptors did not survive the way from the launcher to us.
    #[error(
        "this process is rank {rank} of {size}, but the descriptors {control} and {status_page} that mpiexec opened for it \
         were closed by a program in between (a wrapper script? Python's subprocess needs close_fds=False). Have the \
         wrapper exec the MPI program, or remove VERBENA_BOOTSTRAP from its environment to run it alone"
    )]
    Closed {
        /// Rank in MPI_COMM_WORLD.
        rank: u32,
        /// Size of MPI_COMM_WORLD.
        size: u32,
        /// Number of the control descriptor.
        control: i32,
        /// Number of the board's descriptor.
        status_page: i32,
    },
    /// This rank has run an MPI program before.
    #[error(
        "rank {rank} has already run an MPI program (process {pid}): each program needs an mpiexec of its own, or \
         remove VERBENA_BOOTSTRAP from its environment to run it alone"
    )]
    Used {
        /// Rank in MPI_COMM_WORLD.
        rank: u32,
        /// The process that was in MPI.
        pid: u32,
    },
    /// The launcher's memory is of another version.
    #[error("the memory shared with mpiexec can't be used: {0}")]
    StatusPage(String),
    /// The launcher does not answer as it should.
    #[error("mpiexec does not answer as it should: {0}")]
    Control(#[from] ControlError),
    /// The launcher's messages are of a version we don't know.
    #[error("mpiexec speaks version {0}, this library version {ours}: use those of one installation", ours = control::VERSION)]
    Version(u32),
    /// The system refused something small.
    #[error("the system refused {0}: {1}")]
    System(&'static str, Errno),
}

impl Job {
    /// Joins the job that the environment names; see the module for the cases.
    /// On success the board says that this rank runs.
    pub fn from_environment() -> Result<Option<Job>, BootstrapError> {
        let Some(text) = std::env::var_os(VARIABLE) else {
            return match other_launchers::one_of_several(|name| std::env::var(name).ok()) {
                Some(task) => Err(BootstrapError::OtherLauncher {
                    manager: task.manager,
                    number: task.number,
                    of: task.of,
                }),
                None => Ok(None),
            };
        };
        let words =
            RankParams::parse(&text.to_string_lossy()).map_err(BootstrapError::RankParams)?;
        match find_board(&words)? {
            Found::Inherited(status_page) => Job::join(&words, status_page),
            Found::Launchers(status_page) => match not_for_us(&words, &status_page)? {
                Some(Descendant) => Ok(None),
                None => Err(closed(&words)),
            },
            Found::Nowhere => Err(closed(&words)),
        }
    }

    /// A job of one process, without a launcher.
    pub fn singleton() -> Result<Job, BootstrapError> {
        let status_page = StatusPage::private(random()?)
            .map_err(|errno| BootstrapError::System("a page of memory", errno))?;
        let pid = getpid().as_raw_nonzero().get() as u32;
        status_page.entry(0).claim(pid).expect("a new board has no owner");
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
        })
    }

    fn join(words: &RankParams, status_page: StatusPage) -> Result<Option<Job>, BootstrapError> {
        if words.local_rank >= status_page.local_size() || !inherited_fd::is_socket(words.control) {
            return Err(closed(words));
        }
        let pid = getpid().as_raw_nonzero().get() as u32;
        let entry = status_page.entry(words.local_rank);
        if entry.claim(pid).is_err() {
            return not_for_us(words, &status_page).map(|_descendant| None);
        }
        let control = Control::new(inherited_fd::take(words.control).ok_or_else(|| closed(words))?);
        let secret = match control.receive()? {
            ToRank::Welcome { version: control::VERSION, secret } => Secret(secret),
            ToRank::Welcome { version, .. } => return Err(BootstrapError::Version(version)),
            _ => return Err(BootstrapError::Control(control::Malformed::Unknown.into())),
        };
        // Before Hello, so that the launcher sees it when it wakes.
        entry.set_state(RankState::Running);
        control.send(&ToLauncher::Hello { version: control::VERSION, pid })?;
        let RankParams { rank, size, local_rank, local_size, processors, .. } = *words;
        Ok(Some(Job {
            rank,
            size,
            local_rank,
            local_size,
            processors,
            status_page,
            control: Some(Arc::new(control)),
            secret,
        }))
    }

    /// The ranks of this host, in MPI_COMM_WORLD.
    pub fn local_ranks(&self) -> std::ops::Range<u32> {
        let first = self.rank - self.local_rank;
        first..first + self.local_size
    }

    /// True when the ranks of this host are more than its processors and take turns.
    pub fn is_oversubscribed(&self) -> bool {
        self.is_oversubscribed_with(0)
    }

    /// The same where so many others need a processor of this host all the time.
    pub fn is_oversubscribed_with(&self, others: u32) -> bool {
        self.local_size + others > self.processors
    }

    /// Ends the job: the launcher prints `message` and ends all ranks. False if
    /// there is no launcher to do it. The caller exits by itself.
    pub fn abort(&self, code: i32, message: &str) -> bool {
        self.control.as_ref().is_some_and(|control| control.abort(code, message).is_ok())
    }

    /// Tells that MPI is in use, again or still, after an end that was not the last.
    pub fn mark_running(&self) {
        self.status_entry().set_state(RankState::Running);
    }

    /// Tells that MPI_Finalize begins.
    pub fn mark_finalizing(&self) {
        self.status_entry().set_state(RankState::Finalizing);
    }

    /// Tells that MPI_Finalize is about to return: from now on the process may
    /// exit without ending the job.
    pub fn mark_finalized(&self) {
        self.status_entry().set_state(RankState::Finalized);
        if let Some(control) = &self.control {
            // A launcher that is gone has nothing left to know.
            let _ = control.send(&ToLauncher::Finalized);
        }
    }

    /// Stores a value for all ranks of the job.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), ControlError> {
        self.control.as_ref().ok_or(ControlError::Gone)?.put(key, value)
    }

    /// Waits for the value that some rank puts under `key`.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, ControlError> {
        self.control.as_ref().ok_or(ControlError::Gone)?.get(key)
    }

    /// The line to the launcher, for who asks without waiting.
    pub fn control(&self) -> Option<Arc<Control>> {
        self.control.clone()
    }

    /// True once the launcher has ended, and with it the job. One system call:
    /// for processes that are about to sleep, not for the fast path.
    pub fn launcher_exited(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.is_closed())
    }

    /// The job's number, the same on all of its ranks.
    pub fn id(&self) -> u64 {
        self.status_page.job()
    }

    /// What every rank of this host is doing.
    pub fn status_page(&self) -> &StatusPage {
        &self.status_page
    }

    /// This rank's own line on the board.
    #[inline]
    pub fn status_entry(&self) -> &'static StatusEntry {
        self.status_page.entry(self.local_rank)
    }

    /// The memory file that the host's ranks share and the offset from which it
    /// belongs to the transport; `None` for a process alone in its job.
    pub fn segment(&self) -> Option<(BorrowedFd<'_>, u64)> {
        Some((self.status_page.file()?, StatusPage::transport_offset(self.local_size)))
    }

    /// What proves to other processes that one belongs to the job.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl Secret {
    /// A new one, for a new job.
    pub fn random() -> Result<Secret, BootstrapError> {
        let words: [u64; 4] = [random()?, random()?, random()?, random()?];
        let mut bytes = [0; 32];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        Ok(Secret(bytes))
    }

    /// The bits. Never print or log them.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// 64 bits from the kernel.
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

/// The caller descends from a process that is in MPI as this rank.
struct Descendant;

enum Found {
    /// By the descriptor: the launcher's memory for this very job.
    Inherited(StatusPage),
    /// Only by a look into the launcher, since the descriptor is closed.
    Launchers(StatusPage),
    Nowhere,
}

fn find_board(words: &RankParams) -> Result<Found, BootstrapError> {
    if let Some(fd) = inherited_fd::duplicate(words.status_page) {
        match StatusPage::attach(fd) {
            Ok(status_page) if status_page.job() == words.job => {
                // The duplicate is ours; the number must not reach our children.
                drop(inherited_fd::take(words.status_page));
                return Ok(Found::Inherited(status_page));
            }
            Err(version @ AttachError::Version(_)) => {
                return Err(BootstrapError::StatusPage(version.to_string()));
            }
            _ => {}
        }
    }
    let path = format!("/proc/{}/fd/{}", words.launcher, words.status_page);
    let opened = rustix::fs::open(
        path,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let status_page = opened.ok().and_then(|fd| StatusPage::attach(fd).ok());
    Ok(status_page
        .filter(|status_page| status_page.job() == words.job)
        .map_or(Found::Nowhere, Found::Launchers))
}

/// Decides about a process that has our launcher's words but not the place:
/// it descends from the rank, or the rank is used up, or (`None`) nobody has
/// taken the place.
fn not_for_us(
    words: &RankParams,
    status_page: &StatusPage,
) -> Result<Option<Descendant>, BootstrapError> {
    if words.local_rank >= status_page.local_size() {
        return Err(closed(words));
    }
    let Some(owner) = status_page.entry(words.local_rank).pid() else { return Ok(None) };
    let alive = i32::try_from(owner)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    if alive && owner != getpid().as_raw_nonzero().get() as u32 {
        Ok(Some(Descendant))
    } else {
        Err(BootstrapError::Used { rank: words.rank, pid: owner })
    }
}

fn closed(words: &RankParams) -> BootstrapError {
    BootstrapError::Closed {
        rank: words.rank,
        size: words.size,
        control: words.control,
        status_page: words.status_page,
    }
}
