//! The job on this host, from its start to its end: one `poll` over all descriptors.
//!
//! The parts: `state` holds the job, `control` reads what ranks send, `deaths` reaps and judges
//! them, `status` reports what they do, `ending` ends the job, `other_jobs` is about spawned ones.
//! On one of several hosts ([`run_share`]) the job decides nothing: `upstream` follows the
//! decisions of `mpiexec`, and `relay` sends events to it, and speaks with the daemons that this
//! one has started.
//!
//! Ranks are started some at a time (`start_some`), and the others are listened to in between.
//! States (`Phase`): running -> (stopping, after a signal) -> terminating (SIGTERM sent) ->
//! killing (SIGKILL, repeated until no process is left). The job is over when no rank and no
//! descendant of a rank runs, and all their output is written.

mod control;
mod deaths;
mod ending;
mod other_jobs;
mod relay;
mod stacks;
mod state;
mod status;
mod upstream;

use std::time::{Duration, Instant};

use crate::explain::Explanations;
use crate::frames::{self, FromHost};
use crate::guard::Guard;
use crate::hosts::host_name;
use crate::memory_limit::MemoryLimit;
use crate::nested::links::JobLinks;
use crate::nested::root::Root as _;
use crate::outcome::{Clock, EXIT_TIMED_OUT, Outcome};
use crate::output::Output;
use crate::placement::Placement;
use crate::program::CannotRun;
use crate::reaper::Reaper;
use crate::settings::Settings;
use crate::share::{Share, sections_of};
use crate::signals::Signals;
use crate::stall::{DeadlockDetector, StallDetector};
use crate::start::{self, Starter};
use crate::tree::Tree;
use crate::tree::links::{Links, Start};
use crate::tree::store::Store;
pub(crate) use ending::STOP_GRACE_AFTER_DEATH;
use state::{Job, Phase, Processes, Relay, Source, Upstream, Watch};

/// Time for which ranks are started before others are listened to: the parent's heartbeat, and the
/// ranks that run already.
const START_SLICE: Duration = Duration::from_millis(50);

/// Runs a job on this host alone. Returns its exit code.
pub(crate) fn run(
    settings: &Settings,
    share: &Share,
    explanations: Explanations,
    jobs: JobLinks,
) -> Result<u8, CannotRun> {
    let output = Output::new(&settings.output)?;
    let begun = begin(settings, share, explanations, output, (Links::default(), jobs));
    let (mut job, starter) = begun.map_err(|(_, why)| why)?;
    job.watch(starter);
    job.conclude(settings);
    job.outcome.report(settings, &job.clock, job.local.output.messages());
    let code = job.outcome.code();
    let none_in_mpi = job.no_rank_was_in_mpi();
    job.jobs.finish(code, none_in_mpi);
    Ok(code)
}

/// Runs the share of this host in a job over several, and the hosts below it; the parent in the
/// tree speaks on standard input. Returns the daemon's exit code.
pub(crate) fn run_share(settings: &Settings, share: &Share, tree: &Tree) -> u8 {
    let mut output = Output::framed();
    // Before signals are blocked, which agents would inherit, and before the own ranks start.
    let links = Links::start(&Start { settings, share, tree, is_root: false }, Vec::new());
    // From now on this daemon answers: its parent listens for beats after the first message.
    output.send(&FromHost::Hello { version: frames::VERSION, host: host_name() });
    let mut own = settings.clone();
    if !tree.below.is_empty() {
        own.sections = sections_of(&settings.sections, &share.ranks);
    }
    // `mpiexec` collects the explanations of all hosts.
    let explanations = Explanations::new(share.size, false);
    let job = match links {
        Ok(links) => begin(&own, share, explanations, output, (links, JobLinks::None)),
        Err(message) => Err((output, CannotRun { message, code: 1 })),
    };
    match job {
        Ok((mut job, starter)) => {
            job.report_refused();
            job.watch(starter);
            job.send_batch();
            job.local.output.send(&FromHost::Over);
            job.local.output.flush();
            job.relay.links.end_agents();
            0
        }
        Err((mut output, CannotRun { message, code })) => {
            // The daemons below have lost their parent, and end by themselves.
            output.print(&format!("mpiexec: {message} (on {})", host_name()));
            output.send(&FromHost::Failed(code));
            output.send(&FromHost::Over);
            output.flush();
            code
        }
    }
}

/// Prepares the ranks of this host, with the daemons below it and the other jobs. If none can be
/// started, returns the output with the reason.
#[allow(clippy::result_large_err)] // once in a process's life
fn begin<'a>(
    settings: &'a Settings,
    share: &'a Share,
    explanations: Explanations,
    mut output: Output,
    (links, jobs): (Links, JobLinks),
) -> Result<(Job, Starter<'a>), (Output, CannotRun)> {
    let (placement, signals) = match prepare(settings, share) {
        Ok(prepared) => prepared,
        Err(message) => return Err((output, CannotRun { message, code: 1 })),
    };
    for line in placement.report() {
        output.print(&format!("mpiexec: {line}"));
    }
    let mut reaper = Reaper::become_subreaper();
    let guard = Guard::start(share.job);
    guard.iter().for_each(|guard| reaper.spare(guard.pid()));
    let memory = MemoryLimit::begin();
    let now = Instant::now();
    let is_daemon = output.is_framed();
    let upstream = is_daemon.then(|| Upstream::new(settings, now));
    let mut store = Store::new(share.ranks.shifted(share.base), links.routes(share.base));
    if jobs.keep_names() {
        store.keep_names();
    }
    let children = links.iter().count();
    let mask = signals.original_mask().clone();
    let (local, starter) = start::prepare(settings, share, placement, mask, children, output)?;
    let mut job = Job {
        local,
        ranks: share.ranks.clone(),
        base: share.base,
        host: host_name(),
        upstream,
        processes: Processes {
            signals,
            reaper,
            guard,
            memory,
            is_childless: false,
            gave_up: false,
        },
        watch: Watch::new(settings, is_daemon, now),
        store,
        relay: Relay::new(links),
        jobs,
        is_spawned: share.parent.is_some(),
        reports_start: share.parent.is_some(),
        outcome: Outcome::new(explanations, settings.on_failure),
        events: Vec::new(),
        // The time limit is the job's; `mpiexec` keeps it.
        clock: Clock::start(settings.timeout.filter(|_| !is_daemon), now),
        phase: Phase::Running,
    };
    if settings.explain {
        job.explain_refusals();
    }
    Ok((job, starter))
}

