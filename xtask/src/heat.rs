//! The heat program: compiled by our `mpicc`, run on 4 ranks and on 1, and the
//! two results compared bit for bit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::{line, quietly, show};
use crate::project::Project;

/// What the program does not know: where to put things, and how it is built.
pub(crate) struct Heat {
    program: PathBuf,
    folder: PathBuf,
    mpiexec: PathBuf,
}

/// Compiles the program by the `mpicc` of `prefix`.
pub(crate) fn compile(project: &Project, prefix: &Path) -> Result<Heat> {
    let folder = project.target.join("heat");
    std::fs::create_dir_all(&folder)?;
    let heat = Heat { program: folder.join("heat"), folder, mpiexec: prefix.join("bin/mpiexec") };
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    // No contraction to multiply-add: it would depend on how a loop is cut.
    mpicc.args(["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&heat.program);
    mpicc.arg(project.root.join("tests/programs/heat/heat.c")).args(["-lpng", "-lm"]);
    println!("$ {}", line(&mpicc));
    quietly(&mut mpicc, Duration::from_secs(120))?;
    Ok(heat)
}

/// The picture that comes with the project.
pub(crate) fn our_image(project: &Project) -> PathBuf {
    project.root.join("tests/programs/heat/verbena.png")
}

impl Heat {
    /// Runs on `ranks` ranks and on one; the picture, if both agree.
    pub(crate) fn run(&self, image: &Path, ranks: u32) -> Result<PathBuf> {
        let many = self.once(image, ranks)?;
        let one = self.once(image, 1)?;
        let same = std::fs::read(&many.1)? == std::fs::read(&one.1)?;
        ensure!(same, "the field of {ranks} ranks ({}) is not that of 1 ({})", many.1.display(), one.1.display());
        println!("{ranks} ranks and 1 rank agree bit for bit");
        Ok(many.0)
    }

    /// The picture and the raw field.
    fn once(&self, image: &Path, ranks: u32) -> Result<(PathBuf, PathBuf)> {
        let stem = image.file_stem().context("the image has no name")?.to_string_lossy();
        let picture = self.folder.join(format!("{stem}-{ranks}.png"));
        let raw = self.folder.join(format!("{stem}-{ranks}.raw"));
        for old in [&picture, &raw] {
            if old.exists() {
                std::fs::remove_file(old)?;
            }
        }
        let mut command = Command::new(&self.mpiexec);
        command.arg("-n").arg(ranks.to_string()).arg(&self.program);
        command.arg("-o").arg(&picture).arg("--raw").arg(&raw);
        if ranks == 1 {
            command.arg("-q");
        }
        command.arg(image);
        println!("$ {}", line(&command));
        show(&mut command)?;
        if !picture.exists() || !raw.exists() {
            bail!("the program ended well but wrote no {}", picture.display());
        }
        Ok((picture, raw))
    }
}
