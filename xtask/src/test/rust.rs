//! The tests of the crates, and the reports of rustfmt, clippy, loom and Miri.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use regex::Regex;

use super::Tally;
use crate::command::{capture, exists, line};
use crate::project::Project;
use crate::steps::{Step, say};

/// Seconds for each fuzz target.
const FUZZ_SECONDS: &str = "5";
/// Inputs of each decoder and listener in a thorough run.
const HOSTILE_INPUTS: &str = "1000000";
/// The profile of `cargo test` and `nextest`: optimised, yet with every check. All of them build
/// for the whole workspace: with the features that single packages need, crates would be built
/// again.
const PROFILE: &str = "checked";

/// rustfmt and clippy, with warnings as errors.
pub(super) fn checks(project: &Project, step: &Step) -> Result<Tally> {
    let mut tally = Tally::default();
    let clippy = |of: &[&'static str]| {
        let denied = ["--all-targets", "--quiet", "--", "--deny", "warnings"];
        [&["clippy"], of, &denied].concat()
    };
    let mpich = ["-p", "verbena-fortran", "--features", "mpich"];
    let openmpi = ["-p", "verbena-foreign-abi", "-p", "verbena-fortran", "--features", "openmpi"];
    let format = vec!["fmt", "--all", "--check"];
    for arguments in [format, clippy(&["--workspace"]), clippy(&mpich), clippy(&openmpi)] {
        let mut cargo = project.cargo(&arguments);
        let ran = step.attempt(&mut cargo)?;
        if ran.success() {
            tally.passed += 1;
        } else {
            super::report_failure(&line(&cargo), &ran.ending(), &ran.output());
            tally.failed += 1;
        }
    }
    Ok(tally)
}

/// Unit, property and integration tests. Examples in the documentation are part of [`docs`]. Tests
/// of the C interface take the installed library, whose build in this profile would begin with that
/// of all crates it needs, with other features.
pub(super) fn workspace(project: &Project, step: &Step, filter: Option<&str>) -> Result<Tally> {
    let library = std::path::absolute(project.prefix().join("lib/libmpi_abi.so"))?;
    let arguments = if exists("cargo-nextest", "--version") {
        ["nextest", "run", "--workspace", "--cargo-profile", PROFILE, "--no-fail-fast"]
            .into_iter()
            .chain(["--status-level", "fail", "--final-status-level", "none"])
            .chain(["--no-tests", "pass"])
            .collect()
    } else {
        vec!["test", "--workspace", "--profile", PROFILE, "--no-fail-fast", "--quiet"]
    };
    let mut cargo = project.cargo(&arguments);
    counted(cargo.args(filter).env("TEST_MPI_ABI_LIBRARY", library), step)
}

/// Every fuzz target for [`FUZZ_SECONDS`]; if it is `thorough`, [`HOSTILE_INPUTS`] of each, and as
/// many hostile connections to each listener.
pub(super) fn fuzz(
    project: &Project,
    step: &Step,
    filter: Option<&str>,
    thorough: bool,
) -> Result<Tally> {
    let mut cargo = project.cargo(&["test", "--workspace", "--test", "fuzz"]);
    if thorough {
        cargo.args(["--test", "tcp_limits", "--test", "hostile_agents"]);
        cargo.env("FUZZ_INPUTS", HOSTILE_INPUTS).env("VERBENA_TEST_HOSTILE", HOSTILE_INPUTS);
    }
    cargo.args(["--profile", PROFILE, "--quiet", "--"]).args(filter);
    counted(cargo.env("FUZZ_SECONDS", FUZZ_SECONDS), step)
}

/// The conformance suite of the verbs transport, with these variables in its environment.
pub(super) fn conformance_verbs(
    project: &Project,
    step: &Step,
    filter: Option<&str>,
    environment: &[(&str, &str)],
) -> Result<Tally> {
    let suite = ["test", "--workspace", "--test", "conformance_verbs"];
    let mut cargo = project.cargo(&suite);
    // One test at a time: some unmap memory, and another test would find the hole.
    cargo.args(["--profile", PROFILE, "--quiet", "--", "--test-threads", "1"]).args(filter);
    counted(cargo.envs(environment.iter().copied()), step)
}

