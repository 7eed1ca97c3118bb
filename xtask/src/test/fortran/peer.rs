//! The same binaries on another MPI with the standard ABI, where they must print what they print on
//! Verbena. The peer is the one of the options, or else those in PATH: MPICH 5, which calls its
//! compiler for that ABI `mpicc_abi`, and Intel MPI, which has an `impi_info`.

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

/// A command that only this MPI has, its name, and the programs that it cannot run.
const KNOWN: [(&str, &str, &[&str]); 2] =
    [("mpicc_abi", "MPICH", &[]), ("impi_info", "Intel MPI", &NOT_ON_INTEL)];

/// `callbacks_mpi`: MPI_Session_call_errhandler of Intel MPI 2021.18 ends the program with an
/// internal error, in C too. `files_f08`: some of its constants are not the standard's. The number
/// of MPI_SEEK_SET is that of its MPI_SEEK_END, and of MPI_ERRORS_RETURN its MPI_ERRORS_ABORT.
const NOT_ON_INTEL: [&str; 2] = ["callbacks_mpi", "files_f08"];

/// Another MPI.
pub(super) struct Peer {
    pub(super) name: &'static str,
    mpiexec: PathBuf,
    /// Has bin/ and lib/.
    prefix: PathBuf,
    /// Programs that it cannot run.
    pub(super) exceptions: &'static [&'static str],
}

impl Peer {
    pub(super) fn find(options: &Options) -> Vec<Peer> {
        if let Some(mpiexec) = &options.mpiexec {
            return Peer::new(mpiexec).into_iter().collect();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folder = |command| std::env::split_paths(&path).find(|at| at.join(command).exists());
        let folders = KNOWN.iter().filter_map(|(command, ..)| folder(command));
        folders.filter_map(|folder| Peer::new(&folder.join("mpiexec"))).collect()
    }

    /// `None` if it has not the standard ABI.
    fn new(mpiexec: &Path) -> Option<Peer> {
        let mpiexec = std::path::absolute(mpiexec).ok()?;
        let folder = mpiexec.parent()?;
        let known = KNOWN.iter().find(|(command, ..)| folder.join(command).exists());
        let (name, exceptions) = known.map_or(("another MPI", [].as_slice()), |it| (it.1, it.2));
        let prefix = folder.parent()?.to_owned();
        let has_abi = prefix.join("lib/libmpi_abi.so.1").exists();
        has_abi.then_some(Peer { name, mpiexec, prefix, exceptions })
    }

    /// All programs, on both.
    pub(super) fn checks<'a>(&'a self, at: &'a Fortran) -> Result<Vec<Check<'a>>> {
        let mut checks: Vec<Check<'a>> =
            vec![(format!("library ({})", self.name), Box::new(|| self.is_used(at)))];
        for (source, ranks) in at.programs()? {
            let name = stem(&source);
            if self.exceptions.contains(&name.as_str()) {
                continue;
            }
            let check = move || self.prints_the_same(at, &source, ranks);
            checks.push((format!("{name} ({})", self.name), Box::new(check)));
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
        mpiexec.env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        mpiexec.envs(MPICH_THROTTLE);
        // More ranks than cores, for Intel MPI.
        mpiexec.env("I_MPI_ROOT", &self.prefix).env("I_MPI_PIN", "0");
        mpiexec
    }
}

/// The lines in an order that does not depend on the ranks' speed.
fn sorted_lines(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    lines
}
