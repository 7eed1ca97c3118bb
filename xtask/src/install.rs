//! `cargo xtask install`: the relocatable tree of bin/, include/, lib/ and share/.
//!
//! No installed file contains the prefix: the compiler wrappers and the pkg-config files find the
//! tree from their own location.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::command;
use crate::pgo;
use crate::project::Project;
use crate::set_up;
use crate::steps::{Steps, say};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Names under which the same pkg-config file is looked for.
const PACKAGES: [&str; 4] = ["mpi", "mpi-c", "mpi-cxx", "verbena"];

/// The folders in cargo's target folder where libraries are built for a second ABI, since both
/// builds have the same names: Fortran for MPICH's, and the library with Open MPI's.
const MPICH_FORTRAN: &str = "fortran-mpich";
const OPENMPI: &str = "openmpi";

/// The differences between the wrappers for the two languages.
struct Wrapper {
    name: &'static str,
    language: &'static str,
    /// The rest of the variables that name the compiler: `VERBENA_CC`.
    variable: &'static str,
    /// The option that does: `-cc=`.
    option: &'static str,
    compilers: &'static str,
    libraries: &'static str,
}

const WRAPPERS: [Wrapper; 3] = [
    Wrapper {
        name: "mpicc",
        language: "C",
        variable: "CC",
        option: "cc",
        compilers: "cc gcc clang",
        libraries: "-lmpi_abi",
    },
    Wrapper {
        name: "mpicxx",
        language: "C++",
        variable: "CXX",
        option: "cxx",
        compilers: "c++ g++ clang++",
        libraries: "-lmpi_abi",
    },
    Wrapper {
        name: "mpifort",
        language: "Fortran",
        variable: "FC",
        option: "fc",
        compilers: "gfortran flang-new flang flang-22 flang-21 flang-20 flang-new-19 flang-19 ifx \
                    nvfortran ifort f95",
        libraries: "-lverbena_fortran -lmpi_abi",
    },
];

/// Compilers whose modules `install` builds, of each family the first that is there; `mpifort`
/// builds those of others.
const FORTRAN_COMPILERS: [&[&str]; 4] = [&["gfortran"], &FLANG, &["ifx"], &["nvfortran"]];

/// The names of LLVM's Fortran compiler: its own, and Debian's.
pub(crate) const FLANG: [&str; 7] =
    ["flang-new", "flang", "flang-22", "flang-21", "flang-20", "flang-new-19", "flang-19"];

/// Options of `install`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder that gets bin/, include/, lib/ and share/.
    #[arg(long)]
    prefix: PathBuf,
    /// Cargo's profile: release, dev or checked.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Optimise the release build for a profile of small jobs: three builds in place of one, and 5
    /// to 10 % less time for small messages. Needs the compiler's llvm-tools.
    #[arg(long, conflicts_with = "profile")]
    pgo: bool,
    /// Show all that programs print, instead of one line for each step.
    #[arg(long, short)]
    verbose: bool,
}

/// Builds and installs by the options.
pub(crate) fn command(project: &Project, options: &Options) -> Result<()> {
    let steps = Steps::start(project, "install", options.verbose)?;
    let build = match options.pgo {
        true => Build::Guided,
        false => Build::Profile(&options.profile),
    };
    if options.pgo {
        set_up::profile_tools(project, &steps)?;
    }
    install(project, &steps, &options.prefix, &build)
}

/// Builds and installs under the project's prefix, optimised for the profile if the compiler can.
pub(crate) fn install_fastest(project: &Project, steps: &Steps) -> Result<()> {
    let build = match set_up::profile_tools(project, steps)? {
        true => Build::Guided,
        false => {
            say!("without the profile-guided build, which needs the compiler's llvm-tools");
            Build::Profile("release")
        }
    };
    install(project, steps, &project.prefix(), &build)
}

/// What is built without the library: the launcher, and libraries on top of the standard ABI.
const ON_THE_LIBRARY: [&str; 6] =
    ["-p", "verbena-launcher", "-p", "verbena-fortran", "-p", "verbena-foreign-abi"];

