//! The library compiled for ThreadSanitizer, under C programs with many threads.
//!
//! Needs a nightly toolchain with the sources of Rust's own library: that is compiled too,
//! otherwise the tool would not know its mutexes. The tool sees races between threads of one rank,
//! and no accesses of other ranks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{Tally, report_failure};
use crate::command::{Mark, capture, line, quietly};
use crate::project::Project;
use crate::steps::say;

const TARGET: &str = "x86_64-unknown-linux-gnu";
const LIMIT: Duration = Duration::from_secs(1800);
/// Programs and how many ranks of them.
const RUNS: [(&str, &str); 5] = [
    ("threads", "1"),
    ("threads", "2"),
    ("threads_wait", "1"),
    ("threads_wait", "2"),
    ("threads_held", "2"),
];

/// Builds and runs; one skip where that can't be done.
pub(super) fn test(project: &Project) -> Result<Tally> {
    if let Some(missing) = missing() {
        say!("skipped: {missing}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let folder = project.target.join("tsan");
    let mut cargo = Command::new("cargo");
    cargo.args(["+nightly", "build", "--quiet", "-Zbuild-std=std,panic_abort", "--target", TARGET]);
    cargo.args(["--profile", "checked", "--package", "verbena-mpi-abi"]).current_dir(&project.root);
    cargo.env("RUSTFLAGS", "-Zsanitizer=thread").env("CARGO_TARGET_DIR", &folder);
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    quietly(&mut cargo, LIMIT)?;
    let library = folder.join("lib");
    std::fs::create_dir_all(&library)?;
    std::fs::copy(
        folder.join(TARGET).join("checked/libmpi_abi.so"),
        library.join("libmpi_abi.so.1"),
    )
    .context("the library for ThreadSanitizer")?;
    let mut tally = Tally::default();
    for (program, ranks) in RUNS {
        match run(project, &library, program, ranks) {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                report_failure(&format!("{program} on {ranks}"), &format!("{error:#}"), "");
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

/// Returns what this machine lacks.
fn missing() -> Option<&'static str> {
    let mut rustc = Command::new("rustc");
    rustc.args(["+nightly", "--print", "sysroot"]).env_remove("RUSTUP_TOOLCHAIN");
    let sysroot =
        capture(&mut rustc, None, Duration::from_secs(60)).ok().filter(|ran| ran.success());
    let Some(sysroot) = sysroot else {
        return Some("no nightly toolchain here (rustup toolchain install nightly)");
    };
    let sources = Path::new(sysroot.stdout.trim()).join("lib/rustlib/src/rust/library/std");
    if !cfg!(target_arch = "x86_64") || !sources.exists() {
        return Some(
            "no sources of Rust's own library here (rustup +nightly component add rust-src)",
        );
    }
    None
}

/// One program. A race is an exit code of its own, and the tool's report.
fn run(project: &Project, library: &Path, program: &str, ranks: &str) -> Result<()> {
    let sources = project.root.join("tests/programs");
    let built = library.join(program);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-fsanitize=thread", "-fno-builtin", "-g", "-O1", "-pthread", "-o"])
        .arg(&built);
    gcc.arg("-I").arg(project.root.join("mpi-abi/include"));
    gcc.arg(sources.join(format!("{program}.c"))).arg(sources.join("tsan_names.c"));
    gcc.arg(library.join("libmpi_abi.so.1")).arg("-lm");
    quietly(&mut gcc, Duration::from_secs(120))?;
    let mut mpiexec = Command::new(project.prefix().join("bin/mpiexec"));
    mpiexec
        .args(["-n", ranks])
        .arg(&built)
        .env("LD_LIBRARY_PATH", library)
        .env("TSAN_OPTIONS", "exitcode=66");
    let mark = Mark::new();
    mark.put_on(&mut mpiexec);
    let ran = capture(&mut mpiexec, None, Duration::from_secs(240))?;
    mark.end_survivors();
    anyhow::ensure!(ran.success(), "{}\n    $ {}\n{}", ran.ending(), line(&mpiexec), ran.output());
    Ok(())
}
