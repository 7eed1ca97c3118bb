//! `mpiexec --stand-in`: the rank of a job whose process runs already. The process was started by
//! the user or by a process manager, and its launcher when it was needed ([`crate::callers`]).
//!
//! The stand-in hands its place over ([`bootstrap::hand_over`]), and ends with the process: as a
//! failed rank does, unless the process has called MPI_Finalize. What ends the rank of an ordinary
//! job ends the process: the stand-in passes SIGTERM on to it.
//!
//! - A process that was started alone is at the other end of the standard input.
//! - One that a process manager has started comes when it needs the launcher: the stand-in listens
//!   for it. The status page names it. Until then SIGTERM ends the stand-in alone.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use bootstrap::environment::RankParams;
use bootstrap::hand_over::{self, HandedOver};
use bootstrap::{RankState, StatusPage};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::options::{self, Command as Parsed};
use crate::program;
use crate::settings::Settings;
use crate::signals::Signals;

/// The option of the stand-in. The number of the job follows if its ranks are those of a process
/// manager.
pub(crate) const OPTION: &str = "--stand-in";

/// Returns the settings of a job of stand-ins by these options; `words` tell them what they are.
pub(crate) fn settings(options: &[&str], words: &[&str]) -> Result<Settings, String> {
    let own_path = program::own_path()?.into_os_string();
    let line = ["--bind-to", "none"].iter().chain(options).map(OsString::from);
    let line = line.chain(["--".into(), own_path, OPTION.into()]);
    match options::parse(line.chain(words.iter().map(OsString::from))) {
        Ok(Parsed::Run(settings)) => Ok(*settings),
        Ok(_) => Err(used_by_itself(OPTION)),
        Err(usage) => Err(usage.to_string()),
    }
}

/// Returns the error of an option that users do not give.
pub(crate) fn used_by_itself(option: &str) -> String {
    format!("{option} is used by mpiexec itself")
}

/// Hands the place of this rank over to a process, and waits for the end of it. `words`: those that
/// follow the option.
pub(crate) fn run(words: Vec<String>) -> Result<u8, String> {
    let unused = || used_by_itself(OPTION);
    let params = RankParams::of_this_process().ok_or_else(unused)?;
    let rank = hand_over::take(&params).ok_or_else(unused)?;
    let signals = Signals::open().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let Some(word) = words.first() else {
        let socket = rustix::stdio::stdin();
        let process = socket_peercred(socket).map_err(|_| unused())?.pid;
        return serve(socket, process, rank, &signals);
    };
    let page = StatusPage::attach_number(rank.status_page.as_raw_fd());
    let entry = page.map_err(|error| error.to_string())?.entry(params.local_rank);
    let process = entry.pid().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    let process = process.ok_or_else(unused)?;
    let job = u64::from_str_radix(word, 16).map_err(|_| unused())?;
    let listener = hand_over::listen_for(job, params.rank)
        .map_err(|errno| format!("cannot listen for rank {}: {errno}", params.rank))?;
    match wait_for(listener.as_fd(), process, &signals)? {
        Some(socket) => serve(socket.as_fd(), process, rank, &signals),
        None => Ok(exit_code(entry.state())),
    }
}

/// Returns the exit code of a stand-in whose process has ended in this state.
fn exit_code(state: RankState) -> u8 {
    u8::from(state != RankState::Finalized)
}

/// Waits until the process connects; `None` if it ends, or the launcher ends the job.
fn wait_for(
    listener: BorrowedFd<'_>,
    process: Pid,
    signals: &Signals,
) -> Result<Option<OwnedFd>, String> {
    let life = match pidfd_open(process, PidfdFlags::empty()) {
        Ok(life) => life,
        Err(Errno::SRCH) => return Ok(None),
        Err(errno) => return Err(format!("cannot watch process {process:?}: {errno}")),
    };
    loop {
        let ([comes, has_ended], is_terminated) = wait([listener, life.as_fd()], signals)?;
        let number = process.as_raw_nonzero().get() as u32;
        if comes && let Some(socket) = hand_over::accept_from(listener, number) {
            return Ok(Some(socket));
        }
        if has_ended || is_terminated {
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
    hand_over::send(socket, &rank).map_err(|_| used_by_itself(OPTION))?;
    let HandedOver { status_page, control, .. } = rank;
    drop(control);
    let status_page = StatusPage::attach(status_page).map_err(|error| error.to_string())?;
    loop {
        // The process sends nothing: what can be read is its end.
        let ([has_ended], is_terminated) = wait([socket], signals)?;
        if has_ended {
            break;
        }
        // Other signals reach the process from where they reach this one.
        if is_terminated {
            let _ = kill_process(process, Signal::TERM);
        }
    }
    Ok(exit_code(status_page.entry(local_rank).state()))
}

/// Waits until a file is ready, or for a signal. Returns which files are ready, and whether SIGTERM
/// has come.
fn wait<const N: usize>(
    files: [BorrowedFd<'_>; N],
    signals: &Signals,
) -> Result<([bool; N], bool), String> {
    let all = files.into_iter().chain([signals.as_fd()]);
    let mut all: Vec<PollFd<'_>> =
        all.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    match poll(&mut all, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(format!("cannot wait for a process: {errno}")),
    }
    let ready = std::array::from_fn(|at| !all[at].revents().is_empty());
    Ok((ready, signals.read().contains(&libc::SIGTERM)))
}
