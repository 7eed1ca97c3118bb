//! mpi4py's own test files, on 1 to 5 ranks.
//!
//! Every rank runs every test. A group of files has passed when mpiexec's exit code is 0 and each
//! rank has printed OK.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use regex::Regex;
use serde::Deserialize;

use super::foreign_abi::ForeignAbi;
use super::{Options, Tally, report_failure};
use crate::command::{Mark, capture, line, show};
use crate::mpi4py::{self, Mpi4py};
use crate::project::Project;
use crate::steps::{Step, say};

/// The files that must pass, in groups that are one job each.
const GROUPS: [&[&str]; 5] = [
    &[
        "p2p_buf",
        "p2p_buf_matched",
        "p2p_buf_part",
        "p2p_obj",
        "p2p_obj_matched",
        "request",
        "status",
        "msgzero",
        "environ",
        "address",
        "buffer",
        "grequest",
        "pack",
        "mpimem",
        "threads",
        "util_pkl5",
    ],
    &[
        "cco_buf",
        "cco_nb_buf",
        "cco_nb_vec",
        "cco_vec",
        "cco_obj",
        "cco_ngh_buf",
        "cco_ngh_obj",
        "cco_pr_buf",
        "cco_pr_vec",
        "cco_pr_ngh_buf",
        "cco_buf_inter",
        "cco_obj_inter",
        "cco_vec_inter",
    ],
    &[
        "attributes",
        "comm",
        "comm_inter",
        "comm_topo",
        "datatype",
        "doc",
        "errhandler",
        "errorcode",
        "exceptions",
        "group",
        "handle",
        "info",
        "mpiapi",
        "objmodel",
        "op",
        "pickle",
        "session",
        "subclass",
        "ctypes",
        "mpiabi",
        "package",
        "toplevel",
        "util_dtlib",
    ],
    &["file", "io", "win", "rma", "rma_nb"],
    &["dynproc", "spawn"],
];
/// Files that communicate with no other rank and take long with NumPy: run on one rank.
const ON_ONE_RANK: [&str; 1] = ["util_dtlib"];
/// The numbers of ranks on which the tests use NumPy's arrays as well, which doubles their time.
const WITH_NUMPY: [u32; 3] = [1, 2, 4];
/// Files that take an emulated processor 15 seconds or more. Their calls use the schedules that
/// `cco_buf`, `cco_nb_buf` and `cco_vec` test.
const TOO_LONG: [&str; 5] =
    ["cco_nb_vec", "cco_ngh_buf", "cco_pr_buf", "cco_pr_vec", "cco_pr_ngh_buf"];
/// The numbers of ranks of each run, ...
const RANKS: [u32; 2] = [1, 2];
/// ... and those of which a run of all parts takes one by the seed: all take some minutes.
const MORE_RANKS: [u32; 3] = [3, 4, 5];
/// The files that run on the wheel, ...
const ON_WHEEL: [&[&str]; 2] = [
    &[
        "p2p_buf",
        "p2p_buf_matched",
        "p2p_buf_part",
        "request",
        "status",
        "environ",
        "buffer",
        "grequest",
        "pack",
        "cco_buf",
        "cco_nb_vec",
        "cco_ngh_buf",
        "cco_buf_inter",
        "attributes",
        "comm",
        "comm_topo",
        "datatype",
        "errhandler",
        "errorcode",
        "group",
        "handle",
        "info",
        "mpiapi",
        "op",
        "session",
        "file",
        "io",
        "win",
        "rma",
    ],
    &["dynproc", "spawn"],
];
/// ... and the numbers of ranks.
const RANKS_ON_WHEEL: [u32; 3] = [1, 2, 3];
/// The option of mpi4py's test runner.
const NO_NUMPY: &str = "--no-numpy";
/// For one group on one number of ranks.
const LIMIT: Duration = Duration::from_secs(600);

/// `tests/mpi4py/skips.toml`: single tests that are left out, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skips {
    /// From `file.Class.test` to the reason.
    #[serde(default)]
    skip: BTreeMap<String, String>,
}

