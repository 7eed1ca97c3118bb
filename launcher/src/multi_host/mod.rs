//! A job over several hosts, seen from the `mpiexec` that the user started.
//!
//! One `poll` over the daemons of all hosts, signals, and our standard streams. The
//! daemons start, watch and end ranks; here it is decided what a death means, the
//! job's values are stored, and what ranks print is put together to whole lines.
//!
//! States: running -> ending (the daemons were told to end their ranks) -> over, when
//! every host is over or lost. A host that does not get there in [`PATIENCE`] is hung up
//! on, upon which its daemon kills what is left.

mod remote;
mod table;

use std::os::fd::BorrowedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use bootstrap::status_page::Snapshot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

use crate::explain::Explanations;
use crate::failure_policy::{Event, Verdict};
use crate::frames::{FromHost, PIECE, ToHost, VERSION};
use crate::heartbeat::{Heartbeat, Turn};
use crate::hosts::{Share, deal, part};
use crate::options::{AGENT, DEAD_AFTER, Settings, Stdin};
use crate::output::{Output, Which};
use crate::program::{self, CannotRun};
use crate::report::{self, Line};
use crate::secondary_failures::SecondaryFailures;
use crate::signals::Signals;
use crate::stall;
use crate::store::Store;
use remote::{Remote, State};

/// What hosts have to end their ranks.
const PATIENCE: Duration = Duration::from_millis(1200);
/// What an agent has to end by itself once its daemon has.
const AGENTS_PATIENCE: Duration = Duration::from_millis(300);
/// What hosts have to say what their ranks do, before it is told without them.
const ANSWER: Duration = Duration::from_secs(2);
/// Exit code when the time was up, as of `timeout`.
const TIMED_OUT: u8 = 124;

/// What a descriptor in the `poll` is.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    From(usize),
    To(usize),
    Sink(usize),
    Stdin,
}

/// How near its end the job is.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Running,
    /// The hosts were told to end.
    Ending {
        since: Instant,
    },
}

struct MultiHostJob {
    hosts: Vec<Remote>,
    signals: Signals,
    output: Output,
    store: Store,
    explain: Explanations,
    secondary_failures: SecondaryFailures,
    /// What is known for good of ranks that have ended.
    ended: Vec<Option<Line>>,
    phase: Phase,
    /// What we exit with; the first reason counts.
    code: Option<u8>,
    /// The first rank that failed before it was in MPI.
    missing: Option<u32>,
    /// Our standard input, until its end.
    input: Option<BorrowedFd<'static>>,
    time_is_up: Option<Instant>,
    /// The hosts were asked what their ranks do; until then they may answer.
    asked: Option<Instant>,
    began: Instant,
    dead_after: Duration,
    stall_after: Duration,
    size: u32,
    agent: String,
}

/// Runs the job to its end. Returns the exit code.
pub(crate) fn run(
    settings: &Settings,
    share: &Share,
    explain: Explanations,
) -> Result<u8, CannotRun> {
    let refused = |message: String| CannotRun { message, code: 1 };
    // Before signals are blocked, or agents would have them blocked. A signal that ends
    // us now ends the daemons, which lose us.
    let hosts = start(settings, share).map_err(refused)?;
    let signals =
        Signals::open().map_err(|error| refused(format!("cannot wait for signals: {error}")))?;
    let mut output = Output::new(settings.tag);
    // Two streams for each rank, in order.
    for rank in 0..share.size {
        output.add_remote(rank, Which::Out);
        output.add_remote(rank, Which::Err);
    }
    let mut job = MultiHostJob {
        input: hosts.iter().any(|host| host.wants_input).then(rustix::stdio::stdin),
        hosts,
        signals,
        output,
        store: Store::default(),
        explain,
        secondary_failures: SecondaryFailures::default(),
        ended: vec![None; share.size as usize],
        phase: Phase::Running,
        code: None,
        missing: None,
        time_is_up: settings.timeout.and_then(|time| Instant::now().checked_add(time)),
        asked: None,
        began: Instant::now(),
        dead_after: settings.dead_after.unwrap_or(DEAD_AFTER),
        stall_after: settings.stall_after().unwrap_or_default(),
        size: share.size,
        agent: settings.agent.clone().unwrap_or_else(|| AGENT.into()),
    };
    let code = job.watch();
    job.conclude(settings);
    job.leave();
    Ok(code)
}

