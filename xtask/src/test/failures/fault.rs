//! The faults: how each is made, what the report must say, and how it is undone.

use std::fmt;
use std::process::ExitStatus;

use anyhow::{Context as _, Result, bail};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};

use super::job::{Ended, Job, Place};
use super::{Bench, HOSTS, Network, RANKS, Rng};

/// A kind of fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// Further options of `mpiexec`.
    pub(super) options: &'static [&'static str],
    pub(super) inject: fn(&Bench, &mut Job, &Victim) -> Result<()>,
    /// Returns what is wrong with the end of the job.
    pub(super) judge: fn(&Job, &Victim, &Ended) -> Vec<String>,
    pub(super) heal: fn(&Bench, &Victim) -> Result<()>,
}

/// What a fault hits.
pub(super) struct Victim {
    rank: usize,
    /// The process of the rank.
    pid: i32,
    /// The host of the rank.
    rank_host: usize,
    /// A host, for faults of hosts and networks.
    host: usize,
    signal: i32,
}

/// Signals that end a process, with the words of the report.
const SIGNALS: [(i32, &str); 8] = [
    (6, "Aborted"),
    (7, "Bus error"),
    (8, "Floating point exception"),
    (9, "Killed"),
    (9, "Killed"),
    (11, "Segmentation fault"),
    (4, "Illegal instruction"),
    (15, "Terminated"),
];

impl Victim {
    pub(super) fn choose(job: &Job, rng: &mut Rng) -> Victim {
        let rank = rng.below(job.ranks() as u64) as usize;
        let signal = SIGNALS[rng.below(SIGNALS.len() as u64) as usize].0;
        let host = rng.below(HOSTS as u64) as usize;
        Victim { rank, pid: job.pids[rank], rank_host: job.host_of(rank), host, signal }
    }

    /// Returns how the report names the rank.
    fn named(&self, job: &Job) -> String {
        let host = match job.place {
            Place::OneHost => "[^ )]+".to_owned(),
            Place::Hosts => regex::escape(&Network::address(self.rank_host)),
        };
        format!(r"rank {} \(pid {} on {host}\)", self.rank, self.pid)
    }

    /// Returns the hosts whose loss the report may name: any, if that of mpiexec itself is hit.
    fn lost_hosts(&self) -> String {
        let hosts = if self.host == 0 { 0..HOSTS } else { self.host..self.host + 1 };
        let names: Vec<String> = hosts
            .map(|host| {
                let (first, last) = (host * RANKS, host * RANKS + RANKS - 1);
                let name = regex::escape(&Network::address(host));
                format!("{name} with ranks {first} to {last}")
            })
            .collect();
        format!("(?:{})", names.join("|"))
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Victim { rank, pid, host, signal, .. } = self;
        write!(f, "rank {rank}, process {pid}, host {host}, signal {signal}")
    }
}

/// All faults.
pub(super) const FAULTS: &[Fault] = &[
    Fault { inject: kill_rank, judge: names_signal, ..fault("a signal", Place::OneHost) },
    Fault { inject: make_exit, judge: names_exit, ..fault("an exit", Place::OneHost) },
    Fault {
        options: &["--stall-abort"],
        inject: stop_rank,
        judge: names_stop,
        ..fault("a stop", Place::OneHost)
    },
    fault("mpiexec killed", Place::OneHost),
    Fault { inject: kill_rank, judge: names_signal, ..fault("a signal, hosts", Place::Hosts) },
    Fault { inject: make_exit, judge: names_exit, ..fault("an exit, hosts", Place::Hosts) },
    Fault {
        options: &["--stall-abort"],
        inject: stop_rank,
        judge: names_stop,
        ..fault("a stop, hosts", Place::Hosts)
    },
    fault("mpiexec killed, hosts", Place::Hosts),
    Fault { inject: kill_daemon, judge: names_host, ..fault("a daemon killed", Place::Hosts) },
    Fault {
        inject: lose_host,
        judge: names_host,
        heal: join,
        ..fault("a host lost", Place::Hosts)
    },
    Fault { inject: part, judge: names_host, heal: join, ..fault("a network cut", Place::Hosts) },
    Fault {
        inject: silence,
        judge: names_host,
        heal: hear,
        ..fault("a network cut, from a host", Place::Hosts)
    },
    Fault {
        inject: deafen,
        judge: names_host,
        heal: reach,
        ..fault("a network cut, to a host", Place::Hosts)
    },
];

/// Returns the fault that `mpiexec` is killed, which all others change.
const fn fault(name: &'static str, place: Place) -> Fault {
    Fault {
        name,
        place,
        options: &[],
        inject: kill_mpiexec,
        judge: was_killed,
        heal: |_, _| Ok(()),
    }
}

fn kill(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).context("a process")?;
    kill_process(pid, signal).with_context(|| format!("signal to {}", pid.as_raw_nonzero()))
}

fn kill_rank(_: &Bench, _: &mut Job, victim: &Victim) -> Result<()> {
    kill(victim.pid, Signal::from_named_raw(victim.signal).context("a signal")?)
}

fn make_exit(_: &Bench, _: &mut Job, victim: &Victim) -> Result<()> {
    kill(victim.pid, Signal::USR1)
}

fn stop_rank(_: &Bench, _: &mut Job, victim: &Victim) -> Result<()> {
    kill(victim.pid, Signal::STOP)
}

