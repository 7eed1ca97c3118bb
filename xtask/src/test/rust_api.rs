//! The Rust API: its own examples, and those of the crate `mpi` of crates.io, whose interface it
//! has. The latter are compiled unchanged.
//!
//! All jobs run without the folder of the library in any search path: mpiexec must name its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Options, Tally, report_failure};
use crate::command::{Mark, capture, line, quietly};
use crate::project::Project;
use crate::steps::say;

/// The release of the crate `mpi` whose examples are run.
const RELEASE: &str = "0.8.1";
/// Numbers of ranks of our examples and, as in its own test run, of the others.
const RANKS: [u32; 5] = [1, 2, 3, 4, 7];
const THEIR_RANKS: [u32; 2] = [2, 3];
/// Examples of that crate that are not run: this one unpacks a usize into 4 bytes.
const REFUSED: [&str; 1] = ["dyn_communicator"];
/// The example that ends badly, and what the job then says.
const PANICS: (&str, &str) = ("panic", "panicked");
/// For a build, and for a job.
const BUILD_LIMIT: Duration = Duration::from_secs(900);
const LIMIT: Duration = Duration::from_secs(60);

/// Builds the examples and runs those whose names contain the filter.
pub(super) fn test(project: &Project, options: &Options) -> Result<Tally> {
    let mut tally = Tally::default();
    let filter = options.filter.as_deref();
    let mut programs = examples(project)?;
    let home = std::path::absolute(project.target.join("rust-api"))?;
    match fetch(project, &home.join("release")) {
        Ok(release) => programs.extend(of_the_release(project, &home, &release)?),
        Err(error) => {
            say!("  skipped: the crate mpi {RELEASE}, which cannot be fetched: {error:#}");
            tally.skipped += 1;
        }
    }
    for (program, ranks) in programs {
        for &ranks in ranks {
            let name = format!("{} on {ranks}", program.file_stem().unwrap_or_default().display());
            if filter.is_some_and(|filter| !name.contains(filter)) {
                continue;
            }
            match run(project, &program, ranks) {
                Ok(()) => tally.passed += 1,
                Err(error) => {
                    report_failure(&name, &format!("{error:#}"), "");
                    tally.failed += 1;
                }
            }
        }
    }
    Ok(tally)
}

/// Programs, and the numbers of ranks on which they run.
type Programs = Vec<(PathBuf, &'static [u32])>;

/// Builds our own examples. Unlike the profiles of the library, that of developers unwinds panics.
fn examples(project: &Project) -> Result<Programs> {
    let arguments = ["build", "--package", "verbena-mpi", "--examples", "--quiet"];
    quietly(&mut project.cargo(&arguments), BUILD_LIMIT)?;
    let built = project.target.join("debug/examples");
    let names = sources(&project.root.join("mpi/examples"))?;
    Ok(names.into_keys().map(|name| (built.join(name), &RANKS[..])).collect())
}

/// Builds the examples of the crate `mpi` against our own crate.
fn of_the_release(project: &Project, home: &Path, release: &Path) -> Result<Programs> {
    let theirs = release.join("examples");
    let names = sources(&theirs)?;
    ensure!(names.len() >= 50, "{} has {} examples", theirs.display(), names.len());
    let ours = project.root.join("mpi");
    let mut manifest = format!(
        "[package]\nname = \"examples-of-mpi\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [workspace]\n[features]\ndefault = [\"user-operations\"]\nuser-operations = []\n\
         [lints.rust]\nunexpected_cfgs = \"allow\"\n\
         [dependencies]\nmemoffset = \"0.9\"\nnum-complex = \"0.4\"\n\
         mpi = {{ package = \"verbena-mpi\", path = {ours:?} }}\n"
    );
    for (name, path) in &names {
        writeln!(manifest, "[[example]]\nname = \"{name}\"\npath = {path:?}")?;
    }
    let folder = home.join("examples");
    write_package(&folder, &manifest)?;
    let target = folder.join("target");
    let mut cargo = project.cargo(&["build", "--examples", "--quiet"]);
    cargo.current_dir(&folder).env("CARGO_TARGET_DIR", &target);
    quietly(&mut cargo, BUILD_LIMIT)?;
    let built = target.join("debug/examples");
    let right = names.into_keys().filter(|name| !REFUSED.contains(&name.as_str()));
    Ok(right.map(|name| (built.join(name), &THEIR_RANKS[..])).collect())
}

/// Has cargo download the release, without compiling it; returns its folder.
fn fetch(project: &Project, folder: &Path) -> Result<PathBuf> {
    let manifest = format!(
        "[package]\nname = \"release-of-mpi\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [workspace]\n[dependencies]\nmpi = \"={RELEASE}\"\n"
    );
    write_package(folder, &manifest)?;
    let mut cargo = project.cargo(&["metadata", "--format-version", "1"]);
    let told = quietly(cargo.current_dir(folder), BUILD_LIMIT)?.stdout;
    let told: Value = serde_json::from_str(&told)?;
    let packages = told["packages"].as_array().context("metadata without packages")?;
    let package = packages.iter().find(|package| package["name"] == "mpi");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    Ok(folder.context("cargo has not fetched the crate mpi")?.to_owned())
}

/// Writes a package with an empty library.
fn write_package(folder: &Path, manifest: &str) -> Result<()> {
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("src/lib.rs"), "")?;
    Ok(std::fs::write(folder.join("Cargo.toml"), manifest)?)
}

/// Returns the Rust files of a folder by their names.
fn sources(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let named = |path: PathBuf| Some((path.file_stem()?.to_str()?.to_owned(), path));
    Ok(paths.into_iter().filter(is_rust).filter_map(named).collect())
}

/// Runs a program; an end that is not the expected one is an error.
fn run(project: &Project, program: &Path, ranks: u32) -> Result<()> {
    let mut mpiexec = Command::new(project.prefix().join("bin/mpiexec"));
    mpiexec.arg("-n").arg(ranks.to_string()).arg(program);
    mpiexec.env_remove("LD_LIBRARY_PATH").env_remove("MPI_ABI_LIBRARY");
    let mark = Mark::new();
    mark.put_on(&mut mpiexec);
    let ran = capture(&mut mpiexec, None, LIMIT)?;
    let survivors = mark.end_survivors();
    let is_expected = match program.ends_with(PANICS.0) {
        true => !ran.success() && !ran.timed_out && ran.stderr.contains(PANICS.1),
        false => ran.success(),
    };
    ensure!(
        is_expected && survivors.is_empty(),
        "{}; left running: {survivors:?}\n    $ {}\n{}",
        ran.ending(),
        line(&mpiexec),
        ran.output()
    );
    Ok(())
}
