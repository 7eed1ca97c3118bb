//! The job while it runs: one `poll` over everything, until nothing is left.
//!
//! The parts: `control` hears what ranks say, `deaths` reaps and judges them,
//! `ending` ends the job. On one of several hosts ([`run_share`]) the job decides
//! nothing: `upstream` tells `mpiexec` what happens here and does what it says.
//!
//! States ([`Phase`]): running -> (told to stop by a signal) -> terminating
//! (SIGTERM sent) -> killing (SIGKILL, repeated until nobody is
//! left). The job is over when no rank runs, none of their descendants does,
//! and all they wrote is written.

mod control;
mod deaths;
mod ending;
mod upstream;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use bootstrap::control::Decoder;
use config::{KnobError, Knobs, Sources, knob};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::explain::Explanations;
use crate::failure_policy::{Event, Exit};
use crate::frames::{self, FromHost};
use crate::heartbeat::Heartbeat;
use crate::hosts::Share;
use crate::memory_limit::MemoryLimit;
use crate::multi_host;
use crate::options::{DEAD_AFTER, Settings, WRONG_USE};
use crate::output::Output;
use crate::placement::Placement;
use crate::program::CannotRun;
use crate::reaper::Reaper;
use crate::report;
use crate::secondary_failures::SecondaryFailures;
use crate::signals::Signals;
use crate::stall::{self, Stall};
use crate::start::{self, Started};
use crate::store::Store;
use crate::wait_graph;
use ending::Phase;

/// What a descriptor in the `poll` is.
#[derive(Clone, Copy, Debug)]
enum Source {
    Signals,
    /// The `mpiexec` that is on another host.
    Upstream,
    Control(usize),
    Stream(usize),
    Sink(usize),
    Stdin,
    StdinPipe,
}

/// A job that runs.
struct Job {
    started: Started,
    /// Rank of the first that is here.
    first: u32,
    /// What `mpiexec` says to us, if we are not it.
    upstream: Option<Decoder>,
    /// Whether it is still there.
    heartbeat: Option<Heartbeat>,
    signals: Signals,
    reaper: Reaper,
    memory: MemoryLimit,
    store: Store,
    explain: Explanations,
    secondary_failures: SecondaryFailures,
    phase: Phase,
    /// What we exit with; the first reason counts.
    code: Option<u8>,
    /// No child is left, as `wait` says.
    childless: bool,
    /// Nobody is waited for any more: a second Ctrl-C, or stuck in the kernel.
    abandoned: bool,
    events: Vec<Event>,
    /// The first that failed before it was in MPI.
    missing: Option<u32>,
    host: String,
    began: Instant,
    time_is_up: Option<Instant>,
    stall: Option<Stall>,
}

/// Runs a job to its end. Returns the exit code.
pub fn run(settings: &Settings) -> u8 {
    match try_run(settings) {
        Ok(code) => code,
        Err(CannotRun { message, code }) => {
            eprintln!("mpiexec: {message}");
            code
        }
    }
}

/// Runs the share of this host to its end, as `mpiexec` says on standard input.
/// Returns the exit code.
pub fn run_share(settings: &Settings, share: Share) -> u8 {
    let mut output = Output::framed();
    output.send(&FromHost::Hello { version: frames::VERSION, host: host_name() });
    // What ranks say of their ways goes to `mpiexec`.
    match begin(settings, &share, Explanations::of(share.size, false), output) {
        Ok(mut job) => {
            job.watch();
            job.started.output.send(&FromHost::Over);
            job.started.output.flush();
            0
        }
        Err((mut output, CannotRun { message, code })) => {
            output.tell(&format!("mpiexec: {message} (on {})", host_name()));
            output.send(&FromHost::Failed(code));
            output.send(&FromHost::Over);
            output.flush();
            code
        }
    }
}

/// What this host calls itself. Never looked up in a network.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn try_run(settings: &Settings) -> Result<u8, CannotRun> {
    let knobs = knobs_of(settings)
        .map_err(|error| CannotRun { message: error.to_string(), code: WRONG_USE })?;
    for notice in knobs.notices() {
        eprintln!("mpiexec: {notice}");
    }
    let share = Share::whole(settings)
        .map_err(|error| CannotRun { message: error.to_string(), code: 1 })?;
    let explain = Explanations::of(share.size, knobs.is_on(knob::REPORT_TRANSPORTS));
    if !settings.hosts.is_empty() {
        return multi_host::run(settings, &share, explain);
    }
    let mut job =
        begin(settings, &share, explain, Output::new(settings.tag)).map_err(|(_, why)| why)?;
    let code = job.watch();
    job.conclude(settings);
    Ok(code)
}

/// The knobs of the job, so that what is wrong with them or with those of some section is said once, not by every
/// rank.
fn knobs_of(settings: &Settings) -> Result<Knobs, KnobError> {
    let config = settings.config.as_deref().map(Path::new);
    for section in settings.sections.iter().filter(|section| !section.environment.is_empty()) {
        let environment = [&settings.environment[..], &section.environment].concat();
        Knobs::with_options(Sources { config, set: &settings.set, environment: &environment })?;
    }
    Knobs::with_options(Sources { config, set: &settings.set, environment: &settings.environment })
}

