//! The failure matrix: a running job loses a rank, a daemon, a host, a network or its `mpiexec` at
//! a random moment. The job must be over within [`BOUND`] with a report that names the culprit.
//! Nothing may be left on any host: no process, no listening socket, no file.
//!
//! Hosts are network namespaces; daemons are reached by [`crate::relay`] over the network that is
//! cut. A fault without a sign (a silent host) is noticed after `--dead-after`, which is
//! [`DEAD_AFTER`] here. A seed determines the victims and the moments.

mod fault;
mod job;
mod survivors;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::tcp::Network;
use super::{Options, Tally, programs, report_failure};
use crate::project::Project;
use crate::relay;
use crate::steps::say;
use fault::{FAULTS, Fault, Victim};
use job::{Job, Place};

/// Longest time from a fault to the end of its job, with nothing left.
const BOUND: Duration = Duration::from_secs(5);
/// Silence after which a host is lost, in seconds.
const DEAD_AFTER: &str = "3";
/// Hosts of a job over several, and the ranks on each.
const HOSTS: usize = 3;
const RANKS: usize = 2;
/// Ranks of a job on one host.
const LOCAL_RANKS: usize = 4;
/// Longest time from the start of a job to a fault, milliseconds.
const MAX_DELAY_MS: u64 = 500;

/// Numbers that follow from a seed.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The pretended hosts, each with a relay.
struct Hosts {
    network: Network,
    relays: Vec<Child>,
}