/// How the library is built.
pub(crate) enum Build<'a> {
    /// With this profile of cargo's.
    Profile(&'a str),
    /// In release, optimised for the profile of small jobs ([`pgo`]).
    Guided,
}

/// Builds and installs under `prefix`, in steps.
pub(crate) fn install(
    project: &Project,
    steps: &Steps,
    prefix: &Path,
    build: &Build,
) -> Result<()> {
    let profile = if let Build::Profile(profile) = build { profile } else { "release" };
    for (title, package, feature, folder) in [
        ("Build Fortran for the MPICH ABI", "verbena-fortran", "mpich", MPICH_FORTRAN),
        ("Build the ABI of Open MPI", "verbena-foreign-abi", "openmpi", OPENMPI),
        ("Build Fortran for the ABI of Open MPI", "verbena-fortran", "openmpi", OPENMPI),
    ] {
        steps.step(title, |step| {
            let mut cargo = project.cargo(&["build", "--profile", profile, "-p", package]);
            cargo.args(["--features", feature, "--target-dir"]).arg(project.target.join(folder));
            step.cargo(&mut cargo)
        })?;
    }
    let (programs, library) = match build {
        Build::Profile(profile) => {
            let title = format!("Build library and launcher ({profile})");
            steps.step(&title, |step| {
                let mut cargo = project.cargo(&["build", "--profile", profile]);
                step.cargo(cargo.args(["-p", "verbena-mpi-abi"]).args(ON_THE_LIBRARY))
            })?;
            let built = project.target.join(if *profile == "dev" { "debug" } else { profile });
            (built.clone(), built)
        }
        Build::Guided => {
            let tool = pgo::tool(project).context(
                "a profile-guided build needs the compiler's llvm-profdata: \
                 `rustup component add llvm-tools`",
            )?;
            steps.step("Build launcher and other ABIs (release)", |step| {
                step.cargo(project.cargo(&["build", "--release"]).args(ON_THE_LIBRARY))
            })?;
            let programs = project.target.join("release");
            let library = pgo::library(project, steps, &tool, &programs)?;
            (programs, library)
        }
    };
    steps.step("Install", |step| {
        install_built(project, prefix, &programs, &library)?;
        step.note(project.shown(prefix).to_string());
        Ok(())
    })
}

/// Installs the launcher and the library that lie in these folders.
pub(crate) fn install_built(
    project: &Project,
    prefix: &Path,
    programs: &Path,
    library: &Path,
) -> Result<()> {
    let tree = Tree::create(prefix)?;
    tree.programs(programs)?;
    tree.wrappers(project)?;
    tree.library(project, library)?;
    tree.fortran(project, programs)?;
    tree.mpich(programs)?;
    tree.mpich_fortran(project, programs)?;
    tree.openmpi(project, programs)?;
    tree.shared_files(project)
}

/// The tree that is being installed.
struct Tree {
    prefix: PathBuf,
}

