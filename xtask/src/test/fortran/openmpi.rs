//! Programs as Debian builds them for Open MPI, on the libraries in `lib/openmpi`.
//!
//! `mpif.h`, the modules and the libraries to link with are those of Debian's packages, which are
//! unpacked and not installed. Open MPI 4 has MPI-3.1, and no version has sections of arrays in
//! nonblocking calls and large counts. Therefore lines between `! Not in Open MPI {` and `! }` are
//! left out, and programs that are about these are named as skipped: they do not compile.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::{EVERY, Fortran, LIMIT, RANKS, is_ok, sources, stem};
use crate::command::{capture, quietly};
use crate::project::Project;
use crate::steps::say;
use crate::test::{Options, Tally, report_failure};

/// Headers, modules and the links that compilers look for.
const PACKAGE: &str = "libopenmpi-dev";
/// How many programs Open MPI 4 has all for.
const FEWEST: usize = 12;
/// A program that compiles where the module does not declare what it calls.
const PARTITIONED: &str = "partitioned_f08";
/// What gfortran writes where a header or module has less than a program calls.
const LACKS: [&str; 5] = [
    "There is no specific subroutine for the generic",
    "has no IMPLICIT type",
    "is being used before it is defined",
    "must be explicit",
    "requires an explicit interface",
];

/// Debian's Open MPI.
struct OpenMpi {
    /// `mpif.h`.
    include: PathBuf,
    modules: PathBuf,
    libraries: PathBuf,
}

impl OpenMpi {
    /// Fetches and unpacks the packages, unless they are there.
    fn fetch(project: &Project) -> Result<OpenMpi> {
        let home = std::path::absolute(project.target.join(PACKAGE))?;
        let root = home.join("root");
        if !root.exists() {
            std::fs::create_dir_all(&home)?;
            let (archive, new) = (download(&home, PACKAGE)?, home.join("new"));
            let mut query = Command::new("dpkg-deb");
            let needed = quietly(query.arg("-f").arg(&archive).arg("Depends"), LIMIT)?.stdout;
            let runtime = needed.split([',', ' ']).find(|word| word.starts_with("libopenmpi"));
            let runtime = runtime.with_context(|| format!("{PACKAGE} needs no library"))?;
            for archive in [&archive, &download(&home, runtime)?] {
                quietly(Command::new("dpkg-deb").arg("-x").args([archive, &new]), LIMIT)?;
            }
            std::fs::rename(&new, &root)?;
        }
        let machine = |path: &PathBuf| path.join("openmpi/include/mpif.h").exists();
        let libraries = sources(&root.join("usr/lib"))?.into_iter().find(machine);
        let libraries = libraries.with_context(|| format!("{PACKAGE} has no mpif.h"))?;
        let modules = |path: &PathBuf| path.join("openmpi/mpi_f08.mod").exists();
        let modules = sources(&libraries.join("fortran"))?.into_iter().find(modules);
        Ok(OpenMpi {
            include: libraries.join("openmpi/include"),
            modules: modules.with_context(|| format!("{PACKAGE} has no modules"))?.join("openmpi"),
            libraries: libraries.join("openmpi/lib"),
        })
    }

    /// gfortran with what Open MPI's wrapper adds.
    fn gfortran(&self, at: &Fortran) -> Result<Command> {
        let modules = at.built.join("openmpi");
        std::fs::create_dir_all(&modules)?;
        let mut gfortran = Command::new("gfortran");
        // Calls of `mpif.h` pass buffers of many types.
        gfortran.args(["-O1", "-w", "-fallow-argument-mismatch", "-J"]).arg(modules);
        gfortran.arg("-I").arg(&self.include).arg("-I").arg(&self.modules);
        Ok(gfortran)
    }

    /// Compiles and links; or the reason why that cannot be. Programs that call more than the
    /// libraries of Open MPI have are linked with ours, which have the same names.
    fn compile(&self, at: &Fortran, source: &Path) -> Result<Result<PathBuf, String>> {
        let program = at.built.join(format!("{}-openmpi", stem(source)));
        let older = older(at, source)?;
        let link = |libraries: &Path| {
            let mut gfortran = self.gfortran(at)?;
            gfortran.arg(&older).arg("-o").arg(&program).arg("-L").arg(libraries);
            gfortran.args(["-lmpi_usempif08", "-lmpi_usempi_ignore_tkr", "-lmpi_mpifh", "-lmpi"]);
            // What Open MPI's libraries need is not there.
            capture(gfortran.arg("-Wl,--allow-shlib-undefined"), None, LIMIT)
        };
        let mut ran = link(&self.libraries)?;
        if ran.stderr.contains("undefined reference to `") {
            ran = link(&at.prefix.join("lib/openmpi"))?;
        }
        if ran.success() {
            return Ok(Ok(program));
        }
        let is_lack = |line: &&str| LACKS.iter().any(|lack| line.contains(lack));
        match ran.stderr.lines().find(is_lack) {
            Some(line) => Ok(Err(line.rsplit("Error: ").next().unwrap_or(line).to_owned())),
            None => bail!("{}", ran.output()),
        }
    }

