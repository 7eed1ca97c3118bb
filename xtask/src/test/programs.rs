//! The C programs: compiled once by an `mpicc`, run by the table, checked for exit code, output,
//! time, and processes and files that are left. Marked rows run once more under each memory tool
//! (see [`Tool`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::foreign_abi::{self, ForeignAbi};
use super::table::{self, Case, Exit};
use super::{Options, Tally, report_failure};
use crate::command::{Mark, Ran, capture, line, quietly};
use crate::project::Project;
use crate::steps::say;

/// Compiled programs and the MPI they run on.
struct Bench<'a> {
    sources: PathBuf,
    built: PathBuf,
    mpicc: PathBuf,
    mpiexec: PathBuf,
    /// What the compiler warns of.
    warnings: &'static [&'static str],
    tool: Option<Tool>,
    options: &'a Options,
}

/// The checker of a program's memory. An error that it finds is an exit code of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// valgrind's memcheck. Only blocks that nothing points to are leaks: what a
    /// process keeps to its end (schedules, tables) is held by pointers into
    /// blocks, which memcheck calls "possibly lost". Therefore nothing is suppressed.
    Valgrind,
    /// The program is compiled with AddressSanitizer. Of the library, which is
    /// not, it sees what is allocated, freed and lost, but no read or write.
    AddressSanitizer,
}

impl Tool {
    /// In front of the program.
    fn words(self) -> &'static [&'static str] {
        match self {
            Tool::Valgrind => &[
                "valgrind",
                "--quiet",
                "--error-exitcode=77",
                "--leak-check=full",
                "--show-leak-kinds=definite",
                "--errors-for-leak-kinds=definite",
            ],
            Tool::AddressSanitizer => &[],
        }
    }

    /// For the compiler.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Tool::Valgrind => &[],
            Tool::AddressSanitizer => &["-fsanitize=address", "-fno-omit-frame-pointer"],
        }
    }

    /// For the environment of the job.
    fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Tool::Valgrind => &[],
            // Programs ask for memory that no machine has, and expect MPI_ERR_NO_MEM.
            Tool::AddressSanitizer => &[("ASAN_OPTIONS", "allocator_may_return_null=1")],
        }
    }

    /// The folder of what is compiled for it.
    fn folder(self) -> &'static str {
        match self {
            Tool::Valgrind => "programs",
            Tool::AddressSanitizer => "programs-asan",
        }
    }
}

/// Runs the table.
pub(super) fn test(project: &Project, options: &Options) -> Result<Tally> {
    run(project, options, None)
}

/// Runs the rows of the table that are marked for it under `tool`; with
/// `--thorough`, all that it can run.
pub(super) fn watched(project: &Project, options: &Options, tool: Tool) -> Result<Tally> {
    run(project, options, Some(tool))
}

/// Runs the rows of the table for any MPI, compiled with another MPI's `mpicc`, under our mpiexec.
pub(super) fn on_foreign_abi(
    project: &Project,
    options: &Options,
    abi: &ForeignAbi,
    mpicc: &Path,
) -> Result<Tally> {
    let mut bench = Bench::new(project, options, None)?;
    bench.built = project.target.join(format!("programs-{}", abi.name));
    std::fs::create_dir_all(&bench.built)?;
    bench.mpicc = mpicc.to_owned();
    bench.warnings = abi.warnings;
    let mut tally = Tally::default();
    for mut case in table::read(&bench.sources.join("table.toml"))? {
        case.ranks.retain(|ranks| foreign_abi::RANKS.contains(ranks));
        let is_meant = !case.ours && case.waiting.is_none() && !case.ranks.is_empty();
        if !is_meant || options.filter.as_ref().is_some_and(|filter| !case.name.contains(filter)) {
            continue;
        }
        if let Some(reason) = abi.reason(&case.name).or_else(|| bench.undeclared(&case)) {
            say!("   skipped: {}: {reason}", case.name);
            tally.skipped += 1;
        } else if is_allowed(&case.needs) {
            tally += bench.row(&case);
        }
    }
    Ok(tally)
}

