//! The installed tree as users build with it: mpicc and its answers to build tools, pkg-config,
//! CMake's FindMPI, Meson, a moved tree, and the profile-guided build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Options, Tally, report_failure};
use crate::command::quietly;
use crate::install::{self, Build};
use crate::pgo;
use crate::project::Project;
use crate::steps::Steps;

/// One thing that must work, as a sentence fragment and a check.
type Check = (&'static str, fn(&Installation) -> Result<()>);

const LIMIT: Duration = Duration::from_secs(120);
/// Of so many seeds one makes the profile-guided build.
const PGO_EVERY: u64 = 3;

struct Installation {
    prefix: PathBuf,
    sources: PathBuf,
    scratch: PathBuf,
}

/// Runs all checks in an empty folder.
pub(super) fn test(project: &Project, options: &Options) -> Result<Tally> {
    let at = Installation {
        prefix: project.prefix(),
        sources: project.root.join("tests"),
        scratch: project.target.join("installation"),
    };
    if at.scratch.exists() {
        std::fs::remove_dir_all(&at.scratch)?;
    }
    std::fs::create_dir_all(&at.scratch)?;
    let mut tally = Tally::default();
    let checks: [Check; 7] = [
        ("the usual files", Installation::has_the_usual_files),
        ("mpicc -show", Installation::mpicc_answers_build_tools),
        ("C and C++ programs", Installation::compiles_and_runs),
        ("pkg-config", Installation::pkg_config_knows_it),
        ("CMake's FindMPI", Installation::cmake_finds_it),
        ("Meson's dependency('mpi')", Installation::meson_finds_it),
        ("a moved tree", Installation::works_where_it_is_moved),
    ];
    // The build of `install --pgo` takes eight minutes, and no other part uses it.
    let long: Check = ("a profile-guided library", Installation::is_optimized_for_a_profile);
    let is_its_turn = options.thorough || options.seed.is_multiple_of(PGO_EVERY);
    let is_ci = std::env::var_os("CI").is_some();
    let is_long = is_ci && is_its_turn && pgo::tool(project).is_some();
    tally.skipped += u64::from(!is_long);
    for (name, check) in checks.into_iter().chain(is_long.then_some(long)) {
        match check(&at) {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                report_failure(name, &format!("{error:#}"), "");
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

impl Installation {
    fn hello(&self) -> PathBuf {
        self.sources.join("programs/hello.c")
    }

    fn has_the_usual_files(&self) -> Result<()> {
        let programs =
            ["mpicc", "mpicxx", "mpiexec", "mpirun", "verbena"].map(|name| format!("bin/{name}"));
        let rest = ["include/mpi.h", "lib/libmpi_abi.so", "lib/libmpi_abi.so.1"].map(str::to_owned);
        for name in programs.iter().chain(&rest) {
            ensure!(self.prefix.join(name).exists(), "{name} is missing");
        }
        let packages = std::fs::read_dir(self.prefix.join("lib/pkgconfig"))?.count();
        ensure!(packages > 0, "lib/pkgconfig is empty");
        Ok(())
    }

    /// CMake, autoconf and setuptools use these words.
    fn mpicc_answers_build_tools(&self) -> Result<()> {
        let library = self.prefix.join("lib");
        for wrapper in ["mpicc", "mpicxx"] {
            for question in
                ["-show", "-compile-info", "-link-info", "--showme:compile", "--showme:link"]
            {
                let mut command = Command::new(self.prefix.join("bin").join(wrapper));
                let answer = quietly(command.arg(question), LIMIT)?.stdout;
                ensure!(
                    answer.trim().lines().count() == 1,
                    "{wrapper} {question} answered {answer:?}"
                );
                let place = if question.contains("compile") { "-I" } else { "-L" };
                let whole = question == "-show";
                let has = answer.contains(place)
                    && (!whole || answer.contains(&library.display().to_string()));
                ensure!(has, "{wrapper} {question} has no {place}: {answer}");
            }
        }
        Ok(())
    }

    fn compiles_and_runs(&self) -> Result<()> {
        for (wrapper, language) in [("mpicc", "c"), ("mpicxx", "c++")] {
            let program = self.scratch.join(wrapper);
            let mut command = Command::new(self.prefix.join("bin").join(wrapper));
            quietly(
                command
                    .args(["-x", language])
                    .arg(self.hello())
                    .args(["-x", "none", "-o"])
                    .arg(&program),
                LIMIT,
            )?;
            self.runs(&self.prefix, &program)?;
        }
        Ok(())
    }

    fn pkg_config_knows_it(&self) -> Result<()> {
        for entry in std::fs::read_dir(self.prefix.join("lib/pkgconfig"))? {
            let file = entry?.path();
            let program = self.scratch.join("by-pkg-config");
            let mut ask = Command::new("pkg-config");
            let words = quietly(ask.args(["--cflags", "--libs"]).arg(&file), LIMIT)?.stdout;
            let mut cc = Command::new("cc");
            cc.arg(self.hello()).args(words.split_whitespace()).arg("-o").arg(&program);
            cc.arg(format!("-Wl,-rpath,{}", self.prefix.join("lib").display()));
            quietly(&mut cc, LIMIT)?;
            self.runs(&self.prefix, &program)?;
        }
        Ok(())
    }

    fn meson_finds_it(&self) -> Result<()> {
        let build = self.scratch.join("meson");
        let mut path = self.prefix.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        for arguments in [["setup", "meson"].as_slice(), &["compile", "-C"], &["test", "-C"]] {
            let mut meson = Command::new("meson");
            meson.args(arguments).arg(&build).env("PATH", &path).current_dir(&self.sources);
            quietly(&mut meson, LIMIT)?;
        }
        Ok(())
    }

    fn cmake_finds_it(&self) -> Result<()> {
        let build = self.scratch.join("cmake");
        let mut path = self.prefix.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        for arguments in [["-S", "cmake", "-B"].as_slice(), &["--build"]] {
            let mut cmake = Command::new("cmake");
            quietly(
                cmake.args(arguments).arg(&build).env("PATH", &path).current_dir(&self.sources),
                LIMIT,
            )?;
        }
        let mut ctest = Command::new("ctest");
        quietly(
            ctest.args(["--output-on-failure", "--test-dir"]).arg(&build).env("PATH", &path),
            LIMIT,
        )?;
        Ok(())
    }

    fn works_where_it_is_moved(&self) -> Result<()> {
        let moved = self.scratch.join("moved to");
        quietly(Command::new("cp").arg("-a").arg(&self.prefix).arg(&moved), LIMIT)?;
        let program = self.scratch.join("by-moved");
        quietly(
            Command::new(moved.join("bin/mpicc")).arg(self.hello()).arg("-o").arg(&program),
            LIMIT,
        )?;
        let needed = quietly(Command::new("ldd").arg(&program), LIMIT)?.stdout;
        ensure!(needed.contains("moved to/lib"), "the program uses another library:\n{needed}");
        self.runs(&moved, &program)
    }

    fn is_optimized_for_a_profile(&self) -> Result<()> {
        let (prefix, program) = (self.scratch.join("optimized"), self.scratch.join("by-optimized"));
        let project = Project::find();
        let steps = Steps::start(&project, "test-pgo", false)?;
        install::install(&project, &steps, &prefix, &Build::Guided)?;
        let [plain, optimized] =
            [&self.prefix, &prefix].map(|tree| std::fs::read(tree.join("lib/libmpi_abi.so")));
        ensure!(plain? != optimized?, "it is the library that was built without one");
        quietly(
            Command::new(prefix.join("bin/mpicc")).arg(self.hello()).arg("-o").arg(&program),
            LIMIT,
        )?;
        self.runs(&prefix, &program)
    }

    /// The first program on two ranks.
    fn runs(&self, prefix: &Path, program: &Path) -> Result<()> {
        let mut command = Command::new(prefix.join("bin/mpiexec"));
        let output = quietly(command.args(["-n", "2"]).arg(program), LIMIT)?.stdout;
        ensure!(output.contains("1 of 2"), "hello on two ranks said {output:?}");
        Ok(())
    }
}
