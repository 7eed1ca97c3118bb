//! The connections of the outermost `mpiexec`: to the jobs that were spawned, and to the keeper of
//! the group if its job is in one.
//!
//! States of a request for a job: planned -> started. Between the two a job in a group waits for
//! numbers, which the keeper gives out in the order of the requests.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use bootstrap::spawning::{EndedProcesses, MAX_PROCESSES, SpawnRequest};

use super::event::{JobEvent, NewJob};
use super::jobs::{NestedJobs, Plan};
use crate::group::link::GroupLink;
use crate::stall::HostStall;
use crate::tree::store::StoreMessage;

/// The keeper among the connections, by the number that spawned jobs have.
const KEEPER: usize = usize::MAX;

/// The connections.
#[derive(Debug)]
pub(crate) struct Outermost {
    pub(super) nested: NestedJobs,
    group: Option<GroupLink>,
    /// Jobs that wait for numbers.
    planned: VecDeque<Plan>,
}

impl Outermost {
    pub(crate) fn new(nested: NestedJobs, group: Option<GroupLink>) -> Outermost {
        Outermost { nested, group, planned: VecDeque::new() }
    }

    /// Returns true if this process keeps the names of services.
    pub(super) fn keeps_names(&self) -> bool {
        self.group.is_none()
    }

    pub(super) fn readable(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        let keeper = self.group.as_ref().and_then(GroupLink::readable);
        self.nested.readable().chain(keeper.map(|file| (KEEPER, file))).collect()
    }

    pub(super) fn writable(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        let keeper = self.group.as_ref().and_then(GroupLink::writable);
        self.nested.writable().chain(keeper.map(|file| (KEEPER, file))).collect()
    }

    pub(super) fn write(&mut self, job: usize) {
        match &mut self.group {
            Some(group) if job == KEEPER => group.write(),
            _ => self.nested.write(job),
        }
    }

    pub(super) fn read(&mut self, job: usize) -> Vec<JobEvent> {
        match &mut self.group {
            Some(group) if job == KEEPER => group.read(),
            _ => self.nested.read(job),
        }
    }

    /// Reads what has come with the first messages of the keeper.
    pub(super) fn read_early(&mut self) -> Vec<JobEvent> {
        self.group.as_mut().map_or_else(Vec::new, GroupLink::read)
    }

    /// Sends a message to the keeper, if there is one.
    pub(super) fn send_up(&mut self, message: StoreMessage) {
        self.group.iter_mut().for_each(|group| group.send(message.clone()));
    }

    /// Starts a job for a process, now or when it has numbers (`None`). The error is a text for the
    /// user.
    pub(super) fn spawn(
        &mut self,
        asker: u32,
        request: SpawnRequest,
    ) -> Option<Result<NewJob, String>> {
        let plan = match self.nested.plan(asker, request) {
            Ok(plan) => plan,
            Err(why) => return Some(Err(why)),
        };
        match &mut self.group {
            None => {
                let first = self.nested.next_numbers(plan.size());
                return Some(first.and_then(|first| self.nested.start(plan, first)));
            }
            Some(group) if group.is_lost() => return Some(Err(LOST.into())),
            Some(group) => group.ask_numbers(plan.size()),
        }
        self.planned.push_back(plan);
        None
    }

    /// Starts the job that has waited for numbers for the longest time. Returns the process that
    /// has requested it, and the result.
    pub(super) fn start_planned(
        &mut self,
        first: Option<u32>,
    ) -> Option<(u32, Result<NewJob, String>)> {
        let plan = self.planned.pop_front()?;
        let asker = plan.parent;
        let none_left = || format!("the jobs of the group have had all {MAX_PROCESSES} processes");
        Some((asker, first.ok_or_else(none_left).and_then(|first| self.nested.start(plan, first))))
    }

    /// Forgets the jobs that wait for numbers. Returns the processes that have requested them, with
    /// the reason.
    pub(super) fn refuse_planned(&mut self) -> Vec<(u32, String)> {
        self.planned.drain(..).map(|plan| (plan.parent, LOST.to_owned())).collect()
    }

    /// Tells the spawned jobs and those of the group that processes have ended.
    pub(super) fn report_ended(&mut self, ended: &EndedProcesses) {
        self.nested.announce(ended);
        self.group.iter_mut().for_each(|group| group.report_ended(ended));
    }

    /// Returns the numbers that processes of other jobs may have.
    pub(super) fn other_numbers(&self) -> Vec<Range<u32>> {
        let mut own = self.nested.all_numbers();
        own.sort_by_key(|numbers| numbers.start);
        let starts = [0].into_iter().chain(own.iter().map(|numbers| numbers.end));
        let ends = own.iter().map(|numbers| numbers.start).chain([MAX_PROCESSES]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
    }

    /// Returns true if no rank of this job and of those that it has spawned makes progress, and
    /// some wait. In a group the keeper looks at all jobs, and is told of these.
    pub(super) fn are_stalled_with(&mut self, own: HostStall) -> bool {
        let all = self.nested.stall().into_iter().fold(own, HostStall::join);
        match self.group.as_mut().filter(|group| !group.is_lost()) {
            Some(group) => {
                group.set_stall(all);
                false
            }
            None => all == HostStall::Waiting,
        }
    }

    /// Ends the connections of a job that is over.
    pub(super) fn finish(&mut self, code: u8) {
        self.nested.finish();
        self.group.iter_mut().for_each(|group| group.finish(code));
    }
}

/// Why no job can be spawned.
const LOST: &str = "the keeper of the group has ended, which gives out the numbers of processes";
