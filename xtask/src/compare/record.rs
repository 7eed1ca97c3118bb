//! The record of a comparison: one JSON object a line, so that a file can be appended to, cut off
//! and read again.
//!
//! The first line is the machine, then a line for each library, then one for
//! each run in the order in which they ran.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::command::capture;
use crate::project::Project;

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub(super) enum Line {
    Machine(Machine),
    Library(LibraryLine),
    Run(Run),
}

/// Where it was measured.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) kernel: String,
    /// Processes that wanted a core in the minute before the first round.
    pub(super) load: f64,
    pub(super) date: String,
    /// Of our sources.
    pub(super) revision: String,
    /// Ranks of the collectives, if not each figure's own.
    #[serde(default)]
    pub(super) ranks: Option<u32>,
}

/// One of the libraries.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct LibraryLine {
    pub(super) name: String,
    /// Its description of itself; or why it is missing.
    pub(super) version: Result<String, String>,
    /// Its environment and options, by placement.
    pub(super) settings: BTreeMap<String, String>,
}

/// One run of one program.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) round: u32,
    pub(super) library: String,
    pub(super) figure: String,
    pub(super) command: String,
    pub(super) seconds: f64,
    /// Cores that other programs used meanwhile.
    #[serde(default)]
    pub(super) others: f64,
    /// Time for a cache line from core to core right before the run and right after it, in us.
    #[serde(default)]
    pub(super) crossing: Option<(f64, f64)>,
    /// Size and number; or what went wrong.
    pub(super) rows: Result<Vec<(u64, f64)>, String>,
}

/// The file being written.
pub(super) struct Record(File);

impl Record {
    pub(super) fn create(path: &Path) -> Result<Record> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        File::create(path).map(Record).with_context(|| format!("cannot write {}", path.display()))
    }

    /// A record that has lines already, or a new one.
    pub(super) fn append(path: &Path) -> Result<Record> {
        if !path.exists() {
            return Record::create(path);
        }
        File::options()
            .append(true)
            .open(path)
            .map(Record)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Adds a line, at once.
    pub(super) fn add(&mut self, line: &Line) -> Result<()> {
        writeln!(self.0, "{}", serde_json::to_string(line)?).context("cannot write the results")
    }
}

/// The default file of a comparison.
pub(super) fn file(project: &Project) -> PathBuf {
    let name = output_of(project, "date", &["+%Y%m%d-%H%M%S"]);
    project.target.join("compare").join(format!("{name}.jsonl"))
}

/// A file read again.
pub(super) fn read(path: &Path) -> Result<Vec<Line>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().map(|(number, line)| {
        serde_json::from_str(line)
            .with_context(|| format!("{}, line {}", path.display(), number + 1))
    });
    lines.collect()
}

impl Machine {
    /// This one, now.
    pub(super) fn here(project: &Project) -> Machine {
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = file("/proc/cpuinfo").lines().find_map(|line| {
            line.strip_prefix("model name")
                .and_then(|rest| rest.split_once(": "))
                .map(|(_, name)| name.to_owned())
        });
        Machine {
            cpu: cpu.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: file("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or(0.0),
            date: output_of(project, "date", &["-u", "+%Y-%m-%d %H:%M"]),
            revision: output_of(project, "git", &["describe", "--always", "--dirty"]),
            ranks: None,
        }
    }
}

/// The output of a command, or nothing.
pub(super) fn output_of(project: &Project, program: &str, args: &[&str]) -> String {
    let mut command = std::process::Command::new(program);
    command.args(args).current_dir(&project.root);
    capture(&mut command, None, Duration::from_secs(10))
        .map_or_else(|_| String::new(), |ran| ran.stdout.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let run = Run {
            round: 2,
            library: "mpich".into(),
            figure: "latency".into(),
            command: "mpiexec -n 2 latency".into(),
            seconds: 0.5,
            others: 0.0,
            crossing: Some((0.5, 0.25)),
            rows: Ok(vec![(8, 0.25)]),
        };
        let failed = Run { rows: Err("over its time limit".into()), ..run.clone() };
        for written in [run, failed] {
            let text = serde_json::to_string(&Line::Run(written.clone())).unwrap();
            let Line::Run(read) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
            assert_eq!(
                (read.rows, read.crossing, read.round),
                (written.rows, written.crossing, written.round),
                "{text}"
            );
        }
    }
}
