//! The spawned jobs, seen from the outermost `mpiexec`, which is the parent of each.
//!
//! States of a job: starting -> running, or refused if its ranks cannot be started -> over, once no
//! process of it is left. Its `mpiexec` reports its own failures in detail; this side reports that
//! a job has failed, and whose it was. The outermost job is over after all spawned ones.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bootstrap::spawning::{EndedProcesses, MAX_PROCESSES, SpawnAnswer, SpawnRequest};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;

use super::event::{JobEvent, NewJob};
use super::messages::{Begin, FromNested, SPAWNED_OPTION, ToNested};
use super::request;
use super::stream::Stream;
use crate::program;
use crate::settings::Settings;
use crate::share::Share;
use crate::stall::HostStall;
use crate::tree::store::{Party, StoreMessage};

/// Time that a job has to end its ranks: more than a host has, and its `mpiexec` names the host
/// that does not end.
const END_GRACE: Duration = Duration::from_secs(4);
/// Time that its `mpiexec` has to end after its last message.
const EXIT_GRACE: Duration = Duration::from_millis(300);

/// The states of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its `mpiexec` was started.
    Starting,
    /// All of its ranks were started.
    Running,
    /// They were not; those that were are ended.
    Refused,
    /// No process of it is left.
    Over,
}

/// All spawned jobs.
#[derive(Debug)]
pub(crate) struct NestedJobs {
    /// The outermost job.
    settings: Settings,
    share: Share,
    jobs: Vec<NestedJob>,
    /// The next process number.
    next: u32,
    /// A signal was passed on that ends the jobs.
    is_stopping: bool,
    /// When the jobs were requested to end.
    ending: Option<Instant>,
}

/// A job that is prepared, and has no numbers yet.
#[derive(Debug)]
pub(super) struct Plan {
    /// The process that spawns it.
    pub(super) parent: u32,
    settings: Settings,
}

/// A spawned job.
#[derive(Debug)]
struct NestedJob {
    /// The numbers of its processes.
    numbers: Range<u32>,
    /// The number of rank 0 of the outermost job, from which the user counts.
    outer_base: u32,
    /// The process that has spawned it.
    parent: u32,
    /// Its first program.
    program: String,
    state: State,
    /// Whether its ranks make progress.
    stall: HostStall,
    stream: Stream,
    /// Its `mpiexec`.
    child: Child,
    /// A wait for all children has found the end of it.
    is_reaped: bool,
}

impl NestedJobs {
    /// Returns no jobs, for an outermost job with these settings.
    pub(crate) fn new(settings: &Settings, share: &Share) -> NestedJobs {
        let (settings, share) = (settings.clone(), share.clone());
        let (next, jobs) = (share.size, Vec::new());
        NestedJobs { settings, share, jobs, next, is_stopping: false, ending: None }
    }

    /// Prepares a job. The error is a text for the user.
    pub(super) fn plan(&self, parent: u32, request: SpawnRequest) -> Result<Plan, String> {
        if self.is_stopping || self.ending.is_some() {
            return Err("the job is ending".into());
        }
        Ok(Plan { parent, settings: request::settings(&self.settings, request)? })
    }

    /// Returns the first one of so many numbers that no process has had. The error is a text for
    /// the user.
    pub(super) fn next_numbers(&mut self, count: u32) -> Result<u32, String> {
        let first = self.next;
        let end = first.checked_add(count).filter(|end| *end <= MAX_PROCESSES);
        self.next = end.ok_or_else(|| {
            format!("{count} processes are too many: the job may start {}", MAX_PROCESSES - first)
        })?;
        Ok(first)
    }

    /// Starts a job whose processes have the numbers from `base` on. The error is a text for the
    /// user.
    pub(super) fn start(&mut self, plan: Plan, base: u32) -> Result<NewJob, String> {
        if self.is_stopping || self.ending.is_some() {
            return Err("the job is ending".into());
        }
        let (size, Plan { parent, mut settings }) = (plan.size(), plan);
        let (mut stream, child) = start_mpiexec()?;
        settings.output.base = base - self.share.base;
        let share = self.share.spawned(&settings, base, parent);
        let program = settings.sections[0].program.display().to_string();
        stream.send(&ToNested::Begin(Box::new(Begin::new(share, settings))));
        let (id, numbers, pid) = (self.jobs.len(), base..base + size, Pid::from_child(&child));
        self.jobs.push(NestedJob {
            numbers: numbers.clone(),
            outer_base: self.share.base,
            parent,
            program,
            state: State::Starting,
            stall: HostStall::Active,
            stream,
            child,
            is_reaped: false,
        });
        Ok(NewJob { id, numbers, pid })
    }