fn prepare(settings: &Settings, share: &Share) -> Result<(Placement, Signals), String> {
    let placement = Placement::new(settings, &share.ranks)?;
    let signals = Signals::open().map_err(|error| format!("cannot wait for signals: {error}"))?;
    Ok((placement, signals))
}

impl Job {
    /// Reports the system calls that the system refuses, with what takes their place.
    fn explain_refusals(&mut self) {
        let folder = self.local.status_page.folder().map(|folder| {
            format!(
                "memfd_create is refused: shared memory is a file without a name in {}",
                folder.display()
            )
        });
        let thread = (self.processes.signals.is_thread())
            .then(|| "signalfd is refused: a thread waits for signals".to_owned());
        for line in [folder, thread].into_iter().flatten() {
            self.print(&format!("{line} (on {})", self.host));
        }
    }

    fn watch(&mut self, mut starter: Starter<'_>) {
        self.read_early();
        while !self.is_over() {
            for source in self.wait(self.deadline()) {
                self.on_ready(source);
            }
            self.judge_events();
            self.start_some(&mut starter);
            self.tick(Instant::now());
        }
    }

    /// Starts the next ranks. A job that is ending starts none.
    fn start_some(&mut self, starter: &mut Starter<'_>) {
        if self.phase != Phase::Running {
            self.local.unstarted = 0;
        }
        if self.local.unstarted == 0 {
            return;
        }
        let before = self.local.ranks.len();
        let started = starter.start_some(&mut self.local, Instant::now() + START_SLICE);
        self.processes.is_childless = false;
        if let Some(guard) = &self.processes.guard {
            self.local.ranks[before..].iter().for_each(|rank| guard.add(rank.pid));
        }
        if let Err(CannotRun { message, code }) = started {
            self.on_start_failure(&message, code);
        }
    }

    fn on_ready(&mut self, source: Source) {
        match source {
            Source::Signals => self.read_signals(),
            Source::Upstream => self.read_upstream(),
            Source::Control(rank) => self.read_control(rank),
            Source::FromLink(link) => self.read_link(link),
            Source::ToLink(link) => self.relay.links.write(link),
            Source::FromJob(job) => self.read_job(job),
            Source::ToJob(job) => self.jobs.write(job),
            Source::Stream(id) => {
                self.local.output.read(id, Instant::now());
            }
            Source::Sink(id) => self.local.output.write(id),
            Source::Stdin => {
                if self.local.input.read() {
                    self.local.output.on_typed_line();
                }
            }
            Source::StdinPipe => self.write_input(),
            Source::Stack => {
                let taken = self.watch.stacks.read();
                self.print_stack(taken);
            }
        }
    }

    fn read_signals(&mut self) {
        for signal in self.processes.signals.read() {
            match signal {
                libc::SIGCHLD => self.reap(),
                libc::SIGQUIT => self.print_table(),
                libc::SIGTSTP => self.suspend(),
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => self.on_stop_signal(signal),
                other => self.pass_on(other),
            }
        }
    }

    /// Returns the time of the next [`Job::tick`].
    fn deadline(&self) -> Option<Instant> {
        if self.local.unstarted > 0 {
            return Some(Instant::now());
        }
        let heartbeat = self.upstream.as_ref().and_then(|upstream| upstream.heartbeat.deadline());
        let stall = self.watch.stall.as_ref().map(StallDetector::deadline);
        let output = self.local.output.deadline();
        let (absent, foreign) = (self.absent_deadline(), self.watch.foreign.deadline());
        let deadlock = self.watch.deadlock.as_ref().map(DeadlockDetector::deadline);
        let stopped = self.watch.stopped.deadline();
        let unfinalized = self.watch.unfinalized.deadline();
        let stacks = self.watch.stacks.deadline();
        let looks = [stall, deadlock, stopped, absent, foreign, unfinalized, stacks];
        let relay = self.relay.deadline();
        let jobs = self.jobs.deadline();
        let own = looks.into_iter().chain([self.phase_deadline(), heartbeat, relay, jobs]);
        own.chain([output, self.clock.deadline()]).flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        self.local.output.tick(now);
        self.check_upstream(now);
        self.check_relay(now);
        self.check_jobs(now);
        self.check_deadlock(now);
        self.check_stall(now);
        self.check_stopped(now);
        self.check_absent(now);
        self.check_foreign(now);
        self.check_stacks(now);
        if let Some(line) = self.clock.limit_reached(now) {
            self.print(&line);
            self.print_table();
            self.jobs.request_tables();
            self.end(EXIT_TIMED_OUT);
        }
        self.advance_phase(now);
        self.check_start();
        self.check_output();
        self.finish(now);
    }
}
