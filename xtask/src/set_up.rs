//! `cargo xtask set-up`: the system packages that building and testing need.
//!
//! Quick when nothing is missing. Otherwise they are installed by apt-get where
//! that is allowed (as root, or by a sudo that asks nothing); where it is not,
//! the exact command is the error.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::command;
use crate::pgo;
use crate::project::Project;

/// Debian's names, and what each is for.
const PACKAGES: &[(&str, &str)] = &[
    ("gcc", "compiles the C programs"),
    ("g++", "compiles C++ programs by mpicxx"),
    ("libc6-dev", "C headers"),
    ("make", "CMake's back end"),
    ("cmake", "the test that FindMPI finds us"),
    ("pkg-config", "finds hwloc"),
    ("libhwloc-dev", "the launcher's map of cores and caches"),
    ("libudev-dev", "a part of hwloc's own link line"),
    ("libibverbs-dev", "the test of the layouts of libibverbs"),
    ("libpng-dev", "pictures of the heat program"),
    ("python3", "mpi4py"),
    ("python3-dev", "mpi4py"),
    ("python3-venv", "mpi4py"),
    ("valgrind", "counts instructions, checks memory"),
];

/// Installs what building and testing need and is missing, or says how.
pub(crate) fn set_up() -> Result<()> {
    if provide(PACKAGES)? {
        println!("all system packages are there");
    }
    if pgo::tool(&Project::find()).is_none() && command::exists("rustup", "--version") {
        println!("missing: the compiler's llvm-tools, which optimize for a profile");
        let added = command::show(Command::new("rustup").args(["component", "add", "llvm-tools"]));
        added.unwrap_or_else(|error| eprintln!("going on without them: {error:#}"));
    }
    Ok(())
}

/// Installs those of the packages that are missing, or says how. True if all were
/// there before.
pub(crate) fn provide(packages: &[(&str, &str)]) -> Result<bool> {
    if !command::exists("dpkg-query", "--version") {
        eprintln!("This is no Debian, so nothing is checked. Needed, by Debian's names:");
        for (package, purpose) in packages {
            eprintln!("  {package:14} {purpose}");
        }
        return Ok(false);
    }
    let missing = missing(packages)?;
    if missing.is_empty() {
        return Ok(true);
    }
    let install = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    let Some(sudo) = root() else {
        bail!(
            "some packages are missing, and this user may not install them. Please run:\n\n    sudo {install}\n"
        );
    };
    println!("missing: {}", missing.join(" "));
    for words in ["apt-get update", &install] {
        let mut words = sudo.iter().copied().chain(words.split(' '));
        let mut command = Command::new(words.next().expect("not empty"));
        command::show(command.args(words).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    Ok(false)
}

fn missing<'a>(packages: &[(&'a str, &str)]) -> Result<Vec<&'a str>> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"]);
    query.args(packages.iter().map(|(package, _)| package));
    // Its exit code is 1 when it does not know one of the packages.
    let known = command::capture(&mut query, None, Duration::from_secs(30))?.stdout;
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
