//! The job while it runs: one `poll` over everything, until nothing is left.
//!
//! The parts: `control` hears what ranks say, `deaths` reaps and judges them,
//! `ending` ends the job.
//!
//! States ([`Phase`]): running -> (told to stop by a signal) -> terminating
//! (SIGTERM sent) -> killing (SIGKILL, repeated until nobody is
//! left). The job is over when no rank runs, none of their descendants does,
//! and all they wrote is written.

mod control;
mod deaths;
mod ending;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use fabric::knobs::{Knobs, Sources};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fate::Event;
use crate::memory_limit::MemoryLimit;
use crate::options::{Settings, WRONG_USE};
use crate::orphans::Orphans;
use crate::placement::Placement;
use crate::program::CannotRun;
use crate::report;
use crate::signals::Signals;
use crate::start::{self, Started};
use crate::store::Store;
use ending::Phase;

/// What a descriptor in the `poll` is.
#[derive(Clone, Copy, Debug)]
enum Source {
    Signals,
    Control(usize),
    Stream(usize),
    Sink(usize),
    Stdin,
    StdinPipe,
}

/// A job that runs.
struct Job {
    started: Started,
    signals: Signals,
    orphans: Orphans,
    memory: MemoryLimit,
    store: Store,
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

fn try_run(settings: &Settings) -> Result<u8, CannotRun> {
    // What is wrong with the knobs is said once, not by every rank.
    let told = Sources { config: settings.config.as_deref().map(Path::new), set: &settings.set };
    Knobs::with_options(told).map_err(|error| CannotRun { message: error.to_string(), code: WRONG_USE })?;
    let placement = Placement::new(settings).map_err(|message| CannotRun { message, code: 1 })?;
    for line in placement.report() {
        eprintln!("mpiexec: {line}");
    }
    let orphans = Orphans::adopt();
    let memory = MemoryLimit::begin();
    let signals =
        Signals::open().map_err(|error| CannotRun { message: format!("cannot wait for signals: {error}"), code: 1 })?;
    let began = Instant::now();
    let started = start::start(settings, &placement, signals.before())?;
    let mut job = Job {
        started,
        signals,
        orphans,
        memory,
        store: Store::default(),
        phase: Phase::Running,
        code: None,
        childless: false,
        abandoned: false,
        events: Vec::new(),
        missing: None,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        began,
        time_is_up: settings.timeout.and_then(|time| began.checked_add(time)),
    };
    if let Some(CannotRun { message, code }) = job.started.failed.take() {
        job.tell(&message);
        job.end(code);
    }
    Ok(job.watch())
}

impl Job {
    fn watch(&mut self) -> u8 {
        while !self.is_over() {
            for source in self.wait() {
                match source {
                    Source::Signals => self.read_signals(),
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
                    Source::StdinPipe => self.started.input.write(),
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
        let mut files: Vec<PollFd<'_>> =
            interests.iter().map(|(_, file, flags)| PollFd::from_borrowed_fd(*file, *flags)).collect();
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
        let controls = ranks.iter().enumerate().filter_map(|(id, rank)| Some((id, rank.control.as_ref()?)));
        all.extend(controls.map(|(id, control)| (Source::Control(id), control.as_fd(), PollFlags::IN)));
        all.extend(output.readable().map(|(id, file)| (Source::Stream(id), file, PollFlags::IN)));
        all.extend(output.writable().map(|(id, file)| (Source::Sink(id), file, PollFlags::OUT)));
        all.extend(input.readable().map(|file| (Source::Stdin, file, PollFlags::IN)));
        all.extend(input.writable().map(|(_, file)| (Source::StdinPipe, file, PollFlags::OUT)));
        all
    }

    fn tell(&mut self, text: &str) {
        self.started.output.tell(&format!("mpiexec: {text}"));
    }

    fn print_table(&mut self) {
        let line = |rank: &start::Rank| report::Line { pid: rank.pid.as_raw_nonzero().get() as u32, exit: rank.exit };
        let lines: Vec<report::Line> = self.started.ranks.iter().map(line).collect();
        let text = report::table(&self.started.board, &lines, &self.host, self.began);
        self.tell(&text);
    }
}
