//! `verbena`: what one may want to know of this installation and this machine.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod topology;

/// Looks at this installation of Verbena and the machine it runs on.
#[derive(Parser)]
#[command(name = "verbena", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the processors that ranks can be mapped and bound to
    Topology {
        /// One line for each hardware thread, for programs
        #[arg(long)]
        threads: bool,
    },
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Topology { threads } => topology::print(threads),
        Command::Version => {
            println!("Verbena {}, an implementation of MPI 5.0", env!("CARGO_PKG_VERSION"));
            Ok(())
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
