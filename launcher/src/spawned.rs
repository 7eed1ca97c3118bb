//! `mpiexec --spawned`: runs a job that a process of another job has spawned (MPI-5.0 §11.8).
//!
//! The outermost `mpiexec` starts it, and sends it the job over its standard input
//! ([`crate::nested`]). Its environment and working directory are those of the user, as the other
//! one has them. From then on everything is as if the user had started it.

use crate::explain::Explanations;
use crate::launch;
use crate::nested::links::JobLinks;
use crate::nested::messages::{FromNested, SPAWNED_OPTION, ToNested};
use crate::nested::outer::Outer;
use crate::nested::stream::Stream;
use crate::program::CannotRun;
use crate::settings::EXIT_USAGE;
use crate::signals;

/// Returns true if the first argument is that of the `mpiexec` of a spawned job.
pub fn is_meant(argument: &std::ffi::OsStr) -> bool {
    argument == SPAWNED_OPTION
}

/// Runs the job. Returns its exit code.
pub fn run() -> u8 {
    signals::unblock_inherited();
    let mut stream = Stream::of_stdin().ok();
    let first = stream.as_mut().and_then(Stream::receive);
    let (Some(stream), Some(ToNested::Begin(begin))) = (stream, first) else {
        eprintln!("mpiexec: {SPAWNED_OPTION} is used by mpiexec itself");
        return EXIT_USAGE;
    };
    let (share, settings) = begin.unpack();
    let explanations = Explanations::new(share.size, settings.explain);
    let jobs = JobLinks::Spawned(Outer::new(stream));
    let ran = launch::run_ranks(&settings, &share, explanations, Vec::new(), jobs);
    ran.unwrap_or_else(|CannotRun { message, code }| {
        // The connection was closed with the job; standard input is a copy of it.
        if let Ok(mut stream) = Stream::of_stdin() {
            stream.send(&FromNested::Refused(message));
            stream.flush();
        }
        code
    })
}