impl Hosts {
    fn start() -> Result<Hosts> {
        let mut hosts = Hosts { network: Network::new(HOSTS)?, relays: Vec::new() };
        let program = std::env::current_exe().context("the path of xtask")?;
        for host in 0..HOSTS {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &hosts.network.host(host)]);
            command.arg(&program).args(["relay", "serve"]).stdin(Stdio::null());
            hosts.relays.push(command.stdout(Stdio::null()).spawn()?);
        }
        for host in 0..HOSTS {
            let began = Instant::now();
            while hosts.listeners(host)?.is_empty() {
                ensure!(began.elapsed() < BOUND, "the relay of a namespace does not start");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(hosts)
    }

    /// Waits until the first host reaches all others: a link that was down needs a moment.
    fn wait_until_reachable(&self) -> Result<()> {
        let program = std::env::current_exe().context("the path of xtask")?;
        let began = Instant::now();
        for host in 0..HOSTS {
            let is_reached = || {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &self.network.host(0)]).arg(&program);
                command.args(["relay", "call", &Network::address(host), "true"]);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            };
            while !is_reached() {
                ensure!(began.elapsed() < 4 * BOUND, "a host is not reachable after its fault");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns the processes in a namespace without its relay.
    fn processes(&self, host: usize) -> Result<Vec<i32>> {
        let mut command = Command::new("ip");
        let output = command.args(["netns", "pids", &self.network.host(host)]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let relay = self.relays[host].id() as i32;
        let pids = text.lines().filter_map(|line| line.trim().parse().ok());
        Ok(pids.filter(|pid| *pid != relay).collect())
    }

    /// Returns the ports on which processes of a namespace listen.
    fn listeners(&self, host: usize) -> Result<BTreeSet<u16>> {
        let relay = self.relays[host].id();
        let mut ports = BTreeSet::new();
        for file in ["tcp", "tcp6"] {
            let path = format!("/proc/{relay}/net/{file}");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            ports.extend(text.lines().skip(1).filter_map(listening_port));
        }
        Ok(ports)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for relay in &mut self.relays {
            let _ = relay.kill();
            let _ = relay.wait();
        }
    }
}

/// Returns the port of a line of /proc/net/tcp if it is that of a listening socket.
fn listening_port(line: &str) -> Option<u16> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    let state = words.nth(1)?;
    (state == "0A").then(|| u16::from_str_radix(port, 16).ok()).flatten()
}

/// Returns the files through which processes could share memory.
fn shared_files() -> BTreeSet<String> {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Runs all faults, as often as requested.
pub(super) fn test(project: &Project, options: &Options) -> Result<Tally> {
    let mut tally = Tally::default();
    let hosts = match Hosts::start() {
        Ok(hosts) => Some(hosts),
        Err(error) => {
            say!("skipped: faults between hosts: no network namespaces here: {error:#}");
            tally.skipped += 1;
            None
        }
    };
    let bench = Bench::new(project, options, hosts)?;
    let first = options.seed;
    for seed in first..first + u64::from(options.repeat) {
        for fault in FAULTS.iter().filter(|fault| bench.can_run(fault)) {
            if options.filter.as_ref().is_some_and(|filter| !fault.name.contains(filter.as_str())) {
                continue;
            }
            match bench.run(fault, seed) {
                Ok(()) => tally.passed += 1,
                Err((error, output)) => {
                    let again = format!("--seed {seed} --filter '{}'", fault.name);
                    let reasons = format!("{error:#}\n    repeat it with {again}");
                    report_failure(fault.name, &reasons, &output);
                    tally.failed += 1;
                }
            }
        }
    }
    for row in survivors::ROWS {
        let is_wanted = options.filter.as_ref().is_none_or(|it| row.name.contains(it.as_str()));
        if let Some(hosts) = bench.hosts.as_ref().filter(|_| is_wanted) {
            tally += survivors::run(&bench, hosts, row);
        }
    }
    say!("   seeds {first} to {}", first + u64::from(options.repeat) - 1);
    Ok(tally)
}

/// What jobs are run with.
struct Bench {
    hosts: Option<Hosts>,
    mpiexec: std::path::PathBuf,
    program: std::path::PathBuf,
    survivors: std::path::PathBuf,
    temporary: std::path::PathBuf,
}

impl Bench {
    fn new(project: &Project, options: &Options, hosts: Option<Hosts>) -> Result<Bench> {
        let temporary = project.target.join("failures");
        std::fs::create_dir_all(&temporary)?;
        Ok(Bench {
            hosts,
            mpiexec: options.mpiexec.clone().unwrap_or(project.prefix().join("bin/mpiexec")),
            program: programs::compiled(project, options, "victim")?,
            survivors: programs::compiled(project, options, "survivors")?,
            temporary,
        })
    }

    /// Returns `mpiexec` in the first namespace, for so many ranks on each.
    fn over_hosts(&self, hosts: &Hosts, ranks: usize) -> Result<Command> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &hosts.network.host(0)]).arg(&self.mpiexec);
        let program = std::env::current_exe().context("the path of xtask")?;
        let agent = format!("{} relay call {{host}} {{command}}", program.display());
        let list: Vec<String> =
            (0..HOSTS).map(|host| format!("{}:{ranks}", Network::address(host))).collect();
        command.args(["--agent", &agent, "--hosts", &list.join(",")]);
        // The hosts share this machine's processors, and do not know it.
        command.args(["--set", "inter.transport=tcp", "--set", "wait.spin=0"]);
        command.args(["--dead-after", DEAD_AFTER]);
        Ok(command)
    }

    fn can_run(&self, fault: &Fault) -> bool {
        fault.place == Place::OneHost || self.hosts.is_some()
    }

    /// Runs a job with a fault. The error is what is wrong, and what the job printed.
    fn run(&self, fault: &Fault, seed: u64) -> Result<(), (anyhow::Error, String)> {
        let mut rng = Rng::new(seed);
        if let Some(hosts) = self.hosts.as_ref().filter(|_| fault.place == Place::Hosts) {
            hosts.wait_until_reachable().map_err(|error| (error, String::new()))?;
        }
        let files = shared_files();
        let mut job = Job::start(self, fault).map_err(|error| (error, String::new()))?;
        let judged = job.wait_for_ranks().and_then(|()| {
            std::thread::sleep(Duration::from_millis(rng.below(MAX_DELAY_MS)));
            let victim = Victim::choose(&job, &mut rng);
            let began = Instant::now();
            (fault.inject)(self, &mut job, &victim).context("the fault")?;
            let ended = job.wait(began + 3 * BOUND);
            let wrong = (fault.judge)(&job, &victim, &ended);
            let left = self.left(&job, began + BOUND, &files);
            (fault.heal)(self, &victim).context("undoing the fault")?;
            ensure!(wrong.is_empty(), "{}, with {victim}", wrong.join("; "));
            let took = ended.at.duration_since(began);
            ensure!(took <= BOUND, "the job was over after {took:?}, with {victim}");
            ensure!(left.is_empty(), "left {}, with {victim}", left.join(", "));
            Ok(())
        });
        let output = job.end();
        judged.map_err(|error| (error, output))
    }

    /// Waits until nothing is left of a job. Returns what is left at `end`.
    fn left(&self, job: &Job, end: Instant, files: &BTreeSet<String>) -> Vec<String> {
        loop {
            let left = self.left_now(job, files);
            if left.is_empty() || Instant::now() >= end {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn left_now(&self, job: &Job, files: &BTreeSet<String>) -> Vec<String> {
        let mut left: Vec<String> =
            job.mark.survivors().into_iter().map(|(_, name)| name).collect();
        if let Some(hosts) = self.hosts.as_ref().filter(|_| job.place == Place::Hosts) {
            for host in 0..HOSTS {
                let pids = hosts.processes(host).unwrap_or_default();
                left.extend(pids.iter().map(|pid| format!("process {pid} on host {host}")));
                let ports = hosts.listeners(host).unwrap_or_default();
                let ports = ports.into_iter().filter(|port| *port != relay::PORT);
                left.extend(ports.map(|port| format!("a socket on port {port} of host {host}")));
            }
        }
        let named = |name: &&String| name.to_lowercase().contains("verbena");
        let now = shared_files();
        left.extend(now.difference(files).filter(named).map(|name| format!("/dev/shm/{name}")));
        let temporary = std::fs::read_dir(&self.temporary).into_iter().flatten().flatten();
        left.extend(temporary.map(|entry| entry.path().display().to_string()));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found() {
        let line = "   0: 00000000:1C03 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert_eq!(listening_port(line), Some(7171));
        assert_eq!(listening_port(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening_port("sl"), None);
    }
}
