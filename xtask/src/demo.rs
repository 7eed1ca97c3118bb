//! The heat program: compiled by the installed `mpicc`, run on several ranks and on one, and the
//! results compared bit for bit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::{Runner, quietly};
use crate::project::Project;

/// The compiled program and where its files go.
pub(crate) struct HeatDemo {
    program: PathBuf,
    folder: PathBuf,
    mpiexec: PathBuf,
}

/// Compiles the program by the `mpicc` of `prefix`.
pub(crate) fn compile(project: &Project, prefix: &Path) -> Result<HeatDemo> {
    let folder = project.target.join("heat");
    std::fs::create_dir_all(&folder)?;
    let heat =
        HeatDemo { program: folder.join("heat"), folder, mpiexec: prefix.join("bin/mpiexec") };
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    // No contraction to multiply-add: it would depend on how a loop is cut.
    mpicc
        .args(["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&heat.program);
    mpicc.arg(project.root.join("tests/programs/heat/heat.c")).args(["-lpng", "-lm"]);
    quietly(&mut mpicc, Duration::from_secs(120))?;
    Ok(heat)
}

/// The picture that comes with the project.
pub(crate) fn our_image(project: &Project) -> PathBuf {
    project.root.join("tests/programs/heat/verbena.png")
}

/// The files that one run wrote.
struct Output {
    picture: PathBuf,
    raw: PathBuf,
}

impl HeatDemo {
    /// Runs on `ranks` ranks and on one; returns the picture, if both agree.
    pub(crate) fn run(&self, image: &Path, ranks: u32, run: Runner) -> Result<PathBuf> {
        let many = self.once(image, ranks, &[], run)?;
        let one = self.once(image, 1, &["-q"], run)?;
        agree(&many, &one)?;
        Ok(many.picture)
    }

    /// Runs on one rank and on each of `counts`; returns how many agree with the one.
    pub(crate) fn compare(&self, image: &Path, counts: &[u32], run: Runner) -> Result<u64> {
        let one = self.once(image, 1, &["-q"], run)?;
        for ranks in counts {
            agree(&self.once(image, *ranks, &["-q"], run)?, &one)?;
        }
        Ok(counts.len() as u64)
    }

    fn once(&self, image: &Path, ranks: u32, options: &[&str], run: Runner) -> Result<Output> {
        let stem = image.file_stem().context("the image has no name")?.to_string_lossy();
        let picture = self.folder.join(format!("{stem}-{ranks}.png"));
        let raw = self.folder.join(format!("{stem}-{ranks}.raw"));
        for old in [&picture, &raw] {
            if old.exists() {
                std::fs::remove_file(old)?;
            }
        }
        let mut command = Command::new(&self.mpiexec);
        command.arg("-n").arg(ranks.to_string()).arg(&self.program).args(options);
        command.arg("-o").arg(&picture).arg("--raw").arg(&raw).arg(image);
        run(&mut command)?;
        if !picture.exists() || !raw.exists() {
            bail!("the program ended well but wrote no {}", picture.display());
        }
        Ok(Output { picture, raw })
    }
}

/// Fails unless both runs computed the same bits.
fn agree(some: &Output, other: &Output) -> Result<()> {
    let same = std::fs::read(&some.raw)? == std::fs::read(&other.raw)?;
    ensure!(same, "{} and {} differ", some.raw.display(), other.raw.display());
    Ok(())
}
