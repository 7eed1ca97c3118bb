//! Jobs over hosts that go on without a rank or a host (`mpiexec --on-failure continue`).

use std::time::Duration;

use super::{Bench, Hosts, report_failure};
use crate::command::{Mark, capture};
use crate::test::Tally;

/// Longest time of a job.
const LIMIT: Duration = Duration::from_secs(20);

/// One job: ranks on each host, arguments of the program, and the exit code.
pub(super) struct Row {
    pub(super) name: &'static str,
    ranks: usize,
    arguments: &'static [&'static str],
    code: i32,
}

pub(super) const ROWS: &[Row] = &[
    row("survivors of a rank, receiving", 2, &["receive"], 137),
    row("survivors of a rank, in a collective", 2, &["collective"], 137),
    row("survivors of a rank, polling", 1, &["poll"], 137),
    row("survivors of a host, receiving", 1, &["receive", "daemon"], 1),
    row("survivors of a host, in a collective", 1, &["collective", "daemon"], 1),
];

const fn row(
    name: &'static str,
    ranks: usize,
    arguments: &'static [&'static str],
    code: i32,
) -> Row {
    Row { name, ranks, arguments, code }
}

/// Runs a job, and judges its end.
pub(super) fn run(bench: &Bench, hosts: &Hosts, row: &Row) -> Tally {
    let ran = bench.over_hosts(hosts, row.ranks).and_then(|mut command| {
        command.args(["--on-failure", "continue"]).arg(&bench.survivors).args(row.arguments);
        let mark = Mark::new();
        mark.put_on(&mut command);
        let ran = capture(&mut command, None, LIMIT)?;
        Ok((ran, mark.end_survivors()))
    });
    let (wrong, output) = match &ran {
        Err(error) => (format!("{error:#}"), String::new()),
        Ok((_, left)) if !left.is_empty() => (format!("left {}", left.join(", ")), String::new()),
        Ok((ran, _)) if ran.code() == row.code && ran.stdout == "ok\n" => {
            return Tally { passed: 1, ..Tally::default() };
        }
        Ok((ran, _)) => (ran.ending(), ran.output()),
    };
    report_failure(row.name, &wrong, &output);
    Tally { failed: 1, ..Tally::default() }
}