impl Skips {
    fn read(project: &Project) -> Result<Skips> {
        let path = project.root.join("tests/mpi4py/skips.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }
}

/// The jobs of point-to-point and of collectives over two hosts: a name, and the words after
/// `mpiexec ...`. They are quiet: every word of a rank goes from host to host.
pub(super) fn for_hosts(project: &Project) -> Result<Vec<(String, Vec<String>)>> {
    let mpi4py = mpi4py::provide(project, &project.prefix(), &show)?;
    let skips = Skips::read(project)?;
    let job = |(name, group): (&str, &[&str])| {
        let files: Vec<&str> =
            group.iter().filter(|file| !TOO_LONG.contains(file)).copied().collect();
        let python = mpi4py.python.display().to_string();
        let arguments = arguments(&mpi4py, "-q", &files, &skips);
        let words = [python].into_iter().chain(arguments).chain([NO_NUMPY.to_owned()]).collect();
        (name.to_owned(), words)
    };
    let mut jobs: Vec<_> =
        [("point-to-point", GROUPS[0]), ("collectives", GROUPS[1])].map(job).into();
    jobs.push(("fork".to_owned(), fork_words(project, &mpi4py)));
    Ok(jobs)
}

/// The words of a job that forks, after `mpiexec ...`.
pub(super) fn fork(project: &Project) -> Result<Vec<String>> {
    Ok(fork_words(project, &mpi4py::provide(project, &project.prefix(), &show)?))
}

fn fork_words(project: &Project, mpi4py: &Mpi4py) -> Vec<String> {
    let script = project.root.join("tests/mpi4py/test_fork.py");
    [&mpi4py.python, &script].map(|path| path.display().to_string()).into()
}

/// Runs all files.
pub(super) fn test(project: &Project, step: &Step, options: &Options) -> Result<Tally> {
    let filter = options.filter.as_deref();
    let prefix = project.prefix();
    let mpi4py = mpi4py::provide(project, &prefix, &|command| step.run(command))?;
    let skips = Skips::read(project)?;
    for (test, reason) in &skips.skip {
        say!("   skipped: {test}: {reason}");
    }
    let mut tally = Tally::default();
    let more = if options.only.is_empty() { 1 } else { MORE_RANKS.len() };
    for &ranks in RANKS.iter().chain(options.some(&MORE_RANKS, 0, more)) {
        for group in GROUPS {
            let chosen = |file: &&&str| {
                filter.is_none_or(|filter| format!("test_{file} on {ranks}").contains(filter))
            };
            let fits = |file: &&&str| ranks == 1 || !ON_ONE_RANK.contains(file);
            let files: Vec<&str> = group.iter().filter(chosen).filter(fits).copied().collect();
            if !files.is_empty() {
                tally += one_job(&mpi4py, &prefix.join("bin/mpiexec"), &files, ranks, &skips)?;
            }
        }
    }
    if filter.is_none_or(|filter| "test_fork on 2".contains(filter)) {
        let mut command = Command::new(prefix.join("bin/mpiexec"));
        command.args(["-n", "2"]).args(fork_words(project, &mpi4py));
        tally += judge(command, "fork", 2)?;
    }
    Ok(tally)
}

/// Runs some files on the wheel, whose mpi4py has a build for each ABI.
pub(super) fn on_wheel(
    project: &Project,
    options: &Options,
    wheel: &Mpi4py,
    abi: &ForeignAbi,
) -> Result<Tally> {
    let mpiexec = project.prefix().join("bin/mpiexec");
    let skips = Skips::read(project)?;
    let mut tally = Tally::default();
    for ranks in RANKS_ON_WHEEL {
        for group in ON_WHEEL {
            let name = |file: &str| format!("test_{file} on {ranks}");
            let filter = options.filter.as_deref();
            let chosen = |file: &&&str| filter.is_none_or(|filter| name(file).contains(filter));
            let files: Vec<&str> = group.iter().filter(chosen).copied().collect();
            if files.is_empty() {
                continue;
            }
            let mut command = wheel.on_ranks(&mpiexec, ranks);
            command.args(arguments(wheel, "-v", &files, &skips)).arg(NO_NUMPY);
            command.args(abi.not_on_wheel.iter().flat_map(|(test, _)| ["-x", test]));
            command.env("MPI4PY_MPIABI", abi.name);
            tally += judge(command, &format!("({}) {}", abi.name, files.join(", ")), ranks)?;
        }
    }
    Ok(tally)
}

fn one_job(
    mpi4py: &Mpi4py,
    mpiexec: &std::path::Path,
    files: &[&str],
    ranks: u32,
    skips: &Skips,
) -> Result<Tally> {
    let mut command = mpi4py.on_ranks(mpiexec, ranks);
    command.args(arguments(mpi4py, "-v", files, skips));
    if !WITH_NUMPY.contains(&ranks) {
        command.arg(NO_NUMPY);
    }
    judge(command, &files.join(", "), ranks)
}

/// Runs a job; `name` says what it tests.
pub(super) fn judge(mut command: Command, name: &str, ranks: u32) -> Result<Tally> {
    let mark = Mark::new();
    mark.put_on(&mut command);
    let ran = capture(&mut command, None, LIMIT)?;
    let mut tally = counts(&format!("{}\n{}", ran.stdout, ran.stderr), ranks);
    let survivors = mark.end_survivors();
    if !ran.success() || tally.failed > 0 || !survivors.is_empty() {
        let reasons =
            format!("{}; left running: {survivors:?}\n    $ {}", ran.ending(), line(&command));
        report_failure(&format!("mpi4py {name} on {ranks}"), &reasons, &ran.output());
        tally.failed = tally.failed.max(1);
    }
    Ok(tally)
}

/// The arguments of Python; `verbosity` is -v or -q.
fn arguments(mpi4py: &Mpi4py, verbosity: &str, files: &[&str], skips: &Skips) -> Vec<String> {
    let main = mpi4py.source.join("test/main.py").display().to_string();
    let files = format!(r"^test_({})\.py$", files.join("|"));
    let words = [main, verbosity.into(), "--no-builddir".into(), "-i".into(), files];
    words
        .into_iter()
        .chain(skips.skip.keys().flat_map(|test| ["-x".to_owned(), test.clone()]))
        .collect()
}

/// Tests of one rank (every rank runs the same ones). Failed tests are those of the rank with the
/// most; a rank that never reported its end is one more.
pub(super) fn counts(output: &str, ranks: u32) -> Tally {
    let all = |pattern: &str| -> Vec<u64> {
        let pattern = Regex::new(pattern).expect("a constant");
        pattern
            .captures_iter(output)
            .map(|found| found.get(1).map_or(0, |n| n.as_str().parse().unwrap_or(0)))
            .collect()
    };
    let run = all(r"(?m)^Ran (\d+) tests? in ");
    let fine = all(r"(?m)^OK(?: \(.*?skipped=(\d+).*?\))?\s*$");
    let bad = all(r"(?m)^(?:FAIL|ERROR): test()").len() as u64;
    let total = run.iter().copied().max().unwrap_or(0);
    let skipped = fine.iter().copied().max().unwrap_or(0);
    let silent = u64::from(ranks) != fine.len() as u64;
    let failed = if silent { (bad / u64::from(ranks)).max(1) } else { 0 };
    Tally { passed: total.saturating_sub(skipped + failed), failed, skipped }
}
