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
//!
//! `mpiexec --for-callers` serves all ranks of a job that a process manager has started on this
//! host: its job has a stand-in for each, under the same rank. A stand-in listens for its process,
//! which comes when it needs the launcher. If it ends without, the stand-in ends as a program
//! without MPI does: its failure is a matter of the process manager.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use bootstrap::environment::RankParams;
use bootstrap::hand_over::{
    self, Callers, HandedOver, LAUNCHER_OF_SEVERAL_OPTION, LAUNCHER_OPTION,
};
use bootstrap::{RankState, StatusPage};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::launch;
use crate::options::{self, Command as Parsed};
use crate::program;
use crate::settings::EXIT_USAGE;
use crate::signals::{self, Signals};

/// The options of the launchers.
const APART_OPTION: &str = "--for-caller-apart";
const SEVERAL_APART_OPTION: &str = "--for-callers-apart";
/// The option of the stand-in. The number of the job and the processes of all ranks follow if they
/// are ranks of a process manager.
const STAND_IN_OPTION: &str = "--stand-in";
/// All of these.
const OPTIONS: [&str; 5] = [
    LAUNCHER_OPTION,
    LAUNCHER_OF_SEVERAL_OPTION,
    APART_OPTION,
    SEVERAL_APART_OPTION,
    STAND_IN_OPTION,
];

/// Returns true if the first argument is one of these.
pub fn is_meant(argument: &OsStr) -> bool {
    OPTIONS.iter().any(|option| argument == *option)
}

/// Runs what the argument says. Returns the exit code.
pub fn run(argument: &OsStr) -> u8 {
    let done = match argument {
        _ if argument == LAUNCHER_OPTION => step_apart(APART_OPTION),
        _ if argument == LAUNCHER_OF_SEVERAL_OPTION => step_apart(SEVERAL_APART_OPTION),
        _ if argument == APART_OPTION => run_job(),
        _ if argument == SEVERAL_APART_OPTION => run_job_of_several(),
        _ => stand_in(std::env::args().skip(2).collect()),
    };
    done.unwrap_or_else(|why| {
        eprintln!("mpiexec: {why}");
        1
    })
}

/// Starts the launcher so that it is no child of the process.
fn step_apart(option: &str) -> Result<u8, String> {
    Command::new(program::own_path()?)
        .arg(option)
        .stdin(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("cannot start itself: {error}"))?;
    Ok(0)
}

/// Runs the job of the process, with the settings that a command line without options gives.
fn run_job() -> Result<u8, String> {
    run_stand_ins(&["-n", "1"], &[], None)
}

/// Runs the job of several ranks of a process manager, whose calls this launcher does not see.
fn run_job_of_several() -> Result<u8, String> {
    let callers = Callers::receive(rustix::stdio::stdin());
    let callers = callers.ok_or_else(|| used_by_itself(SEVERAL_APART_OPTION))?;
    let Callers { job, secret, processes } = callers;
    let words = [format!("{job:x}")].into_iter();
    let words: Vec<String> = words.chain(processes.iter().map(u32::to_string)).collect();
    let options = ["-n", &processes.len().to_string(), "--stall-timeout", "0"];
    run_stand_ins(&options, &words, Some((job, secret)))
}

/// Runs a job of stand-ins with these options and arguments, on this host. `known`: number and
/// secret of the job, if it has some.
fn run_stand_ins(
    options: &[&str],
    words: &[String],
    known: Option<(u64, [u8; 32])>,
) -> Result<u8, String> {
    signals::unblock_inherited();
    let own_path = program::own_path()?.into_os_string();
    let line = ["--bind-to", "none"].iter().chain(options).map(OsString::from);
    let line = line.chain(["--".into(), own_path, STAND_IN_OPTION.into()]);
    match options::parse(line.chain(words.iter().map(OsString::from))) {
        Ok(Parsed::Run(settings)) => Ok(launch::run_here(&settings, known)),
        Ok(_) => Ok(EXIT_USAGE),
        Err(usage) => Err(usage.to_string()),
    }
}

fn used_by_itself(option: &str) -> String {
    format!("{option} is used by mpiexec itself")
}

/// Hands the place of this rank over to a process, and waits for the end of it. `words`: those that
/// follow the option.
fn stand_in(words: Vec<String>) -> Result<u8, String> {
    let signals = Signals::open().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let unused = || used_by_itself(STAND_IN_OPTION);
    let params = RankParams::of_this_process().ok_or_else(unused)?;
    let rank = hand_over::take(&params).ok_or_else(unused)?;
    if words.is_empty() {
        let socket = rustix::stdio::stdin();
        let process = socket_peercred(socket).map_err(|_| unused())?.pid;
        return serve(socket, process, rank, &signals);
    }
    let job = words.first().and_then(|word| u64::from_str_radix(word, 16).ok());
    let process = words.get(1 + params.rank as usize).and_then(|word| word.parse().ok());
    let (job, process): (u64, u32) = job.zip(process).ok_or_else(unused)?;
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or_else(unused)?;
    let listener = hand_over::listen_for(job, params.rank)
        .map_err(|errno| format!("cannot listen for rank {}: {errno}", params.rank))?;
    match wait_for(listener.as_fd(), process, pid, &signals)? {
        Some(socket) => serve(socket.as_fd(), pid, rank, &signals),
        None => Ok(0),
    }
}

/// Waits until the process connects; `None` if it ends.
fn wait_for(
    listener: BorrowedFd<'_>,
    process: u32,
    pid: Pid,
    signals: &Signals,
) -> Result<Option<OwnedFd>, String> {
    let life = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(life) => life,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(format!("cannot watch process {process}: {errno}")),
    };
    loop {
        let [comes, has_ended] = wait([listener, life.as_fd()], pid, signals)?;
        if comes && let Some(socket) = hand_over::accept_from(listener, process) {
            return Ok(Some(socket));
        }
        if has_ended {
            return Ok(None);
        }
    }
}

/// Hands the rank over to the process at the other end of the socket, and waits for the end of it.
fn serve(
    socket: BorrowedFd<'_>,
    process: Pid,
    rank: HandedOver,
    signals: &Signals,
) -> Result<u8, String> {
    let local_rank = rank.params.local_rank;
    // Afterwards the process alone has the control socket, whose end shows its end.
    hand_over::send(socket, &rank).map_err(|_| used_by_itself(STAND_IN_OPTION))?;
    let HandedOver { status_page, control, .. } = rank;
    drop(control);
    let status_page = StatusPage::attach(status_page).map_err(|error| error.to_string())?;
    // The process sends nothing: what can be read is its end.
    while !wait([socket], process, signals)?[0] {}
    Ok(u8::from(status_page.entry(local_rank).state() != RankState::Finalized))
}

/// Waits until a file is ready, or for a signal, which is passed on. Returns which are ready.
fn wait<const N: usize>(
    files: [BorrowedFd<'_>; N],
    process: Pid,
    signals: &Signals,
) -> Result<[bool; N], String> {
    let all = files.into_iter().chain([signals.as_fd()]);
    let mut all: Vec<PollFd<'_>> =
        all.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    match poll(&mut all, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(format!("cannot wait for process {process:?}: {errno}")),
    }
    // Others reach the process from where they reach this one.
    if signals.read().contains(&libc::SIGTERM) {
        let _ = kill_process(process, Signal::TERM);
    }
    Ok(std::array::from_fn(|at| !all[at].revents().is_empty()))
}
