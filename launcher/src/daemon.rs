//! `mpiexec --daemon`: the half of a job that runs on one of several hosts.
//!
//! An agent (ssh) starts it with its standard input and output connected to the
//! `mpiexec` that the user started. First it reads the environment and the folder
//! that the user is in, and executes itself anew inside of them: from there on
//! everything is as if `mpiexec` had been started here. The job itself is that of
//! [`crate::job`], which tells instead of deciding.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;

use crate::frames::{self, ToHost, VERSION};
use crate::job;

/// The argument of the first life.
pub const DAEMON: &str = "--daemon";
/// The argument of the second.
const INSIDE: &str = "--daemon-inside";

/// True if this command line is a daemon's.
pub fn is_meant(argument: &std::ffi::OsStr) -> bool {
    argument == DAEMON || argument == INSIDE
}

/// Lives through one of the daemon's two lives. Returns its exit code.
pub fn run(argument: &std::ffi::OsStr) -> u8 {
    let done = if argument == DAEMON { step_inside() } else { begin() };
    done.unwrap_or_else(|why| {
        eprintln!("mpiexec on {}: {why}", job::host_name());
        1
    })
}

fn step_inside() -> Result<u8, String> {
    match read()? {
        ToHost::Around { version: VERSION, environment, folder } => {
            let program = std::env::current_exe()
                .map_err(|error| format!("our own path is not known: {error}"))?;
            let mut again = Command::new(program);
            again.arg(INSIDE).env_clear().envs(environment).current_dir(&folder);
            Err(format!("cannot run in {}: {}", folder.display(), again.exec()))
        }
        ToHost::Around { version, .. } => Err(format!(
            "this is version {VERSION} of the daemon, and mpiexec speaks {version}: install the same on all hosts"
        )),
        _ => Err("mpiexec does not begin as it should".into()),
    }
}

fn begin() -> Result<u8, String> {
    match read()? {
        ToHost::Begin { share, settings } => Ok(job::run_share(&settings, *share)),
        _ => Err("mpiexec does not begin as it should".into()),
    }
}

/// One message, and not a byte more: the next life reads on.
fn read() -> Result<ToHost, String> {
    let mut length = [0u8; 4];
    fill(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    if bytes.len() > frames::LIMIT {
        return Err("this is run by mpiexec, not by people".into());
    }
    fill(&mut bytes)?;
    let mut decoder = frames::decoder();
    decoder.push(&length);
    decoder.push(&bytes);
    decoder
        .message()
        .ok()
        .flatten()
        .ok_or_else(|| "mpiexec says something that this version does not know".into())
}

/// Reads from standard input until it is full; the standard library's own would keep more.
fn fill(bytes: &mut [u8]) -> Result<(), String> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes[filled..]) {
            Ok(0) => return Err("mpiexec is gone".into()),
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(format!("mpiexec can't be read: {errno}")),
        }
    }
    Ok(())
}
