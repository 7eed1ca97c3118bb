//! A job over several hosts, in the `mpiexec` that the user started.
//!
//! One `poll` over the daemons that this process has started, signals and the standard streams.
//! These daemons start the others ([`crate::tree`]). All daemons start, watch and end ranks. This
//! side judges failures and prints whole lines. The parts: `state` holds the job, `messages` acts
//! on what hosts send, `loss` reports lost hosts, `table` collects what ranks are doing, and
//! `other_jobs` is about spawned jobs.
//!
//! States: running -> (stopping, after a signal) -> ending (the hosts were requested to end their
//! ranks) -> over, once every child is over or lost.

mod loss;
mod messages;
mod other_jobs;
mod state;
mod table;

use std::time::Instant;

use bootstrap::{Ranks, host_table};
use rustix::process::{Signal, getpid, kill_process};

use crate::descriptors::{Users, raise_limit};
use crate::dial_in::gather::Arrival;
use crate::explain::Explanations;
use crate::frames::{MAX_PIECE, ToHost};
use crate::input::StandardInput;
use crate::nested::links::JobLinks;
use crate::nested::root::Root as _;
use crate::outcome::{Clock, EXIT_TIMED_OUT, Outcome};
use crate::output::{Output, Which};
use crate::program::CannotRun;
use crate::rank_table::RankLine;
use crate::settings::Settings;
use crate::share::Share;
use crate::signals::Signals;
use crate::stall::HostStall;
use crate::tree::HostShare;
use crate::tree::links::{self, Links, Start};
use crate::tree::store::Store;
use crate::unfinalized::Unfinalized;
use state::{Choices, HostState, MultiHostJob, Phase, Source};

/// Runs the job to its end. `arrived`: the hosts that have dialed in. Returns its exit code.
pub(crate) fn run(
    settings: &Settings,
    share: &Share,
    explanations: Explanations,
    arrived: Vec<Arrival>,
    jobs: JobLinks,
) -> Result<u8, CannotRun> {
    let refused = |message: String| CannotRun { message, code: 1 };
    // Before signals are blocked, which agents would inherit. A signal that ends this process
    // now also ends the daemons, which lose their connection.
    let (shares, links) = connect(settings, share, arrived).map_err(refused)?;
    let signals =
        Signals::open().map_err(|error| refused(format!("cannot wait for signals: {error}")))?;
    let mut output = Output::new(&settings.output)?;
    for rank in 0..share.size {
        output.add_remote(rank, Which::Out);
        output.add_remote(rank, Which::Err);
    }
    let mut store = Store::new(0..0, links.routes(share.base));
    if jobs.keep_names() {
        store.keep_names();
    }
    let host = |share| HostState { share, is_lost: false, answer: None };
    let mut job = MultiHostJob {
        input: links.want_input().then(StandardInput::new),
        hosts: shares.into_iter().map(host).collect(),
        host_of: settings.host_of.clone(),
        store,
        links,
        jobs,
        size: share.size,
        base: share.base,
        started: 0,
        signals,
        output,
        outcome: Outcome::new(explanations, settings.on_failure),
        ended: vec![None; share.size as usize],
        unfinalized: Unfinalized::default(),
        clock: Clock::start(settings.timeout, Instant::now()),
        table_due: None,
        stall_due: None,
        phase: Phase::Running,
        choices: Choices {
            stall_abort: settings.stall_abort,
            reports_stalls: settings.reports_stalls(),
            stall_after: settings.stall_after(),
        },
    };
    job.watch();
    job.conclude(settings);
    job.links.end_agents();
    job.outcome.report(settings, &job.clock, job.output.messages());
    let code = job.outcome.code();
    let none_in_mpi = job.no_rank_was_in_mpi();
    job.jobs.finish(code, none_in_mpi);
    Ok(code)
}

/// Starts the first daemons of the tree, which start the others. Returns all hosts that get ranks.
fn connect(
    settings: &Settings,
    share: &Share,
    arrived: Vec<Arrival>,
) -> Result<(Vec<HostShare>, Links), String> {
    let hosts = settings.hosts.iter().zip(Ranks::of_hosts(&settings.host_of));
    let shares: Vec<HostShare> =
        hosts.map(|(host, ranks)| HostShare { name: host.name.clone(), ranks }).collect();
    let table = host_table::encode(&settings.host_of);
    if table.len() > host_table::MAX_TEXT {
        return Err(format!(
            "the hosts of {} ranks in an order without a pattern take {} bytes of each rank's \
             environment, and Linux allows {}: deal ranks to hosts in blocks or in turn",
            share.size,
            table.len(),
            host_table::MAX_TEXT
        ));
    }
    let share = Share { hosts: table, ..share.clone() };
    let tree = links::root(settings, shares.clone())?;
    let children = shares.len().min(tree.width as usize);
    raise_limit(Users { ranks: 0, children, output_files: settings.output.files(share.size) })
        .map_err(|error| format!("the hosts need {error}"))?;
    let start = Start { settings, share: &share, tree: &tree, is_root: true };
    let mut links = Links::start(&start, arrived)?;
    match links.take_refused().into_iter().next() {
        Some(lost) => Err(lost.why),
        None => Ok((shares, links)),
    }
}