fn kill_mpiexec(_: &Bench, job: &mut Job, _: &Victim) -> Result<()> {
    kill(job.mpiexec(), Signal::KILL)
}

/// The parent of a host's first rank is its daemon.
fn kill_daemon(_: &Bench, job: &mut Job, victim: &Victim) -> Result<()> {
    let rank = job.pids[victim.host * RANKS];
    let stat = std::fs::read_to_string(format!("/proc/{rank}/stat"))?;
    let fields = stat.rsplit(") ").next().context("its state")?;
    let parent: i32 = fields.split(' ').nth(1).context("its parent")?.parse()?;
    kill(parent, Signal::KILL)
}

fn network(bench: &Bench) -> Result<&Network> {
    match &bench.hosts {
        Some(hosts) => Ok(&hosts.network),
        None => bail!("there are no hosts"),
    }
}

/// As a machine without power: no packet comes from it, also none that ends a connection.
fn lose_host(bench: &Bench, job: &mut Job, victim: &Victim) -> Result<()> {
    network(bench)?.set_link(victim.host, false)?;
    let Some(hosts) = &bench.hosts else { return Ok(()) };
    let mpiexec = job.mpiexec();
    for pid in hosts.processes(victim.host)?.into_iter().filter(|pid| *pid != mpiexec) {
        // The guard of a daemon may have ended it first.
        let _ = kill(pid, Signal::KILL);
    }
    Ok(())
}

fn part(bench: &Bench, _: &mut Job, victim: &Victim) -> Result<()> {
    network(bench)?.set_link(victim.host, false)
}

fn join(bench: &Bench, victim: &Victim) -> Result<()> {
    network(bench)?.set_link(victim.host, true)
}

fn silence(bench: &Bench, _: &mut Job, victim: &Victim) -> Result<()> {
    others(victim).try_for_each(|other| network(bench)?.lose(victim.host, other))
}

fn hear(bench: &Bench, victim: &Victim) -> Result<()> {
    others(victim).try_for_each(|other| network(bench)?.keep(victim.host, other))
}

fn deafen(bench: &Bench, _: &mut Job, victim: &Victim) -> Result<()> {
    others(victim).try_for_each(|other| network(bench)?.lose(other, victim.host))
}

fn reach(bench: &Bench, victim: &Victim) -> Result<()> {
    others(victim).try_for_each(|other| network(bench)?.keep(other, victim.host))
}

fn others(victim: &Victim) -> impl Iterator<Item = usize> {
    let own = victim.host;
    (0..HOSTS).filter(move |host| *host != own)
}

fn names_signal(job: &Job, victim: &Victim, ended: &Ended) -> Vec<String> {
    let word = SIGNALS.iter().find(|(signal, _)| *signal == victim.signal).map_or("", |it| it.1);
    let (rank, signal) = (victim.named(job), victim.signal);
    let position = r"(?: in MPI_\w+| outside of MPI calls)";
    let first = format!(
        r"^{rank} was killed by signal {signal} \({word}\){position}; ending the job \({} ranks\)$",
        job.ranks()
    );
    let mut wrong = check(ended, 128 + signal, &first);
    wrong.extend(without_last_lines(victim, ended));
    wrong
}

fn names_exit(job: &Job, victim: &Victim, ended: &Ended) -> Vec<String> {
    let rank = victim.named(job);
    let first = format!(r"^{rank} exited with code 7.* without calling MPI_Finalize; ending the");
    let mut wrong = check(ended, 7, &first);
    wrong.extend(without_last_lines(victim, ended));
    wrong
}

fn names_stop(job: &Job, victim: &Victim, ended: &Ended) -> Vec<String> {
    let rank = victim.named(job);
    check(ended, 125, &format!(r"^{rank} is stopped by signal 19 \(SIGSTOP\); ending the job"))
}

fn names_host(_: &Job, victim: &Victim, ended: &Ended) -> Vec<String> {
    let hosts = victim.lost_hosts();
    check(ended, 1, &format!("^lost host {hosts}: "))
}

fn was_killed(_: &Job, _: &Victim, ended: &Ended) -> Vec<String> {
    use std::os::unix::process::ExitStatusExt as _;
    let is_killed = ended.status.and_then(|status| status.signal()) == Some(9);
    (!is_killed).then(|| "mpiexec was not killed".to_owned()).into_iter().collect()
}

/// Checks the exit code, and the first line of `mpiexec`.
fn check(ended: &Ended, code: i32, first: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let found = ended.status.as_ref().and_then(ExitStatus::code);
    if found != Some(code) {
        wrong.push(format!("exit code {found:?} instead of {code}"));
    }
    let mut lines = ended.err.lines().filter_map(|line| line.strip_prefix("mpiexec: "));
    let line = lines.next().unwrap_or("");
    let pattern = Regex::new(first).expect("a pattern of ours");
    if !pattern.is_match(line) {
        wrong.push(format!("the first line of mpiexec is {line:?}, and not /{first}/"));
    }
    wrong
}

/// The report shows what the rank has printed last.
fn without_last_lines(victim: &Victim, ended: &Ended) -> Option<String> {
    let pattern = format!(r"mpiexec: the last lines? of rank {0}:\n  \| rank {0} has", victim.rank);
    let pattern = Regex::new(&pattern).expect("a pattern of ours");
    (!pattern.is_match(&ended.err)).then(|| "the last lines of the rank are missing".to_owned())
}
