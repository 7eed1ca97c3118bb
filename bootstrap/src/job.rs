//! This process's place in its job.
//!
//! [`Job::from_environment`] distinguishes five cases:
//! - our launcher started the process: `Some(job)`;
//! - another launcher did, and offers a store by PMI-1, PMI-2 or PMIx: `Some(job)`, see `direct`;
//! - no launcher did: `None`, the process is a job of its own ([`Job::singleton`]);
//! - another launcher started several tasks and offers no store: an error with instructions;
//! - our launcher's variable is set, but not for this process. A descendant of a rank that is in
//!   MPI itself (a script's `subprocess`) is a job of its own, `None`. A second MPI program of the
//!   same rank, or one whose descriptors were closed, is an error: each rank would otherwise run
//!   alone.
//!
//! Afterwards the descriptors are close-on-exec, so that children cannot disturb the job. The
//! environment is not changed, which would be unsafe while other threads read it.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, getpid, getppid, test_kill_process};

use crate::callers::{self, Callers, ManagedRank};
use crate::control::{self, Control, ControlError, ToLauncher, ToRank};
use crate::direct::{self, Direct};
use crate::environment::{RankParams, VARIABLE};
use crate::error::BootstrapError;
use crate::hand_over::{self, HandedOver};
use crate::host_table::{self, HOSTS_VARIABLE, PLACES_VARIABLE, Place};
use crate::process_manager::{Found as FoundManager, ManagerError, ProcessManager};
use crate::secret::{Secret, random};
use crate::spawning::EndedProcesses;
use crate::status_entry::{RankState, StatusEntry};
use crate::status_page::{AttachError, StatusPage};
use crate::versions::PEERS;
use crate::{inherited_fd, leave, other_launchers};

/// How long the end of the process's own launcher is awaited.
const LAST_OUTPUT_MILLISECONDS: i64 = 1000;

/// This process's place in its job, and its connection to the launcher.
#[derive(Debug)]
pub struct Job {
    /// The number of this process, see [`crate::spawning`]: its rank in MPI_COMM_WORLD, unless the
    /// job was spawned.
    pub number: u32,
    /// The process number of rank 0 of MPI_COMM_WORLD.
    pub first: u32,
    /// The process that has spawned the job.
    pub parent: Option<u32>,
    /// The size of MPI_COMM_WORLD.
    pub size: u32,
    /// The rank among the ranks of this host.
    pub local_rank: u32,
    /// The number of ranks on this host.
    pub local_size: u32,
    /// The number of processors that the ranks of this host share.
    pub processors: u32,
    /// The number of this rank's program on the command line, the attribute MPI_APPNUM; `None` if
    /// no launcher tells it.
    pub appnum: Option<u32>,
    /// The process numbers of the ranks of this host, in rising order.
    pub(crate) local: Vec<u32>,
    pub(crate) id: u64,
    pub(crate) status_page: StatusPage,
    pub(crate) link: Link,
    pub(crate) secret: Secret,
    /// The process from which all ranks of this host descend.
    pub(crate) ancestor: Option<u32>,
    /// The count of the status page when failures were last looked for.
    pub(crate) known_failures: AtomicU32,
    /// What the process has of a launcher that was started for it while it ran.
    pub(crate) own_launcher: Option<OwnLauncherLink>,
    /// The process has left such a launcher, and gets no other.
    pub(crate) has_left_launcher: bool,
}

/// What a process keeps of the launcher that it has started for itself, or with other ranks of its
/// host.
#[derive(Debug)]
pub(crate) struct OwnLauncherLink {
    /// The socket to the stand-in.
    stand_in: OwnedFd,
    /// The socket to `mpiexec` in the rank that has started it for several.
    mpiexec: Option<OwnedFd>,
    /// The launcher that has started the process.
    manager: Option<Arc<ProcessManager>>,
}

/// The connection to the launcher that started the process.
#[derive(Debug)]
pub(crate) enum Link {
    /// No process did: a job of its own.
    None,
    /// Our launcher.
    Launcher(Arc<Control>),
    /// Another process manager.
    Manager(Arc<ProcessManager>),
}

