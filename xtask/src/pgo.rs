//! Profile-guided optimisation: a build with counters, small jobs on it, and a build for what they
//! counted. Hot code then lies together in a straight line, apart from cold code.
//!
//! The profile is made again when the sources have changed. A profile belongs to one version of the
//! compiler; therefore the repository keeps none. The build needs the compiler's own
//! `llvm-profdata` (`rustup component add llvm-tools`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::command::quietly;
use crate::compare::compile;
use crate::install::install_built;
use crate::project::Project;
use crate::steps::{Step, Steps};

/// The longest time of one job.
const LIMIT: Duration = Duration::from_secs(120);

/// The jobs of the profile: options of mpiexec, then a program of `benches/osu` and its options.
const JOBS: [(&str, &str); 10] = [
    ("-n 2 --bind-to core", "latency -m 0:1048576 -i 2000"),
    ("-n 2 --bind-to core", "mbw_mr -m 8:8192 -i 1000"),
    ("-n 2 --bind-to core", "bw -m 8:1048576 -i 50"),
    ("-n 2 --bind-to core", "bibw -m 8:1048576 -i 50"),
    ("-n 2", "latency_mt -m 8:64 -i 500"),
    ("-n 2", "mbw_mr_mt -m 8:64 -i 200"),
    ("-n 8", "collective allreduce -m 8:8 -i 500"),
    ("-n 32", "collective allreduce -m 8:8 -i 500"),
    ("-n 2 --bind-to core", "partitioned -m 8:1048576 -i 1000"),
    ("-n 2 --bind-to core", "strided"),
];
/// Operations and synchronisations of `rma` on two ranks.
const ONE_SIDED: [&str; 12] = [
    "put allocate flush",
    "get allocate flush",
    "accumulate allocate flush",
    "fetch_and_op allocate flush",
    "compare_and_swap allocate flush",
    "put create flush",
    "put allocate lock",
    "put allocate fence",
    "none allocate lock",
    "none allocate shared_lock",
    "none allocate lock_all",
    "none allocate pscw",
];
/// Each of these on two and on eight ranks.
const COLLECTIVES: [&str; 9] = [
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "bcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
];

/// The compiler's tool for profiles, if it is there.
pub(crate) fn tool(project: &Project) -> Option<PathBuf> {
    let sysroot = rustc_output(project, &["--print", "sysroot"]).ok()?;
    let bin = Path::new(sysroot.trim()).join("lib/rustlib").join(host(project).ok()?).join("bin");
    Some(bin.join("llvm-profdata")).filter(|tool| tool.exists())
}

/// Builds the library for a profile, in steps; returns its folder. `programs` has the launcher.
pub(crate) fn library(
    project: &Project,
    steps: &Steps,
    tool: &Path,
    programs: &Path,
) -> Result<PathBuf> {
    let folder = project.target.join("pgo");
    let (raw, profile) = (folder.join("raw"), folder.join("library.profdata"));
    let counting = steps.step("Build library with counters (1 of 3)", |step| {
        build(project, step, &folder.join("counting"), "-Cprofile-generate=", &raw)
    })?;
    steps.step("Run jobs on it (2 of 3)", |step| {
        if is_newer(&profile, &counting.join("libmpi_abi.so")) {
            step.note("unchanged since the last run");
            return Ok(());
        }
        let _ = fs::remove_dir_all(&raw); // of another build
        run_jobs(project, &folder, programs, &counting)?;
        let counts =
            fs::read_dir(&raw).with_context(|| format!("no counts in {}", raw.display()))?;
        let counts: Vec<PathBuf> = counts.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        step.run(Command::new(tool).args(["merge", "--sparse", "-o"]).arg(&profile).args(&counts))
    })?;
    steps.step("Build library for the profile (3 of 3)", |step| {
        build(project, step, &folder.join("optimized"), "-Cprofile-use=", &profile)
    })
}

/// Code that the jobs did not run is optimised for speed as well. By default the compiler makes it
/// small: it does not unroll the loops of most copy kernels, since jobs cannot run each of them.
const SPEED_FOR_ALL: &str = "-Cllvm-args=-pgso=false";

/// Builds the library with a flag for a profile, in a target folder of its own; returns where it
/// lies.
fn build(
    project: &Project,
    step: &Step,
    target: &Path,
    flag: &str,
    path: &Path,
) -> Result<PathBuf> {
    let host = host(project)?;
    // With --target, flags apply to the library alone and not to build scripts.
    let mut cargo =
        project.cargo(&["build", "--release", "-p", "verbena-mpi-abi", "--target", &host]);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let mut flags: Vec<OsString> = flags.split_whitespace().map(OsString::from).collect();
    let mut more = OsString::from(flag);
    more.push(path);
    flags.extend([more, SPEED_FOR_ALL.into()]);
    cargo.arg("--target-dir").arg(target);
    step.cargo(cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(OsStr::new("\x1f"))))?;
    Ok(target.join(host).join("release"))
}

fn run_jobs(project: &Project, folder: &Path, programs: &Path, counting: &Path) -> Result<()> {
    let (tree, benches) = (folder.join("tree"), folder.join("osu"));
    install_built(project, &tree, programs, counting)?;
    compile(&project.root.join("benches/osu"), &benches, &tree.join("bin/mpicc"))?;
    let job = |options: &str, program: &str| {
        let mut words = program.split(' ');
        let mut mpiexec = Command::new(tree.join("bin/mpiexec"));
        mpiexec
            .args(options.split(' '))
            .arg(benches.join(words.next().unwrap_or_default()))
            .args(words);
        quietly(mpiexec.env_remove("LD_LIBRARY_PATH"), LIMIT).map(drop)
    };
    JOBS.iter().try_for_each(|(options, program)| job(options, program))?;
    ONE_SIDED.iter().try_for_each(|what| {
        job("-n 2 --bind-to core", &format!("rma {what} -m 8:65536 -i 20000"))
    })?;
    COLLECTIVES.iter().try_for_each(|operation| {
        job("-n 2 --bind-to core", &format!("collective {operation} -m 8:1048576 -i 300"))?;
        job("-n 8", &format!("collective {operation} -m 8:262144 -i 100"))
    })
}

/// The target triple of this machine.
fn host(project: &Project) -> Result<String> {
    let version = rustc_output(project, &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

fn rustc_output(project: &Project, question: &[&str]) -> Result<String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    Ok(quietly(rustc.args(question).current_dir(&project.root), LIMIT)?.stdout)
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
    matches!((modified(file), modified(than)), (Ok(file), Ok(than)) if file > than)
}
