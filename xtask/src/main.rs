//! `cargo xtask <command>`: everything that is done to this project, as
//! opposed to with it. One file for each command; `main` only reads the
//! command line.

#![forbid(unsafe_code)]

mod command;
mod compare;
mod counts;
mod demo;
mod generate;
mod install;
mod mpi4py;
mod pgo;
mod project;
mod run;
mod set_up;
mod stress;
mod test;
mod vm;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use project::Project;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Sets up, builds, runs and tests Verbena."
)]
enum Task {
    /// Install the system packages that are missing.
    SetUp,
    /// Set up, build, install under target/ and run real MPI programs on 4 ranks.
    Run(run::Options),
    /// Set up and run every test.
    Test(test::Options),
    /// Measure this MPI beside others, interleaved, and say which promises hold.
    Compare(compare::Options),
    /// Random traffic from seeds for some time, or ranks killed at random moments.
    Stress(stress::Options),
    /// Count the instructions of calls under callgrind, against benches/counts.toml.
    Counts(counts::Options),
    /// Write the files that come from the table of the ABI.
    Generate {
        /// Change nothing; fail if a file differs from what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Run commands in virtual machines with Soft-RoCE devices.
    #[command(subcommand)]
    Vm(vm::Task),
    /// Build and install a relocatable tree.
    Install {
        /// Where bin/, include/ and lib/ go.
        #[arg(long)]
        prefix: PathBuf,
        /// Cargo's profile, as it is: release, dev, checked. Without it: release, optimized for a profile of
        /// small jobs, which takes some minutes.
        #[arg(long)]
        profile: Option<String>,
    },
}

fn main() -> ExitCode {
    let project = Project::find();
    let done = match Task::parse() {
        Task::SetUp => set_up::set_up().map(|()| true),
        Task::Run(options) => run::run(&project, &options).map(|()| true),
        Task::Test(options) => test::test(&project, &options),
        Task::Compare(options) => compare::compare(&project, &options).map(|()| true),
        Task::Stress(options) => stress::stress(&project, &options),
        Task::Counts(options) => counts::counts(&project, &options),
        Task::Vm(task) => vm::vm(&project, &task),
        Task::Generate { check } => generate::generate(check).map(|()| true),
        Task::Install { prefix, profile: None } => install::install(&prefix).map(|()| true),
        Task::Install { prefix, profile: Some(profile) } => {
            install::install_profile(&prefix, &profile).map(|()| true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
