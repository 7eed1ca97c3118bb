//! Debian's MPICH and Open MPI for the guests of `vm compare`, unpacked below `target/vm/peers` and
//! never installed: `mpicc` of the machine stays what it is.
//!
//! apt downloads the packages and what they need that the machine does not have. A guest lays the
//! unpacked tree over its `/usr` ([`Unpacked::mount`]), so that the programs find each other where
//! their packages put them. Programs are compiled on the host with the headers and libraries in the
//! tree.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::figures::VERBS;
use super::library::{Kind, MAX_COMPILE_TIME, compile_by};
use crate::command::quietly;
use crate::project::Project;
use crate::steps::say;

/// The peers, over UCX, and what compiles programs for them.
const PACKAGES: [&str; 4] = ["openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev"];
/// Longest time of a download.
const MAX_DOWNLOAD_TIME: Duration = Duration::from_secs(900);
/// Where Debian has libraries of x86-64.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The unpacked packages.
pub(super) struct Unpacked {
    root: PathBuf,
    /// Package and version of each archive.
    versions: Vec<(String, String)>,
}

impl Unpacked {
    /// Returns the packages, fetched and unpacked by the first call.
    pub(super) fn provide(project: &Project) -> Result<Unpacked> {
        let home = project.target.join("vm/peers");
        let (root, versions) = (home.join("root"), home.join("versions"));
        if !versions.exists() {
            say!("   fetching MPICH and Open MPI for the guests; they are not installed here");
            fetch(&home).context("MPICH and Open MPI can't be fetched")?;
        }
        let versions = fs::read_to_string(&versions)?;
        let pair = |line: &str| line.split_once(' ').map(|(one, two)| (one.into(), two.into()));
        Ok(Unpacked { root, versions: versions.lines().filter_map(pair).collect() })
    }

    /// Returns the shell line that makes them visible in a guest.
    pub(super) fn mount(&self) -> String {
        let root = crate::command::quoted(&self.root.display().to_string());
        format!(
            "for part in usr etc; do [ ! -d {root}/$part ] || \
             mount -t overlay -o lowerdir={root}/$part:/$part peers /$part || exit; done\n"
        )
    }

    /// Returns the version of a library's package.
    pub(super) fn version(&self, kind: Kind) -> Result<String, String> {
        let package = if kind == Kind::OpenMpi { "openmpi-bin" } else { "mpich" };
        let found = self.versions.iter().find(|(name, _)| name == package);
        found
            .map(|(name, version)| format!("{name} {version}"))
            .ok_or_else(|| format!("{package} is installed on this machine"))
    }

    /// Compiles the programs of a folder for a library.
    pub(super) fn compile(&self, sources: &Path, programs: &Path, kind: Kind) -> Result<()> {
        // What the machine has is not in the tree.
        let path = |below: &str| {
            let unpacked = self.root.join(below);
            if unpacked.exists() { unpacked } else { Path::new("/").join(below) }
        };
        let (headers, libraries, name) = match kind {
            Kind::OpenMpi => {
                (format!("{LIBRARIES}/openmpi/include"), format!("{LIBRARIES}/openmpi/lib"), "mpi")
            }
            _ => {
                let headers = "usr/include/x86_64-linux-gnu/mpich".to_owned();
                (headers, LIBRARIES.to_owned(), "mpich")
            }
        };
        let cc = || {
            let mut cc = Command::new("cc");
            cc.arg("-I").arg(path(&headers));
            cc
        };
        let last = [
            format!("-L{}", path(&libraries).display()),
            format!("-Wl,-rpath-link,{}", self.root.join(LIBRARIES).display()),
            format!("-l{name}"),
        ];
        // They are of MPI 3.1, and have not all that other programs call.
        let is_measured = |name: &OsStr| VERBS.iter().any(|figure| *figure.program == *name);
        compile_by(sources, programs, is_measured, cc, &last)
    }
}

fn fetch(home: &Path) -> Result<()> {
    let (archives, root) = (home.join("archives"), home.join("root"));
    for folder in [&root, &archives] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    fs::create_dir_all(archives.join("partial"))?;
    fs::create_dir_all(&root)?;
    let mut apt = Command::new("apt-get");
    // Nothing is installed: other programs' locks do not matter.
    apt.args(["install", "-y", "--download-only", "--no-install-recommends", "-o"]);
    apt.arg(format!("Dir::Cache::archives={}", archives.display()));
    apt.args(["-o", "Debug::NoLocking=1"]).args(PACKAGES);
    quietly(&mut apt, MAX_DOWNLOAD_TIME)?;
    let mut versions = String::new();
    for archive in fs::read_dir(&archives)?.flatten().map(|entry| entry.path()) {
        if archive.extension().is_none_or(|extension| extension != "deb") {
            continue;
        }
        quietly(Command::new("dpkg-deb").arg("-x").args([&archive, &root]), MAX_COMPILE_TIME)?;
        let show = ["--show", "--showformat", "${Package} ${Version}\n"];
        let mut query = Command::new("dpkg-deb");
        versions += &quietly(query.args(show).arg(&archive), MAX_COMPILE_TIME)?.stdout;
    }
    let is_there = |path: &str| root.join(path).exists() || Path::new("/").join(path).exists();
    for program in ["usr/bin/mpiexec.openmpi", "usr/bin/mpiexec.mpich"] {
        ensure!(is_there(program), "no /{program} in the packages");
    }
    fs::remove_dir_all(&archives)?;
    Ok(fs::write(home.join("versions"), versions)?)
}