/// The job's store.
#[derive(Clone, Debug)]
pub enum Store {
    /// Over the control connection of our launcher: a value is visible at once, and a request may
    /// wait for it.
    Launcher(Arc<Control>),
    /// In a process manager: a value is visible after the fence.
    Manager(Arc<ProcessManager>),
}

impl Job {
    /// Joins the job that the environment names; the module lists the cases. On success the
    /// status page shows the rank as running.
    pub fn from_environment() -> Result<Option<Job>, BootstrapError> {
        let Some(text) = std::env::var_os(VARIABLE) else {
            let variable = |name: &str| std::env::var(name).ok();
            let manager = ProcessManager::connect(&variable);
            let is_alone =
                match manager.map_err(|error| BootstrapError::Manager(error.to_string()))? {
                    FoundManager::Manager(manager) => return Job::managed(manager).map(Some),
                    FoundManager::Alone => true,
                    FoundManager::Nothing => false,
                };
            // PRRTE has no variable for the number of processes.
            let variable = |name: &str| match name {
                "PMIX_SIZE" if is_alone => Some("1".to_owned()),
                name => variable(name),
            };
            return match other_launchers::one_of_several(variable) {
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
            number: 0,
            first: 0,
            parent: None,
            size: 1,
            local_rank: 0,
            local_size: 1,
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            appnum: None,
            local: vec![0],
            id: status_page.job(),
            status_page,
            link: Link::None,
            secret,
            ancestor: None,
            known_failures: AtomicU32::new(0),
            own_launcher: None,
            has_left_launcher: false,
        })
    }

    /// Joins the job of a launcher that was started for this process, or for all ranks of its job.
    /// `stand_in`: the socket on which the rank was handed over. `mpiexec`: the socket to the
    /// launcher, if this rank has started it for several.
    ///
    /// A process that was started alone becomes the only rank of the new job. Ranks of a process
    /// manager have the same numbers, job, secret and status page there.
    pub fn join_own_launcher(
        &mut self,
        (stand_in, mpiexec): (OwnedFd, Option<OwnedFd>),
        rank: HandedOver,
    ) -> Result<(), BootstrapError> {
        let HandedOver { params, control, status_page } = rank;
        let control = Control::new(control);
        if let Link::Manager(_) = self.link {
            greet(&control, self.status_entry(), self.status_entry().state())?;
        } else {
            let status_page = StatusPage::attach(status_page)
                .map_err(|error| BootstrapError::StatusPage(error.to_string()))?;
            let pid = getpid().as_raw_nonzero().get() as u32;
            let entry = status_page.entry(self.local_rank);
            entry.claim(pid).map_err(|pid| BootstrapError::Used { rank: params.rank, pid })?;
            status_page.agree_on_peers(PEERS).map_err(BootstrapError::Peers)?;
            self.secret = greet(&control, entry, self.status_entry().state())?;
            self.id = status_page.job();
            self.ancestor = Some(params.launcher);
            self.status_page = status_page;
        }
        let manager = match std::mem::replace(&mut self.link, Link::Launcher(Arc::new(control))) {
            Link::Manager(manager) => Some(manager),
            Link::None | Link::Launcher(_) => None,
        };
        self.own_launcher = Some(OwnLauncherLink { stand_in, mpiexec, manager });
        Ok(())
    }

    /// Returns what a launcher that is shared by the ranks of this job needs of them, as
    /// [`ManagedRank::callers`] does.
    pub fn callers(&self) -> Result<Option<Callers>, String> {
        let rank = self.managed_rank().ok_or("no process manager has started the ranks")?;
        rank.callers(None)
    }

    /// Returns this rank for a thread of its own; `None` if no process manager has started it.
    pub fn managed_rank(&self) -> Option<ManagedRank> {
        let (manager, file) = (self.manager()?.clone(), self.status_page.file()?);
        Some(ManagedRank {
            manager,
            job: self.id,
            secret: self.secret.clone(),
            is_on_one_host: self.local_size == self.size,
            entries: (0..self.local_size).map(|local| self.status_page.entry(local)).collect(),
            status_page: file.try_clone_to_owned().ok()?,
        })
    }

