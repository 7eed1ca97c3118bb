//! `mpiexec --daemon`: the half of a job that runs on one of several hosts.
//!
//! An agent such as ssh starts the daemon with its standard input and output connected to its
//! parent: the `mpiexec` that the user started, or a daemon ([`crate::tree`]). First the daemon
//! reads the user's environment and working directory and executes itself anew with them. It keeps
//! the variables that are about its own node ([`NODE_VARIABLES`]). From then on everything is as if
//! `mpiexec` had been started here, but events are sent to `mpiexec` and not judged
//! ([`crate::job`]).

use std::env::var_os;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;

use crate::allocation::NODE_VARIABLES;
use crate::frames::{self, DAEMON_OPTION, ToHost, VERSION};
use crate::hosts::host_name;
use crate::settings::STATUS_PAGE_VARIABLE;
use crate::{job, program};

/// The option of the daemon once it has the user's environment.
const INNER_OPTION: &str = "--daemon-inside";

/// Returns true if the first argument is that of a daemon.
pub fn is_meant(argument: &std::ffi::OsStr) -> bool {
    argument == DAEMON_OPTION || argument == INNER_OPTION
}

/// Runs the daemon, before or after it has the user's environment. Returns its exit code.
pub fn run(argument: &std::ffi::OsStr) -> u8 {
    let done = if argument == DAEMON_OPTION { adopt_environment() } else { begin() };
    done.unwrap_or_else(|why| {
        eprintln!("mpiexec on {}: {why}", host_name());
        1
    })
}

fn adopt_environment() -> Result<u8, String> {
    match read_message()? {
        ToHost::Environment { version: VERSION, variables, folder } => {
            let program = program::own_path()?;
            let own = NODE_VARIABLES.iter().filter_map(|name| Some((name, var_os(name)?)));
            let mut again = Command::new(program);
            again.arg(INNER_OPTION).env_clear().envs(variables).envs(own).current_dir(&folder);
            Err(format!("cannot run in {}: {}", folder.display(), again.exec()))
        }
        ToHost::Environment { version, .. } => Err(format!(
            "the daemon has version {VERSION}, mpiexec has version {version}: install the same \
             Verbena on all hosts"
        )),
        _ => Err(UNEXPECTED.into()),
    }
}

fn begin() -> Result<u8, String> {
    match read_message()? {
        ToHost::Begin { share, mut settings, tree } => {
            let number = std::env::var(STATUS_PAGE_VARIABLE).ok();
            let page = number.and_then(|number| bootstrap::take_inherited(number.parse().ok()?));
            settings.status_page = page.as_ref().map(AsRawFd::as_raw_fd);
            Ok(job::run_share(&settings, &share, &tree))
        }
        _ => Err(UNEXPECTED.into()),
    }
}

const UNEXPECTED: &str =
    "unexpected first message of mpiexec; install the same Verbena on all hosts";

/// Reads one message and no byte more: the program that is executed next reads on.
fn read_message() -> Result<ToHost, String> {
    let mut prefix = [0u8; 4];
    read_exact(&mut prefix)?;
    let length = frames::decode_length(prefix).map_err(|malformed| {
        format!("standard input has {malformed}: mpiexec runs --daemon, users do not")
    })?;
    let mut frame = vec![0; 4 + length];
    frame[..4].copy_from_slice(&prefix);
    read_exact(&mut frame[4..])?;
    match frames::decode_to_host(&frame) {
        Ok(Some((message, _))) => Ok(message),
        Ok(None) | Err(_) => Err(UNEXPECTED.into()),
    }
}

/// Fills `bytes` from standard input. `std::io::stdin` would buffer further bytes.
fn read_exact(bytes: &mut [u8]) -> Result<(), String> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes[filled..]) {
            Ok(0) => return Err("mpiexec has closed the connection".into()),
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(format!("cannot read from mpiexec: {errno}")),
        }
    }
    Ok(())
}
