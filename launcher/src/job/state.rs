//! The state of a job's ranks on this host, in parts; sibling files act on it.

use std::os::fd::AsFd;
use std::time::Instant;

use bootstrap::control::Decoder;
use bootstrap::{RankState, Ranks, Snapshot};
use rustix::event::PollFlags;

use crate::absent_ranks::AbsentRanks;
use crate::failure_policy::{Event, Exit};
use crate::foreign_mpi::ForeignMpi;
use crate::frames;
use crate::guard::Guard;
use crate::heartbeat::Heartbeat;
use crate::memory_limit::MemoryLimit;
use crate::nested::links::JobLinks;
use crate::outcome::{Clock, Outcome};
use crate::poll_set::{self, Interest};
use crate::reaper::Reaper;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::stall::{DeadlockDetector, HostStall, StallDetector};
use crate::start::LocalRanks;
use crate::stopped_ranks::StoppedRanks;
use crate::tree::batch::Batch;
use crate::tree::links::Links;
use crate::tree::store::Store;
use crate::unfinalized::Unfinalized;
use crate::user_stack::UserStacks;

/// The meaning of a descriptor in the poll set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Signals,
    /// The parent in the tree of daemons.
    Upstream,
    Control(usize),
    FromLink(usize),
    ToLink(usize),
    FromJob(usize),
    ToJob(usize),
    Stream(usize),
    Sink(usize),
    Stdin,
    StdinPipe,
    /// The tool that reads a rank's stack.
    Stack,
}

/// The phases of a job. Each leads to a later one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    Running,
    /// A signal was passed on; the ranks may end in their own time.
    Stopping {
        signal: i32,
        until: Instant,
        kill_notice_at: Option<Instant>,
    },
    /// The ranks were sent SIGTERM.
    Terminating {
        since: Instant,
    },
    /// The ranks are sent SIGKILL.
    Killing {
        since: Instant,
        last: Instant,
    },
}

/// The connection to the parent: the `mpiexec` on another host, or a daemon.
pub(super) struct Upstream {
    pub(super) decoder: Decoder,
    pub(super) heartbeat: Heartbeat,
}

impl Upstream {
    /// Listens to a parent that has just started this process, and may be starting others.
    pub(super) fn new(settings: &Settings, now: Instant) -> Upstream {
        let heartbeat = Heartbeat::starting(settings.dead_after(), settings.start_timeout(), now);
        Upstream { decoder: frames::decoder(), heartbeat }
    }
}

/// The processes of the job on this host: how they are seen, and how they are ended.
pub(super) struct Processes {
    pub(super) signals: Signals,
    pub(super) reaper: Reaper,
    /// Ends the ranks if this process is killed.
    pub(super) guard: Option<Guard>,
    pub(super) memory: MemoryLimit,
    /// `wait` has found no child.
    pub(super) is_childless: bool,
    /// No process is waited for: a second Ctrl-C, or a process stuck in the kernel.
    pub(super) gave_up: bool,
}

/// What is looked at from time to time while ranks run.
pub(super) struct Watch {
    pub(super) stall: Option<StallDetector>,
    pub(super) deadlock: Option<DeadlockDetector>,
    /// What looks for stalls while the user has stopped the job: time and processes stand still.
    paused: Option<(Option<StallDetector>, Option<DeadlockDetector>)>,
    /// Unless `--stall-timeout 0`.
    pub(super) reports_stalls: bool,
    /// Ends the job when its ranks wait for ever.
    pub(super) aborts_stalls: bool,
    pub(super) stopped: StoppedRanks,
    pub(super) absent: AbsentRanks,
    pub(super) unfinalized: Unfinalized,
    pub(super) stacks: UserStacks,
    pub(super) foreign: ForeignMpi,
}

/// The children in the tree, and what is joined with their messages.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) links: Links,
    pub(super) batch: Batch,
    /// Whether the ranks of this host make progress.
    pub(super) own_stall: HostStall,
    /// What was sent of this host and of those below.
    pub(super) sent_stall: HostStall,
}

impl Relay {
    /// Relays for these children.
    pub(super) fn new(links: Links) -> Relay {
        let (own_stall, sent_stall) = (HostStall::Active, HostStall::Active);
        Relay { links, batch: Batch::default(), own_stall, sent_stall }
    }

    /// Returns the time of the next [`Job::check_relay`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.batch.deadline().into_iter().chain(self.links.deadline()).min()
    }
}

/// A running job, or the share of this host in it.
pub(super) struct Job {
    /// The ranks, with their sockets and pipes.
    pub(super) local: LocalRanks,
    /// The numbers of the ranks.
    pub(super) ranks: Ranks,
    /// The process number of rank 0.
    pub(super) base: u32,
    /// The name of this host.
    pub(super) host: String,
    /// `None` in the `mpiexec` that the user started.
    pub(super) upstream: Option<Upstream>,
    pub(super) processes: Processes,
    pub(super) watch: Watch,
    pub(super) store: Store,
    /// The daemons below this one.
    pub(super) relay: Relay,
    /// The jobs that were spawned, or the one that has spawned this one.
    pub(super) jobs: JobLinks,
    /// A process has spawned the job.
    pub(super) is_spawned: bool,
    /// The start of the ranks, as a spawned job, will be reported.
    pub(super) reports_start: bool,
    pub(super) outcome: Outcome,
    /// Events that were not judged yet.
    pub(super) events: Vec<Event>,
    pub(super) clock: Clock,
    pub(super) phase: Phase,
}

