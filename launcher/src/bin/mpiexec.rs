//! `mpiexec`, also installed as `mpirun`. See [`launcher::options`] for its command line and
//! [`launcher::launch`] for what it does.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use launcher::callers;
use launcher::daemon;
use launcher::group::keeper;
use launcher::guard;
use launcher::options::{Command, help, parse};
use launcher::settings::EXIT_USAGE;
use launcher::spawned;
use launcher::stdout::print;

fn main() -> ExitCode {
    if let Some(life) = std::env::args_os().nth(1).filter(|first| daemon::is_meant(first)) {
        return daemon::run(&life).into();
    }
    if std::env::args_os().nth(1).is_some_and(|first| spawned::is_meant(&first)) {
        return spawned::run().into();
    }
    if let Some(role) = std::env::args_os().nth(1).filter(|first| callers::is_meant(first)) {
        return callers::run(&role).into();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == keeper::OPTION) {
        return keeper::run().into();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == guard::OPTION) {
        return guard::run(std::env::args_os().skip(2)).into();
    }
    let printed = match parse(std::env::args_os().skip(1)) {
        Ok(Command::Help) => print(format_args!("{}", help())),
        Ok(Command::Version) => {
            print(format_args!("mpiexec (Verbena) {}\n", env!("CARGO_PKG_VERSION")))
        }
        Ok(Command::Join(join)) => return launcher::dial_in::join::run(&join).into(),
        Ok(Command::Run(settings)) => return launcher::launch::run(&settings).into(),
        Err(usage) => {
            eprintln!("mpiexec: {usage}");
            return EXIT_USAGE.into();
        }
    };
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("mpiexec: {message}");
            ExitCode::FAILURE
        }
    }
}
