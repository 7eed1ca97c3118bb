//! A job over several hosts, in the `mpiexec` that the user started.
//!
//! One `poll` over the daemons of all hosts, signals and the standard streams. The daemons
//! start, watch and end ranks. This side judges failures, stores the job's values and prints
//! whole lines. The parts: `state` holds the job, `remote` is one host, `messages` acts on what
//! hosts send, `loss` detects lost hosts, `table` collects what ranks are doing.
//!
//! States: running -> (stopping, after a signal) -> ending (the hosts were requested to end their
//! ranks) -> over, once every host is over or lost. Every host is connected directly; a tree of
//! daemons would replace `connect` and `Remote`.

mod loss;
mod messages;
mod remote;
mod state;
mod table;

use std::time::Instant;

use rustix::process::{Signal, getpid, kill_process};

use crate::explain::Explanations;
use crate::frames::{MAX_PIECE, ToHost, VERSION};
use crate::kv_store::KvStore;
use crate::outcome::{Clock, EXIT_TIMED_OUT, Outcome};
use crate::output::{Output, Which};
use crate::program::CannotRun;
use crate::rank_table::RankLine;
use crate::settings::{DEFAULT_AGENT, Settings};
use crate::share::{Share, sections_in_range};
use crate::signals::Signals;
use remote::{Remote, State};
use state::{Choices, MultiHostJob, Phase, Source};

/// Runs the job to its end. Returns its exit code.
pub(crate) fn run(
    settings: &Settings,
    share: &Share,
    explanations: Explanations,
) -> Result<u8, CannotRun> {
    let refused = |message: String| CannotRun { message, code: 1 };
    // Before signals are blocked, which agents would inherit. A signal that ends this process
    // now also ends the daemons, which lose their connection.
    let hosts = connect(settings, share).map_err(refused)?;
    let signals =
        Signals::open().map_err(|error| refused(format!("cannot wait for signals: {error}")))?;
    let mut output = Output::new(&settings.output)?;
    for rank in 0..share.size {
        output.add_remote(rank, Which::Out);
        output.add_remote(rank, Which::Err);
    }
    let mut job = MultiHostJob {
        input: hosts.iter().any(|host| host.wants_input).then(rustix::stdio::stdin),
        hosts,
        size: share.size,
        signals,
        output,
        store: KvStore::default(),
        outcome: Outcome::new(explanations, settings.on_failure),
        ended: vec![None; share.size as usize],
        clock: Clock::start(settings.timeout, Instant::now()),
        table_due: None,
        phase: Phase::Running,
        choices: Choices {
            dead_after: settings.dead_after(),
            start_timeout: settings.start_timeout(),
            stall_abort: settings.stall_abort,
            stall_after: settings.stall_after().unwrap_or_default(),
            agent: settings.agent.clone().unwrap_or_else(|| DEFAULT_AGENT.into()),
        },
    };
    job.watch();
    job.conclude(settings);
    job.end_agents();
    job.outcome.report(settings, &job.clock, job.output.messages());
    Ok(job.outcome.code())
}

/// Starts the agents of all hosts that get ranks, and sends each host its share.
fn connect(settings: &Settings, share: &Share) -> Result<Vec<Remote>, String> {
    let folder = std::env::current_dir()
        .map_err(|error| format!("cannot find the working directory: {error}"))?;
    let mut hosts = Vec::new();
    let mut first = 0;
    let counts = settings.ranks_of_hosts();
    let used: Vec<u32> = counts.iter().copied().filter(|ranks| *ranks > 0).collect();
    for (host, ranks) in settings.hosts.iter().zip(counts) {
        if ranks == 0 {
            continue;
        }
        let mut remote = Remote::start(host, first..first + ranks, settings.agent.as_deref())?;
        remote.send(&ToHost::Environment {
            version: VERSION,
            variables: std::env::vars_os().collect(),
            folder: folder.clone().into_os_string(),
        });
        let sections = sections_in_range(&settings.sections, first, ranks);
        remote.send(&ToHost::Begin {
            share: Box::new(Share { first, hosts: used.clone(), ..share.clone() }),
            settings: Box::new(Settings { sections, ..settings.clone() }),
        });
        remote.wants_input = remote.ranks.clone().any(|rank| settings.stdin.reaches(rank));
        hosts.push(remote);
        first += ranks;
    }
    Ok(hosts)
}

impl MultiHostJob {
    fn watch(&mut self) {
        while self.hosts.iter().any(Remote::is_up) {
            for source in self.wait(self.deadline()) {
                match source {
                    Source::Signals => self.read_signals(),
                    Source::FromHost(id) => {
                        if !self.read_host(id) {
                            self.on_disconnect(id);
                        }
                    }
                    Source::ToHost(id) => self.hosts[id].write(),
                    Source::Sink(id) => self.output.write(id),
                    Source::Stdin => self.read_input(),
                }
            }
            self.tick(Instant::now());
        }
        self.print_table();
        self.output.release_all();
    }

    /// Returns the time of the next [`MultiHostJob::tick`].
    fn deadline(&self) -> Option<Instant> {
        let (limit, output) = (self.clock.deadline(), self.output.deadline());
        [self.host_deadline(), limit, self.table_due, output].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        self.output.tick(now);
        if let Some(line) = self.clock.limit_reached(now) {
            self.print(&line);
            self.request_table(now);
            self.end(EXIT_TIMED_OUT);
        }
        self.check_table(now);
        self.check_hosts(now);
        if self.output.broken().is_some() {
            self.end(128 + libc::SIGPIPE as u8);
        }
    }

    fn read_signals(&mut self) {
        for signal in self.signals.read() {
            match signal {
                libc::SIGCHLD => self.check_agents(Instant::now()),
                libc::SIGQUIT => self.request_table(Instant::now()),
                libc::SIGTSTP => {
                    self.send_to_all(|| ToHost::Signal(signal));
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => {
                    let code = 128 + signal as u8;
                    self.outcome.set_code(code);
                    self.send_to_all(|| ToHost::Signal(signal));
                    if self.phase == Phase::Running {
                        self.phase = Phase::Stopping { until: None };
                    }
                    // A host that is still starting cannot act on the signal.
                    if self.hosts.iter().any(|host| host.state == State::Starting) {
                        self.end(code);
                    }
                }
                other => self.send_to_all(|| ToHost::Signal(other)),
            }
        }
    }

    /// Passes on a piece of standard input, or its end.
    fn read_input(&mut self) {
        let Some(input) = self.input else { return };
        let mut piece = vec![0u8; MAX_PIECE];
        let read = match rustix::io::read(input, &mut piece[..]) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return,
            other => other.unwrap_or(0),
        };
        piece.truncate(read);
        if read == 0 {
            self.input = None;
        }
        for host in self.hosts.iter_mut().filter(|host| host.wants_input && host.is_up()) {
            host.input_pending = read > 0;
            host.send(&ToHost::Input(piece.clone()));
        }
        self.output.on_typed_line();
    }

    /// Prints the closing lines of a job that is over.
    fn conclude(&mut self, settings: &Settings) {
        let is_outside = |line: &Option<RankLine>| {
            line.is_some_and(|line| line.seen.state == bootstrap::RankState::Starting)
        };
        let none_in_mpi = self.ended.iter().all(is_outside);
        for line in self.outcome.closing_lines(settings, none_in_mpi) {
            self.print(&line);
        }
        self.output.flush();
    }
}
