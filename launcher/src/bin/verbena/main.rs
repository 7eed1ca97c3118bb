//! `verbena`: information about this installation and this machine.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use config::{Knobs, Sources};
use launcher::stdout::print;
use launcher::wrap_table::wrap_table;

mod coverage;
mod doctor;
mod simulate;
mod top;
mod topology;

/// Shows this installation of Verbena and the machine it runs on.
#[derive(Parser)]
#[command(name = "verbena", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print every knob with its value and its source
    Config {
        /// Read knobs from a TOML file, as `mpiexec --config` does
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Set a knob, as `mpiexec --set` does
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
    },
    /// Print how many MPI functions are implemented, by chapter
    Coverage {
        /// List the functions that are missing
        #[arg(long)]
        missing: bool,
        /// A chapter (`info`, `rma`), to list its functions, or one function
        chapter: Option<String>,
    },
    /// Check this host for MPI, and print how to get what is missing
    ///
    /// To check other hosts: mpiexec --hosts a,b verbena doctor
    Doctor {
        /// Require RDMA: its absence is an error
        #[arg(long)]
        rdma: bool,
    },
    /// Simulate a collective on a machine of up to 1,048,576 ranks
    ///
    /// Runs the schedules of the library in simulated time, and prints time, messages and the
    /// least time that any algorithm needs. docs/simulating.md describes machine files.
    Simulate(simulate::Arguments),
    /// Show what the ranks of the running jobs on this host do, again and again
    Top(top::Arguments),
    /// Print the processors that ranks can be mapped and bound to
    Topology {
        /// Print one line for each hardware thread, for programs
        #[arg(long)]
        threads: bool,
        /// A machine that is not there, in hwloc's words, in place of this one: "pack:2 numa:2
        /// l3:2 core:4 pu:2"
        #[arg(long, value_name = "MACHINE")]
        synthetic: Option<String>,
    },
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Config { config, set } => print_config(config.as_deref(), &set),
        Command::Coverage { missing, chapter } => coverage::print(missing, chapter.as_deref()),
        Command::Doctor { rdma } => doctor::run(rdma),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Topology { threads, synthetic } => topology::print(threads, synthetic.as_deref()),
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            print(format_args!("Verbena {version}, an implementation of MPI 5.0\n"))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("verbena: {message}");
            ExitCode::FAILURE
        }
    }
}

fn print_config(config: Option<&Path>, set: &[String]) -> Result<(), String> {
    let knobs = Knobs::with_options(Sources { config, set, ..Sources::default() })
        .map_err(|error| error.to_string())?;
    for notice in knobs.notices() {
        eprintln!("verbena: {notice}");
    }
    let table = knobs.table();
    let last = table.find("what it does").unwrap_or(0);
    print(format_args!("{}", wrap_table(&table, last, &std::io::stdout())))
}