    pub(super) fn readable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter_map(|(id, job)| Some((id, job.stream.readable()?)))
    }

    pub(super) fn writable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter_map(|(id, job)| Some((id, job.stream.writable()?)))
    }

    pub(super) fn write(&mut self, job: usize) {
        self.jobs[job].stream.write();
    }

    /// Reads the messages of a job.
    pub(super) fn read(&mut self, id: usize) -> Vec<JobEvent> {
        let job = &mut self.jobs[id];
        let (messages, is_open) = job.stream.read();
        let mut events: Vec<JobEvent> =
            messages.into_iter().filter_map(|message| job.on_message(id, message)).collect();
        if !is_open {
            events.extend(job.on_disconnect());
        }
        events
    }

    pub(super) fn send(&mut self, job: usize, message: StoreMessage) {
        self.jobs[job].stream.send(&ToNested::Store(message));
    }

    /// Returns whether the ranks of the jobs make progress; `None` if none is left.
    pub(super) fn stall(&self) -> Option<HostStall> {
        let up = self.jobs.iter().filter(|job| job.state != State::Over);
        up.map(|job| job.stall).reduce(HostStall::join)
    }

    /// Has the jobs print what their ranks do.
    pub(super) fn request_tables(&mut self) {
        self.jobs.iter_mut().for_each(|job| job.stream.send(&ToNested::Table));
    }

    /// Passes on a signal that ends the job.
    pub(super) fn stop(&mut self, signal: i32) {
        self.is_stopping = true;
        self.jobs.iter_mut().for_each(|job| job.stream.send(&ToNested::Stop(signal)));
    }

    /// Tells the jobs that processes of others have ended.
    pub(super) fn announce(&mut self, ended: &EndedProcesses) {
        let jobs = self.jobs.iter_mut();
        jobs.for_each(|job| job.stream.send(&ToNested::OthersEnded(ended.clone())));
    }

    /// Returns the numbers of the processes of the outermost job, and of all spawned ones.
    pub(super) fn all_numbers(&self) -> Vec<Range<u32>> {
        let own = self.share.base..self.share.base + self.share.size;
        [own].into_iter().chain(self.jobs.iter().map(|job| job.numbers.clone())).collect()
    }

    /// Requests the jobs to end.
    pub(super) fn end(&mut self, now: Instant) {
        if self.ending.is_none() {
            self.ending = Some(now);
            self.jobs.iter_mut().for_each(|job| job.stream.send(&ToNested::End));
        }
    }

    /// Returns the time of the next [`NestedJobs::check`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ending.filter(|_| !self.are_over()).map(|since| since + END_GRACE)
    }

    /// Kills the jobs that do not end in time. Returns a line for each.
    pub(super) fn check(&mut self, now: Instant) -> Vec<String> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        let late = self.jobs.iter_mut().filter(|job| job.state != State::Over);
        late.map(NestedJob::kill).collect()
    }

    /// Records the end of a process that a wait for all children has found. Returns true if it was
    /// the `mpiexec` of a job.
    pub(super) fn on_reaped(&mut self, pid: Pid) -> bool {
        let mut alive = self.jobs.iter_mut().filter(|job| !job.is_reaped);
        let job = alive.find(|job| Pid::from_child(&job.child) == pid);
        job.is_some_and(|job| {
            job.is_reaped = true;
            true
        })
    }

    /// Returns true if no process of a job is left.
    pub(super) fn are_over(&self) -> bool {
        self.jobs.iter().all(|job| job.state == State::Over)
    }

    /// Waits for the ends of the processes of all jobs, which are over.
    pub(super) fn finish(&mut self) {
        let end = Instant::now() + EXIT_GRACE;
        for job in self.jobs.iter_mut().filter(|job| !job.is_reaped) {
            job.stream.close();
            while matches!(job.child.try_wait(), Ok(None)) {
                if Instant::now() >= end {
                    let _ = job.child.kill();
                    let _ = job.child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Plan {
    /// Returns the number of processes.
    pub(super) fn size(&self) -> u32 {
        self.settings.total_ranks()
    }
}

impl NestedJob {
    fn on_message(&mut self, id: usize, message: FromNested) -> Option<JobEvent> {
        match message {
            FromNested::Started if self.state == State::Starting => {
                self.state = State::Running;
                Some(self.answer(SpawnAnswer::Started { first: self.numbers.start }))
            }
            FromNested::Refused(why) if self.state == State::Starting => {
                self.state = State::Refused;
                Some(self.answer(SpawnAnswer::Refused(why)))
            }
            FromNested::Store(message) => Some(JobEvent::Store(Party::Job(id), message)),
            FromNested::Spawn { asker, request } if self.numbers.contains(&asker) => {
                Some(JobEvent::Spawn { asker, request })
            }
            FromNested::Stalled(stall) => {
                self.stall = stall;
                Some(JobEvent::Stalled)
            }
            FromNested::Ended(ended) => Some(JobEvent::ProcessesEnded(ended)),
            FromNested::Over { code, none_in_mpi } => self.on_over(code, none_in_mpi),
            // A message that comes twice, or is about another job, is ignored.
            FromNested::Started | FromNested::Refused(_) | FromNested::Spawn { .. } => None,
        }
    }

    fn on_over(&mut self, code: u8, none_in_mpi: bool) -> Option<JobEvent> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Running if code != 0 => {
                let line = format!("{} has failed", self.in_words());
                let lost = (!none_in_mpi).then(|| self.ended(Some("its job has failed")));
                Some(JobEvent::Failed { code, line, lost })
            }
            State::Running if none_in_mpi => {
                let line = format!(
                    "{} has ended, and none of its processes called MPI_Init: process {} waits for \
                     that; compile the program with Verbena's mpicc",
                    self.in_words(),
                    self.parent - self.outer_base
                );
                Some(JobEvent::Failed { code: 1, line, lost: None })
            }
            State::Starting => Some(self.answer(SpawnAnswer::Refused("it has not started".into()))),
            State::Running => Some(JobEvent::ProcessesEnded(self.ended(None))),
            State::Refused | State::Over => None,
        }
    }

    /// Returns what the end of the stream means.
    fn on_disconnect(&mut self) -> Option<JobEvent> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Running => {
                let line = format!("the mpiexec of {} has ended before it", self.in_words());
                let lost = Some(self.ended(Some("the mpiexec of its job has ended")));
                Some(JobEvent::Failed { code: 1, line, lost })
            }
            State::Starting => {
                Some(self.answer(SpawnAnswer::Refused(
                    "the mpiexec of the new processes has ended".into(),
                )))
            }
            State::Refused | State::Over => None,
        }
    }

    /// Kills its `mpiexec`; the kernel and the guard then end its ranks. Returns the line about it.
    fn kill(&mut self) -> String {
        if !self.is_reaped {
            let _ = self.child.kill();
        }
        self.state = State::Over;
        format!("{} does not end its processes; killed", self.in_words())
    }

    /// Returns all of its processes, with how they have failed.
    fn ended(&self, failure: Option<&str>) -> EndedProcesses {
        EndedProcesses { numbers: self.numbers.clone(), failure: failure.map(str::to_owned) }
    }

    fn answer(&self, answer: SpawnAnswer) -> JobEvent {
        JobEvent::Answer { asker: self.parent, answer }
    }

    fn in_words(&self) -> String {
        let NestedJob { numbers, outer_base, parent, program, .. } = self;
        let [start, end, parent] = [numbers.start, numbers.end, *parent].map(|n| n - outer_base);
        let processes = match end - start {
            1 => format!("process {start}"),
            _ => format!("processes {start} to {}", end - 1),
        };
        format!("the job that process {parent} has spawned ({processes}, `{program}`)")
    }
}

/// Starts an `mpiexec`. Returns our end of its standard input. It writes to our standard output and
/// error, and is in our process group: Ctrl-C reaches it.
fn start_mpiexec() -> Result<(Stream, Child), String> {
    let program = program::own_path()?;
    let refused = |error: std::io::Error| format!("cannot start {}: {error}", program.display());
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)
        .map_err(|errno| refused(errno.into()))?;
    let mut command = Command::new(&program);
    let child = command.arg(SPAWNED_OPTION).stdin(Stdio::from(theirs)).spawn().map_err(refused)?;
    Ok((Stream::new(ours), child))
}