/// A row of the table, and the words of its program.
pub(super) type Row = (Case, Vec<String>);

/// The rows for jobs over two hosts, which may share their files; everything is compiled.
pub(super) fn for_hosts(
    project: &Project,
    options: &Options,
    shares_files: bool,
) -> Result<Vec<Row>> {
    let bench = Bench::new(project, options, None)?;
    let rows = table::read(&bench.sources.join("table.toml"))?.into_iter();
    let rows = rows.filter(|case| case.is_for_hosts(shares_files));
    let words = |case: Case| {
        let mut words = case.options.clone();
        words.push(bench.compile(&case)?.display().to_string());
        words.extend(case.args.iter().cloned());
        Ok((case, words))
    };
    rows.map(words).collect()
}

/// One program.
pub(super) fn compiled(project: &Project, options: &Options, program: &str) -> Result<PathBuf> {
    Bench::new(project, options, None)?.build(program, None, &[])
}

fn run(project: &Project, options: &Options, tool: Option<Tool>) -> Result<Tally> {
    let peer = options.mpicc.is_some();
    let bench = Bench::new(project, options, tool)?;
    let mut cases = table::read(&bench.sources.join("table.toml"))?;
    check_that_all_are_run(&bench.sources, &cases)?;
    if tool.is_some() {
        cases = cases.into_iter().filter_map(|case| case.watched(options.thorough)).collect();
    }
    let mut tally = Tally::default();
    for case in &cases {
        if options.filter.as_ref().is_some_and(|filter| !case.name.contains(filter.as_str())) {
            continue;
        }
        let reason = match &case.waiting {
            Some(reason) => Some(reason.as_str()),
            None if case.ours && peer => Some("it speaks of our own mpiexec or texts"),
            None if case.slow && options.quick => Some("it is slow"),
            None if !is_allowed(&case.needs) => Some("this machine does not allow what it needs"),
            None => None,
        };
        if let Some(reason) = reason {
            say!("   skipped: {}: {reason}", case.name);
            tally.skipped += 1;
            continue;
        }
        tally += bench.row(case);
    }
    Ok(tally)
}

/// Returns whether the deciding command succeeds. None: yes.
fn is_allowed(needs: &[String]) -> bool {
    let Some((program, arguments)) = needs.split_first() else { return true };
    capture(Command::new(program).args(arguments), None, Duration::from_secs(10))
        .is_ok_and(|ran| ran.success())
}

/// Fails if a source has no row: it would be a test that never runs.
fn check_that_all_are_run(sources: &Path, cases: &[Case]) -> Result<()> {
    for entry in std::fs::read_dir(sources)? {
        let path = entry?.path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let named = |case: &Case| {
            let extra =
                [&case.with, &case.preload].into_iter().flatten().any(|extra| extra == stem);
            case.program == stem
                || extra
                || case.line.iter().any(|word| word.contains(&format!("{{{stem}}}")))
        };
        let source =
            path.extension().is_some_and(|extension| extension == "c") && stem != "tsan_names";
        ensure!(!source || cases.iter().any(named), "{} has no row in table.toml", path.display());
    }
    Ok(())
}