    /// Puts where this rank, the first one of its host, listens for launchers of other hosts:
    /// before the fence of MPI_Init.
    pub fn put_listener(&self, addresses: &[SocketAddr]) -> Result<(), ControlError> {
        let put = self.manager().map(|manager| callers::put_addresses(manager, addresses));
        put.unwrap_or(Ok(())).map_err(ControlError::Manager)
    }

    /// Returns true if this process has left a launcher that was started for it: it cannot have
    /// another one.
    pub fn has_left_own_launcher(&self) -> bool {
        self.has_left_launcher
    }

    fn managed(manager: ProcessManager) -> Result<Job, BootstrapError> {
        let Direct { local, local_rank, processors, id, secret, status_page } =
            direct::join(&manager)?;
        Ok(Job {
            number: manager.rank(),
            first: 0,
            parent: None,
            size: manager.size(),
            local_rank,
            local_size: local.len() as u32,
            processors,
            appnum: manager.appnum().map_err(|error| BootstrapError::Manager(error.to_string()))?,
            local,
            id,
            status_page,
            link: Link::Manager(Arc::new(manager)),
            secret,
            // The manager's process on this host, unless a wrapper script stands in between.
            ancestor: getppid().map(|parent| parent.as_raw_nonzero().get() as u32),
            known_failures: AtomicU32::new(0),
            own_launcher: None,
            has_left_launcher: false,
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
        status_page.agree_on_peers(PEERS).map_err(BootstrapError::Peers)?;
        let secret = greet(&control, entry, RankState::Running)?;
        let RankParams { rank, size, local_rank, local_size, processors, appnum, .. } = *params;
        let number = params.first + rank;
        Ok(Some(Job {
            number,
            first: params.first,
            parent: params.parent,
            size,
            local_rank,
            local_size,
            processors,
            appnum,
            local: local_numbers(params)?,
            id: status_page.job(),
            status_page,
            link: Link::Launcher(Arc::new(control)),
            secret,
            ancestor: Some(params.launcher),
            // Ranks may have failed already.
            known_failures: AtomicU32::new(1),
            own_launcher: None,
            has_left_launcher: false,
        }))
    }

    /// Returns the rank in MPI_COMM_WORLD.
    pub fn rank(&self) -> u32 {
        self.number - self.first
    }

    /// Returns the process numbers of all ranks of MPI_COMM_WORLD.
    pub fn world(&self) -> Range<u32> {
        self.first..self.first + self.size
    }

    /// Returns the process numbers of the ranks of this host, in rising order. They are consecutive
    /// if our launcher started them.
    pub fn local_numbers(&self) -> &[u32] {
        &self.local
    }

    /// Returns what is not 0 once a process has ended; `None` if it is not on this host. Only
    /// `mpiexec` says so: another launcher ends the job.
    pub fn ended(&self, number: u32) -> Option<&'static AtomicU32> {
        let local = self.local.binary_search(&number).ok()?;
        Some(self.status_page.entry(local as u32).ended())
    }

    /// Returns the host of each rank of MPI_COMM_WORLD, the same on all ranks; hosts are numbered
    /// in the order of their lowest ranks. With a process manager it asks its process on this host
    /// once for each host. Empty if all ranks are on one host.
    pub fn host_table(&self) -> Result<Vec<u32>, ControlError> {
        match &self.link {
            _ if self.local_size == self.size => Ok(Vec::new()),
            Link::None => Ok(Vec::new()),
            Link::Launcher(_) => {
                hosts_of_launcher(self.size).map_err(|why| ControlError::Manager(ManagerError(why)))
            }
            Link::Manager(manager) => direct::host_table(manager).map_err(ControlError::Manager),
        }
    }

    /// Returns the place of each rank of this host, in the order of [`Job::local_numbers`]; empty
    /// if the launcher does not bind them, or another one has started them.
    pub fn places(&self) -> Vec<Place> {
        let Link::Launcher(_) = &self.link else { return Vec::new() };
        let text = std::env::var(PLACES_VARIABLE).unwrap_or_default();
        host_table::decode_places(&text, self.local_size).unwrap_or_default()
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
        if let Some(manager) = self.manager() {
            // The manager ends this process as well, and with it jobs that it has spawned.
            eprintln!("verbena: {message}");
            manager.abort(code, message);
            return true;
        }
        match &self.link {
            Link::Launcher(control) => control.abort(code, message).is_ok(),
            Link::None | Link::Manager(_) => false,
        }
    }

    /// Records that MPI_Init has begun.
    pub fn mark_running(&self) {
        leave::forbid();
        self.status_entry().set_state(RankState::Running);
    }

    /// Records that a session is open, before MPI_Init or after MPI_Finalize.
    pub fn mark_in_session(&self) {
        leave::forbid();
        self.status_entry().set_state(RankState::InSession);
    }

    /// Records that MPI_Finalize begins.
    pub fn mark_finalizing(&self) {
        self.status_entry().set_state(RankState::Finalizing);
    }

    /// Records that MPI_Finalize is about to return: from now on the process may exit without
    /// ending the job.
    pub fn mark_finalized(&self) {
        self.status_entry().set_state(RankState::Finalized);
        // A launcher that has ended needs no message.
        if let Link::Launcher(control) = &self.link {
            let _ = control.send(&ToLauncher::Finalized);
        }
        self.manager().into_iter().for_each(leave::allow);
    }

    /// Returns the process manager that has started the job.
    fn manager(&self) -> Option<&Arc<ProcessManager>> {
        match &self.link {
            Link::Manager(manager) => Some(manager),
            Link::None | Link::Launcher(_) => self.own_launcher.as_ref()?.manager.as_ref(),
        }
    }

    /// Ends the rank of this process in the job of its own launcher, if it has one, after
    /// [`Job::mark_finalized`]. The launcher ends after the jobs that were spawned; most have
    /// ended, and the process that has started it awaits their last output.
    pub fn leave_own_launcher(&mut self) {
        let Some(own) = self.own_launcher.take() else { return };
        let OwnLauncherLink { stand_in, mpiexec, manager, .. } = own;
        let is_shared = manager.is_some();
        self.link = manager.map_or(Link::None, Link::Manager);
        self.has_left_launcher = true;
        let _ = shutdown(&stand_in, Shutdown::Write);
        let launcher = mpiexec.or((!is_shared).then_some(stand_in));
        if let Some(launcher) = launcher {
            hand_over::wait_for_end(launcher.as_fd(), LAST_OUTPUT_MILLISECONDS);
        }
    }

    /// Stores a value for all ranks of the job. With a process manager they see it after
    /// [`Job::fence`].
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), ControlError> {
        match &self.link {
            Link::None => Err(ControlError::Gone),
            Link::Launcher(control) => control.put(key, value),
            Link::Manager(manager) => manager.put(key, value).map_err(ControlError::Manager),
        }
    }