impl Tree {
    fn create(prefix: &Path) -> Result<Tree> {
        let prefix = std::path::absolute(prefix)?;
        for folder in [
            "bin",
            "include",
            "lib/mpich",
            "lib/openmpi",
            "lib/pkgconfig",
            "share/doc/verbena",
            "lib/verbena/modules",
            "share/verbena/cluster-configs",
            "share/verbena/modules",
        ] {
            let folder = prefix.join(folder);
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(Tree { prefix })
    }

    fn programs(&self, built: &Path) -> Result<()> {
        for name in ["mpiexec", "verbena"] {
            self.copy(&built.join(name), &format!("bin/{name}"))?;
        }
        self.link("mpiexec", "bin/mpirun")
    }

    fn wrappers(&self, project: &Project) -> Result<()> {
        let template = read(&project.root.join("mpi-abi/install/wrapper.sh"))?;
        for wrapper in WRAPPERS {
            let prepare = match wrapper.option {
                "fc" => read(&project.root.join("fortran/install/modules.sh"))?,
                _ => "prepare() { :; }\nadvise() { :; }\n".to_owned(),
            };
            let text = template.replace("@PREPARE@\n", &prepare);
            self.script(&format!("bin/{}", wrapper.name), &wrapper.fill(&text)?)?;
        }
        for name in ["mpif77", "mpif90"] {
            self.link("mpifort", &format!("bin/{name}"))?;
        }
        // Meson takes the newest of mpic++ and mpiCC, which may be that of another MPI.
        for name in ["mpic++", "mpiCC"] {
            self.link("mpicxx", &format!("bin/{name}"))?;
        }
        Ok(())
    }

    fn library(&self, project: &Project, built: &Path) -> Result<()> {
        self.copy(&project.root.join("mpi-abi/include/mpi.h"), "include/mpi.h")?;
        self.copy(&built.join("libmpi_abi.so"), "lib/libmpi_abi.so.1")?;
        self.link("libmpi_abi.so.1", "lib/libmpi_abi.so")?;
        let template = read(&project.root.join("mpi-abi/install/mpi.pc"))?;
        for name in PACKAGES {
            self.package(&template, name, "-lmpi_abi")?;
        }
        Ok(())
    }

    fn package(&self, template: &str, name: &str, libraries: &str) -> Result<()> {
        let text = template.replace("@NAME@", name).replace("@VERSION@", VERSION);
        let text = text.replace("@LIBS@", libraries);
        self.write(&format!("lib/pkgconfig/{name}.pc"), text.as_bytes(), 0o644)
    }

    /// Library, header and sources of the modules; the modules of the compilers that are there.
    fn fortran(&self, project: &Project, built: &Path) -> Result<()> {
        self.copy(&built.join("libverbena_fortran.so"), "lib/libverbena_fortran.so.1")?;
        // The last two are the standard's names (MPI-5.0 §20).
        for name in ["libverbena_fortran.so", "libmpifort_abi.so", "libmpifort_abi.so.1"] {
            self.link("libverbena_fortran.so.1", &format!("lib/{name}"))?;
        }
        self.copy(&project.root.join("fortran/include/mpif.h"), "include/mpif.h")?;
        self.copy_files(&project.root.join("fortran/modules"), "share/verbena/modules")?;
        let template = read(&project.root.join("mpi-abi/install/mpi.pc"))?;
        self.package(&template, "mpi-fort", "-lverbena_fortran -lmpi_abi")?;
        for names in FORTRAN_COMPILERS {
            let found = names.iter().find(|name| command::exists(name, "--version"));
            if let Some(compiler) = found {
                let mut mpifort = Command::new(self.prefix.join("bin/mpifort"));
                mpifort.arg(format!("-fc={compiler}")).arg("-showme:compile");
                mpifort.env("VERBENA_MODULES", self.prefix.join("lib/verbena/modules"));
                command::quietly(&mut mpifort, Duration::from_secs(120))?;
            }
        }
        Ok(())
    }

    /// The library for programs that were built for MPICH or Intel MPI, beside `libmpi.so.12`.
    fn mpich_fortran(&self, project: &Project, programs: &Path) -> Result<()> {
        let built = second_build(project, MPICH_FORTRAN, programs)?;
        self.copy(&built.join("libverbena_fortran.so"), "lib/mpich/libmpifort.so.12")?;
        // The second is Debian's name.
        for name in ["libmpifort.so", "libmpichfort.so.12"] {
            self.link("libmpifort.so.12", &format!("lib/mpich/{name}"))?;
        }
        Ok(())
    }

    /// The library with MPICH's ABI, in a folder of its own: its names are those of other MPIs. C++
    /// programs need the third, of which they use nothing but removed bindings.
    fn mpich(&self, built: &Path) -> Result<()> {
        self.copy(&built.join("libverbena_foreign_abi.so"), "lib/mpich/libmpi.so.12")?;
        for name in ["libmpi.so", "libmpich.so.12", "libmpicxx.so.12", "libmpichcxx.so.12"] {
            self.link("libmpi.so.12", &format!("lib/mpich/{name}"))?;
        }
        Ok(())
    }

    /// The libraries with Open MPI's ABI.
    fn openmpi(&self, project: &Project, programs: &Path) -> Result<()> {
        let built = second_build(project, OPENMPI, programs)?;
        self.copy(&built.join("libverbena_foreign_abi.so"), "lib/openmpi/libmpi.so.40")?;
        self.link("libmpi.so.40", "lib/openmpi/libmpi.so")?;
        // One library for all interfaces of Fortran. The last one is that of older compilers.
        self.copy(&built.join("libverbena_fortran.so"), "lib/openmpi/libmpi_mpifh.so.40")?;
        self.link("libmpi_mpifh.so.40", "lib/openmpi/libmpi_mpifh.so")?;
        for name in ["libmpi_usempif08", "libmpi_usempi_ignore_tkr", "libmpi_usempi"] {
            for end in ["so", "so.40"] {
                self.link("libmpi_mpifh.so.40", &format!("lib/openmpi/{name}.{end}"))?;
            }
        }
        Ok(())
    }

    /// Configurations of clusters, and what there is to read.
    fn shared_files(&self, project: &Project) -> Result<()> {
        self.copy_files(&project.root.join("cluster-configs"), "share/verbena/cluster-configs")?;
        self.copy_files(&project.root.join("docs"), "share/doc/verbena")?;
        let readme = project.root.join("README.md");
        if readme.exists() { self.copy(&readme, "share/doc/verbena/README.md") } else { Ok(()) }
    }

    /// The files of one folder, not of those inside.
    fn copy_files(&self, from: &Path, to: &str) -> Result<()> {
        for entry in
            fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?
        {
            let file = entry?;
            if file.file_type()?.is_file() {
                self.copy(&file.path(), &format!("{to}/{}", file.file_name().to_string_lossy()))?;
            }
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &str) -> Result<()> {
        let content = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        let mode = fs::metadata(from)?.permissions().mode();
        self.write(to, &content, if mode & 0o111 == 0 { 0o644 } else { 0o755 })
    }

    fn script(&self, to: &str, text: &str) -> Result<()> {
        self.write(to, text.as_bytes(), 0o755)
    }

    /// Puts a new file in place of the old one, which programs that run keep.
    fn write(&self, to: &str, content: &[u8], mode: u32) -> Result<()> {
        let path = self.prefix.join(to);
        self.replace(&path, |new| {
            fs::write(new, content)?;
            fs::set_permissions(new, fs::Permissions::from_mode(mode))
        })
    }

    fn link(&self, target: &str, at: &str) -> Result<()> {
        self.replace(&self.prefix.join(at), |new| symlink(target, new))
    }

    fn replace(&self, path: &Path, make: impl Fn(&Path) -> std::io::Result<()>) -> Result<()> {
        let new = path.with_file_name(format!(
            ".{}.new",
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        let _ = fs::remove_file(&new); // left by an installation that was interrupted
        make(&new)
            .and_then(|()| fs::rename(&new, path))
            .with_context(|| format!("cannot install {}", path.display()))
    }
}

impl Wrapper {
    fn fill(&self, template: &str) -> Result<String> {
        let text = template
            .replace("@NAME@", self.name)
            .replace("@PROGRAM@", &self.name.to_uppercase())
            .replace("@LANGUAGE@", self.language)
            .replace("@VARIABLE@", self.variable)
            .replace("@OPTION@", self.option)
            .replace("@COMPILERS@", self.compilers)
            .replace("@LIBS@", self.libraries)
            .replace("@VERSION@", VERSION);
        ensure!(!text.contains("=@"), "the wrapper has a blank that nothing fills");
        Ok(text)
    }
}

/// The folder of what was built for a second ABI, in the profile of `programs`.
fn second_build(project: &Project, folder: &str, programs: &Path) -> Result<PathBuf> {
    let profile = programs.file_name().context("a profile has a folder")?;
    Ok(project.target.join(folder).join(profile))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
