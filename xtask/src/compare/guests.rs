//! `cargo xtask vm compare`: this MPI against others and against perftest, over Soft-RoCE between
//! virtual machines (see [`crate::vm`]).
//!
//! A round is one boot, in which the libraries take turns at each figure: emulated machines differ
//! in speed from boot to boot, and from minute to minute. Perftest, which shows what the device
//! does without an MPI, is one of them. Each program has three turns, of which the best counts,
//! because the host's processors lose speed for a second now and then. Each round begins with
//! another library. The record and the report are those of `cargo xtask compare`; `--append` adds
//! rounds to a record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use super::figures::{Better, Figure, OVER_VERBS, PERFTEST, Reading, VERBS};
use super::interference::{self, OthersCpuUse};
use super::library::{Kind, compile};
use super::record::{self, LibraryLine, Line, Machine, Record, Run};
use super::unpacked::Unpacked;
use super::{parse, report, say};
use crate::command::quoted;
use crate::install;
use crate::project::Project;
use crate::steps::Steps;
use crate::vm::{self, Kernel, Machines, Plan};

/// Longest time of a job, or of one of perftest's programs, seconds.
const MAX_JOB_SECONDS: u32 = 40;
/// The GID that all use: packets of IPv6, the first GID's, take the kernel a sixth less time than
/// those of IPv4.
const GID: u32 = 0;
/// Turns of each program in a boot.
const TURNS: u32 = 3;

/// The options of `vm compare`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds: a boot in which the MPIs take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// One machine with two processors and two devices instead of two machines: faster, and
    /// the network between is short.
    #[arg(long)]
    one_machine: bool,
    /// Only these: verbena, mpich, ompi (with commas between, or repeated).
    #[arg(long, value_delimiter = ',', value_parser = kind)]
    only: Vec<Kind>,
    /// Knobs for ours, as mpiexec's --set takes them (can be repeated).
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Where the results go; target/compare/DATE.jsonl unless given.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Add the rounds to this file, and report on all of it.
    #[arg(long, conflicts_with = "output")]
    append: Option<PathBuf>,
    /// Measure nothing; print the report of this file.
    #[arg(long, conflicts_with_all = ["rounds", "only", "set", "output", "append", "one_machine"])]
    report: Option<PathBuf>,
}

fn kind(name: &str) -> Result<Kind> {
    let known = |kind: &Kind| kind.name() == name;
    [Kind::Verbena, Kind::Mpich, Kind::OpenMpi]
        .into_iter()
        .find(known)
        .context("there are verbena, mpich and ompi")
}

/// Measures and reports.
pub(crate) fn compare(project: &Project, options: &Options) -> Result<()> {
    if let Some(file) = &options.report {
        say(&report::report(&OVER_VERBS, &record::read(file)?));
        return Ok(());
    }
    let _lock = interference::lock()?;
    let kernel = vm::set_up(project)?;
    let all = vec![Kind::Verbena, Kind::Mpich, Kind::OpenMpi];
    let kinds = if options.only.is_empty() { all } else { options.only.clone() };
    let peers = match kinds.iter().any(|kind| *kind != Kind::Verbena) {
        true => Some(Unpacked::provide(project)?),
        false => None,
    };
    compile_all(project, &kinds, peers.as_ref())?;
    let output = options
        .append
        .clone()
        .or_else(|| options.output.clone())
        .unwrap_or_else(|| record::file(project));
    let mut lines = if options.append.is_some() && output.exists() {
        record::read(&output)?
    } else {
        Vec::new()
    };
    let mut record =
        if options.append.is_some() { Record::append(&output)? } else { Record::create(&output)? };
    let known = lines.len();
    if lines.is_empty() {
        lines.push(Line::Machine(Machine::here(project)));
    }
    let contest = Contest { project, kernel, peers, options };
    lines.extend(
        kinds
            .iter()
            .filter(|kind| !is_named(&lines, kind))
            .map(|kind| contest.line(*kind))
            .collect::<Vec<_>>(),
    );
    lines[known..].iter().try_for_each(|line| record.add(line))?;
    contest.run(&kinds, &mut lines, &mut record)?;
    say(&report::report(&OVER_VERBS, &lines));
    println!("\nEvery run is in {}", project.shown(&output));
    Ok(())
}

fn is_named(lines: &[Line], kind: &Kind) -> bool {
    lines.iter().any(|line| matches!(line, Line::Library(library) if library.name == kind.name()))
}

