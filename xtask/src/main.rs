//! `cargo xtask <command>`: commands on the project itself, one file each.
//!
//! `main` parses the command line and calls the command.

#![forbid(unsafe_code)]

mod command;
mod compare;
mod counts;
mod demo;
mod docs;
mod generate;
mod install;
mod mpi4py;
mod pgo;
mod project;
mod relay;
mod run;
mod set_up;
mod steps;
mod stress;
mod test;
mod vm;

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
    SetUp {
        /// Show all that programs print, instead of one line for each step.
        #[arg(long, short)]
        verbose: bool,
    },
    /// Set up, build (release), install under target/verbena and run MPI programs on 4 ranks.
    Run(run::Options),
    /// Set up and run every test; the last line counts them.
    Test(test::Options),
    /// Measure this MPI against others, interleaved, and report which promises hold.
    Compare(compare::Options),
    /// Run random traffic from seeds for some time, or kill ranks at random moments.
    Stress(stress::Options),
    /// Count the instructions of MPI calls under callgrind, against benches/counts.toml.
    Counts(counts::Options),
    /// Write the files that are generated from the table of the ABI.
    Generate {
        /// Write nothing; fail if a file differs from its generated text.
        #[arg(long)]
        check: bool,
    },
    /// Build the book and the API reference into target/book, and check their links.
    Docs(docs::Options),
    /// Run commands in virtual machines with Soft-RoCE devices.
    #[command(subcommand)]
    Vm(vm::Task),
    /// Build and install a relocatable tree.
    Install(install::Options),
    /// Reach a network namespace, as ssh reaches a host.
    #[command(subcommand, hide = true)]
    Relay(relay::Task),
}

fn main() -> ExitCode {
    let project = Project::find();
    let done = match Task::parse() {
        Task::SetUp { verbose } => set_up::set_up(&project, verbose).map(|()| true),
        Task::Run(options) => run::run(&project, &options).map(|()| true),
        Task::Test(options) => test::test(&project, &options),
        Task::Compare(options) => compare::compare(&project, &options).map(|()| true),
        Task::Stress(options) => stress::stress(&project, &options),
        Task::Counts(options) => counts::counts(&project, &options),
        Task::Docs(options) => docs::docs(&project, &options),
        Task::Vm(task) => vm::vm(&project, &task),
        Task::Relay(task) => relay::relay(&task).map(|()| true),
        Task::Generate { check } => generate::generate(check).map(|()| true),
        Task::Install(options) => install::command(&project, &options).map(|()| true),
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