/// Starts the agents of all hosts that get ranks.
fn start(settings: &Settings, share: &Share) -> Result<Vec<Remote>, String> {
    let folder = std::env::current_dir()
        .map_err(|error| format!("the working directory is gone: {error}"))?;
    let mut hosts = Vec::new();
    let mut first = 0;
    for (host, ranks) in settings.hosts.iter().zip(deal(&settings.hosts, share.size)) {
        if ranks == 0 {
            continue;
        }
        let mut remote = Remote::start(host, first..first + ranks, settings.agent.as_deref())?;
        let environment = std::env::vars_os().collect();
        remote.say(&ToHost::Around {
            version: VERSION,
            environment,
            folder: folder.clone().into_os_string(),
        });
        let sections = part(&settings.sections, first, ranks);
        let share = Box::new(Share { first, ..share.clone() });
        remote.say(&ToHost::Begin {
            share,
            settings: Box::new(Settings { sections, ..settings.clone() }),
        });
        remote.wants_input = reads_input(settings.stdin, &remote);
        hosts.push(remote);
        first += ranks;
    }
    Ok(hosts)
}

impl MultiHostJob {
    fn watch(&mut self) -> u8 {
        while self.hosts.iter().any(Remote::is_there) {
            for source in self.wait() {
                match source {
                    Source::Signals => self.read_signals(),
                    Source::From(id) => self.read(id),
                    Source::To(id) => self.hosts[id].write(),
                    Source::Sink(id) => self.output.write(id),
                    Source::Stdin => self.read_input(),
                }
            }
            self.tick(Instant::now());
        }
        self.print_table();
        self.output.release_all();
        self.code.unwrap_or(0)
    }

    /// What is to be said when nothing runs any more.
    fn conclude(&mut self, settings: &Settings) {
        let mut lines = self.ended.iter();
        let is_outside = |line: &Option<Line>| {
            line.is_some_and(|line| line.seen.state == bootstrap::RankState::Starting)
        };
        if self.size > 1 && lines.all(is_outside) {
            program::why_alone(&settings.sections).iter().for_each(|text| self.tell(text));
        }
        [self.secondary_failures.text(), self.explain.at_the_end()]
            .iter()
            .flatten()
            .for_each(|text| self.tell(text));
        self.output.flush();
    }

