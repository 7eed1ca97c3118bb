//! The outcome of a job as JSON, for scripts and workflow managers (`--report-outcome`).
//!
//! The file is written when the job is over, also if it could not start. It is written beside its
//! path and renamed, so that a reader never sees half of it. A link, a pipe or a device stays, and
//! is written to.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use bootstrap::RankState;
use serde::Serialize;

use crate::failure_policy::{Event, Exit};
use crate::settings::Settings;
use crate::signals;

/// The form of the file; a new number means that a key has another meaning.
const VERSION: u32 = 1;

/// The contents of the file.
#[derive(Debug, Serialize)]
pub(crate) struct OutcomeReport<'a> {
    version: u32,
    /// The exit code of `mpiexec`.
    exit_code: u8,
    /// From the start of `mpiexec` to the end of the job.
    seconds: f64,
    ranks: u32,
    /// The hosts as the user named them; empty for this host alone.
    hosts: Vec<&'a str>,
    /// The failure that decided the exit code.
    first_failure: Option<Failure<'a>>,
    /// The lines that `mpiexec` printed.
    messages: &'a [String],
}

/// The failure of a rank.
#[derive(Debug, Serialize)]
struct Failure<'a> {
    rank: u32,
    /// "signal", "exit", "abort" or "stopped".
    kind: &'static str,
    /// The number of the signal, or the exit code.
    code: i32,
    /// What the signal means: "Segmentation fault".
    signal: Option<&'static str>,
    /// "starting", "running", "finalizing" or "finalized": MPI in the rank.
    mpi: Option<&'static str>,
    /// What an aborting rank said.
    message: Option<&'a str>,
}

impl<'a> OutcomeReport<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        exit_code: u8,
        age: Duration,
        first_failure: Option<&'a Event>,
        messages: &'a [String],
    ) -> OutcomeReport<'a> {
        OutcomeReport {
            version: VERSION,
            exit_code,
            seconds: (age.as_secs_f64() * 1e3).round() / 1e3,
            ranks: settings.total_ranks(),
            hosts: settings.hosts.iter().map(|host| host.name.as_str()).collect(),
            first_failure: first_failure.map(Failure::of),
            messages,
        }
    }

    /// Writes the file that the user asked for, if any. A failure is one line on standard error.
    pub(crate) fn write(&self, settings: &Settings) {
        let Some(path) = &settings.report_outcome else { return };
        let written = serde_json::to_string_pretty(self)
            .map_err(io::Error::from)
            .and_then(|text| replace(Path::new(path), &(text + "\n")));
        if let Err(error) = written {
            eprintln!("mpiexec: --report-outcome {path}: cannot write it: {error}");
        }
    }
}

/// Replaces what a file has by the text.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, text);
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

impl Failure<'_> {
    fn of(event: &Event) -> Failure<'_> {
        match event {
            Event::Died { rank, exit, state } => {
                let (kind, code, signal) = match *exit {
                    Exit::Code(code) => ("exit", code, None),
                    Exit::Signal(number) => ("signal", number, Some(signals::name(number))),
                };
                let mpi = Some(state_name(*state));
                Failure { rank: *rank, kind, code, signal, mpi, message: None }
            }
            Event::Aborted { rank, code, message } => Failure {
                rank: *rank,
                kind: "abort",
                code: *code,
                signal: None,
                mpi: None,
                message: Some(message),
            },
            Event::Stopped { rank, signal } => Failure {
                rank: *rank,
                kind: "stopped",
                code: *signal,
                signal: Some(signals::name(*signal)),
                mpi: None,
                message: None,
            },
        }
    }
}

fn state_name(state: RankState) -> &'static str {
    match state {
        RankState::Starting => "starting",
        RankState::Running | RankState::InSession => "running",
        RankState::Finalizing => "finalizing",
        RankState::Finalized => "finalized",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_named() {
        let settings = Settings::default();
        let died = Event::Died { rank: 3, exit: Exit::Signal(11), state: RankState::Running };
        let lines = ["mpiexec: rank 3 \"crashed\"".to_owned()];
        let age = Duration::from_micros(1_234_567);
        let report = OutcomeReport::new(&settings, 139, age, Some(&died), &lines);
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["exit_code"], 139);
        assert_eq!(value["seconds"], 1.235);
        assert_eq!(value["first_failure"]["rank"], 3);
        assert_eq!(value["first_failure"]["signal"], "Segmentation fault");
        assert_eq!(value["first_failure"]["mpi"], "running");
        assert_eq!(value["messages"][0], "mpiexec: rank 3 \"crashed\"");
    }
}
