//! The same binaries on another MPI with the standard ABI, where they must print what they print on
//! Verbena. The peer is the one of the options, or else that whose `mpicc_abi` is in PATH, which is
//! what MPICH 5 calls its compiler for that ABI.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Check, Fortran, LIMIT, stem};
use crate::command::{capture, quietly};
use crate::compare::MPICH_THROTTLE;
use crate::test::Options;

/// Prints the library that a program runs on.
const VERSION: &str = "use mpi_f08
implicit none
character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
integer :: length
call MPI_Get_library_version(version, length)
print '(A)', version(:length)
end
";

/// Another MPI.
pub(super) struct Peer {
    mpiexec: PathBuf,
    /// The folder of its `libmpi_abi.so.1`.
    library: PathBuf,
}

impl Peer {
    pub(super) fn find(options: &Options) -> Option<Peer> {
        let mpiexec = match &options.mpiexec {
            Some(mpiexec) => std::path::absolute(mpiexec).ok()?,
            None => {
                let path = std::env::var_os("PATH")?;
                let found = std::env::split_paths(&path).find(|at| at.join("mpicc_abi").exists());
                found?.join("mpiexec")
            }
        };
        let library = mpiexec.parent()?.parent()?.join("lib");
        library.join("libmpi_abi.so.1").exists().then_some(Peer { mpiexec, library })
    }

    /// All programs, on both.
    pub(super) fn checks<'a>(&'a self, at: &'a Fortran) -> Result<Vec<Check<'a>>> {
        let mut checks: Vec<Check<'a>> =
            vec![("library (another MPI)".to_owned(), Box::new(|| self.is_used(at)))];
        for (source, ranks) in at.programs()? {
            let name = stem(&source);
            let check = move || self.prints_the_same(at, &source, ranks);
            checks.push((format!("{name} (another MPI)"), Box::new(check)));
        }
        Ok(checks)
    }

    /// Programs resolve the ABI's library here, and Fortran's in Verbena's installation.
    fn is_used(&self, at: &Fortran) -> Result<()> {
        let source = at.built.join("version.f90");
        std::fs::write(&source, VERSION)?;
        let program = at.compiled("gfortran", &source)?;
        let printed = quietly(&mut self.command(1, &program, at), LIMIT)?.stdout;
        ensure!(!printed.trim().is_empty() && !printed.contains("Verbena"), "{printed}");
        Ok(())
    }

    /// Compares what a compiled program prints on both.
    fn prints_the_same(&self, at: &Fortran, source: &Path, ranks: &[u32]) -> Result<()> {
        let program = at.compiled("gfortran", source)?;
        for &ranks in ranks {
            let ours = at.output(&program, ranks)?;
            let ran = capture(&mut self.command(ranks, &program, at), None, LIMIT)?;
            ensure!(ran.success(), "{ranks} ranks:\n{}", ran.output());
            let (ours, theirs) = (sorted_lines(&ours), sorted_lines(&ran.stdout));
            ensure!(ours == theirs, "{ranks} ranks printed {theirs:?}, and on Verbena {ours:?}");
        }
        Ok(())
    }

    fn command(&self, ranks: u32, program: &Path, at: &Fortran) -> Command {
        let mut mpiexec = Command::new(&self.mpiexec);
        mpiexec.args(["-n", &ranks.to_string()]).arg(program).current_dir(&at.built);
        mpiexec.env("LD_LIBRARY_PATH", &self.library);
        mpiexec.envs(MPICH_THROTTLE);
        mpiexec
    }
}

/// The lines in an order that does not depend on the ranks' speed.
fn sorted_lines(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    lines
}