impl MultiHostJob {
    fn watch(&mut self) {
        self.read_early();
        while !self.links.are_over() || !self.jobs.are_over() {
            for source in self.wait(self.deadline()) {
                match source {
                    Source::Signals => self.read_signals(),
                    Source::FromLink(link) => self.read_link(link),
                    Source::ToLink(link) => self.links.write(link),
                    Source::FromJob(job) => self.read_job(job),
                    Source::ToJob(job) => self.jobs.write(job),
                    Source::Sink(id) => self.output.write(id),
                    Source::Stdin => self.read_input(),
                }
            }
            self.tick(Instant::now());
        }
        self.print_table();
        self.output.release_all();
        self.check_output();
    }

    /// Returns the time of the next [`MultiHostJob::tick`].
    fn deadline(&self) -> Option<Instant> {
        let (limit, output) = (self.clock.deadline(), self.output.deadline());
        let (stall, unfinalized) = (self.stall_due, self.unfinalized.deadline());
        let (hosts, jobs) = (self.host_deadline(), self.jobs.deadline());
        let due = [hosts, jobs, limit, self.table_due, stall, unfinalized, output];
        due.into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        self.output.tick(now);
        if let Some(line) = self.clock.limit_reached(now) {
            self.print(&line);
            self.request_table(now);
            self.jobs.request_tables();
            self.end(EXIT_TIMED_OUT);
        }
        self.check_unfinalized(now);
        self.check_stall(now);
        self.check_table(now);
        self.check_hosts(now);
        self.check_jobs(now);
        self.report_start(self.started >= self.size);
        self.check_output();
    }

    /// Ends the job if its output cannot be written.
    fn check_output(&mut self) {
        let lost = self.output.broken().and_then(|why| self.outcome.on_broken_output(why));
        if let Some((code, line)) = lost {
            line.iter().for_each(|line| self.print(line));
            self.end(code);
        }
    }

    fn read_signals(&mut self) {
        for signal in self.signals.read() {
            match signal {
                libc::SIGCHLD => self.check_agents(),
                libc::SIGQUIT => self.request_table(Instant::now()),
                libc::SIGTSTP => {
                    // Other jobs of the group may wait for these ranks, and report it.
                    self.jobs.are_stalled_with(HostStall::Idle);
                    self.links.send_to_all(&ToHost::Signal(signal));
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => self.on_stop_signal(signal),
                other => {
                    self.links.send_to_all(&ToHost::Signal(other));
                    if other == libc::SIGCONT {
                        self.on_stalled();
                    }
                }
            }
        }
    }

    /// Passes on a signal that ends the job. A second one ends spawned jobs at once; a host decides
    /// for itself.
    fn on_stop_signal(&mut self, signal: i32) {
        let code = 128 + signal as u8;
        self.outcome.set_code(code);
        self.links.send_to_all(&ToHost::Signal(signal));
        if self.phase == Phase::Running {
            self.phase = Phase::Stopping { until: None };
            self.jobs.stop(signal);
        } else {
            self.jobs.end(Instant::now());
        }
        // A host that is still starting cannot act on the signal.
        if self.links.is_one_starting() {
            self.end(code);
        }
    }

    /// Passes on a piece of standard input, or its end.
    fn read_input(&mut self) {
        let Some(input) = self.input else { return };
        let mut piece = vec![0u8; MAX_PIECE];
        let Some(read) = input.read(&mut piece) else { return };
        piece.truncate(read);
        if read == 0 {
            self.input = None;
        }
        self.links.send_input(&piece);
        if input.is_typed_line(&piece) {
            self.output.on_typed_line();
        }
    }

    /// Prints the closing lines of a job that is over.
    fn conclude(&mut self, settings: &Settings) {
        let none_in_mpi = self.no_rank_was_in_mpi();
        self.outcome.conclude(settings, none_in_mpi, &mut self.output);
    }

    /// Returns true if all ranks have ended and none has called MPI_Init.
    fn no_rank_was_in_mpi(&self) -> bool {
        self.ended.iter().all(|line| line.as_ref().is_some_and(RankLine::is_absent))
    }
}