/// Starts the ranks of this host. Gives the output back if there are none.
#[allow(clippy::result_large_err)] // once in a process's life
fn begin(
    settings: &Settings,
    share: &Share,
    explain: Explanations,
    mut output: Output,
) -> Result<Job, (Output, CannotRun)> {
    let placement = match Placement::new(settings, share.first) {
        Ok(placement) => placement,
        Err(message) => return Err((output, CannotRun { message, code: 1 })),
    };
    for line in placement.report() {
        output.tell(&format!("mpiexec: {line}"));
    }
    let reaper = Reaper::adopt();
    let memory = MemoryLimit::begin();
    let signals = match Signals::open() {
        Ok(signals) => signals,
        Err(error) => {
            return Err((
                output,
                CannotRun { message: format!("cannot wait for signals: {error}"), code: 1 },
            ));
        }
    };
    let began = Instant::now();
    let upstream = output.is_framed().then(frames::decoder);
    // The time is the job's, and `mpiexec` keeps it.
    let time_is_up =
        settings.timeout.filter(|_| upstream.is_none()).and_then(|time| began.checked_add(time));
    let started = start::start(settings, share, &placement, signals.before(), output)?;
    let mut job = Job {
        started,
        first: share.first,
        heartbeat: upstream
            .as_ref()
            .map(|_| Heartbeat::new(settings.dead_after.unwrap_or(DEAD_AFTER), began)),
        upstream,
        signals,
        reaper,
        memory,
        store: Store::default(),
        explain,
        secondary_failures: SecondaryFailures::default(),
        phase: Phase::Running,
        code: None,
        childless: false,
        abandoned: false,
        events: Vec::new(),
        missing: None,
        host: host_name(),
        began,
        time_is_up,
        stall: settings.stall_after().map(|after| Stall::new(after, began)),
    };
    if let Some(CannotRun { message, code }) = job.started.failed.take() {
        job.cannot_start(&message, code);
    }
    Ok(job)
}

impl Job {
    fn watch(&mut self) -> u8 {
        while !self.is_over() {
            for source in self.wait() {
                match source {
                    Source::Signals => self.read_signals(),
                    Source::Upstream => self.read_upstream(),
                    Source::Control(rank) => self.read_control(rank),
                    Source::Stream(id) => {
                        self.started.output.read(id, Instant::now());
                    }
                    Source::Sink(id) => self.started.output.write(id),
                    Source::Stdin => {
                        if self.started.input.read() {
                            self.started.output.typed();
                        }
                    }
                    Source::StdinPipe => self.write_input(),
                }
            }
            self.judge();
            self.tick(Instant::now());
        }
        self.code.unwrap_or(0)
    }

    /// Sleeps until something is ready or due.
    fn wait(&self) -> Vec<Source> {
        let interests = self.interests();
        let mut files: Vec<PollFd<'_>> = interests
            .iter()
            .map(|(_, file, flags)| PollFd::from_borrowed_fd(*file, *flags))
            .collect();
        let timeout = self.deadline().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        if poll(&mut files, timeout.as_ref()).is_err() {
            // Interrupted, or no memory for a moment: look again.
            return Vec::new();
        }
        let ready = interests.iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
        ready.map(|((source, _, _), _)| *source).collect()
    }

    /// Signals first: a death explains what is read after it.
    fn interests(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let Started { ranks, output, input, .. } = &self.started;
        let mut all = vec![(Source::Signals, self.signals.as_fd(), PollFlags::IN)];
        all.extend(
            self.upstream
                .is_some()
                .then(|| (Source::Upstream, rustix::stdio::stdin(), PollFlags::IN)),
        );
        let controls =
            ranks.iter().enumerate().filter_map(|(id, rank)| Some((id, rank.control.as_ref()?)));
        all.extend(
            controls.map(|(id, control)| (Source::Control(id), control.as_fd(), PollFlags::IN)),
        );
        all.extend(output.readable().map(|(id, file)| (Source::Stream(id), file, PollFlags::IN)));
        all.extend(output.writable().map(|(id, file)| (Source::Sink(id), file, PollFlags::OUT)));
        all.extend(input.readable().map(|file| (Source::Stdin, file, PollFlags::IN)));
        all.extend(input.writable().map(|(_, file)| (Source::StdinPipe, file, PollFlags::OUT)));
        all
    }

    fn tell(&mut self, text: &str) {
        self.started.output.tell(&format!("mpiexec: {text}"));
    }

    /// Says so when no rank gets any further, or has `mpiexec` say it, which knows of the others.
    fn look_for_a_stall(&mut self, now: Instant) {
        let Some(stall) = &mut self.stall else { return };
        let ends: Vec<Option<Exit>> = self.started.ranks.iter().map(|rank| rank.exit).collect();
        match stall.tick(&self.started.status_page, &ends, now) {
            Some(stands) if self.upstream.is_some() => {
                self.started.output.send(&FromHost::Stands(stands))
            }
            Some(true) => {
                let text = stall::text(stall.after());
                self.tell(&text);
                self.print_table();
            }
            _ => {}
        }
    }

    /// Says what each rank does, or has `mpiexec` say it, which knows of the others.
    fn print_table(&mut self) {
        let lines: Vec<report::Line> = (self.first..)
            .zip(&self.started.ranks)
            .map(|(rank, this)| {
                let (seen, pid) = self.seen(rank);
                report::Line::new(pid, this.exit, seen)
            })
            .collect();
        if self.upstream.is_some() {
            return self.started.output.send(&FromHost::Lines(lines));
        }
        let table = report::table(self.first, &lines, &self.host, self.began.elapsed());
        let all: Vec<_> = lines.into_iter().map(Some).collect();
        let follows = wait_graph::conclusions(&all);
        self.tell(&table);
        follows.iter().for_each(|line| self.tell(line));
    }
}
