//! `cargo xtask counts`: the instructions of the calls that matter, against the
//! numbers in `benches/counts.toml`.
//!
//! Callgrind runs `benches/counts.c` and counts the instructions between two toggles. The counts do
//! not depend on the machine's speed and load; therefore the test run detects a change that makes a
//! small message dearer. Another compiler may generate other code. Therefore there is a tolerance,
//! and the file names the compiler.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::command::{exists, quietly};
use crate::install::{self, Build};
use crate::project::Project;
use crate::steps::Steps;

/// How much more than recorded is still the same: a share, and instructions.
const TOLERANCE: (f64, f64) = (0.03, 3.0);
const LIMIT: Duration = Duration::from_secs(300);
/// Cost of the counting itself, taken off every other count.
const TOGGLES: &str = "the toggles";

/// The case that `--crates` examines, and its function.
const STAGED: [(&str, &str); 2] =
    [("PMPI_Send", "MPI_Send, 8 bytes"), ("PMPI_Recv", "MPI_Recv, 8 bytes, arrived")];

/// Options of `counts`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fail if a call takes more instructions than recorded.
    #[arg(long)]
    check: bool,
    /// Record today's counts.
    #[arg(long, conflicts_with = "check")]
    update: bool,
    /// Print also in which crates a send and a receive spend their instructions.
    #[arg(long)]
    crates: bool,
}

/// The file.
#[derive(Deserialize)]
struct Recorded {
    compiler: String,
    instructions: BTreeMap<String, f64>,
}

/// Installs, counts, and compares or records.
pub(crate) fn counts(project: &Project, options: &Options) -> Result<bool> {
    let steps = Steps::start(project, "counts", false)?;
    install::install(project, &steps, &project.prefix(), &Build::Profile("release"))?;
    if options.crates {
        print_crates(project)?;
        println!();
    }
    let counted = count(project)?;
    let file = project.root.join("benches/counts.toml");
    if options.update {
        std::fs::write(&file, written(&counted, &compiler(project)?))?;
        println!("recorded in {}", project.shown(&file));
        return Ok(true);
    }
    let (_, dearer) = compare(project, &counted)?;
    Ok(dearer == 0 || !options.check)
}

/// Whether callgrind is there to count with.
pub(crate) fn can_count() -> bool {
    exists("valgrind", "--version")
}

/// Counts with the installed library, compares with the file, and prints that. Returns how many
/// counts are as recorded, and how many are higher.
pub(crate) fn check(project: &Project) -> Result<(u64, u64)> {
    compare(project, &count(project)?)
}

/// Runs the program; the instructions of a call by its name, in the order of the program.
fn count(project: &Project) -> Result<Vec<(String, f64)>> {
    let program = Program::compile(project)?;
    let calls = program.run(&[], None)?;
    let mut counted = Vec::new();
    for step in 1.. {
        let Ok(dump) = std::fs::read_to_string(program.folder.join(format!("calls.{step}"))) else {
            break;
        };
        counted.extend(one_step(&dump).map(|(name, total)| (name, total / calls)));
    }
    ensure!(counted.first().is_some_and(|(name, _)| name == TOGGLES), "callgrind wrote no counts");
    let toggles = counted.remove(0).1;
    Ok(counted.into_iter().map(|(name, count)| (name, count - toggles)).collect())
}

/// Prints the instructions of a send and of a receive by crate.
fn print_crates(project: &Project) -> Result<()> {
    let program = Program::compile(project)?;
    for (function, case) in STAGED {
        let calls = program.run(&[&format!("--toggle-collect={function}")], Some(case))?;
        let dump = std::fs::read_to_string(program.folder.join("calls"))?;
        let crates = crates(&dump, &format!("{}/", project.root.display()));
        println!("\n{case}: {:.0}", crates.values().sum::<f64>() / calls);
        let mut crates: Vec<(String, f64)> = crates.into_iter().collect();
        crates.sort_by(|a, b| b.1.total_cmp(&a.1));
        crates.iter().for_each(|(member, cost)| println!("  {member:16}{:>7.0}", cost / calls));
    }
    Ok(())
}

