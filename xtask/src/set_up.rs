//! `cargo xtask set-up`: the system packages that building and testing need.
//!
//! Only missing packages are installed; none is upgraded, unless a missing one depends on that.
//! As root, or with a `sudo` that needs no password, apt-get runs at once. Otherwise the error is
//! the command to run.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::command::{self, Runner, capture};
use crate::pgo;
use crate::project::Project;
use crate::steps::{Steps, say};

/// The purpose of packages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The library, the launcher, C programs.
    Build,
    /// The heat program.
    Demo,
    /// mpi4py.
    Python,
    /// The test run.
    Test,
}

/// Required by `run`.
pub(crate) const RUN: &[Purpose] = &[Purpose::Build, Purpose::Demo, Purpose::Python];
/// Required by `test`.
pub(crate) const ALL: &[Purpose] = &[Purpose::Build, Purpose::Demo, Purpose::Python, Purpose::Test];

/// Debian's names, and what each is for.
const PACKAGES: &[(Purpose, &str, &str)] = &[
    (Purpose::Build, "gcc", "compiles the C programs"),
    (Purpose::Build, "libc6-dev", "C headers"),
    (Purpose::Build, "pkg-config", "finds hwloc"),
    (Purpose::Build, "libhwloc-dev", "the launcher's map of cores and caches"),
    (Purpose::Build, "libudev-dev", "a part of hwloc's own link line"),
    (Purpose::Demo, "libpng-dev", "pictures of the heat program"),
    (Purpose::Python, "python3", "mpi4py"),
    (Purpose::Python, "python3-dev", "mpi4py"),
    (Purpose::Python, "python3-venv", "mpi4py"),
    (Purpose::Test, "g++", "compiles C++ programs by mpicxx"),
    (Purpose::Test, "gfortran", "compiles Fortran programs by mpifort"),
    (Purpose::Test, "make", "CMake's back end"),
    (Purpose::Test, "cmake", "the test that FindMPI finds this MPI"),
    (Purpose::Test, "meson", "the test that Meson finds this MPI"),
    (Purpose::Test, "libibverbs-dev", "the test of the layouts of libibverbs"),
    (Purpose::Test, "valgrind", "counts instructions, checks memory"),
    (Purpose::Test, "btrfs-progs", "files of a user with a quota"),
];

/// Installs all that building and testing need.
pub(crate) fn set_up(project: &Project, verbose: bool) -> Result<()> {
    let steps = Steps::start(project, "set-up", verbose)?;
    packages(&steps, ALL)?;
    profile_tools(project, &steps).map(drop)
}

/// Installs the missing packages of some purposes, as one step.
pub(crate) fn packages(steps: &Steps, purposes: &[Purpose]) -> Result<()> {
    let wanted = PACKAGES.iter().filter(|(purpose, ..)| purposes.contains(purpose));
    let wanted: Vec<_> = wanted.map(|(_, package, why)| (*package, *why)).collect();
    steps.step("System packages", |step| {
        let installed = provide(&wanted, &|command| step.run(command))?;
        step.note(match installed.is_empty() {
            true => "all there".to_owned(),
            false => format!("installed {}", installed.join(" ")),
        });
        Ok(())
    })
}

/// Adds the compiler's llvm-tools for a profile-guided build; true if they are there afterwards.
pub(crate) fn profile_tools(project: &Project, steps: &Steps) -> Result<bool> {
    if pgo::tool(project).is_some() {
        return Ok(true);
    }
    if !command::exists("rustup", "--version") {
        return Ok(false);
    }
    steps.step("The compiler's llvm-tools", |step| {
        let mut rustup = Command::new("rustup");
        let added =
            step.run(rustup.args(["component", "add", "llvm-tools"]).current_dir(&project.root));
        step.note(added.map_or_else(|error| format!("not there: {error:#}"), |()| String::new()));
        Ok(pgo::tool(project).is_some())
    })
}

/// Installs those of the packages that are missing; returns their names. If this user must not
/// install packages, the error is the command to run.
pub(crate) fn provide<'a>(packages: &[(&'a str, &str)], run: Runner) -> Result<Vec<&'a str>> {
    if !command::exists("dpkg-query", "--version") {
        say!("This is no Debian: packages are not checked. Needed, by Debian's names:");
        packages.iter().for_each(|(package, purpose)| say!("  {package:14} {purpose}"));
        return Ok(Vec::new());
    }
    let missing = missing(packages)?;
    if missing.is_empty() {
        return Ok(missing);
    }
    // Where one of them would replace a package that the user has, apt-get stops instead.
    let mut install =
        vec!["apt-get", "install", "-y", "--no-install-recommends", "--no-upgrade", "--no-remove"];
    install.extend(&missing);
    let Some(sudo) = root() else {
        let install = install.join(" ");
        bail!(
            "packages are missing that this user may not install; please run:\n\n    sudo {install}\n"
        );
    };
    // Another program may be installing packages: its lock is waited for.
    const WAIT: [&str; 2] = ["-o", "DPkg::Lock::Timeout=300"];
    let apt = |words: &[&str]| {
        let mut words = sudo.iter().chain(words);
        let mut command = Command::new(words.next().expect("not empty"));
        run(command.args(words).args(WAIT).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    // Lists that are older than the archive name files that are gone.
    let is_installed = is_listed(&missing) && apt(&install).is_ok();
    if !is_installed {
        apt(&["apt-get", "update"])?;
        apt(&install).with_context(|| format!("cannot install {}", missing.join(" ")))?;
    }
    Ok(missing)
}

/// True if apt's lists have all packages.
fn is_listed(packages: &[&str]) -> bool {
    let mut policy = Command::new("apt-cache");
    policy.args(["show", "--no-all-versions"]).args(packages);
    capture(&mut policy, None, Duration::from_secs(30)).is_ok_and(|ran| ran.success())
}

fn missing<'a>(packages: &[(&'a str, &str)]) -> Result<Vec<&'a str>> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"]);
    query.args(packages.iter().map(|(package, _)| package));
    // The exit code is 1 when dpkg does not know one of the packages.
    let known = capture(&mut query, None, Duration::from_secs(30))?.stdout;
    let installed =
        |package: &str| known.lines().any(|line| line == format!("{package} installed"));
    Ok(packages.iter().map(|(package, _)| *package).filter(|package| !installed(package)).collect())
}

/// The words that make a command run as root; `None` where that is refused.
fn root() -> Option<&'static [&'static str]> {
    if rustix::process::geteuid().is_root() {
        Some(&[])
    } else if command::exists("sudo", "-nv") {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}
