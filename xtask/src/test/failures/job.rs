//! A job of the failure matrix: its processes, what it prints, and its end.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{BOUND, Bench, Fault, HOSTS, LOCAL_RANKS, RANKS};
use crate::command::Mark;

/// Time that ranks have to start, on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// By shared memory.
    OneHost,
    /// Over TCP, two ranks on each.
    Hosts,
}

/// A running job.
pub(super) struct Job {
    pub(super) place: Place,
    pub(super) mark: Mark,
    /// The process of each rank.
    pub(super) pids: Vec<i32>,
    child: Child,
    out: Text,
    err: Text,
}

/// How a job ended.
pub(super) struct Ended {
    /// `None` if it did not end.
    pub(super) status: Option<ExitStatus>,
    pub(super) at: Instant,
    /// Its standard error.
    pub(super) err: String,
}

type Text = Arc<Mutex<String>>;

impl Job {
    /// Starts the job that a fault is for.
    pub(super) fn start(bench: &Bench, fault: &Fault) -> Result<Job> {
        let mut command = match (&bench.hosts, fault.place) {
            (Some(hosts), Place::Hosts) => bench.over_hosts(hosts, RANKS)?,
            _ => {
                let mut command = Command::new(&bench.mpiexec);
                command.args(["-n", &LOCAL_RANKS.to_string(), "--set", "wait.spin=0"]);
                command
            }
        };
        command.args(fault.options).arg(&bench.program).env("TMPDIR", &bench.temporary);
        let mark = Mark::new();
        mark.put_on(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let out = collect(child.stdout.take().context("its output")?);
        let err = collect(child.stderr.take().context("its errors")?);
        Ok(Job { place: fault.place, mark, pids: Vec::new(), child, out, err })
    }

    /// Returns the number of ranks.
    pub(super) fn ranks(&self) -> usize {
        if self.place == Place::Hosts { HOSTS * RANKS } else { LOCAL_RANKS }
    }

    /// Returns the host of a rank.
    pub(super) fn host_of(&self, rank: usize) -> usize {
        if self.place == Place::Hosts { rank / RANKS } else { 0 }
    }

    /// Returns the process of `mpiexec`.
    pub(super) fn mpiexec(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits until all ranks have printed their processes, and one its steps.
    pub(super) fn wait_for_ranks(&mut self) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        loop {
            let text = copy_of(&self.out);
            let pids: Vec<Option<i32>> = (0..self.ranks()).map(|rank| pid(&text, rank)).collect();
            let has_begun = copy_of(&self.err).contains(" steps");
            if let (Some(pids), true) = (pids.into_iter().collect(), has_begun) {
                self.pids = pids;
                return Ok(());
            }
            ensure!(Instant::now() < end, "its ranks do not start");
            ensure!(self.child.try_wait()?.is_none(), "it ended at its start");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of `mpiexec`.
    pub(super) fn wait(&mut self, end: Instant) -> Ended {
        loop {
            let status = self.child.try_wait().ok().flatten();
            if status.is_some() || Instant::now() >= end {
                let at = Instant::now();
                // What it printed last.
                thread::sleep(Duration::from_millis(30));
                return Ended { status, at, err: copy_of(&self.err) };
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends what is left. Returns all that the job printed.
    pub(super) fn end(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.mark.end_survivors();
        thread::sleep(BOUND / 100);
        format!("{}{}", copy_of(&self.out), copy_of(&self.err))
    }
}

/// Returns the process that a rank has printed.
fn pid(text: &str, rank: usize) -> Option<i32> {
    let begin = format!("rank {rank} is process ");
    text.lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
}

fn copy_of(text: &Text) -> String {
    text.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn collect(stream: impl Read + Send + 'static) -> Text {
    let text = Text::default();
    let shared = Arc::clone(&text);
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let mut text = shared.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    text
}