/// `benches/counts.c`, compiled, in a folder of its own.
struct Program {
    folder: PathBuf,
    bin: PathBuf,
}

impl Program {
    fn compile(project: &Project) -> Result<Program> {
        let program =
            Program { folder: project.target.join("counts"), bin: project.prefix().join("bin") };
        if program.folder.exists() {
            std::fs::remove_dir_all(&program.folder)?;
        }
        std::fs::create_dir_all(&program.folder)?;
        let mut mpicc = Command::new(program.bin.join("mpicc"));
        mpicc
            .args(["-O2", "-o"])
            .arg(program.folder.join("counts"))
            .arg(project.root.join("benches/counts.c"));
        quietly(&mut mpicc, LIMIT)?;
        Ok(program)
    }

    /// Runs the program, rank 0 under callgrind, which writes `calls`, `calls.1`, `calls.2`, ...;
    /// returns the number of calls.
    fn run(&self, options: &[&str], case: Option<&str>) -> Result<f64> {
        let (counts, sync_file) = (self.folder.join("counts"), self.folder.join("sync"));
        std::fs::write(&sync_file, [0; 4096])?;
        let mut mpiexec = Command::new(self.bin.join("mpiexec"));
        mpiexec
            .args(["-n", "1", "valgrind", "--quiet", "--tool=callgrind", "--collect-atstart=no"])
            .args(options);
        mpiexec.arg(format!("--callgrind-out-file={}", self.folder.join("calls").display()));
        mpiexec.arg(&counts).arg(&sync_file).args(case);
        mpiexec.args([":", "-n", "1"]).arg(&counts).arg(&sync_file).args(case);
        quietly(&mut mpiexec, LIMIT)?
            .stdout
            .trim()
            .parse()
            .context("the program says how many calls")
    }
}

/// Returns the instructions of each crate, by the source that they were compiled from, also where
/// it is inlined. Code of Rust's own library counts for the crate that it was inlined into.
fn crates(dump: &str, root: &str) -> BTreeMap<String, f64> {
    let (mut files, mut crates) = (BTreeMap::new(), BTreeMap::new());
    let mut member = String::new();
    let mut lines = dump.lines();
    while let Some(line) = lines.next() {
        if let Some((key @ ("fl" | "fi" | "fe" | "cfi" | "cfl"), file)) = line.split_once('=') {
            let (number, name) = file.split_once(' ').unwrap_or((file, ""));
            let file: &mut &str = files.entry(number).or_default();
            *file = if name.is_empty() { *file } else { name };
            if !key.starts_with('c') {
                member = crate_of(file, root).unwrap_or(member);
            }
        } else if line.starts_with("calls=") {
            lines.next(); // the cost of a call is counted where it was spent
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<f64>().ok());
            *crates.entry(member.clone()).or_default() += cost.unwrap_or(0.0);
        }
    }
    crates
}

/// Returns the crate of a source; `None` if its code counts for the crate that inlined it.
fn crate_of(file: &str, root: &str) -> Option<String> {
    match file.strip_prefix(root).and_then(|path| path.split_once('/')) {
        Some((member, _)) => Some(member.to_owned()),
        None if file.starts_with("/rustc/") => None,
        None => Some("other libraries".to_owned()),
    }
}

/// The name that the program gave to a step, and its instructions.
fn one_step(dump: &str) -> Option<(String, f64)> {
    let behind = |key: &str| dump.lines().find_map(|line| line.strip_prefix(key));
    Some((
        behind("desc: Trigger: Client Request: ")?.to_owned(),
        behind("totals: ")?.trim().parse().ok()?,
    ))
}

