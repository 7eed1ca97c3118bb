//! The Fortran interfaces: programs that call every procedure, compiled and linked; programs that
//! run on several ranks; and wrong arguments, which must not compile. gfortran is always used.
//! LLVM's flang compiles all of them too if it is there, and runs most. If other MPIs with the
//! standard ABI are there, the same binaries run on them. Programs that are built as MPICH, Intel
//! MPI and Open MPI build theirs run on the libraries with these ABIs.

mod modules;
mod mpich;
mod openmpi;
mod peer;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use self::peer::Peer;
use super::{Options, Tally, report_failure};
use crate::command::{self, capture, quietly};
use crate::install::FLANG;
use crate::project::Project;
use crate::steps::say;

const LIMIT: Duration = Duration::from_secs(300);

/// Programs that call everything and are not run with arguments.
const EVERY: [&str; 3] = ["every_mpif", "every_mpi", "every_f08"];

/// Programs of which flang checks the calls alone: it compiles the long ones slowly, and flang 19
/// makes no code for a procedure whose argument has an assumed rank, and on some machines none for
/// a real of 16 bytes.
const CHECKED_BY_FLANG: [&str; 5] =
    ["every_mpif", "every_mpi", "every_f08", "section_shapes_f08", "real16_f08"];

/// Programs that do not run over hosts: files, which the hosts do not share, and much memory.
const ONE_HOST: [&str; 3] = ["files_f08", "large_counts_f08", "section_shapes_f08"];

/// Numbers of ranks.
const RANKS: [u32; 5] = [1, 2, 3, 4, 7];

/// Runs the tests whose names contain the filter.
pub(super) fn test(project: &Project, options: &Options) -> Result<Tally> {
    let filter = options.filter.as_deref();
    let at = Fortran::new(project)?;
    let peers = Peer::find(options);
    let intel = mpich::Intel::fetch(project);
    let mut tally = Tally::default();
    let mut checks = at.checks("gfortran")?;
    checks.push(("symbols".to_owned(), Box::new(|| at.needs_common_functions())));
    checks.push(("two first compilations".to_owned(), Box::new(|| modules::are_built_once(&at))));
    checks.push(("modules without a home".to_owned(), Box::new(|| modules::need_no_home(&at))));
    match FLANG.into_iter().find(|name| command::exists(name, "--version")) {
        Some(flang) => checks.extend(at.checks(flang)?),
        None => {
            say!("  skipped: flang, which is not installed");
            tally.skipped += 1;
        }
    }
    if peers.is_empty() {
        say!("  skipped: the same binaries on another MPI: no mpicc_abi or impi_info in PATH");
        tally.skipped += 1;
    }
    for peer in &peers {
        checks.extend(peer.checks(&at)?);
        for program in peer.exceptions {
            say!("  skipped: {program} ({}), which cannot run it", peer.name);
            tally.skipped += 1;
        }
    }
    if let Err(error) = &intel {
        say!("  skipped: Intel MPI's mpif.h and modules, which cannot be fetched: {error:#}");
        tally.skipped += 1;
    }
    checks.extend(mpich::checks(&at, intel.as_ref().ok())?);
    for (name, check) in checks {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        match check() {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                report_failure(&name, &format!("{error:#}"), "");
                tally.failed += 1;
            }
        }
    }
    tally += openmpi::test(&at, project, options)?;
    Ok(tally)
}

/// Compiles the programs that may run over several hosts.
pub(super) fn for_hosts(project: &Project) -> Result<Vec<PathBuf>> {
    let at = Fortran::new(project)?;
    let programs = sources(&at.sources.join("run"))?;
    let chosen = programs.iter().filter(|source| !ONE_HOST.contains(&stem(source).as_str()));
    chosen.map(|source| at.compiled("gfortran", source)).collect()
}

/// Returns whether a program found all as it should be.
pub(super) fn is_ok(output: &str) -> bool {
    output.lines().any(|line| line.trim() == "ok") && !output.contains("WRONG")
}

struct Fortran {
    prefix: PathBuf,
    sources: PathBuf,
    built: PathBuf,
    page: PathBuf,
}

/// A name and what it does.
type Check<'a> = (String, Box<dyn Fn() -> Result<()> + 'a>);

