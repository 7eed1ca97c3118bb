//! The connections of a job to other jobs: the outermost `mpiexec` has one to each spawned job and
//! one to the keeper of its group, the `mpiexec` of a spawned job one to the outermost, and a
//! daemon none.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use bootstrap::spawning::{EndedProcesses, SpawnRequest};
use rustix::process::Pid;

use super::event::{JobEvent, NewJob};
use super::jobs::NestedJobs;
use super::outer::Outer;
use super::outermost::Outermost;
use crate::stall::HostStall;
use crate::tree::store::{Party, StoreMessage};

/// The connections of a job.
#[derive(Debug)]
pub(crate) enum JobLinks {
    /// Those of the outermost `mpiexec`.
    Outermost(Box<Outermost>),
    /// That of a spawned job.
    Spawned(Outer),
    /// Those of a daemon.
    None,
}

impl JobLinks {
    /// Returns the descriptors to read from, by job.
    pub(crate) fn readable(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        match self {
            JobLinks::Outermost(all) => all.readable(),
            JobLinks::Spawned(outer) => {
                outer.stream().readable().map(|file| (0, file)).into_iter().collect()
            }
            JobLinks::None => Vec::new(),
        }
    }

    /// Returns the descriptors to write to, by job.
    pub(crate) fn writable(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        match self {
            JobLinks::Outermost(all) => all.writable(),
            JobLinks::Spawned(outer) => {
                outer.stream().writable().map(|file| (0, file)).into_iter().collect()
            }
            JobLinks::None => Vec::new(),
        }
    }

    /// Writes as much to a job as its socket takes.
    pub(crate) fn write(&mut self, job: usize) {
        match self {
            JobLinks::Outermost(all) => all.write(job),
            JobLinks::Spawned(outer) => outer.write(),
            JobLinks::None => {}
        }
    }

    /// Reads from a job.
    pub(crate) fn read(&mut self, job: usize) -> Vec<JobEvent> {
        match self {
            JobLinks::Outermost(all) => all.read(job),
            JobLinks::Spawned(outer) => outer.read(),
            JobLinks::None => Vec::new(),
        }
    }

    /// Reads what has come with the first messages of the group's keeper, which nothing announces
    /// any more.
    pub(crate) fn read_early(&mut self) -> Vec<JobEvent> {
        if let JobLinks::Outermost(all) = self { all.read_early() } else { Vec::new() }
    }

    /// Sends a message about the store. One to a party that is no other job is dropped: no process
    /// of the job has put or keeps what it is about.
    pub(crate) fn send(&mut self, party: Party, message: StoreMessage) {
        match (self, party) {
            (JobLinks::Outermost(all), Party::Job(job)) => all.nested.send(job, message),
            (JobLinks::Outermost(all), Party::Parent) => all.send_up(message),
            (JobLinks::Spawned(outer), Party::Parent) => outer.send(message),
            _ => {}
        }
    }

    /// Starts a job for a process, or has the outermost `mpiexec` start it, or waits for numbers
    /// (`None`). The error is a text for the user.
    pub(crate) fn spawn(
        &mut self,
        asker: u32,
        request: SpawnRequest,
    ) -> Option<Result<NewJob, String>> {
        match self {
            JobLinks::Outermost(all) => return all.spawn(asker, request),
            JobLinks::Spawned(outer) => outer.spawn(asker, request),
            JobLinks::None => {}
        }
        None
    }

    /// Starts a job that has waited for numbers. Returns the process that has requested it, and the
    /// result.
    pub(crate) fn start_planned(
        &mut self,
        first: Option<u32>,
    ) -> Option<(u32, Result<NewJob, String>)> {
        if let JobLinks::Outermost(all) = self { all.start_planned(first) } else { None }
    }

    /// Forgets the jobs that wait for numbers. Returns the processes that have requested them, with
    /// the reason.
    pub(crate) fn refuse_planned(&mut self) -> Vec<(u32, String)> {
        if let JobLinks::Outermost(all) = self { all.refuse_planned() } else { Vec::new() }
    }

    /// Returns true if this process keeps the names of services.
    pub(crate) fn keep_names(&self) -> bool {
        if let JobLinks::Outermost(all) = self { all.keeps_names() } else { false }
    }