impl Watch {
    /// Starts to watch a job. A daemon (`is_daemon`) leaves deadlocks to `mpiexec`, which reports
    /// stalls of several hosts: tables of single hosts would mix.
    pub(super) fn new(settings: &Settings, is_daemon: bool, now: Instant) -> Watch {
        let reports_stalls = settings.reports_stalls();
        Watch {
            stall: Some(StallDetector::new(settings.stall_after(), now)),
            deadlock: (reports_stalls && !is_daemon).then(|| DeadlockDetector::new(now)),
            paused: None,
            reports_stalls,
            aborts_stalls: settings.stall_abort,
            stopped: StoppedRanks::default(),
            absent: AbsentRanks::default(),
            unfinalized: Unfinalized::default(),
            stacks: UserStacks::new(settings.stack_traces),
            foreign: ForeignMpi::new(now),
        }
    }
}

impl Watch {
    /// Judges no rank while the user has stopped the job.
    pub(super) fn pause(&mut self) {
        self.stopped.expect(true);
        if self.paused.is_none() {
            self.paused = Some((self.stall.take(), self.deadlock.take()));
        }
    }

    /// Judges the ranks anew from now on.
    pub(super) fn resume(&mut self, now: Instant) {
        self.stopped.expect(false);
        if let Some((stall, deadlock)) = self.paused.take() {
            self.stall = stall.map(|stall| StallDetector::new(stall.after(), now));
            self.deadlock = deadlock.map(|_| DeadlockDetector::new(now));
        }
    }
}

impl Job {
    /// Sleeps until a descriptor is ready or the deadline has come.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Vec<Source> {
        poll_set::wait(&self.interests(), deadline)
    }

    /// Returns the poll set. Signals come first: a death explains what is read after it.
    fn interests(&self) -> Vec<Interest<'_, Source>> {
        let LocalRanks { ranks, output, input, .. } = &self.local;
        let mut all = vec![(Source::Signals, self.processes.signals.as_fd(), PollFlags::IN)];
        let upstream = self.upstream.as_ref();
        all.extend(upstream.map(|_| (Source::Upstream, rustix::stdio::stdin(), PollFlags::IN)));
        let controls =
            ranks.iter().enumerate().filter_map(|(id, rank)| Some((id, rank.control.as_ref()?)));
        all.extend(
            controls.map(|(id, control)| (Source::Control(id), control.as_fd(), PollFlags::IN)),
        );
        let links = &self.relay.links;
        let readable = links.readable().filter(|_| !output.is_behind());
        all.extend(readable.map(|(id, file)| (Source::FromLink(id), file, PollFlags::IN)));
        all.extend(links.writable().map(|(id, file)| (Source::ToLink(id), file, PollFlags::OUT)));
        let (from_jobs, to_jobs) = (self.jobs.readable(), self.jobs.writable());
        all.extend(from_jobs.into_iter().map(|(id, f)| (Source::FromJob(id), f, PollFlags::IN)));
        all.extend(to_jobs.into_iter().map(|(id, f)| (Source::ToJob(id), f, PollFlags::OUT)));
        all.extend(output.readable().map(|(id, file)| (Source::Stream(id), file, PollFlags::IN)));
        all.extend(output.writable().map(|(id, file)| (Source::Sink(id), file, PollFlags::OUT)));
        all.extend(input.readable().map(|file| (Source::Stdin, file, PollFlags::IN)));
        all.extend(input.writable().map(|(_, file)| (Source::StdinPipe, file, PollFlags::OUT)));
        all.extend(self.watch.stacks.readable().map(|file| (Source::Stack, file, PollFlags::IN)));
        all
    }

    /// Prints a line for the user.
    pub(super) fn print(&mut self, text: &str) {
        if !self.jobs.holds(text) {
            self.local.output.print(&format!("mpiexec: {text}"));
        }
    }

    /// Returns a rank's entry of the status page, and the process that is in MPI or that was
    /// started.
    pub(super) fn seen(&self, rank: u32) -> (Snapshot, u32) {
        let local = self.ranks.index_of(rank).expect("a rank of this host");
        self.seen_local(local as usize)
    }

    /// The same for a rank by its number on this host.
    pub(super) fn seen_local(&self, local: usize) -> (Snapshot, u32) {
        let seen = self.local.status_page.entry(local as u32).snapshot();
        let started = self.local.ranks.get(local);
        let started = started.map_or(0, |rank| rank.pid.as_raw_nonzero().get() as u32);
        (seen, if seen.pid == 0 { started } else { seen.pid })
    }

    /// Returns the state of MPI in each rank, with the way it ended.
    pub(super) fn states(&self) -> impl Iterator<Item = (RankState, Option<Exit>)> + '_ {
        let ranks = self.local.ranks.iter().enumerate();
        ranks.map(|(id, rank)| (self.local.status_page.entry(id as u32).state(), rank.exit))
    }

    pub(super) fn some_rank_is_in_mpi(&self) -> bool {
        self.states().any(|(state, exit)| {
            let is_in_mpi = state.missing_call().is_some() || state == RankState::Finalizing;
            exit.is_none() && is_in_mpi
        })
    }

    pub(super) fn all_ranks_have_ended(&self) -> bool {
        self.local.unstarted == 0 && self.local.ranks.iter().all(|rank| rank.exit.is_some())
    }

    /// Returns true if no rank runs and no process that a rank left running.
    pub(super) fn has_no_process(&self) -> bool {
        self.processes.is_childless && self.all_ranks_have_ended()
    }

    pub(super) fn is_over(&self) -> bool {
        let is_done = self.has_no_process() && self.local.output.is_finished();
        let are_others_over = self.relay.links.are_over() && self.jobs.are_over();
        (self.processes.gave_up || is_done) && are_others_over
    }
}