impl Fortran {
    fn new(project: &Project) -> Result<Fortran> {
        let at = Fortran {
            prefix: project.prefix(),
            sources: project.root.join("tests/fortran"),
            built: project.target.join("fortran"),
            page: project.root.join("docs/fortran.md"),
        };
        std::fs::create_dir_all(&at.built)?;
        Ok(at)
    }

    fn checks<'a>(&'a self, compiler: &'a str) -> Result<Vec<Check<'a>>> {
        let is_gnu = compiler == "gfortran";
        let mut checks: Vec<Check<'a>> = Vec::new();
        for (source, ranks) in self.programs()? {
            let name = stem(&source);
            let runs = is_gnu || !CHECKED_BY_FLANG.contains(&name.as_str());
            let check = move || match runs {
                true => self.runs(compiler, &source, ranks),
                false => self.is_accepted(compiler, &source),
            };
            checks.push((format!("{name} ({compiler})"), Box::new(check)));
        }
        for source in sources(&self.sources.join("wrong"))? {
            let name = format!("{} ({compiler})", stem(&source));
            checks.push((name, Box::new(move || self.is_refused(compiler, &source))));
        }
        checks.push((
            format!("INTEGERs of 8 bytes ({compiler})"),
            Box::new(move || self.refuses_wide_integers(compiler)),
        ));
        if self.page.exists() && is_gnu {
            checks.push(("docs/fortran.md".to_owned(), Box::new(|| self.page_compiles())));
        }
        Ok(checks)
    }

    /// All programs, and the numbers of ranks on which they run.
    fn programs(&self) -> Result<Vec<(PathBuf, &'static [u32])>> {
        let every = EVERY.map(|name| (self.sources.join(format!("{name}.f90")), &RANKS[..1]));
        let others = sources(&self.sources.join("run"))?;
        Ok(every.into_iter().chain(others.into_iter().map(|it| (it, &RANKS[..]))).collect())
    }

    /// mpifort with a compiler, which puts the program's modules into a folder of its own.
    fn mpifort(&self, compiler: &str) -> Result<Command> {
        let modules = self.built.join(compiler);
        std::fs::create_dir_all(&modules)?;
        let mut mpifort = Command::new(self.prefix.join("bin/mpifort"));
        mpifort.arg(format!("-fc={compiler}"));
        // flang warns of -Wall, which it does not know.
        mpifort.args(if compiler == "gfortran" { ["-Wall", "-O1"].as_slice() } else { &["-O1"] });
        mpifort.arg("-J").arg(modules);
        Ok(mpifort)
    }

    /// The library loads on other implementations of the ABI, which lack some functions.
    fn needs_common_functions(&self) -> Result<()> {
        let library = self.prefix.join("lib/libverbena_fortran.so");
        let mut nm = Command::new("nm");
        let needed = quietly(nm.args(["-D", "--undefined-only"]).arg(library), LIMIT)?.stdout;
        ensure!(needed.contains("MPI_Send"), "nm shows no function of MPI:\n{needed}");
        for missing in ["MPI_Psend_init_c", "MPI_Precv_init_c"] {
            ensure!(!needed.contains(missing), "the library needs {missing}");
        }
        Ok(())
    }

    /// Compiles without code and without a warning.
    fn is_accepted(&self, compiler: &str, source: &Path) -> Result<()> {
        let mut mpifort = self.mpifort(compiler)?;
        let ran = quietly(mpifort.arg("-fsyntax-only").arg(source), LIMIT)?;
        ensure!(!warned(&ran.stderr) || is_old(source), "the compiler warned:\n{}", ran.stderr);
        Ok(())
    }

    /// Compiles and links without a warning.
    fn compiled(&self, compiler: &str, source: &Path) -> Result<PathBuf> {
        let program = self.built.join(format!("{}-{compiler}", stem(source)));
        let ran = quietly(self.mpifort(compiler)?.arg(source).arg("-o").arg(&program), LIMIT)?;
        ensure!(!warned(&ran.stderr) || is_old(source), "the compiler warned:\n{}", ran.stderr);
        Ok(program)
    }

    /// Compiles without a warning, runs, and finds `ok`.
    fn runs(&self, compiler: &str, source: &Path, ranks: &[u32]) -> Result<()> {
        let program = self.compiled(compiler, source)?;
        for &ranks in ranks {
            let output = self.output(&program, ranks)?;
            ensure!(is_ok(&output), "{ranks} ranks printed:\n{output}");
        }
        Ok(())
    }

