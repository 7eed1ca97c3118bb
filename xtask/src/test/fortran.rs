//! The Fortran interfaces: programs that call every procedure, compiled and linked; programs that
//! run on several ranks; and wrong arguments, which must not compile.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Tally, report_failure};
use crate::command::{capture, quietly};
use crate::project::Project;

const LIMIT: Duration = Duration::from_secs(120);

/// Programs that call everything and are not run with arguments.
const EVERY: [&str; 3] = ["every_mpif", "every_mpi", "every_f08"];

/// Runs the tests whose names contain `filter`.
pub(super) fn test(project: &Project, filter: Option<&str>) -> Result<Tally> {
    let at = Fortran {
        prefix: project.prefix(),
        sources: project.root.join("tests/fortran"),
        built: project.target.join("fortran"),
        page: project.root.join("docs/fortran.md"),
    };
    std::fs::create_dir_all(&at.built)?;
    let mut tally = Tally::default();
    for (name, check) in at.checks()? {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        match check() {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                report_failure(&name, &format!("{error:#}"), "");
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

struct Fortran {
    prefix: PathBuf,
    sources: PathBuf,
    built: PathBuf,
    page: PathBuf,
}

/// A name and what it does.
type Check<'a> = (String, Box<dyn Fn() -> Result<()> + 'a>);

impl Fortran {
    fn checks(&self) -> Result<Vec<Check<'_>>> {
        let mut checks: Vec<Check<'_>> = Vec::new();
        for name in EVERY {
            let check = move || self.runs(&self.sources.join(format!("{name}.f90")), &[1]);
            checks.push((name.to_owned(), Box::new(check)));
        }
        for source in sources(&self.sources.join("run"))? {
            let check = {
                let source = source.clone();
                move || self.runs(&source, &[1, 2, 3, 4])
            };
            checks.push((stem(&source), Box::new(check)));
        }
        for source in sources(&self.sources.join("wrong"))? {
            let name = stem(&source);
            checks.push((name, Box::new(move || self.is_refused(&source))));
        }
        if self.page.exists() {
            checks.push(("docs/fortran.md".to_owned(), Box::new(|| self.page_compiles())));
        }
        Ok(checks)
    }

    fn mpifort(&self) -> Command {
        let mut mpifort = Command::new(self.prefix.join("bin/mpifort"));
        mpifort.args(["-fc=gfortran", "-Wall", "-O1", "-J"]).arg(&self.built);
        mpifort
    }

    /// Compiles without a warning, runs, and finds `ok`.
    fn runs(&self, source: &Path, ranks: &[u32]) -> Result<()> {
        let program = self.built.join(stem(source));
        let ran = quietly(self.mpifort().arg(source).arg("-o").arg(&program), LIMIT)?;
        let warned = ran.stderr.contains("Warning") && !is_old(source);
        ensure!(!warned, "the compiler warned:\n{}", ran.stderr);
        for ranks in ranks {
            let mut mpiexec = Command::new(self.prefix.join("bin/mpiexec"));
            mpiexec.args(["-n", &ranks.to_string()]).arg(&program).current_dir(&self.built);
            let output = quietly(&mut mpiexec, LIMIT)?.stdout;
            let is_ok = output.lines().any(|line| line.trim() == "ok");
            ensure!(is_ok && !output.contains("WRONG"), "{ranks} ranks printed:\n{output}");
        }
        Ok(())
    }

    /// Each `!WRONG` line is an error when it is the only one of them in the program, which
    /// compiles without all of them.
    fn is_refused(&self, source: &Path) -> Result<()> {
        let text = std::fs::read_to_string(source)?;
        let wrong: Vec<usize> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains("!WRONG"))
            .map(|(at, _)| at)
            .collect();
        ensure!(!wrong.is_empty(), "no line is marked");
        for chosen in std::iter::once(None).chain(wrong.iter().map(Some)) {
            let lines = text.lines().enumerate();
            let kept: Vec<&str> = lines
                .filter(|(at, _)| !wrong.contains(at) || chosen == Some(at))
                .map(|(_, line)| line)
                .collect();
            let file = self.built.join(format!("{}.f90", stem(source)));
            std::fs::write(&file, kept.join("\n") + "\n")?;
            let mut mpifort = self.mpifort();
            mpifort.args(["-fsyntax-only", "-c"]).arg(&file);
            let ran = capture(&mut mpifort, None, LIMIT)?;
            match chosen {
                None => ensure!(ran.success(), "without wrong lines:\n{}", ran.output()),
                Some(at) => ensure!(!ran.success(), "line {} compiles", at + 1),
            }
        }
        Ok(())
    }

    /// The programs of the users' page.
    fn page_compiles(&self) -> Result<()> {
        let text = std::fs::read_to_string(&self.page)?;
        let programs: Vec<&str> = text
            .split("```fortran\n")
            .skip(1)
            .filter_map(|block| block.split("```").next())
            .filter(|block| block.contains("end program"))
            .collect();
        ensure!(!programs.is_empty(), "the page has no programs");
        for (number, program) in programs.iter().enumerate() {
            let file = self.built.join(format!("page_{number}.f90"));
            std::fs::write(&file, program)?;
            let output = self.built.join(format!("page_{number}"));
            quietly(self.mpifort().arg(&file).arg("-o").arg(&output), LIMIT)?;
            let mut mpiexec = Command::new(self.prefix.join("bin/mpiexec"));
            quietly(mpiexec.args(["-n", "4"]).arg(&output), LIMIT)
                .with_context(|| format!("program {number} of the page"))?;
        }
        Ok(())
    }
}

/// Calls through `mpif.h` pass buffers of many types, of which gfortran warns.
fn is_old(source: &Path) -> bool {
    source.extension().is_some_and(|extension| extension == "f")
}

/// The sources of a folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    found.sort();
    Ok(found)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