    /// A program whose DT_RPATH leads to Open MPI: mpiexec says what to do, and that works.
    fn path_in_program(&self, at: &Fortran) -> Result<()> {
        let program = at.built.join("path-openmpi");
        let mut gfortran = self.gfortran(at)?;
        gfortran.arg(at.sources.join("openmpi/names_f08.f90")).arg("-o").arg(&program);
        gfortran.arg("-L").arg(&self.libraries).args(["-lmpi_usempif08", "-lmpi"]);
        gfortran.arg("-lmpi_usempi_ignore_tkr").arg("-Wl,--allow-shlib-undefined");
        let folder = self.libraries.join("../..").canonicalize()?;
        gfortran.arg(format!("-Wl,-rpath,{},--disable-new-dtags", folder.display()));
        quietly(&mut gfortran, LIMIT)?;
        let ours = std::path::absolute(&at.prefix)?.join("lib/openmpi");
        let files = ["libmpi.so.40", "libmpi_mpifh.so.40"].map(|file| ours.join(file));
        let remedy = format!("LD_PRELOAD={}:{}", files[0].display(), files[1].display());
        let run = |options: &[&str]| {
            let mut mpiexec = Command::new(at.prefix.join("bin/mpiexec"));
            capture(mpiexec.args(["-n", "2"]).args(options).arg(&program), None, LIMIT)
        };
        let alone = run(&[])?;
        ensure!(alone.code() != 0 && alone.stderr.contains(&remedy), "{}", alone.output());
        let ran = run(&["-x", &remedy])?;
        ensure!(ran.success() && is_ok(&ran.stdout), "{}", ran.output());
        Ok(())
    }

    /// mpif.h has the integers of the table.
    fn constants(&self, project: &Project, at: &Fortran) -> Result<()> {
        let program = project.root.join("foreign-abi/abi/openmpi/constants.f90");
        quietly(self.gfortran(at)?.arg("-fsyntax-only").arg(program), LIMIT).map(drop)
    }
}

/// The source without what Open MPI does not have.
fn older(at: &Fortran, source: &Path) -> Result<PathBuf> {
    let mut is_left_out = false;
    let is_of_all = |line: &&str| {
        is_left_out |= line.trim() == "! Not in Open MPI {";
        let is_of_all = !is_left_out;
        is_left_out &= line.trim() != "! }";
        is_of_all
    };
    let text = std::fs::read_to_string(source)?;
    let lines: Vec<&str> = text.lines().filter(is_of_all).collect();
    let older = at.built.join("openmpi").join(source.file_name().context("a source has a name")?);
    std::fs::write(&older, lines.join("\n") + "\n")?;
    Ok(older)
}

/// Downloads a package into a folder.
fn download(home: &Path, package: &str) -> Result<PathBuf> {
    quietly(Command::new("apt-get").args(["download", package]).current_dir(home), LIMIT)?;
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{package}_"))
    };
    sources(home)?.into_iter().find(is_it).with_context(|| format!("no archive of {package}"))
}

/// Runs all, or says why it cannot.
pub(super) fn test(at: &Fortran, project: &Project, options: &Options) -> Result<Tally> {
    let mut tally = Tally::default();
    let openmpi = match OpenMpi::fetch(project) {
        Ok(openmpi) => openmpi,
        Err(error) => {
            say!("  skipped: Debian's {PACKAGE}, which cannot be fetched: {error:#}");
            return Ok(Tally { skipped: 1, ..tally });
        }
    };
    let is_wanted = |name: &str| options.filter.as_deref().is_none_or(|it| name.contains(it));
    let mut count = |name: &str, result: Result<()>| match result {
        Ok(()) => tally.passed += 1,
        Err(error) => {
            report_failure(name, &format!("{error:#}"), "");
            tally.failed += 1;
        }
    };
    let checks: [(&str, &dyn Fn() -> Result<()>); 2] = [
        ("integers of handles (Open MPI)", &|| openmpi.constants(project, at)),
        ("a path in the program (Open MPI)", &|| openmpi.path_in_program(at)),
    ];
    for (name, check) in checks.into_iter().filter(|(name, _)| is_wanted(name)) {
        count(name, check());
    }
    let (mut compiled, mut left_out) = (0, Vec::new());
    let all = programs(at)?;
    for source in &all {
        let name = format!("{} (Open MPI)", stem(source));
        if !is_wanted(&name) {
            continue;
        }
        match openmpi.compile(at, source) {
            Ok(Ok(program)) => {
                compiled += 1;
                count(&name, runs(at, &program));
            }
            Ok(Err(reason)) => left_out.push(format!("{name}: {reason}")),
            Err(error) => count(&name, Err(error)),
        }
    }
    let are_enough = || -> Result<()> {
        let is_all = options.filter.is_none();
        ensure!(!is_all || compiled >= FEWEST, "{compiled} of {} programs compile", all.len());
        Ok(())
    };
    count("programs of all interfaces (Open MPI)", are_enough());
    for reason in &left_out {
        say!("  skipped: {reason}");
    }
    Ok(Tally { skipped: left_out.len() as u64, ..tally })
}

/// Programs that do not depend on another ABI.
fn programs(at: &Fortran) -> Result<Vec<PathBuf>> {
    let mut programs = EVERY.map(|name| at.sources.join(format!("{name}.f90"))).to_vec();
    let is_whole = |path: &PathBuf| stem(path) != PARTITIONED;
    programs.extend(sources(&at.sources.join("run"))?.into_iter().filter(is_whole));
    let typical = |path: &PathBuf| stem(path).starts_with("typical");
    programs.extend(sources(&at.sources.join("mpich"))?.into_iter().filter(typical));
    programs.extend(sources(&at.sources.join("openmpi"))?);
    Ok(programs)
}

/// Runs on each number of ranks, and finds `ok`.
fn runs(at: &Fortran, program: &Path) -> Result<()> {
    for ranks in RANKS {
        let mut mpiexec = Command::new(at.prefix.join("bin/mpiexec"));
        mpiexec.args(["-n", &ranks.to_string()]).arg(program).current_dir(&at.built);
        let ran = quietly(&mut mpiexec, LIMIT)?;
        ensure!(is_ok(&ran.stdout), "{ranks} ranks printed:\n{}", ran.output());
        ensure!(!ran.stderr.contains("different size"), "{}", ran.stderr);
    }
    Ok(())
}
