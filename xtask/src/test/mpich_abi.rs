//! The library with MPICH's ABI: its constants, C programs, and mpi4py's wheel.
//!
//! Everything that is built uses the compiler wrapper and the headers of MPICH, which are a wheel
//! too. The jobs run under our mpiexec without any setting; only mpiexec can lead to our library,
//! since the programs name the folder of MPICH's.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Options, Tally, programs, python, report_failure};
use crate::command::{Ran, capture, quietly};
use crate::mpi4py;
use crate::project::Project;
use crate::steps::{Step, say};

/// The names of rows of `tests/programs` that are left out, and why.
pub(super) const LEFT_OUT: [(&str, &str); 4] = [
    ("environment", "it asks for the version of the standard ABI"),
    ("the number of each program on the command line", "it runs environment"),
    ("send_modes", "it expects the error for a full buffer, and the library buffers by itself"),
    (
        "session_buffers",
        "it expects the error for a full buffer, and the library buffers by itself",
    ),
];
/// The numbers of ranks of the C programs.
pub(super) const RANKS: [u32; 2] = [2, 3];
/// For one job, and for the compiler.
const LIMIT: Duration = Duration::from_secs(60);

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
            say!("   skipped: the wheels of mpich and mpi4py cannot be had: {error:#}");
            return Ok(Tally { skipped: 1, ..Tally::default() });
        }
    };
    let mut tally = Tally::default();
    let checks: [(&str, &dyn Fn() -> Result<()>); 2] = [
        ("constants", &|| constants(project, &wheels.mpicc)),
        ("a path in the program", &|| path_in_program(project, &wheels.mpicc)),
    ];
    for (name, check) in checks {
        if options.filter.as_deref().is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        match check() {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                report_failure(name, &format!("{error:#}"), "");
                tally.failed += 1;
            }
        }
    }
    tally += programs::on_mpich_abi(project, options, &wheels.mpicc)?;
    tally += python::on_wheel(project, options, &wheels.mpi4py)?;
    Ok(tally)
}

/// MPICH's header has the values of the table.
fn constants(project: &Project, mpicc: &Path) -> Result<()> {
    let program = project.root.join("mpich-abi/abi/constants.c");
    quietly(Command::new(mpicc).arg("-fsyntax-only").arg(program), LIMIT).map(drop)
}

/// A program whose DT_RPATH leads to MPICH: mpiexec says what to do, and that works.
fn path_in_program(project: &Project, mpicc: &Path) -> Result<()> {
    let folder = std::path::absolute(project.target.join("mpich-abi"))?;
    let (source, program) = (folder.join("version.c"), folder.join("version"));
    std::fs::write(&source, VERSION)?;
    let venv = mpicc.parent().and_then(Path::parent).unwrap_or(&folder);
    // Not by mpicc, which asks for DT_RUNPATH.
    let mut compiler = Command::new("cc");
    compiler.arg(format!("-I{}", venv.join("include").display())).arg("-o").arg(&program);
    compiler.arg(&source).arg(venv.join("lib/libmpi.so.12"));
    compiler.arg(format!("-Wl,-rpath,{},--disable-new-dtags", venv.join("lib").display()));
    compiler.arg("-Wl,--allow-shlib-undefined");
    quietly(&mut compiler, LIMIT)?;
    let ours = std::path::absolute(project.prefix())?.join("lib/mpich/libmpi.so.12");
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
