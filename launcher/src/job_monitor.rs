//! The jobs that run on this host, seen from outside: which there are, and what their ranks do.
//!
//! A job is found by the status page that its `mpiexec` or daemon holds open. The page is read,
//! never written or mapped; a job does not notice. Shares are estimated: many looks at the page in
//! an interval, and the CPU time of each process at its ends. Only jobs of the same user are found.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bootstrap::{StatusEntry, StatusReader};
use rustix::process::Pid;

use crate::proc_stat;
use crate::rank_table::{RankLine, blocked_cells, count, state};

/// The names of the programs that hold a status page open.
const LAUNCHERS: [&str; 2] = ["mpiexec", "mpirun"];

/// A job, or the share of this host in it.
#[derive(Debug)]
pub struct MonitoredJob {
    /// The `mpiexec` or the daemon that runs it.
    pub launcher: u32,
    page: StatusReader,
    ranks: Vec<Usage>,
    interval_began: Instant,
}

/// The estimates for one rank.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    looks: u32,
    looks_in_mpi: u32,
    /// CPU time when the interval began.
    cpu: Option<Duration>,
    /// Shares of the last interval, in percent.
    cpu_share: Option<u32>,
    mpi_share: Option<u32>,
}

/// Finds the jobs of this user on this host that are not `known`, or the one whose launcher has
/// this process id.
pub fn find_jobs(launcher: Option<u32>, known: &[MonitoredJob]) -> Vec<MonitoredJob> {
    let mut jobs = BTreeMap::new();
    for pid in processes().filter(|pid| launcher.is_none_or(|launcher| launcher == *pid)) {
        let is_launcher = fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| LAUNCHERS.iter().any(|name| exe.ends_with(name)));
        if !is_launcher {
            continue;
        }
        let is_known = |page: &StatusReader| {
            known.iter().any(|job| job.page.file_number() == page.file_number())
        };
        for page in status_pages(pid).filter(|page| !is_known(page)) {
            // The process that guards a job holds the page too; the launcher has a lower number.
            jobs.entry(page.file_number()).or_insert_with(|| MonitoredJob::new(pid, page));
        }
    }
    jobs.into_values().collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.into_iter()
}

/// Returns the status pages that a process holds open.
fn status_pages(pid: u32) -> impl Iterator<Item = StatusReader> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|entry| {
        let path = entry.path();
        let target: PathBuf = fs::read_link(&path).ok()?;
        let target = target.to_str()?;
        let may_be = target.starts_with("/memfd:verbena") || target.contains("/#");
        may_be.then(|| open(&path)).flatten()
    })
}

fn open(path: &Path) -> Option<StatusReader> {
    StatusReader::open(File::open(path).ok()?.into()).ok()
}

impl MonitoredJob {
    fn new(launcher: u32, page: StatusReader) -> MonitoredJob {
        let ranks = vec![Usage::default(); page.local_size() as usize];
        let mut job = MonitoredJob { launcher, page, ranks, interval_began: Instant::now() };
        job.begin_interval();
        job
    }

    /// Returns true while its launcher runs.
    pub fn is_running(&self) -> bool {
        Path::new(&format!("/proc/{}/exe", self.launcher)).exists()
    }

    /// Looks at all ranks once.
    pub fn look(&mut self) {
        for (usage, entry) in self.ranks.iter_mut().zip(self.page.entries()) {
            usage.looks += 1;
            usage.looks_in_mpi += u32::from(entry.snapshot().call != 0);
        }
    }

    /// Ends an interval: computes its shares, and begins the next one.
    pub fn end_interval(&mut self) {
        let length = self.interval_began.elapsed();
        for (usage, entry) in self.ranks.iter_mut().zip(self.page.entries()) {
            let cpu = cpu_time(&entry);
            usage.mpi_share = (100 * usage.looks_in_mpi).checked_div(usage.looks);
            usage.cpu_share = usage.cpu.zip(cpu).map(|(before, now)| {
                let used = now.saturating_sub(before).as_secs_f64();
                (100.0 * used / length.as_secs_f64()).round() as u32
            });
        }
        self.begin_interval();
    }

    fn begin_interval(&mut self) {
        self.interval_began = Instant::now();
        for (usage, entry) in self.ranks.iter_mut().zip(self.page.entries()) {
            (usage.looks, usage.looks_in_mpi, usage.cpu) = (0, 0, cpu_time(&entry));
        }
    }

    /// Returns a heading and a line for each rank, at most `most` of them.
    pub fn table(&self, most: usize) -> String {
        let ranks = count(self.ranks.len());
        let mut text = format!("{ranks} on this host, started by process {}\n", self.launcher);
        text += &format!(
            "  {:>6} {:>8} {:>5} {:>8}  {:12} {:24} {:>8}  {}\n",
            "rank", "pid", "cpu %", "in MPI %", "state", "call", "waited", "waits for"
        );
        for (entry, usage) in self.page.entries().iter().zip(&self.ranks).take(most) {
            text += &rank_line(entry, usage);
        }
        if self.ranks.len() > most {
            text += &format!("  ... {} more ranks\n", self.ranks.len() - most);
        }
        text
    }
}

fn cpu_time(entry: &StatusEntry) -> Option<Duration> {
    proc_stat::cpu_time(Pid::from_raw(i32::try_from(entry.pid()?).ok()?)?)
}

fn rank_line(entry: &StatusEntry, usage: &Usage) -> String {
    let line = RankLine::new(0, None, entry.snapshot());
    let percent = |share: Option<u32>| share.map_or(String::new(), |share| share.to_string());
    let [call, waited, mut waits_for] = blocked_cells(&line);
    if let Some((done, total)) = entry.file_progress() {
        let percent = u128::from(done) * 100 / u128::from(total);
        waits_for = format!("{percent} % of {} MiB written to a file", total.div_ceil(1 << 20));
    }
    let line = format!(
        "  {:>6} {:>8} {:>5} {:>8}  {:12} {call:24} {waited:>8}  {waits_for}",
        entry.rank(),
        entry.pid().map_or("-".to_owned(), |pid| pid.to_string()),
        percent(usage.cpu_share),
        percent(usage.mpi_share),
        state(&line),
    );
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use bootstrap::{RankState, StatusPage};

    use super::*;

    #[test]
    fn shares_are_those_of_the_looks() {
        let page = StatusPage::create(2, 77).unwrap();
        page.entry(0).set_state(RankState::Running);
        page.entry(1).set_rank(1);
        let copy = page.file().unwrap().try_clone_to_owned().unwrap();
        let mut job = MonitoredJob::new(std::process::id(), StatusReader::open(copy).unwrap());
        assert!(job.is_running());
        for look in 0..4 {
            if look == 1 {
                page.entry(0).enter(bootstrap::calls::Call::Send.index());
            }
            job.look();
        }
        job.end_interval();
        assert_eq!(
            job.ranks.iter().map(|rank| rank.mpi_share).collect::<Vec<_>>(),
            [Some(75), Some(0)]
        );
        let table = job.table(1);
        assert!(table.contains("in MPI       MPI_Send"), "{table}");
        page.entry(0).set_file_progress(3 << 30, 4 << 30);
        assert!(job.table(1).contains("75 % of 4096 MiB written to a file"), "{}", job.table(1));
        page.entry(0).set_file_progress(0, 0);
        assert_eq!(job.table(1), table);
        assert!(table.ends_with("... 1 more ranks\n"), "{table}");
    }
}
