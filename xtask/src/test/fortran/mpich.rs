//! Programs as MPICH's and Intel MPI's `mpifort` build them, on the libraries in `lib/mpich`.
//!
//! `mpif.h` and the modules of `use mpi` are those of Intel MPI's wheel, which has them for
//! gfortran. Of MPICH's `mpi_f08` a program of ours declares a part.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Check, Fortran, LIMIT, RANKS, is_ok, sources, stem};
use crate::command::quietly;
use crate::project::Project;

/// Intel MPI's headers and modules, as the index of Python's packages has them.
const RELEASE: &str = "impi-devel==2021.19.0";

/// Headers and modules of Intel MPI.
pub(super) struct Intel {
    include: PathBuf,
}

impl Intel {
    /// Fetches the wheel, unless it is there.
    pub(super) fn fetch(project: &Project) -> Result<Intel> {
        let home = project.target.join("impi-devel");
        let include = home.join("include");
        if !include.join("mpif.h").exists() {
            quietly(Command::new("python3").args(["-m", "venv"]).arg(&home), LIMIT)?;
            let mut pip = Command::new(home.join("bin/python"));
            pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--no-deps", RELEASE]);
            quietly(&mut pip, LIMIT)?;
        }
        Ok(Intel { include })
    }

    /// The modules for this version of gfortran, or for the last one before it.
    fn modules(&self) -> Result<PathBuf> {
        let version = quietly(Command::new("gfortran").arg("-dumpversion"), LIMIT)?.stdout;
        let major =
            |text: &str| text.trim().split('.').next().and_then(|it| it.parse::<u32>().ok());
        let wanted = major(&version).context("gfortran has a version")?;
        let folder = self.include.join("mpi/gfortran");
        let versions = sources(&folder)?.into_iter().filter_map(|path| {
            let version = path.file_name().and_then(|name| major(name.to_str()?))?;
            (version <= wanted).then_some((version, path))
        });
        let last = versions.max_by_key(|(version, _)| *version);
        Ok(last.context("Intel MPI has no modules for so old a gfortran")?.1)
    }
}

/// All programs; without `intel` those that need nothing of it.
pub(super) fn checks<'a>(at: &'a Fortran, intel: Option<&'a Intel>) -> Result<Vec<Check<'a>>> {
    let mut checks: Vec<Check<'a>> = Vec::new();
    for source in sources(&at.sources.join("mpich"))? {
        let name = stem(&source);
        let is_own = name.ends_with("_f08");
        if is_own || intel.is_some() {
            let headers = intel.filter(|_| !is_own);
            let check = move || runs(at, &source, headers);
            checks.push((format!("{name} (MPICH ABI)"), Box::new(check)));
        }
    }
    Ok(checks)
}

/// Compiles, links by the names of MPICH's libraries, runs, and finds `ok`.
fn runs(at: &Fortran, source: &Path, intel: Option<&Intel>) -> Result<()> {
    let libraries = at.prefix.join("lib/mpich");
    let program = at.built.join(format!("{}-mpich", stem(source)));
    let mut gfortran = Command::new("gfortran");
    // Types of integers are no types of C, and calls of `mpif.h` pass buffers of many types.
    gfortran.args(["-O1", "-w", "-fallow-argument-mismatch", "-J"]).arg(&at.built);
    if let Some(intel) = intel {
        gfortran.arg("-I").arg(&intel.include).arg("-I").arg(intel.modules()?);
    }
    gfortran.arg(source).arg("-o").arg(&program).arg("-L").arg(&libraries);
    quietly(gfortran.args(["-lmpifort", "-lmpi"]), LIMIT)?;
    for ranks in RANKS {
        let mut mpiexec = Command::new(at.prefix.join("bin/mpiexec"));
        mpiexec.args(["-n", &ranks.to_string()]).arg(&program).current_dir(&at.built);
        let ran = quietly(&mut mpiexec, LIMIT)?;
        ensure!(is_ok(&ran.stdout), "{ranks} ranks printed:\n{}", ran.output());
        ensure!(!ran.stderr.contains("different size"), "{}", ran.stderr);
    }
    Ok(())
}
