//! `mpiexec --for-caller`: a launcher for a process that runs already and was started without one.
//! The process starts it when it first needs one, to spawn processes or to publish a name
//! (`runtime/src/own_launcher.rs`).
//!
//! ```text
//! process -> mpiexec --for-caller -> mpiexec --for-caller-apart -> mpiexec --stand-in
//!            ends at once            an ordinary job of one rank   its rank
//! ```
//!
//! All have the socket to the process as their standard input. The launcher is no child of the
//! process, whose own waits for children shall not find it. The stand-in hands its place as rank 0
//! over ([`bootstrap::hand_over`]), and ends with the process: as a failed rank does, unless the
//! process has called MPI_Finalize. What ends the rank of an ordinary job ends the process: the
//! stand-in passes SIGTERM on to it.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Command, Stdio};

use bootstrap::environment::{RankParams, VARIABLE};
use bootstrap::hand_over::{self, LAUNCHER_OPTION};
use bootstrap::{RankState, StatusPage};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, kill_process};

use crate::launch;
use crate::options::{self, Command as Parsed};
use crate::program;
use crate::settings::EXIT_USAGE;
use crate::signals::{self, Signals};

/// The option of the launcher.
const APART_OPTION: &str = "--for-caller-apart";
/// The option of the stand-in.
const STAND_IN_OPTION: &str = "--stand-in";

/// Returns true if the first argument is one of these.
pub fn is_meant(argument: &OsStr) -> bool {
    [LAUNCHER_OPTION, APART_OPTION, STAND_IN_OPTION].iter().any(|option| argument == *option)
}

/// Runs what the argument says. Returns the exit code.
pub fn run(argument: &OsStr) -> u8 {
    let done = match argument {
        _ if argument == LAUNCHER_OPTION => step_apart(),
        _ if argument == APART_OPTION => run_job(),
        _ => stand_in(),
    };
    done.unwrap_or_else(|why| {
        eprintln!("mpiexec: {why}");
        1
    })
}

/// Starts the launcher so that it is no child of the process.
fn step_apart() -> Result<u8, String> {
    Command::new(program::own_path()?)
        .arg(APART_OPTION)
        .stdin(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("cannot start itself: {error}"))?;
    Ok(0)
}

/// Runs the job of the process, with the settings that a command line without options gives.
fn run_job() -> Result<u8, String> {
    signals::unblock_inherited();
    let own_path = program::own_path()?.into_os_string();
    let line = ["-n", "1", "--bind-to", "none", "--"].map(Into::into);
    let line = line.into_iter().chain([own_path, STAND_IN_OPTION.into()]);
    match options::parse(line) {
        Ok(Parsed::Run(settings)) => Ok(launch::run_here(&settings)),
        Ok(_) => Ok(EXIT_USAGE),
        Err(usage) => Err(usage.to_string()),
    }
}

/// Hands the place of this rank over to the process, and waits for the end of it.
fn stand_in() -> Result<u8, String> {
    let socket = rustix::stdio::stdin();
    let signals = Signals::open().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let (process, status_page) = hand_rank_over(socket)
        .ok_or_else(|| format!("{STAND_IN_OPTION} is used by mpiexec itself"))?;
    loop {
        let mut files = [
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        match poll(&mut files, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(format!("cannot wait for process {process:?}: {errno}")),
        }
        // The process sends nothing: this is its end.
        if !files[0].revents().is_empty() {
            return Ok(u8::from(status_page.entry(0).state() != RankState::Finalized));
        }
        // Others reach the process from where they reach this one.
        if signals.read().contains(&libc::SIGTERM) {
            let _ = kill_process(process, Signal::TERM);
        }
    }
}

/// Returns the process and the status page of the rank; `None` if this is no rank, or has no
/// process. Afterwards the process alone has the control socket, whose end shows its end.
fn hand_rank_over(socket: BorrowedFd<'_>) -> Option<(Pid, StatusPage)> {
    let process = socket_peercred(socket).ok()?.pid;
    let params = RankParams::parse(std::env::var(VARIABLE).ok()?.as_str()).ok()?;
    let rank = hand_over::take(&params)?;
    hand_over::send(socket, &rank).ok()?;
    Some((process, StatusPage::attach(rank.status_page).ok()?))
}