    fn wait(&self) -> Vec<Source> {
        let mut all =
            vec![(Source::Signals, std::os::fd::AsFd::as_fd(&self.signals), PollFlags::IN)];
        for (id, host) in self.hosts.iter().enumerate() {
            let readable = host.readable().filter(|_| !self.output.is_behind());
            all.extend(readable.map(|file| (Source::From(id), file, PollFlags::IN)));
            all.extend(host.writable().map(|file| (Source::To(id), file, PollFlags::OUT)));
        }
        all.extend(
            self.output.writable().map(|(id, file)| (Source::Sink(id), file, PollFlags::OUT)),
        );
        let taken = !self.hosts.iter().any(|host| host.input_pending);
        all.extend(self.input.filter(|_| taken).map(|file| (Source::Stdin, file, PollFlags::IN)));
        let mut files: Vec<PollFd<'_>> =
            all.iter().map(|(_, file, flags)| PollFd::from_borrowed_fd(*file, *flags)).collect();
        let timeout = self.deadline().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        if poll(&mut files, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = all.iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
        ready.map(|((source, _, _), _)| *source).collect()
    }

    fn deadline(&self) -> Option<Instant> {
        let ending = match self.phase {
            Phase::Running => None,
            Phase::Ending { since } => Some(since + PATIENCE),
        };
        let turn = self.hosts.iter().filter_map(|host| host.heartbeat.as_ref()?.deadline()).min();
        [ending, self.time_is_up, self.asked, turn, self.output.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn tick(&mut self, now: Instant) {
        self.output.tick(now);
        if self.time_is_up.is_some_and(|end| now >= end) {
            self.time_is_up = None;
            self.tell("the time given with --timeout is over; ending the job");
            self.ask_for_table(now);
            self.end(TIMED_OUT);
        }
        if self.asked.is_some_and(|end| now >= end) || self.have_all_answered() {
            self.print_table();
        }
        if let Phase::Ending { since } = self.phase
            && now >= since + PATIENCE
        {
            for id in 0..self.hosts.len() {
                if self.hosts[id].is_there() {
                    let name = self.hosts[id].name.clone();
                    self.tell(&format!("{name} does not answer; hanging up"));
                    self.hosts[id].hang_up();
                    self.hosts[id].state = State::Lost;
                }
            }
        }
        (0..self.hosts.len()).for_each(|id| self.listen(id, now));
        if self.output.broken().is_some() {
            self.end(128 + libc::SIGPIPE as u8);
        }
    }

    /// Asks a host whether it is there, or gives it up.
    fn listen(&mut self, id: usize, now: Instant) {
        // While nobody takes our output, hosts are not read.
        let is_behind = self.output.is_behind();
        let host = &mut self.hosts[id];
        let Some(heartbeat) = host.heartbeat.as_mut().filter(|_| host.state == State::Running)
        else {
            host.heartbeat = None;
            return;
        };
        if is_behind {
            heartbeat.heard();
        }
        match heartbeat.tick(now) {
            Turn::Goes => {}
            Turn::Over => host.say(&ToHost::Beat),
            Turn::Dead => {
                let (name, ranks) = (host.name.clone(), host.ranks_in_words());
                host.hang_up();
                (host.state, host.heartbeat) = (State::Lost, None);
                let (seconds, size) = (self.dead_after.as_secs_f64(), self.size);
                self.tell(&format!(
                    "lost {name} with {ranks}: it has said nothing for {seconds} s (--dead-after), so the machine is down or \
                     can't be reached; ending the job ({size} ranks)"
                ));
                self.end(1);
            }
        }
    }

    fn tell(&mut self, text: &str) {
        self.output.tell(&format!("mpiexec: {text}"));
    }

    fn say_to_all(&mut self, message: impl Fn() -> ToHost) {
        for host in self.hosts.iter_mut().filter(|host| host.is_there()) {
            host.say(&message());
        }
    }

    fn end(&mut self, code: u8) {
        self.code.get_or_insert(code);
        if self.phase == Phase::Running {
            self.phase = Phase::Ending { since: Instant::now() };
            self.say_to_all(|| ToHost::End);
        }
    }

    fn read_signals(&mut self) {
        for signal in self.signals.read() {
            match signal {
                libc::SIGCHLD => {}
                libc::SIGQUIT => self.ask_for_table(Instant::now()),
                libc::SIGTSTP => {
                    self.say_to_all(|| ToHost::Signal(signal));
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => {
                    self.code.get_or_insert(128 + signal as u8);
                    self.say_to_all(|| ToHost::Signal(signal));
                    // One that is not there yet has nobody to tell.
                    if self.hosts.iter().any(|host| host.state == State::Starting) {
                        self.end(128 + signal as u8);
                    }
                }
                other => self.say_to_all(|| ToHost::Signal(other)),
            }
        }
    }

    /// Passes on a piece of our standard input, or its end.
    fn read_input(&mut self) {
        let Some(input) = self.input else { return };
        let mut piece = vec![0u8; PIECE];
        let read = match rustix::io::read(input, &mut piece[..]) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return,
            other => other.unwrap_or(0),
        };
        piece.truncate(read);
        if read == 0 {
            self.input = None;
        }
        for host in self.hosts.iter_mut().filter(|host| host.wants_input && host.is_there()) {
            host.input_pending = read > 0;
            host.say(&ToHost::Input(piece.clone()));
        }
        self.output.typed();
    }

    /// Hears a host, or that it is lost.
    fn read(&mut self, id: usize) {
        let goes_on = self.hosts[id].read();
        loop {
            match self.hosts[id].message() {
                Ok(Some(message)) => self.heard(id, message),
                Ok(None) => break,
                Err(said) => {
                    let name = self.hosts[id].name.clone();
                    self.tell(&format!(
                        "cannot start on {name}: `{}` printed \"{said}\" where our daemon should speak (does the shell over \
                         there greet scripts, too?)",
                        self.agent.clone()
                    ));
                    self.hosts[id].hang_up();
                    self.hosts[id].state = State::Lost;
                    return self.end(1);
                }
            }
        }
        if !goes_on && self.hosts[id].is_there() {
            self.lost(id);
        }
    }

    fn heard(&mut self, id: usize, message: FromHost) {
        let ranks = self.hosts[id].ranks.clone();
        match message {
            FromHost::Hello { version: VERSION, .. } => {
                self.hosts[id].state = State::Running;
                self.hosts[id].heartbeat = Some(Heartbeat::new(self.dead_after, Instant::now()));
            }
            FromHost::Hello { version, host } => {
                self.tell(&format!(
                    "the daemon on {host} speaks version {version}, mpiexec {VERSION}: install the same on all"
                ));
                self.end(1);
            }
            FromHost::Output { rank, error, bytes } if ranks.contains(&rank) => {
                self.output.arrived(2 * rank as usize + usize::from(error), &bytes, Instant::now());
            }
            FromHost::Put { key, value } => {
                for asker in self.store.put(key.clone(), value.clone()) {
                    self.answer(asker, key.clone(), value.clone());
                }
            }
            FromHost::Get { rank, key } if ranks.contains(&rank) => {
                if let Some(value) = self.store.value(&key, rank).map(<[u8]>::to_vec) {
                    self.answer(rank, key, value);
                }
            }
            FromHost::Happened { event, seen, pid } if ranks.contains(&event.rank()) => {
                self.judge(id, &event, &seen, pid);
            }
            FromHost::WouldWait => {
                if let Some(rank) = self.missing.filter(|_| self.phase == Phase::Running) {
                    self.tell(&report::would_wait(rank, self.size as usize));
                    self.end(1);
                }
            }
            FromHost::Stands(stands) => {
                self.hosts[id].stands = stands;
                let mut running = self.hosts.iter().filter(|host| host.is_there());
                if stands && running.all(|host| host.stands) {
                    self.tell(&stall::text(self.stall_after));
                    self.ask_for_table(Instant::now());
                }
            }
            FromHost::Explained { rank, explain } if ranks.contains(&rank) => {
                if let Some(text) = self.explain.said(rank, explain) {
                    self.tell(&text);
                }
            }
            FromHost::Lines(lines) => self.hosts[id].lines = Some(lines),
            FromHost::Told(text) => self.output.tell(&text),
            FromHost::InputTaken => self.hosts[id].input_pending = false,
            FromHost::Failed(code) => self.end(code),
            FromHost::Over => self.hosts[id].state = State::Over,
            // Of a rank that is not its own.
            FromHost::Output { .. }
            | FromHost::Get { .. }
            | FromHost::Happened { .. }
            | FromHost::Explained { .. } => {}
            // That it came was noticed.
            FromHost::Beat => {}
        }
    }

    fn answer(&mut self, rank: u32, key: String, value: Vec<u8>) {
        if let Some(host) = self.hosts.iter_mut().find(|host| host.ranks.contains(&rank)) {
            host.say(&ToHost::Value { rank, key, value });
        }
    }

    fn judge(&mut self, id: usize, event: &Event, seen: &Snapshot, pid: u32) {
        if let Event::Died { rank, exit, .. } = event {
            self.ended[*rank as usize] = Some(Line::new(pid, Some(*exit), *seen));
        }
        let (code, ends) = match event.verdict() {
            Verdict::Fine => return,
            Verdict::Failed(code) => (code, false),
            Verdict::Ends(code) => (code, true),
            Verdict::Missing(code) => {
                let rank = *self.missing.get_or_insert(event.rank());
                self.say_to_all(|| ToHost::Missing(rank));
                (code, false)
            }
        };
        let runs = self.phase == Phase::Running;
        if self.code.is_none() || (ends && runs) {
            self.secondary_failures.named(event.rank());
            let host = self.hosts[id].name.clone();
            self.tell(&report::failure(event, seen, pid, &host, self.size as usize, ends));
        }
        self.secondary_failures.happened(event, runs);
        self.code.get_or_insert(code);
        if ends {
            self.end(code);
        }
    }

    /// The connection to a host has ended before its job was over.
    fn lost(&mut self, id: usize) {
        let end = Instant::now() + AGENTS_PATIENCE;
        let mut status = self.hosts[id].agent_ended();
        while status.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            status = self.hosts[id].agent_ended();
        }
        let host = &mut self.hosts[id];
        let was = std::mem::replace(&mut host.state, State::Lost);
        if self.phase != Phase::Running && was == State::Running {
            return;
        }
        let (name, how) = (host.name.clone(), ending(status));
        let ranks = host.ranks_in_words();
        if was == State::Starting {
            let agent = &self.agent;
            self.tell(&format!(
                "cannot start {ranks} on {name}: `{agent} {name} ...` {how}; try it by hand, or see --agent"
            ));
        } else {
            self.tell(&format!(
                "lost {name} with {ranks}: its connection {how}; ending the job ({} ranks)",
                self.size
            ));
        }
        self.end(1);
    }

    /// Agents end with their daemons; one that does not is ended.
    fn leave(&mut self) {
        self.hosts.iter_mut().for_each(Remote::hang_up);
        let end = Instant::now() + AGENTS_PATIENCE;
        for host in &mut self.hosts {
            while host.agent_ended().is_none() {
                if Instant::now() >= end {
                    host.kill_agent();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Whether ranks of a host read our standard input.
fn reads_input(stdin: Stdin, host: &Remote) -> bool {
    match stdin {
        Stdin::First => host.ranks.contains(&0),
        Stdin::Rank(rank) => host.ranks.contains(&rank),
        Stdin::All => true,
        Stdin::None => false,
    }
}

fn ending(status: Option<ExitStatus>) -> String {
    match status
        .map(|status| (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)))
    {
        Some((Some(code), _)) => format!("ended with exit code {code}"),
        Some((None, Some(signal))) => format!("was killed by signal {signal}"),
        _ => "was closed".into(),
    }
}
