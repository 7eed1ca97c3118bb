//! The heat program: compiled by our `mpicc`, run on 4 ranks and on 1, and the
//! two results compared bit for bit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::{line, quietly, show};
use crate::project::Project;

/// What the program does not know: where to put things, and how it is built.
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
    println!("$ {}", line(&mpicc));
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
    /// Runs on `ranks` ranks, showing progress, and on one; the picture, if
    /// both agree.
    pub(crate) fn run(&self, image: &Path, ranks: u32) -> Result<PathBuf> {
        let many = self.once(image, ranks, &[])?;
        let one = self.once(image, 1, &["-q"])?;
        agree(&many, &one)?;
        println!("{ranks} ranks and 1 rank agree bit for bit");
        Ok(many.picture)
    }

    /// Runs on one rank and on each of `counts`; how many agree with the one.
    pub(crate) fn compare(&self, image: &Path, counts: &[u32]) -> Result<u64> {
        let one = self.once(image, 1, &["-q"])?;
        for ranks in counts {
            agree(&self.once(image, *ranks, &["-q"])?, &one)?;
        }
        Ok(counts.len() as u64)
    }

    fn once(&self, image: &Path, ranks: u32, options: &[&str]) -> Result<Output> {
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
        println!("$ {}", line(&command));
        show(&mut command)?;
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
