//! `mpifort` without installed modules: two first compilations at once, and a home that cannot be
//! written.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{Fortran, LIMIT};
use crate::command::quietly;

/// What an installation has besides `bin` and its modules.
const SHARED: [&str; 2] = ["include", "share"];

/// Both compilations find whole modules, and nothing else is left in the cache.
pub(super) fn are_built_once(at: &Fortran) -> Result<()> {
    let tree = Tree::without_modules(at)?;
    let start = || tree.mpifort().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    for compiler in [start()?, start()?].map(std::process::Child::wait_with_output) {
        let ran = compiler?;
        ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        tree.are_whole(&modules_of(&String::from_utf8_lossy(&ran.stdout))?)?;
    }
    let cache = tree.root.join("home/.cache/verbena/modules");
    let kept = std::fs::read_dir(&cache)?.count();
    ensure!(kept == 1, "{kept} entries in {}", cache.display());
    Ok(())
}

/// The modules go below the folder for temporary files.
pub(super) fn need_no_home(at: &Fortran) -> Result<()> {
    let tree = Tree::without_modules(at)?;
    let mut mpifort = tree.mpifort();
    let modules = modules_of(&quietly(mpifort.env("HOME", "/proc/none"), LIMIT)?.stdout)?;
    ensure!(modules.starts_with(tree.root.join("tmp")), "{}", modules.display());
    tree.are_whole(&modules)
}

/// An installation whose files are those of the real one, without modules.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn without_modules(at: &Fortran) -> Result<Tree> {
        let root = at.built.join("tree");
        let _ = std::fs::remove_dir_all(&root); // of an earlier test
        for folder in ["bin", "lib", "home", "tmp"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        for name in SHARED {
            symlink(at.prefix.join(name), root.join(name))?;
        }
        std::fs::copy(at.prefix.join("bin/mpifort"), root.join("bin/mpifort"))?;
        Ok(Tree { root })
    }

    /// Builds modules if there are none, and prints the flags.
    fn mpifort(&self) -> Command {
        let mut mpifort = Command::new(self.root.join("bin/mpifort"));
        mpifort.args(["-fc=gfortran", "-showme:compile"]);
        mpifort.env("HOME", self.root.join("home")).env("TMPDIR", self.root.join("tmp"));
        mpifort.env_remove("XDG_CACHE_HOME").env_remove("VERBENA_MODULES");
        mpifort
    }

    fn are_whole(&self, modules: &Path) -> Result<()> {
        let files = ["libverbena_modules.a", "mpi.mod", "mpi_f08.mod", "verbena_mpi_types.mod"];
        for file in files {
            ensure!(modules.join(file).exists(), "{} has no {file}", modules.display());
        }
        let kept = std::fs::read_dir(modules)?.count();
        ensure!(kept == files.len(), "{kept} entries in {}", modules.display());
        Ok(())
    }
}

/// The folder of the modules in the flags.
fn modules_of(flags: &str) -> Result<PathBuf> {
    let folder = flags.split_whitespace().filter_map(|flag| flag.strip_prefix("-I")).nth(1);
    Ok(folder.with_context(|| format!("no modules in {flags}"))?.into())
}