/// Builds ours, and the programs once for each library.
fn compile_all(project: &Project, kinds: &[Kind], peers: Option<&Unpacked>) -> Result<()> {
    install::install_fastest(project, &Steps::start(project, "compare", false)?)?;
    let sources = project.root.join("benches/osu");
    for kind in kinds {
        let programs = programs(project, *kind);
        match peers.filter(|_| *kind != Kind::Verbena) {
            Some(peers) => peers.compile(&sources, &programs, *kind)?,
            None => compile(&sources, &programs, &project.prefix().join("bin/mpicc"))?,
        }
    }
    Ok(())
}

fn programs(project: &Project, kind: Kind) -> PathBuf {
    project.target.join("osu/guests").join(kind.name())
}

/// The figures and the guests that they are measured in.
struct Contest<'a> {
    project: &'a Project,
    kernel: Kernel,
    /// The other libraries, if they take part.
    peers: Option<Unpacked>,
    options: &'a Options,
}

impl Contest<'_> {
    /// All rounds.
    fn run(&self, kinds: &[Kind], lines: &mut Vec<Line>, record: &mut Record) -> Result<()> {
        let bar = ProgressBar::new(self.options.rounds.into());
        bar.set_style(ProgressStyle::with_template(
            "{elapsed_precise} [{wide_bar}] {pos}/{len}, {eta} left: {msg}",
        )?);
        // The time moves on during a boot; without a terminal there are lines instead.
        bar.enable_steady_tick(Duration::from_secs(1));
        let earlier = lines.iter().filter_map(|line| match line {
            Line::Run(run) => Some(run.round),
            _ => None,
        });
        for (round, turn) in (earlier.max().unwrap_or(0) + 1..).zip(0..self.options.rounds) {
            let mut kinds = kinds.to_vec();
            let first = turn as usize % kinds.len();
            kinds.rotate_left(first);
            let what = format!("round {round}");
            if bar.is_hidden() {
                say(&format!("{what}, boot {} of {}", turn + 1, self.options.rounds));
            }
            bar.set_message(what);
            for run in self.boot(&kinds, round)? {
                let line = Line::Run(run);
                record.add(&line)?;
                lines.push(line);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn line(&self, kind: Kind) -> Line {
        let form = if self.options.one_machine { "one machine" } else { "two machines" };
        let settings = BTreeMap::from([(form.to_owned(), self.launch(kind, "PROGRAM"))]);
        let version = match kind {
            Kind::Verbena => Ok(format!("{form}, {}", self.options.set.join(" "))),
            _ => match &self.peers {
                Some(peers) => peers.version(kind),
                None => Err("it takes no part".to_owned()),
            },
        };
        Line::Library(LibraryLine { name: kind.name().to_owned(), version, settings })
    }

    /// The command of a job of two ranks, each with a device of its own.
    fn launch(&self, kind: Kind, job: &str) -> String {
        let two = !self.options.one_machine;
        match kind {
            Kind::Verbena => {
                let mpiexec =
                    quoted(&self.project.prefix().join("bin/mpiexec").display().to_string());
                let knobs: String = self
                    .options
                    .set
                    .iter()
                    .map(|knob| format!("--set {} ", quoted(knob)))
                    .collect();
                let agent = if two { "$VM_SSH" } else { "$VM_RESULTS/here" };
                let knobs = format!("--set verbs.gid_index={GID} {knobs}");
                let start = format!("{mpiexec} --agent {agent} --hosts vm0:1,vm1:1 {knobs}");
                if two {
                    format!("{start}{job}")
                } else {
                    start + &each("VERBENA_VERBS_DEVICES=rxe", "", job)
                }
            }
            // Of names after -x, only the first of several programs gets them.
            Kind::OpenMpi => {
                let start = "mpiexec.openmpi --allow-run-as-root --mca pml ucx --mca btl ^openib";
                let gid = format!("UCX_IB_GID_INDEX={GID}");
                let ucx = format!("{gid} UCX_TLS=rc,self UCX_NET_DEVICES=rxe");
                match two {
                    true => format!(
                        "{start} -x {gid} -x UCX_TLS=rc --mca plm_rsh_agent $VM_SSH --host vm0,vm1 {job}"
                    ),
                    false => format!("{start} {}", each(&ucx, ":1", job)),
                }
            }
            _ => {
                let start = format!("mpiexec.mpich -genv UCX_IB_GID_INDEX {GID} -genv UCX_TLS rc");
                match two {
                    true => format!(
                        "{start} -launcher rsh -launcher-exec $VM_SSH -hosts vm0,vm1 -n 2 -ppn 1 {job}"
                    ),
                    false => format!(
                        "{start} -genv MPIR_CVAR_NOLOCAL 1 {}",
                        each("UCX_NET_DEVICES=rxe", ":1", job)
                    ),
                }
            }
        }
    }

    /// For the shell of every guest.
    fn script(&self, kinds: &[Kind]) -> String {
        let mut script = self.peers.as_ref().map_or_else(String::new, Unpacked::mount);
        script += "ulimit -l unlimited\nvm_barrier begin\ncd /tmp\n";
        script += "printf '#!/bin/sh\\nshift; exec sh -c \"$*\"\\n' >$VM_RESULTS/here; chmod +x $VM_RESULTS/here\n";
        // Unmeasured jobs first: code that runs for the first time after a boot is slow on an
        // emulated processor.
        for kind in kinds {
            script +=
                &self.job(*kind, "latency", "-n 200 -m 8:8", &format!("first.{}", kind.name()));
        }
        for figure in mpi_figures() {
            for turn in 0..TURNS {
                for kind in kinds {
                    let output = format!("{}.{}.{turn}", figure.name, kind.name());
                    script += &self.job(*kind, figure.program, &figure.args.join(" "), &output);
                }
                for (at, test) in PERFTESTS
                    .iter()
                    .enumerate()
                    .filter(|(_, test)| test.figure().program == figure.name)
                {
                    script += &test.command(&format!("perftest.{at}.{turn}"));
                }
            }
        }
        script + "vm_barrier end\n"
    }

    /// A job for the shell of the first guest. What a job leaves that does not end in time would
    /// disturb the next one.
    fn job(&self, kind: Kind, program: &str, args: &str, output: &str) -> String {
        let folder = programs(self.project, kind);
        let program = quoted(&folder.join(program).display().to_string());
        let job = self.launch(kind, &format!("{program} {args}"));
        let end = format!("pkill -9 -f {}", quoted(&folder.display().to_string()));
        let end_all = match self.options.one_machine {
            true => end,
            false => format!("{end}; $VM_SSH vm1 {}", quoted(&end)),
        };
        format!(
            "if [ $VM_ID = 0 ]; then \
             timeout {MAX_JOB_SECONDS} {job} </dev/null >$VM_RESULTS/{output}.out 2>$VM_RESULTS/{output}.err; code=$?\n\
             echo $code >$VM_RESULTS/{output}.code\n\
             [ $code = 0 ] || {{ {end_all}; }}; fi\n"
        )
    }

    /// One boot, and its runs.
    fn boot(&self, kinds: &[Kind], round: u32) -> Result<Vec<Run>> {
        let (start, watch) = (Instant::now(), OthersCpuUse::start());
        let results = self.project.target.join("vm/compare");
        let jobs = kinds.len() * mpi_figures().count() + PERFTESTS.len();
        let plan = Plan {
            machines: if self.options.one_machine {
                Machines::pair(None)
            } else {
                Machines::guests(2)
            },
            commands: vec![self.script(kinds)],
            link_down: Vec::new(),
            timeout: Duration::from_secs(u64::from(MAX_JOB_SECONDS * TURNS) * jobs as u64),
            results: results.clone(),
            show: false,
        };
        vm::run(self.project, &self.kernel, &plan)?;
        let (seconds, others) = (start.elapsed().as_secs_f64(), watch.other_cores());
        let (mut runs, mut failed) = (Vec::new(), Vec::new());
        let mut add = |library: &str, figure: &str, command: &str, (rows, failures): Turns| {
            let run = |rows: Result<Rows>| Run {
                round,
                library: library.to_owned(),
                figure: figure.to_owned(),
                command: command.to_owned(),
                seconds,
                others,
                crossing: None,
                rows: rows.map_err(|error| format!("{error:#}")),
            };
            runs.push(run(rows));
            failed.extend(failures.into_iter().map(|error| run(Err(error))));
        };
        for kind in kinds {
            for figure in mpi_figures() {
                let job = format!("{} {}", figure.program, figure.args.join(" "));
                let turns = best(figure.better, |turn| {
                    let output = format!("{}.{}.{turn}", figure.name, kind.name());
                    job_rows(&results, &output, figure.reading)
                });
                add(kind.name(), figure.name, &self.launch(*kind, &job), turns);
            }
        }
        let client = if self.options.one_machine { 0 } else { 1 };
        for (at, test) in PERFTESTS.iter().enumerate() {
            let turns = best(test.figure().better, |turn| {
                test.rows(&results.join(format!("perftest.{at}.{turn}.{client}")))
            });
            add(PERFTEST, test.program, &format!("{} -s {}", test.program, test.size), turns);
        }
        add_perftest_ratios(&mut runs);
        runs.append(&mut failed);
        Ok(runs)
    }
}

/// Sizes and numbers.
type Rows = Vec<(u64, f64)>;
/// The best of the turns of a program, and why others failed.
type Turns = (Result<Rows>, Vec<anyhow::Error>);

/// Returns the best number for each size out of all turns, and why others failed.
fn best(better: Better, rows: impl Fn(u32) -> Result<Rows>) -> Turns {
    let (mut best, mut failures) = (BTreeMap::new(), Vec::new());
    for turn in 0..TURNS {
        match rows(turn) {
            Ok(rows) => {
                for (size, value) in rows {
                    let best = best.entry(size).or_insert(value);
                    *best = match better {
                        Better::Lower => value.min(*best),
                        Better::Higher => value.max(*best),
                    };
                }
            }
            Err(error) => failures.push(error),
        }
    }
    match best.is_empty() {
        true => (Err(failures.remove(0)), failures),
        false => (Ok(best.into_iter().collect()), failures),
    }
}

/// Two ranks, whose devices differ in their numbers.
fn each(before: &str, behind: &str, job: &str) -> String {
    format!("-n 1 env {before}0{behind} {job} : -n 1 env {before}1{behind} {job}")
}

/// Those that every MPI has.
fn mpi_figures() -> impl Iterator<Item = &'static Figure> {
    VERBS.iter().filter(|figure| !figure.args.is_empty())
}

fn job_rows(results: &Path, output: &str, reading: Reading) -> Result<Rows> {
    let read = |ending: &str| {
        fs::read_to_string(results.join(format!("{output}.{ending}"))).unwrap_or_default()
    };
    match read("code").trim() {
        "0" => parse::read(&read("out"), reading, 0.0),
        "" => bail!("it was not run"),
        code => {
            let stderr = read("err");
            let stderr: Vec<&str> =
                stderr.lines().filter(|line| !line.trim().is_empty()).take(4).collect();
            bail!("exit code {code}: {}", stderr.join(" | "))
        }
    }
}

/// One of perftest's programs, with one size.
struct Perftest {
    /// With options.
    program: &'static str,
    size: u64,
    /// The figure that it is compared with. Of several the best counts.
    figure: &'static str,
}

const fn perftest(program: &'static str, size: u64, figure: &'static str) -> Perftest {
    Perftest { program, size, figure }
}

const PERFTESTS: [Perftest; 14] = [
    perftest("ib_send_lat -n 500", 8, "latency-polling"),
    perftest("ib_send_lat -n 500", 4_096, "latency-polling"),
    perftest("ib_send_bw -n 640 -t 16", 8, "bw-device"),
    perftest("ib_send_bw -n 640 -t 16", 4_096, "bw-device"),
    perftest("ib_write_bw -n 100", 65_536, "bw-device"),
    perftest("ib_read_bw -n 100", 65_536, "bw-device"),
    perftest("ib_send_bw -n 100", 65_536, "bw-device"),
    perftest("ib_write_bw -n 20", 1_048_576, "bw-device"),
    perftest("ib_read_bw -n 20", 1_048_576, "bw-device"),
    perftest("ib_send_bw -n 20", 1_048_576, "bw-device"),
    perftest("ib_write_lat -n 500", 8, "rma-put-device"),
    perftest("ib_read_lat -n 500", 8, "rma-get-device"),
    perftest("ib_write_bw -n 500 -t 1", 8, "rma-put-completion"),
    perftest("ib_atomic_lat -n 500", 8, "rma-fetch-device"),
];

impl Perftest {
    /// Its figure.
    fn figure(&self) -> &'static Figure {
        VERBS.iter().find(|figure| figure.name == self.figure).expect("a figure of the table")
    }

    /// A run for the shell of every guest. Its output goes to a file of this name for each guest.
    fn command(&self, output: &str) -> String {
        let Perftest { program, size, .. } = self;
        format!(
            "vm_between timeout {MAX_JOB_SECONDS} {program} -F -x {GID} -s {size} >$VM_RESULTS/{output}.$VM_ID 2>&1\n"
        )
    }

    /// The average of a run, in our units: its MB are MiB.
    fn rows(&self, output: &Path) -> Result<Rows> {
        let text = fs::read_to_string(output).context("it was not run")?;
        let (column, number): (usize, fn(f64, f64) -> f64) = match self.figure().better {
            Better::Lower if self.program.contains("_lat") => (5, |time, _| time),
            // Millions of messages a second, of which one is under way.
            Better::Lower => (4, |rate, _| 1.0 / rate),
            // The same, where the column of MiB has a digit or two.
            Better::Higher if self.size <= 4096 => (4, |rate, size| rate * size),
            Better::Higher => (3, |mib, _| mib * 1.048_576),
        };
        let rows = parse::read(&text, Reading::Column(column), 0.0)?;
        ensure!(rows.iter().all(|row| row.0 == self.size), "it measured other sizes");
        Ok(rows.into_iter().map(|(size, value)| (size, number(value, size as f64))).collect())
    }
}