    /// Returns the numbers that processes of jobs may have which this one has not spawned.
    pub(crate) fn other_numbers(&self) -> Vec<Range<u32>> {
        if let JobLinks::Outermost(all) = self { all.other_numbers() } else { Vec::new() }
    }

    /// Returns the spawned jobs.
    fn jobs(&self) -> Option<&NestedJobs> {
        if let JobLinks::Outermost(all) = self { Some(&all.nested) } else { None }
    }

    fn jobs_mut(&mut self) -> Option<&mut NestedJobs> {
        if let JobLinks::Outermost(all) = self { Some(&mut all.nested) } else { None }
    }

    /// Returns true if no rank of this job and of those that it has spawned makes progress, and
    /// some wait. A spawned job leaves that to the outermost `mpiexec`, which it tells, and a job
    /// in a group to the keeper.
    pub(crate) fn are_stalled_with(&mut self, own: HostStall) -> bool {
        match self {
            JobLinks::Outermost(all) => all.are_stalled_with(own),
            JobLinks::Spawned(outer) => {
                outer.set_stall(own);
                false
            }
            JobLinks::None => false,
        }
    }

    /// Has the spawned jobs print what their ranks do.
    pub(crate) fn request_tables(&mut self) {
        self.jobs_mut().into_iter().for_each(NestedJobs::request_tables);
    }

    /// Passes a signal that ends the job on to the spawned jobs.
    pub(crate) fn stop(&mut self, signal: i32) {
        self.jobs_mut().into_iter().for_each(|jobs| jobs.stop(signal));
    }

    /// Tells the spawned jobs that processes of others have ended.
    pub(crate) fn announce(&mut self, ended: &EndedProcesses) {
        self.jobs_mut().into_iter().for_each(|jobs| jobs.announce(ended));
    }

    /// Tells all other jobs that processes of this one, or of a spawned one, have ended, and that
    /// this job goes on.
    pub(crate) fn report_ended(&mut self, ended: EndedProcesses) {
        match self {
            JobLinks::Outermost(all) => all.report_ended(&ended),
            JobLinks::Spawned(outer) => outer.report_ended(ended),
            JobLinks::None => {}
        }
    }

    /// Requests the spawned jobs to end.
    pub(crate) fn end(&mut self, now: Instant) {
        self.jobs_mut().into_iter().for_each(|jobs| jobs.end(now));
    }

    /// Returns the time of the next [`JobLinks::check`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.jobs()?.deadline()
    }

    /// Kills the spawned jobs that do not end in time. Returns a line for each.
    pub(crate) fn check(&mut self, now: Instant) -> Vec<String> {
        self.jobs_mut().map_or_else(Vec::new, |jobs| jobs.check(now))
    }

    /// Records the end of a process that a wait for all children has found. Returns true if it was
    /// the `mpiexec` of a spawned job.
    pub(crate) fn on_reaped(&mut self, pid: Pid) -> bool {
        self.jobs_mut().is_some_and(|jobs| jobs.on_reaped(pid))
    }

    /// Returns true if no process of a spawned job is left.
    pub(crate) fn are_over(&self) -> bool {
        self.jobs().is_none_or(NestedJobs::are_over)
    }

    /// Holds a line for the user while it is open whether the ranks of a spawned job can be
    /// started. Returns false if the line is to be printed now.
    pub(crate) fn holds(&mut self, line: &str) -> bool {
        if let JobLinks::Spawned(outer) = self { outer.holds(line) } else { false }
    }

    /// Reports that the ranks of a spawned job were started, or that they were not. Returns the
    /// lines to print then.
    pub(crate) fn report_start(&mut self, is_started: bool) -> Vec<String> {
        match self {
            JobLinks::Spawned(outer) if is_started => outer.report_started(),
            JobLinks::Spawned(outer) => {
                outer.report_refused();
                Vec::new()
            }
            JobLinks::Outermost(_) | JobLinks::None => Vec::new(),
        }
    }

    /// Ends the connections of a job that is over, with its exit code. `none_in_mpi`: no rank
    /// called MPI_Init.
    pub(crate) fn finish(&mut self, code: u8, none_in_mpi: bool) {
        match self {
            JobLinks::Outermost(all) => all.finish(code),
            JobLinks::Spawned(outer) => outer.finish(code, none_in_mpi),
            JobLinks::None => {}
        }
    }
}