    /// Waits for the value that a rank stores under `key`. A process manager answers at once: the
    /// value must have been put before the last fence.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, ControlError> {
        match &self.link {
            Link::None => Err(ControlError::Gone),
            Link::Launcher(control) => control.get(key),
            Link::Manager(manager) => {
                let value = manager.get(key).map_err(ControlError::Manager)?;
                let missing = || ManagerError(format!("no rank has put a value under {key}"));
                value.ok_or_else(|| ControlError::Manager(missing()))
            }
        }
    }

    /// Makes what was put visible to all ranks: collective with a process manager, nothing with our
    /// launcher, where it is visible at once.
    pub fn fence(&self) -> Result<(), ControlError> {
        match &self.link {
            Link::None | Link::Launcher(_) => Ok(()),
            Link::Manager(manager) => manager.fence().map_err(ControlError::Manager),
        }
    }

    /// Returns the connection to our launcher, for requests without waiting.
    pub fn control(&self) -> Option<Arc<Control>> {
        match &self.link {
            Link::Launcher(control) => Some(control.clone()),
            Link::None | Link::Manager(_) => None,
        }
    }

    /// Returns the job's store; `None` for a singleton.
    pub fn store(&self) -> Option<Store> {
        match &self.link {
            Link::None => None,
            Link::Launcher(control) => Some(Store::Launcher(control.clone())),
            Link::Manager(manager) => Some(Store::Manager(manager.clone())),
        }
    }

    /// Returns the process manager that has started the job, in words, if it is not our launcher.
    pub fn process_manager(&self) -> Option<&'static str> {
        self.manager().map(|manager| manager.name())
    }

    /// Returns true once the launcher has ended, and with it the job. One system call: for
    /// processes that are about to sleep, not for the fast path.
    pub fn launcher_exited(&self) -> bool {
        match &self.link {
            Link::None => false,
            Link::Launcher(control) => control.is_closed(),
            Link::Manager(manager) => manager.is_closed(),
        }
    }

    /// Returns true if the job goes on when ranks fail (`mpiexec --on-failure continue`).
    pub fn survives_failures(&self) -> bool {
        self.status_page.failures() != 0
    }

    /// Returns the processes that have ended since the last call: ranks that have failed, of a job
    /// that goes on, and processes of other jobs. Costs one exchange if there are none.
    pub fn newly_ended(&self) -> Vec<EndedProcesses> {
        // Both counts only grow.
        let count = self.status_page.failures().wrapping_add(self.status_page.other_ends());
        if self.known_failures.swap(count, Relaxed) == count {
            return Vec::new();
        }
        let Link::Launcher(control) = &self.link else { return Vec::new() };
        let failed = |(rank, why): (u32, String)| {
            EndedProcesses::failed(self.first.saturating_add(rank), &why)
        };
        let ranks = control.take_failures().into_iter().map(failed);
        ranks.chain(control.take_ended()).collect()
    }

    /// Returns true if the job was started apart from others with which it can connect (`mpiexec
    /// --group`).
    pub fn is_in_group(&self) -> bool {
        self.first > 0 && self.parent.is_none()
    }

    /// Returns the process from which all ranks of this host descend; `None` for a process that
    /// has had no launcher.
    pub fn ancestor(&self) -> Option<u32> {
        self.ancestor
    }

    /// Returns the job's number, the same on all of its ranks.
    pub fn id(&self) -> u64 {
        self.id
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

/// Exchanges greetings with the launcher; returns the secret of the job.
fn greet(
    control: &Control,
    entry: &StatusEntry,
    state: RankState,
) -> Result<Secret, BootstrapError> {
    let secret = match control.receive()? {
        ToRank::Welcome { version, secret } if control::common_version(version).is_some() => {
            Secret::from_bytes(secret)
        }
        ToRank::Welcome { version, .. } => return Err(BootstrapError::Version(version)),
        _ => return Err(BootstrapError::Control(control::Malformed::Unknown.into())),
    };
    // Before Hello, so that the launcher sees the state when Hello wakes it.
    entry.set_state(state);
    let pid = getpid().as_raw_nonzero().get() as u32;
    control.send(&ToLauncher::Hello { version: control::VERSION, pid })?;
    Ok(secret)
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

/// Returns the process numbers of the ranks of this host.
fn local_numbers(params: &RankParams) -> Result<Vec<u32>, BootstrapError> {
    let RankParams { rank, size, local_size, first, .. } = *params;
    if local_size == size {
        return Ok((first..first + size).collect());
    }
    let host_of = hosts_of_launcher(size).map_err(BootstrapError::Manager)?;
    let host = host_of[rank as usize];
    let local = (first..).zip(&host_of).filter(|(_, other)| **other == host);
    Ok(local.map(|(number, _)| number).collect())
}

/// Returns the host of each rank of a job of our launcher.
fn hosts_of_launcher(size: u32) -> Result<Vec<u32>, String> {
    let text = std::env::var(HOSTS_VARIABLE).unwrap_or_default();
    host_table::decode(&text, size)
        .ok_or_else(|| format!("invalid {HOSTS_VARIABLE}={text}: must be that of mpiexec"))
}

fn closed(params: &RankParams) -> BootstrapError {
    BootstrapError::Closed {
        rank: params.rank,
        size: params.size,
        control: params.control,
        status_page: params.status_page,
    }
}