    /// What a program prints on so many ranks.
    fn output(&self, program: &Path, ranks: u32) -> Result<String> {
        let mut mpiexec = Command::new(self.prefix.join("bin/mpiexec"));
        mpiexec.args(["-n", &ranks.to_string()]).arg(program).current_dir(&self.built);
        Ok(quietly(&mut mpiexec, LIMIT)?.stdout)
    }

    /// Each `!WRONG` line is an error when it is the only one of them in the program, which
    /// compiles without all of them.
    fn is_refused(&self, compiler: &str, source: &Path) -> Result<()> {
        let text = std::fs::read_to_string(source)?;
        let wrong: Vec<usize> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains("!WRONG"))
            .map(|(at, _)| at)
            .collect();
        ensure!(!wrong.is_empty(), "no line is marked");
        for chosen in std::iter::once(None).chain(wrong.iter().map(Some)) {
            let lines = text.lines().enumerate();
            let kept: Vec<&str> = lines
                .filter(|(at, _)| !wrong.contains(at) || chosen == Some(at))
                .map(|(_, line)| line)
                .collect();
            let file = self.built.join(format!("{}.f90", stem(source)));
            std::fs::write(&file, kept.join("\n") + "\n")?;
            let mut mpifort = self.mpifort(compiler)?;
            mpifort.arg("-fsyntax-only").arg(&file);
            let ran = capture(&mut mpifort, None, LIMIT)?;
            match chosen {
                None => ensure!(ran.success(), "without wrong lines:\n{}", ran.output()),
                Some(at) => ensure!(!ran.success(), "line {} compiles", at + 1),
            }
        }
        Ok(())
    }

    /// With default INTEGERs of 8 bytes no interface compiles, and `mpifort` states the reason.
    fn refuses_wide_integers(&self, compiler: &str) -> Result<()> {
        for (uses, includes, error) in [
            ("use mpi_f08\n", "", ""),
            ("use mpi\n", "", ", rank"),
            ("", "include 'mpif.h'\n", ", rank"),
        ] {
            let file = self.built.join("wide.f90");
            let call = format!("call MPI_Comm_rank(MPI_COMM_WORLD, rank{error})");
            let text = format!("{uses}implicit none\n{includes}integer :: rank\n{call}\nend\n");
            std::fs::write(&file, text)?;
            let mut mpifort = self.mpifort(compiler)?;
            mpifort.args(["-fsyntax-only", "-fdefault-integer-8"]).arg(&file);
            let ran = capture(&mut mpifort, None, LIMIT)?;
            let is_refused = !ran.success() && ran.stderr.contains("take INTEGERs of 4 bytes");
            ensure!(is_refused, "{uses}{includes}{}", ran.output());
        }
        Ok(())
    }

    /// The programs of the users' page.
    fn page_compiles(&self) -> Result<()> {
        let text = std::fs::read_to_string(&self.page)?;
        let programs: Vec<&str> = text
            .split("```fortran\n")
            .skip(1)
            .filter_map(|block| block.split("```").next())
            .filter(|block| block.contains("end program"))
            .collect();
        ensure!(!programs.is_empty(), "the page has no programs");
        for (number, program) in programs.iter().enumerate() {
            let file = self.built.join(format!("page_{number}.f90"));
            std::fs::write(&file, program)?;
            let output = self.built.join(format!("page_{number}"));
            quietly(self.mpifort("gfortran")?.arg(&file).arg("-o").arg(&output), LIMIT)?;
            let mut mpiexec = Command::new(self.prefix.join("bin/mpiexec"));
            quietly(mpiexec.args(["-n", "4"]).arg(&output), LIMIT)
                .with_context(|| format!("program {number} of the page"))?;
        }
        Ok(())
    }
}

fn warned(stderr: &str) -> bool {
    stderr.to_lowercase().contains("warning")
}

/// Calls through `mpif.h` pass buffers of many types, of which gfortran warns.
fn is_old(source: &Path) -> bool {
    source.extension().is_some_and(|extension| extension == "f")
}

/// The sources of a folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    found.sort();
    Ok(found)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