/// The documentation of all crates with warnings as errors, and its examples.
pub(super) fn docs(project: &Project, step: &Step) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut reference = crate::docs::reference(project);
    let ran = step.attempt(reference.env("RUSTDOCFLAGS", "--deny warnings"))?;
    if ran.success() {
        tally.passed += 1;
    } else {
        super::report_failure(&line(&reference), &ran.ending(), &ran.output());
        tally.failed += 1;
    }
    let mut examples =
        project.cargo(&["test", "--workspace", "--profile", PROFILE, "--quiet", "--doc"]);
    tally += counted(examples.env("RUSTDOCFLAGS", "--deny warnings"), step)?;
    Ok(tally)
}

/// The lock-free parts under loom, in a build of their own.
pub(super) fn loom(project: &Project, step: &Step) -> Result<Tally> {
    let mut cargo = project.cargo(&[
        "test",
        "--package",
        "verbena-shm-transport",
        "--package",
        "verbena-progress",
        "--lib",
        "--release",
        "--quiet",
        "loom",
    ]);
    cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", project.target.join("loom"));
    counted(&mut cargo, step)
}

/// The rings under Miri, where a nightly toolchain has it.
pub(super) fn miri(project: &Project, step: &Step) -> Result<Tally> {
    let mut version = Command::new("cargo");
    version
        .args(["+nightly", "miri", "--version"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    let there = capture(&mut version, None, Duration::from_secs(60)).is_ok_and(|ran| ran.success());
    if !there {
        say!("skipped: no Miri here (rustup +nightly component add miri)");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let mut cargo = Command::new("cargo");
    cargo.args([
        "+nightly",
        "miri",
        "test",
        "--package",
        "verbena-shm-transport",
        "--lib",
        "--quiet",
        "miri",
    ]);
    cargo.current_dir(&project.root).env("CARGO_TARGET_DIR", project.target.join("miri"));
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    // Miri's emulation of weak memory breaks down where a word is an atomic in one lap and a
    // frame's bytes in the next. Loom tries the orderings.
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-disable-weak-memory-emulation");
    counted(&mut cargo, step)
}

/// Runs a test command and reads its counts. A command that fails
/// without a failed test (it did not build) counts as one failure.
fn counted(cargo: &mut Command, step: &Step) -> Result<Tally> {
    let ran = step.attempt(cargo)?;
    let mut tally = counts(&format!("{}\n{}", ran.stdout, ran.stderr));
    if !ran.success() {
        tally.failed = tally.failed.max(1);
        super::report_failure(&line(cargo), &ran.ending(), &ran.output());
    }
    Ok(tally)
}

/// The sum of all summary lines, of libtest and of nextest.
fn counts(output: &str) -> Tally {
    let libtest = Regex::new(r"(?m)^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored")
        .expect("a constant");
    let mut tally = Tally::default();
    for found in libtest.captures_iter(output) {
        let [passed, failed, skipped] = found.extract().1.map(|digits| digits.parse().unwrap_or(0));
        tally += Tally { passed, failed, skipped };
    }
    let nextest = Regex::new(r"(?m)^\s*Summary \[.*?\] .*?tests? run: (.*)$").expect("a constant");
    let number = Regex::new(r"(\d+) (passed|failed|timed out|skipped)").expect("a constant");
    for found in nextest.captures_iter(output) {
        for item in number.captures_iter(&found[1]) {
            let count = item[1].parse().unwrap_or(0);
            match &item[2] {
                "passed" => tally.passed += count,
                "skipped" => tally.skipped += count,
                _ => tally.failed += count,
            }
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_added_up() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                      test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(counts(output).to_string(), "4 passed, 2 failed, 1 skipped");
        let output = "     Summary [   1.2s] 40 tests run: 35 passed (1 slow), 4 failed, 1 timed out, 2 skipped\n";
        assert_eq!(counts(output).to_string(), "35 passed, 5 failed, 2 skipped");
    }
}
