//! The job while it runs: one `poll` over everything, until nothing is left.
//!
//! States ([`Phase`]): running -> (told to stop by a signal) -> terminating
//! (SIGTERM sent, [`GRACE`]) -> killing (SIGKILL, repeated until nobody is
//! left). The job is over when no rank runs, none of their descendants does,
//! and all they wrote is written.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use bootstrap::State;
use bootstrap::control::{ToLauncher, ToRank, encode};
use fabric::knobs::{Knobs, Sources};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, wait};

use crate::fate::{Event, Exit, Verdict};
use crate::options::{Settings, WRONG_USE};
use crate::orphans::Orphans;
use crate::placement::Placement;
use crate::program::CannotRun;
use crate::report;
use crate::signals::Signals;
use crate::start::{self, Started};
use crate::store::Store;

/// Between SIGTERM and SIGKILL when the job has failed.
const GRACE: Duration = Duration::from_millis(250);
/// What ranks have to end by themselves after Ctrl-C or SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);
/// After Ctrl-C, when the user is told about the second one.
const HINT: Duration = Duration::from_millis(500);
/// Between two rounds of SIGKILL.
const AGAIN: Duration = Duration::from_millis(20);
/// After this a process that SIGKILL does not end is given up.
const STUCK: Duration = Duration::from_secs(5);
/// Exit code when the time was up, as of `timeout`.
const TIMED_OUT: u8 = 124;