impl<'a> Bench<'a> {
    fn new(project: &Project, options: &'a Options, tool: Option<Tool>) -> Result<Bench<'a>> {
        let prefix = project.prefix();
        let peer = options.mpicc.is_some();
        let built = project.target.join(match tool {
            Some(tool) => tool.folder(),
            None if peer => "programs-peer",
            None => "programs",
        });
        std::fs::create_dir_all(&built)?;
        Ok(Bench {
            sources: project.root.join("tests/programs"),
            built,
            mpicc: std::path::absolute(
                options.mpicc.clone().unwrap_or_else(|| prefix.join("bin/mpicc")),
            )?,
            mpiexec: std::path::absolute(
                options.mpiexec.clone().unwrap_or_else(|| prefix.join("bin/mpiexec")),
            )?,
            warnings: &["-Wall", "-Wextra", "-Werror"],
            tool,
            options,
        })
    }

    /// All runs of one row.
    fn row(&self, case: &Case) -> Tally {
        let runs = if case.ranks.is_empty() {
            vec![None]
        } else {
            case.ranks.iter().copied().map(Some).collect()
        };
        let mut tally = Tally::default();
        for ranks in runs {
            for _ in 0..self.options.repeat {
                let name = ranks
                    .map_or_else(|| case.name.clone(), |ranks| format!("{} on {ranks}", case.name));
                match self.once(case, ranks) {
                    Ok(()) => tally.passed += 1,
                    Err(error) => {
                        report_failure(&name, &format!("{error:#}"), "");
                        tally.failed += 1;
                    }
                }
            }
        }
        tally
    }

    /// One run. The error has everything that it printed.
    fn once(&self, case: &Case, ranks: Option<u32>) -> Result<()> {
        let mut command = self.command(case, ranks)?;
        let mark = Mark::new();
        mark.put_on(&mut command);
        let ran = capture(&mut command, case.stdin.as_deref(), Duration::from_secs(case.timeout))?;
        let mut wrong = verdict(case, &ran);
        // Other mpiexecs come back before their ranks have gone.
        let survivors = mark.end_survivors();
        if self.options.mpicc.is_none() {
            wrong.extend(survivors.iter().map(|survivor| format!("left {survivor} running")));
        }
        let reasons = wrong.join("; ");
        ensure!(
            wrong.is_empty(),
            "{reasons}\n    $ {}\n{}",
            line(&command),
            ran.output().trim_end()
        );
        Ok(())
    }

    fn command(&self, case: &Case, ranks: Option<u32>) -> Result<Command> {
        let mut words = Vec::new();
        if !case.alone {
            words.push(self.mpiexec.display().to_string());
        }
        if let Some(ranks) = ranks {
            words.extend(["-n".to_owned(), ranks.to_string()]);
        }
        words.extend(case.options.iter().cloned());
        if case.line.is_empty() {
            words.extend(
                self.tool.iter().flat_map(|tool| tool.words()).map(|&word| word.to_owned()),
            );
            words.push(self.compile(case)?.display().to_string());
            words.extend(case.args.iter().cloned());
        } else {
            words.extend(case.line.iter().cloned());
        }
        let words = words.iter().map(|word| self.expand(word)).collect::<Result<Vec<String>>>()?;
        let (program, rest) = words.split_first().context("an empty line")?;
        let mut command = Command::new(program);
        command.args(rest).current_dir(self.scratch(case)?);
        command.envs(self.tool.iter().flat_map(|tool| tool.environment()).copied());
        for (name, value) in &case.env {
            command.env(name, self.expand(value)?);
        }
        if let Some(tool) = &case.preload {
            command.env("LD_PRELOAD", self.shared(tool)?);
        }
        Ok(command)
    }

    /// `{ring}` is the program built from ring.c; `{mpiexec}` and `{sources}` are the launcher and
    /// the folder.
    fn expand(&self, word: &str) -> Result<String> {
        let Some((before, rest)) = word.split_once('{') else { return Ok(word.to_owned()) };
        let (name, after) =
            rest.split_once('}').with_context(|| format!("{word}: no closing brace"))?;
        let value = match name {
            "mpiexec" => self.mpiexec.clone(),
            "sources" => self.sources.clone(),
            program => self.build(program, None, &[])?,
        };
        Ok(format!("{before}{}{}", value.display(), self.expand(after)?))
    }

    /// An empty folder to run in.
    fn scratch(&self, case: &Case) -> Result<PathBuf> {
        let folder = self.built.join("scratch").join(case.name.replace(['/', ' '], "-"));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn compile(&self, case: &Case) -> Result<PathBuf> {
        self.build(&case.program, case.with.as_deref(), &case.flags)
    }

    /// Why a program does not compile, if the header is too old for it.
    fn undeclared(&self, case: &Case) -> Option<String> {
        if case.program.is_empty() {
            return None;
        }
        let text = format!("{:#}", self.compile(case).err()?);
        let lacks = text.lines().find(|line| {
            line.contains("implicit declaration of") || line.contains(" undeclared")
        })?;
        let name = lacks.split(['‘', '’', '\'']).find(|word| word.starts_with("MPI_"))?;
        Some(format!("mpi.h has no {name}"))
    }

    /// Compiles unless the program is newer than everything that it is made of.
    fn build(&self, program: &str, with: Option<&str>, flags: &[String]) -> Result<PathBuf> {
        let built = self
            .built
            .join(with.map_or_else(|| program.to_owned(), |with| format!("{program}+{with}")));
        let source = self.source(program);
        let mut inputs =
            vec![source.clone(), self.source("check").with_extension("h"), self.mpicc.clone()];
        inputs.extend(with.map(|with| self.source(with)));
        if is_newer(&built, &inputs) {
            return Ok(built);
        }
        let mut mpicc = self.warning_mpicc();
        mpicc.args(self.tool.map_or(&[][..], Tool::flags)).arg("-o").arg(&built).arg(&source);
        mpicc.args(with.map(|with| self.source(with))).args(flags).arg("-lm");
        quietly(&mut mpicc, Duration::from_secs(120))?;
        Ok(built)
    }

    fn shared(&self, tool: &str) -> Result<PathBuf> {
        let built = self.built.join(format!("{tool}.so"));
        let mut mpicc = self.warning_mpicc();
        mpicc.args(["-shared", "-fPIC", "-o"]).arg(&built).arg(self.source(tool));
        quietly(&mut mpicc, Duration::from_secs(120))?;
        Ok(built)
    }

    fn warning_mpicc(&self) -> Command {
        let mut mpicc = Command::new(&self.mpicc);
        mpicc.args(["-std=gnu11", "-O1", "-g"]).args(self.warnings);
        mpicc
    }

    fn source(&self, program: &str) -> PathBuf {
        self.sources.join(format!("{program}.c"))
    }
}

fn is_newer(built: &Path, inputs: &[PathBuf]) -> bool {
    let age = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    let Ok(made) = age(built) else { return false };
    inputs.iter().all(|input| age(input).is_ok_and(|changed| changed < made))
}

/// All deviations from the table.
pub(super) fn verdict(case: &Case, ran: &Ran) -> Vec<String> {
    let mut wrong = Vec::new();
    let as_expected = match case.exit {
        Exit::Code(code) => ran.code() == code,
        Exit::Failure(_) => ran.code() != 0,
    };
    if !as_expected || ran.timed_out {
        wrong.push(format!("{} instead of {:?}", ran.ending(), case.exit));
    }
    if let Some(limit) = case.within.filter(|limit| ran.elapsed.as_secs_f64() > *limit) {
        wrong.push(format!("took {:.2} s, allowed are {limit} s", ran.elapsed.as_secs_f64()));
    }
    wrong.extend(mismatches(case, &ran.stdout, &ran.stderr));
    wrong
}

/// Patterns of a row that find nothing, or find something where nothing must be.
pub(super) fn mismatches(case: &Case, stdout: &str, stderr: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, text, patterns) in
        [("stdout", stdout, &case.stdout), ("stderr", stderr, &case.stderr)]
    {
        for pattern in patterns.iter().filter(|pattern| !pattern.0.is_match(text)) {
            wrong.push(format!("{name} has no match for /{}/", pattern.0));
        }
        for pattern in case.absent.iter().filter(|pattern| pattern.0.is_match(text)) {
            wrong.push(format!("{name} has a match for /{}/, which must not be", pattern.0));
        }
    }
    wrong
}