/// The figures that are compared with perftest alone: its best, and ours of the same boot.
fn add_perftest_ratios(runs: &mut Vec<Run>) {
    let mut added = Vec::new();
    for figure in VERBS.iter().filter(|figure| figure.args.is_empty()) {
        let mut best = BTreeMap::<u64, &Run>::new();
        for (run, _) in runs[runs.len() - PERFTESTS.len()..]
            .iter()
            .zip(&PERFTESTS)
            .filter(|(_, test)| test.figure == figure.name)
        {
            let Ok(rows) = &run.rows else { continue };
            let value = |run: &Run| run.rows.as_ref().map_or(0.0, |rows| rows[0].1);
            let other = best.entry(rows[0].0).or_insert(run);
            if value(run) > value(other) {
                *other = run;
            }
        }
        let ours = runs
            .iter()
            .find(|run| run.library == Kind::Verbena.name() && run.figure == figure.program);
        let Some(ours) = ours else { continue };
        let sizes: Vec<u64> = best.keys().copied().collect();
        let rows = ours
            .rows
            .clone()
            .map(|rows| rows.into_iter().filter(|row| sizes.contains(&row.0)).collect());
        added.push(Run { figure: figure.name.to_owned(), rows, ..ours.clone() });
        added.extend(
            best.into_values().map(|run| Run { figure: figure.name.to_owned(), ..run.clone() }),
        );
    }
    runs.extend(added);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(library: &str, figure: &str, rows: &[(u64, f64)]) -> Run {
        let (library, figure, command) = (library.to_owned(), figure.to_owned(), String::new());
        Run {
            round: 1,
            library,
            figure,
            command,
            seconds: 1.0,
            others: 0.0,
            crossing: None,
            rows: Ok(rows.to_vec()),
        }
    }

    #[test]
    fn the_best_turn_counts_and_a_failed_one_is_kept() {
        let turns = |turn: u32| match turn {
            0 => bail!("it has printed nothing"),
            _ => Ok(vec![(8, f64::from(turn)), (4096, 5.0 - f64::from(turn))]),
        };
        let (rows, failures) = best(Better::Lower, turns);
        assert_eq!((rows.unwrap(), failures.len()), (vec![(8, 1.0), (4096, 3.0)], 1));
        let (rows, failures) = best(Better::Higher, turns);
        assert_eq!((rows.unwrap(), failures.len()), (vec![(8, 2.0), (4096, 4.0)], 1));
        let (rows, failures) = best(Better::Lower, |_| bail!("never"));
        assert!(rows.is_err() && failures.len() == TURNS as usize - 1);
    }

    #[test]
    fn our_figures_are_compared_with_the_best_of_perftest() {
        let mut runs = vec![run("verbena", "latency", &[(8, 20.0), (4096, 90.0)])];
        runs.push(run("verbena", "bw", &[(8, 0.1), (65_536, 50.0), (1_048_576, 60.0)]));
        runs.extend(
            PERFTESTS
                .iter()
                .zip(1..)
                .map(|(test, at)| run(PERFTEST, test.program, &[(test.size, f64::from(at))])),
        );
        add_perftest_ratios(&mut runs);
        let of = |library: &str, figure: &str| -> Vec<(u64, f64)> {
            let named = runs.iter().filter(|run| run.library == library && run.figure == figure);
            named.flat_map(|run| run.rows.clone().unwrap()).collect()
        };
        assert_eq!(
            (of("verbena", "latency-polling"), of(PERFTEST, "latency-polling")),
            (vec![(8, 20.0), (4096, 90.0)], vec![(8, 1.0), (4096, 2.0)])
        );
        let ours = [(8, 0.1), (65_536, 50.0), (1_048_576, 60.0)];
        assert_eq!(of("verbena", "bw-device"), ours);
        let theirs = [(8, 3.0), (4096, 4.0), (65_536, 7.0), (1_048_576, 10.0)];
        assert_eq!(of(PERFTEST, "bw-device"), theirs);
    }
}