/// How near its end the job is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Running,
    /// A signal was passed on, and the ranks may end as they like.
    Told { signal: i32, since: Instant, hinted: bool },
    /// They were sent SIGTERM.
    Terminating { since: Instant },
    /// They are sent SIGKILL.
    Killing { since: Instant, last: Instant },
}

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
    let signals = Signals::open()
        .map_err(|error| CannotRun { message: format!("cannot wait for signals: {error}"), code: 1 })?;
    let began = Instant::now();
    let started = start::start(settings, &placement, signals.before())?;
    let mut job = Job {
        started,
        signals,
        orphans,
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
        let mut files: Vec<PollFd<'_>> = interests.iter().map(|(_, file, flags)| PollFd::from_borrowed_fd(*file, *flags)).collect();
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

    /// When [`Job::tick`] has something to do.
    fn deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Running => None,
            Phase::Told { since, hinted: false, .. } => Some(since + HINT),
            Phase::Told { since, .. } => Some(since + PATIENCE),
            Phase::Terminating { since } => Some(since + GRACE),
            Phase::Killing { last, .. } if !self.nobody_runs() => Some(last + AGAIN),
            Phase::Killing { .. } => None,
        };
        [phase, self.started.output.deadline(), self.time_is_up].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        self.started.output.tick(now);
        if self.time_is_up.is_some_and(|end| now >= end) {
            self.time_is_up = None;
            self.tell("the time given with --timeout is over; ending the job");
            self.print_table();
            self.end(TIMED_OUT);
        }
        match self.phase {
            Phase::Told { signal, since, hinted: false } if now >= since + HINT => {
                if signal == libc::SIGINT {
                    self.tell("interrupted; waiting for the ranks to end (press Ctrl-C again to kill them)");
                }
                self.phase = Phase::Told { signal, since, hinted: true };
            }
            Phase::Told { since, .. } if now >= since + PATIENCE => self.terminate(),
            Phase::Terminating { since } if now >= since + GRACE => self.kill(now),
            Phase::Killing { last, .. } if now >= last + AGAIN => self.kill(now),
            _ => {}
        }
        if let Some(errno) = self.started.output.broken() {
            self.output_is_broken(errno);
        }
        self.look_for_the_end(now);
    }

    /// Whoever read our output is gone: so are we, as any program would be.
    fn output_is_broken(&mut self, errno: Errno) {
        if errno == Errno::PIPE {
            self.end(128 + libc::SIGPIPE as u8);
        } else if self.code.is_none() {
            self.tell(&format!("cannot write the ranks' output: {}", std::io::Error::from(errno)));
            self.end(1);
        }
    }

    /// All ranks have ended: ends what they left behind, then the streams.
    fn look_for_the_end(&mut self, now: Instant) {
        if self.started.ranks.iter().any(|rank| rank.exit.is_none()) {
            return;
        }
        if !self.childless {
            self.childless = !self.orphans.remain();
        }
        if self.childless {
            self.started.output.finish(now);
        } else if matches!(self.phase, Phase::Running | Phase::Told { .. }) {
            self.terminate();
        }
    }

    fn is_over(&self) -> bool {
        self.abandoned || (self.nobody_runs() && self.started.output.is_finished())
    }

    fn nobody_runs(&self) -> bool {
        self.childless && self.started.ranks.iter().all(|rank| rank.exit.is_some())
    }

    // ---- signals ----

    fn read_signals(&mut self) {
        for signal in self.signals.read() {
            match signal {
                libc::SIGCHLD => self.reap(),
                libc::SIGQUIT => self.print_table(),
                libc::SIGTSTP => self.suspend(),
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => self.told_to_stop(signal),
                other => self.forward(other),
            }
        }
    }

    /// The first time the ranks are told, the second time they are killed.
    fn told_to_stop(&mut self, signal: i32) {
        self.code.get_or_insert(128 + signal as u8);
        match self.phase {
            Phase::Running => {
                self.forward(signal);
                self.phase = Phase::Told { signal, since: Instant::now(), hinted: false };
            }
            Phase::Killing { .. } if self.nobody_runs() => self.abandoned = true,
            _ => self.kill(Instant::now()),
        }
    }

    /// Ctrl-Z: the ranks stop, then we; SIGCONT wakes us first.
    fn suspend(&mut self) {
        self.forward(libc::SIGTSTP);
        let _ = kill_process(getpid(), Signal::STOP);
    }

    fn forward(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            for rank in self.started.ranks.iter().filter(|rank| rank.exit.is_none()) {
                // One that has just ended does not hear it.
                let _ = kill_process_group(rank.pid, signal);
            }
        }
    }

    // ---- deaths ----

    fn reap(&mut self) {
        let mut dead: Vec<(Pid, Exit)> = Vec::new();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let exit = status.exit_status().map(Exit::Code).or(status.terminating_signal().map(Exit::Signal));
                    dead.extend(exit.map(|exit| (pid, exit)));
                }
                Ok(None) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.childless = true;
                    break;
                }
            }
        }
        for (pid, exit) in dead {
            if let Some(rank) = self.started.ranks.iter().position(|rank| rank.pid == pid && rank.exit.is_none()) {
                self.rank_died(rank, exit);
            }
        }
    }

    fn rank_died(&mut self, rank: usize, exit: Exit) {
        // Its last words first: an abort explains an exit, and what it wrote
        // stands before what we say.
        self.read_control(rank);
        self.started.output.read_rank(rank as u32, Instant::now());
        let this = &mut self.started.ranks[rank];
        this.exit = Some(exit);
        this.control = None;
        let state = self.started.board.entry(rank as u32).state();
        self.events.push(Event::Died { rank: rank as u32, exit, state });
    }

    /// Decides about what has happened since the last time.
    fn judge(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(Event::order);
        for event in events {
            match event.verdict() {
                Verdict::Fine => {}
                Verdict::Failed(code) => self.failed(&event, code, false),
                Verdict::Ends(code) => self.failed(&event, code, true),
                Verdict::Missing(code) => {
                    let (Event::Died { rank, .. } | Event::Aborted { rank, .. }) = event;
                    self.missing.get_or_insert(rank);
                    self.failed(&event, code, false);
                }
            }
        }
        if let Some(rank) = self.missing.filter(|_| self.phase == Phase::Running && self.some_rank_is_in_mpi()) {
            self.tell(&format!("the other ranks are in MPI and would wait for rank {rank}; ending the job"));
            self.terminate();
        }
    }

    fn failed(&mut self, event: &Event, code: u8, ends: bool) {
        if self.code.is_none() {
            let (Event::Died { rank, .. } | Event::Aborted { rank, .. }) = event;
            let seen = self.started.board.entry(*rank).snapshot();
            let pid = match seen.pid {
                0 => self.started.ranks[*rank as usize].pid.as_raw_nonzero().get() as u32,
                pid => pid,
            };
            self.tell(&report::failure(event, &seen, pid, &self.host, self.started.ranks.len(), ends));
        }
        self.code.get_or_insert(code);
        if ends {
            self.terminate();
        }
    }

    fn some_rank_is_in_mpi(&self) -> bool {
        self.started.ranks.iter().enumerate().any(|(rank, this)| {
            let state = self.started.board.entry(rank as u32).state();
            this.exit.is_none() && matches!(state, State::Running | State::Finalizing)
        })
    }

    fn end(&mut self, code: u8) {
        self.code.get_or_insert(code);
        self.terminate();
    }

    fn terminate(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Told { .. }) {
            self.phase = Phase::Terminating { since: Instant::now() };
            self.forward(libc::SIGTERM);
            // One that was stopped must wake to hear it.
            self.forward(libc::SIGCONT);
            if self.started.ranks.iter().all(|rank| rank.exit.is_some()) {
                self.orphans.signal(Signal::TERM);
            }
        }
    }

    fn kill(&mut self, now: Instant) {
        let since = match self.phase {
            Phase::Killing { since, .. } => since,
            _ => now,
        };
        self.phase = Phase::Killing { since, last: now };
        self.forward(libc::SIGKILL);
        self.orphans.signal(Signal::KILL);
        self.reap();
        if now >= since + STUCK && !self.nobody_runs() {
            self.tell("some processes do not end, not even by SIGKILL: they are stuck in the kernel; giving up");
            self.abandoned = true;
        }
    }

    // ---- control messages ----

    /// Reads what a rank says, without waiting.
    fn read_control(&mut self, rank: usize) {
        loop {
            let mut piece = [0u8; 4096];
            let this = &mut self.started.ranks[rank];
            let Some(control) = &this.control else { return };
            match recv(control, &mut piece[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => this.decoder.push(&piece[..read]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                // Its end: nobody holds the other side any more.
                _ => {
                    this.control = None;
                    return;
                }
            }
            self.answer(rank);
        }
    }

    fn answer(&mut self, rank: usize) {
        loop {
            match self.started.ranks[rank].decoder.message::<ToLauncher>() {
                Ok(None) => return,
                Ok(Some(message)) => self.heard(rank, message),
                Err(malformed) => {
                    self.started.ranks[rank].control = None;
                    self.tell(&format!("rank {rank} sent {malformed}; not listening to it any more"));
                    return;
                }
            }
        }
    }

    fn heard(&mut self, rank: usize, message: ToLauncher) {
        match message {
            ToLauncher::Abort { code, message } => self.events.push(Event::Aborted { rank: rank as u32, code, message }),
            ToLauncher::Put { key, value } => {
                let waiting = self.store.put(key.clone(), value.clone());
                for asker in waiting {
                    self.say(asker as usize, &ToRank::Value { key: key.clone(), value: value.clone() });
                }
            }
            ToLauncher::Get { key } => {
                if let Some(value) = self.store.value(&key, rank as u32) {
                    let answer = ToRank::Value { value: value.to_owned(), key };
                    self.say(rank, &answer);
                }
            }
            // The board says these; they only wake us.
            _ => {}
        }
    }

    /// Answers a rank. It waits for the answer, so there is room for it; one
    /// that asks and does not listen is not listened to either.
    fn say(&mut self, rank: usize, message: &ToRank) {
        let Some(control) = &self.started.ranks[rank].control else { return };
        let frame = encode(message);
        if send(control, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) != Ok(frame.len()) {
            self.started.ranks[rank].control = None;
        }
    }

    // ---- words ----

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