/// Prints counts next to those of the file.
fn compare(project: &Project, counted: &[(String, f64)]) -> Result<(u64, u64)> {
    let recorded = read(&project.root.join("benches/counts.toml"))?;
    let (mut same, mut dearer) = (0, 0);
    println!("{:52}{:>10}{:>10}", "instructions of", "recorded", "now");
    for (name, count) in counted {
        let before = recorded.instructions.get(name).copied();
        let verdict = verdict(before, *count);
        println!(
            "{name:52}{:>10}{count:>10.1}  {verdict}",
            before.map_or_else(String::new, |n| format!("{n:.1}"))
        );
        *if verdict == DEARER || verdict == UNKNOWN { &mut dearer } else { &mut same } += 1;
    }
    let now = compiler(project)?;
    if recorded.compiler != now {
        println!("recorded with {}, now {now}", recorded.compiler);
    }
    if dearer > 0 {
        println!("If that is worth it, record it: cargo xtask counts --update");
    }
    Ok((same, dearer))
}

const DEARER: &str = "DEARER";
const UNKNOWN: &str = "NOT RECORDED";

fn verdict(before: Option<f64>, now: f64) -> &'static str {
    let margin = |before: f64| (before * TOLERANCE.0).max(TOLERANCE.1);
    match before {
        None => UNKNOWN,
        Some(before) if now > before + margin(before) => DEARER,
        Some(before) if now < before - margin(before) => "cheaper: record it with --update",
        Some(_) => "",
    }
}

fn read(file: &Path) -> Result<Recorded> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).with_context(|| file.display().to_string())
}

fn written(counted: &[(String, f64)], compiler: &str) -> String {
    let mut text = "# Instructions of one call, from the program's call to its return, on x86-64.\n\
                    # Made by `cargo xtask counts --update`; the test run fails if a call takes more.\n\n"
        .to_owned();
    let _ = writeln!(text, "compiler = \"{compiler}\"\n\n[instructions]");
    for (name, count) in counted {
        let _ = writeln!(text, "\"{name}\" = {count:.1}");
    }
    text
}

fn compiler(project: &Project) -> Result<String> {
    let mut rustc = Command::new("rustc");
    let version = quietly(rustc.arg("--version").current_dir(&project.root), LIMIT)?.stdout;
    Ok(version.split(" (").next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let counted =
            [("MPI_Send, 8 bytes".to_owned(), 201.0), ("MPI_Comm_rank".to_owned(), 40.25)];
        let recorded: Recorded = toml::from_str(&written(&counted, "rustc 1.95.0")).unwrap();
        assert_eq!(recorded.compiler, "rustc 1.95.0");
        assert_eq!(recorded.instructions["MPI_Send, 8 bytes"], 201.0);
    }

    #[test]
    fn instructions_belong_to_the_crate_of_their_source() {
        let dump = "fl=(1) /v/pt2pt/src/send.rs\nfn=(1) PMPI_Send\n10 5\nfi=(2) /rustc/x/option.rs\n+3 2\n\
                    fi=(3) /v/shm-transport/src/ring.rs\n7 4\ncfi=(4) ../string/memcpy.S\ncfn=(2) memcpy\n\
                    calls=1 0\n9 100\nfe=(1)\n* 1\n\nfl=(4)\nfn=(2)\n1 100\n";
        let crates = crates(dump, "/v/");
        assert_eq!(
            (crates["pt2pt"], crates["shm-transport"], crates["other libraries"]),
            (8.0, 4.0, 100.0)
        );
    }

    #[test]
    fn more_than_the_tolerance_is_dearer() {
        assert_eq!(
            [Some(300.0), Some(290.0), None].map(|before| verdict(before, 300.0)),
            ["", DEARER, UNKNOWN]
        );
        assert_eq!([verdict(Some(20.0), 22.0), verdict(Some(20.0), 24.0)], ["", DEARER]);
        assert!(verdict(Some(400.0), 300.0).starts_with("cheaper"));
    }

    #[test]
    fn a_dump_has_a_name_and_a_total() {
        let dump = "version: 1\ndesc: Trigger: Client Request: MPI_Send, 8 bytes\nevents: Ir\ntotals: 97288\n";
        assert_eq!(one_step(dump), Some(("MPI_Send, 8 bytes".to_owned(), 97288.0)));
        assert_eq!(one_step("desc: Trigger: Program termination\ntotals: 5\n"), None);
    }
}
