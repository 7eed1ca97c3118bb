//! MPI jobs over TCP between network namespaces, which stand for hosts: pairs of virtual Ethernet
//! devices on a bridge. Within a namespace ranks use shared memory.
//!
//! The cases: C programs over IPv4, IPv6 and both; several connections to a peer, and few; a link
//! that is down for some time; bad weather (`weather`). Thoroughly: all C programs and mpi4py's
//! tests over four hosts, and more of them in bad weather. Each rank reports what it sent, which
//! proves that TCP carried it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use regex::Regex;

use super::weather::{self, Weather};
use super::{Options, Tally, programs, python, report_failure};
use crate::command::{capture, quietly};
use crate::project::Project;
use crate::steps::say;

/// Longest time of a job; a longer one hangs.
const MAX_JOB_TIME: Duration = Duration::from_secs(60);
/// Of one of many processes, or in bad weather.
const MAX_LONG_JOB_TIME: Duration = Duration::from_secs(600);
/// Programs that report the most in the least time.
const CORE: [&str; 5] = ["ring", "wildcards", "order", "stress", "collectives"];
const MAX_SETUP_TIME: Duration = Duration::from_secs(20);
/// How long the link is down.
const DOWN: Duration = Duration::from_secs(5);
/// A text of the lines about traffic that no program prints.
const TRAFFIC: &str = " bytes by TCP, ";
/// The part of each rank's report.
const REPORT: &str = " bytes to its host, ";

/// Namespaces on one bridge. They go when this is dropped.
pub(super) struct Network {
    /// Begins the name of each namespace and device.
    name: String,
    hosts: usize,
}

impl Network {
    pub(super) fn new(hosts: usize) -> Result<Network> {
        let network = Network { name: format!("vrb{}", std::process::id()), hosts };
        let bridge = network.bridge();
        ip(&["netns", "add", &bridge])?;
        ip(&["-n", &bridge, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &bridge, "link", "set", "br0", "up"])?;
        for host in 0..hosts {
            network.add_host(host)?;
        }
        Ok(network)
    }

    fn add_host(&self, host: usize) -> Result<()> {
        let (name, bridge, port) = (self.host(host), self.bridge(), format!("port{host}"));
        ip(&["netns", "add", &name])?;
        let pair = ["type", "veth", "peer", "name", &port, "netns", &bridge];
        ip(&[&["link", "add", "eth0", "netns", &name][..], &pair].concat())?;
        ip(&["-n", &bridge, "link", "set", &port, "master", "br0", "up"])?;
        let address = format!("{}/24", Network::address(host));
        ip(&["-n", &name, "addr", "add", &address, "dev", "eth0"])?;
        let address = format!("fd81::{}/64", host + 1);
        ip(&["-n", &name, "addr", "add", &address, "dev", "eth0", "nodad"])?;
        // As a bridge of containers: all hosts have the same address.
        ip(&["-n", &name, "link", "add", "docker0", "type", "bridge"])?;
        ip(&["-n", &name, "addr", "add", "172.17.0.1/16", "dev", "docker0"])?;
        for device in ["lo", "docker0", "eth0"] {
            ip(&["-n", &name, "link", "set", device, "up"])?;
        }
        Ok(())
    }

    fn bridge(&self) -> String {
        format!("{}sw", self.name)
    }

    /// Returns the namespace of a host.
    pub(super) fn host(&self, host: usize) -> String {
        format!("{}h{host}", self.name)
    }

    /// Returns the IPv4 address of a host.
    pub(super) fn address(host: usize) -> String {
        format!("10.81.0.{}", host + 1)
    }

    /// Removes the IPv4 addresses of all hosts.
    fn remove_ipv4(&self) -> Result<()> {
        let flush = |name: &String| ip(&["-n", name, "-4", "addr", "flush", "dev", "eth0"]);
        self.names().iter().try_for_each(flush)
    }

    /// Takes the link of a host down, or up again.
    pub(super) fn set_link(&self, host: usize, is_up: bool) -> Result<()> {
        let (port, state) = (format!("port{host}"), if is_up { "up" } else { "down" });
        ip(&["-n", &self.bridge(), "link", "set", &port, state])
    }

    /// Loses what one host sends to another.
    pub(super) fn lose(&self, from: usize, to: usize) -> Result<()> {
        let (name, address) = (self.host(from), Network::address(to));
        // Frames for a station that does not exist.
        let words = ["neigh", "replace", &address, "lladdr", "02:00:00:00:0d:ad", "dev", "eth0"];
        ip(&[&["-n", &name][..], &words, &["nud", "permanent"]].concat())
    }

    /// Undoes [`Network::lose`].
    pub(super) fn keep(&self, from: usize, to: usize) -> Result<()> {
        let (name, address) = (self.host(from), Network::address(to));
        ip(&["-n", &name, "neigh", "del", &address, "dev", "eth0"])
    }

    /// Returns the namespaces of the hosts.
    fn names(&self) -> Vec<String> {
        (0..self.hosts).map(|host| self.host(host)).collect()
    }

    /// Takes the link of a host down, and up again after [`DOWN`], once the file exists.
    fn cut_once(&self, host: usize, file: &Path) -> std::thread::JoinHandle<bool> {
        let (bridge, port, file) = (self.bridge(), format!("port{host}"), file.to_owned());
        std::thread::spawn(move || {
            let began = Instant::now();
            while !file.exists() {
                if began.elapsed() > MAX_JOB_TIME {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let down = ip(&["-n", &bridge, "link", "set", &port, "down"]);
            std::thread::sleep(DOWN);
            ip(&["-n", &bridge, "link", "set", &port, "up"]).is_ok() && down.is_ok()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in (0..self.hosts).map(|host| self.host(host)).chain([self.bridge()]) {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}

/// Runs `ip`.
pub(super) fn ip(words: &[&str]) -> Result<()> {
    quietly(Command::new("ip").args(words), MAX_SETUP_TIME).map(drop)
}

/// What jobs are run with.
struct Bench {
    /// The namespaces.
    hosts: Vec<String>,
    mpiexec: PathBuf,
    agent: PathBuf,
    /// Longest time of a job.
    limit: Duration,
}

impl Bench {
    /// Returns the bench for jobs on these hosts, and writes the agent that reaches them.
    fn new(project: &Project, hosts: Vec<String>, limit: Duration) -> Result<Bench> {
        let agent = project.target.join("tcp-agent");
        let script = "#!/bin/sh\nexec ip netns exec \"$1\" sh -c \"$2\"\n";
        std::fs::write(&agent, script).context("writing the agent")?;
        quietly(Command::new("chmod").arg("+x").arg(&agent), MAX_SETUP_TIME)?;
        Ok(Bench { hosts, mpiexec: project.prefix().join("bin/mpiexec"), agent, limit })
    }

    /// Runs a job of so many ranks on each host; the words begin with options of `mpiexec`.
    /// Returns its output without the lines about traffic, or what is wrong.
    fn job(&self, ranks: usize, words: &[String]) -> Result<(String, String), (String, String)> {
        let limit = self.limit.as_secs().to_string();
        let mut command = Command::new(&self.mpiexec);
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{host}:{ranks}")).collect();
        command.arg("--agent").arg(&self.agent).args(["--hosts", &hosts.join(",")]);
        command.args(["--timeout", &limit, "--set", "report.traffic=on"]);
        // The hosts share this machine's processors, and do not know it.
        command.args(["--set", "inter.transport=tcp", "--set", "wait.spin=0"]).args(words);
        let ran = capture(&mut command, None, self.limit * 2);
        let ran = ran.map_err(|error| (format!("{error:#}"), String::new()))?;
        let (reports, other): (Vec<&str>, Vec<&str>) =
            ran.stderr.lines().partition(|line| line.contains(REPORT));
        if !ran.success() {
            return Err((ran.ending(), ran.output()));
        }
        // Collectives leave a host by one rank; others may have no message for another host.
        let (frames, hosts) = (frames(&reports), self.hosts.len());
        let senders = reports.iter().filter(|line| line.contains(TRAFFIC)).count();
        if senders < hosts || frames == 0 {
            let text = format!("{senders} ranks of {hosts} hosts sent {frames} frames by TCP");
            return Err((text, ran.output()));
        }
        Ok((ran.stdout, other.iter().map(|line| format!("{line}\n")).collect()))
    }

    /// Runs C programs, and judges their output.
    fn rows(&self, rows: &[programs::Row], how: &str, set: &[&str]) -> Tally {
        let mut tally = Tally::default();
        for (case, words) in rows {
            let options = set.iter().flat_map(|knob| ["--set".to_owned(), (*knob).to_owned()]);
            let words: Vec<String> = options.chain(words.iter().cloned()).collect();
            // Two ranks of this program exchange messages, the first two.
            let ranks = if case.name == "order" { 1 } else { 2 };
            let judged = self.job(ranks, &words).and_then(|(stdout, stderr)| {
                let wrong = programs::mismatches(case, &stdout, &stderr);
                if wrong.is_empty() { Ok(()) } else { Err((wrong.join("; "), stdout + &stderr)) }
            });
            tally += outcome(&format!("{} over TCP{how}", case.name), judged);
        }
        tally
    }
}

/// Adds up the frames of the reports.
fn frames(reports: &[&str]) -> u64 {
    let pattern = Regex::new(r"(\d+) frames of \d+ bytes by TCP, ").expect("a constant");
    let count = |line: &&str| pattern.captures(line).and_then(|found| found[1].parse::<u64>().ok());
    reports.iter().filter_map(count).sum()
}

fn outcome(name: &str, judged: Result<(), (String, String)>) -> Tally {
    match judged {
        Ok(()) => Tally { passed: 1, ..Tally::default() },
        Err((reasons, output)) => {
            report_failure(name, &reasons, &output);
            Tally { failed: 1, ..Tally::default() }
        }
    }
}

/// Runs all cases, if namespaces can be made.
pub(super) fn test(project: &Project, options: &Options) -> Result<Tally> {
    let network = match Network::new(2) {
        Ok(network) => network,
        Err(error) => {
            say!("skipped: no network namespaces here: {error:#}");
            return Ok(Tally { skipped: 1, ..Tally::default() });
        }
    };
    let bench = Bench::new(project, network.names(), MAX_JOB_TIME)?;
    let all = rows(project, options)?;
    let core = only(&all, &CORE);
    let mut tally = bench.rows(&all, "", &[]);
    tally += bench.rows(&core, ", IPv6", &["tcp.interfaces=fd81::/64"]);
    tally += bench.rows(&core, ", nothing eager", &["tcp.eager_max=64"]);
    tally += bench.rows(&core, ", one connection", &["tcp.connections=1"]);
    tally += bench.rows(&core, ", four connections to a peer", &["tcp.sockets=4"]);
    tally += cut(project, options, &network, &bench)?;
    network.remove_ipv4()?;
    let set = ["tcp.interfaces=eth0", "tcp.ports=47000-47099"];
    tally += bench.rows(&only(&all, &["ring"]), ", IPv6 alone, an interface by its name", &set);
    drop(network);
    tally += in_bad_weather(project, options, &all)?;
    if options.thorough {
        tally += on_four_hosts(project, &all)?;
    }
    Ok(tally)
}

/// Returns the programs that the filter lets through.
fn rows(project: &Project, options: &Options) -> Result<Vec<programs::Row>> {
    let mut all = programs::for_hosts(project, options, true)?;
    if let Some(filter) = &options.filter {
        all.retain(|(case, _)| case.name.contains(filter.as_str()));
    }
    Ok(all)
}

fn only(all: &[programs::Row], names: &[&str]) -> Vec<programs::Row> {
    all.iter().filter(|(case, _)| names.contains(&case.name.as_str())).cloned().collect()
}

/// Programs in each kind of weather, with other seeds each time; thoroughly, more of them and a
/// part of mpi4py's tests.
fn in_bad_weather(project: &Project, options: &Options, all: &[programs::Row]) -> Result<Tally> {
    let seed = options.seed;
    let mut tally = Tally::default();
    for (name, words, brief) in weather::KINDS {
        let weather = match Weather::new(project, 2, seed, words) {
            Ok(weather) => weather,
            Err(error) => {
                say!("   skipped: {name}: {error:#}");
                tally.skipped += 1;
                continue;
            }
        };
        let bench = Bench::new(project, weather.hosts().to_vec(), MAX_LONG_JOB_TIME)?;
        let how = format!(", {name}, seed {seed}");
        let chosen: &[&str] = if options.thorough { &CORE } else { brief };
        tally += bench.rows(&only(all, chosen), &how, &[]);
        // Its thousands of round trips take longer than a job may where each takes 45 ms.
        let is_far = words.contains("delay=20");
        if options.thorough && options.filter.is_none() && !is_far {
            tally += mpi4py(project, &bench, &how, 1)?;
        }
    }
    Ok(tally)
}

/// All C programs and mpi4py's tests of messages on two ranks of each of four hosts.
fn on_four_hosts(project: &Project, all: &[programs::Row]) -> Result<Tally> {
    let network = Network::new(4)?;
    let bench = Bench::new(project, network.names(), MAX_LONG_JOB_TIME)?;
    let mut tally = bench.rows(all, ", four hosts", &[]);
    tally += mpi4py(project, &bench, ", four hosts", 2)?;
    Ok(tally)
}

/// Runs mpi4py's tests of messages with so many ranks on each host.
fn mpi4py(project: &Project, bench: &Bench, how: &str, ranks: usize) -> Result<Tally> {
    let mut tally = Tally::default();
    for (name, words) in python::for_hosts(project)? {
        let judged = bench.job(ranks, &words).and_then(|(stdout, stderr)| {
            let output = stdout + "\n" + &stderr;
            let counts = python::counts(&output, (ranks * bench.hosts.len()) as u32);
            match counts.failed == 0 && counts.passed > 0 {
                true => Ok(()),
                false => Err((counts.to_string(), output)),
            }
        });
        tally += outcome(&format!("mpi4py, {name} over TCP{how}"), judged);
    }
    Ok(tally)
}

/// A stream of messages, in the middle of which the link is down for a while.
fn cut(project: &Project, options: &Options, network: &Network, bench: &Bench) -> Result<Tally> {
    let program = programs::compiled(project, options, "stream")?.display().to_string();
    let file = project.target.join("tcp-a-tenth");
    let _ = std::fs::remove_file(&file);
    let cutter = network.cut_once(1, &file);
    let words = [program, "100000".to_owned(), file.display().to_string()];
    let judged = bench.job(1, &words).and_then(|(stdout, _)| {
        let pause = Regex::new(r"longest pause was (\d+) ms").expect("a constant");
        let longest = pause.captures(&stdout).and_then(|found| found[1].parse::<u64>().ok());
        match longest.filter(|&longest| longest >= 4000) {
            Some(_) => Ok(()),
            None => Err(("the link was never down".to_owned(), stdout)),
        }
    });
    let was_cut = cutter.join().unwrap_or(false);
    let judged = judged.and_then(|()| {
        if was_cut { Ok(()) } else { Err(("the link was not cut".to_owned(), String::new())) }
    });
    Ok(outcome("a stream over a link that is down for 5 s", judged))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_by_tcp_are_added_up() {
        let line = |frames| {
            format!(
                "verbena: rank 0 sent 1 frames of 2 bytes to its host, {frames} frames of 9 bytes \
                 by TCP, 0 frames of 0 bytes by RDMA"
            )
        };
        let lines = [line(30), line(12)];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(lines.iter().all(|line| line.contains(TRAFFIC) && line.contains(REPORT)));
        assert_eq!(frames(&lines), 42);
    }
}
