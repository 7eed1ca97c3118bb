//! `mpiexec` as the launcher of processes that run already: one that was started without a launcher
//! (`--for-caller`), or the ranks of a process manager's job (`--for-callers`,
//! [`bootstrap::callers`]). They start it when they need it (`runtime/src/own_launcher.rs`).
//!
//! ```text
//! process -> mpiexec --for-caller -> mpiexec --for-caller-apart -> mpiexec --stand-in
//!            ends at once            an ordinary job               its ranks
//! ```
//!
//! All have the socket to the process as their standard input. The launcher is no child of the
//! process, whose own waits for children shall not find it.
//!
//! The ranks of a process manager keep their numbers, job and status pages. `mpiexec` looks for
//! stalls of theirs. It judges no failures before a rank has joined it, and ends no rank that has
//! not. Over several hosts:
//!
//! ```text
//! any host                    first host                   each host
//!   a rank spawns, or waits
//!   mpiexec, START    ->        its listener: mpiexec
//!                               dials all hosts, SERVE ->    its listener: mpiexec, an agent
//!                                                      <-    Greeting
//!                               a job over several hosts <-> a daemon
//! ```
//!
//! The first rank of each host listens, and starts an `mpiexec` for each connection
//! (`runtime/src/host_listener.rs`). Connections are encrypted (TLS 1.3) with a key from the job's
//! secret, which both sides prove before anything is read. The first byte says what the dialer
//! wants.

use std::ffi::OsStr;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bootstrap::callers::{Callers, CallersHost};
use bootstrap::hand_over::{LAUNCHER_OF_SEVERAL_OPTION, LAUNCHER_OPTION};
use bootstrap::{Ranks, StatusPage};
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, open};
use tcp_transport::key_pair::KeyPair;

use crate::dial_in::gather::{Arrival, with_own_names};
use crate::dial_in::greeting::{Greeting, decoder};
use crate::dial_in::join;
use crate::dial_in::secure_stream::{End, SecureStream};
use crate::hosts::host_name;
use crate::launch;
use crate::poll_set;
use crate::program;
use crate::settings::{OnFailure, Settings};
use crate::signals;
use crate::stand_in;

/// The options of the launchers once they are apart.
const APART_OPTION: &str = "--for-caller-apart";
const SEVERAL_APART_OPTION: &str = "--for-callers-apart";
/// All options of processes that serve callers.
const OPTIONS: [&str; 5] = [
    LAUNCHER_OPTION,
    LAUNCHER_OF_SEVERAL_OPTION,
    APART_OPTION,
    SEVERAL_APART_OPTION,
    stand_in::OPTION,
];

/// The use of the key pair, which no other has.
const KEY_CONTEXT: &str = "Verbena 2026-12 TLS key pair of launchers for a process manager's job";
/// Longest time of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Time in which the other side must prove the secret and say what it wants.
const PROOF_TIME: Duration = Duration::from_secs(10);
/// What a dialer wants: that this host's launcher starts the job.
const START: u8 = b'S';
/// That it serves the job as an agent.
const SERVE: u8 = b'A';

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
        _ if argument == SEVERAL_APART_OPTION => {
            let callers = Callers::receive(rustix::stdio::stdin());
            callers.ok_or_else(|| stand_in::used_by_itself(SEVERAL_APART_OPTION)).and_then(serve)
        }
        _ => stand_in::run(std::env::args().skip(2).collect()),
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
    signals::unblock_inherited();
    Ok(launch::run_here(&stand_in::settings(&["-n", "1"], &[])?, None))
}

/// Does what the ranks of this host, or a launcher of another one, need. Returns the exit code.
fn serve(mut callers: Callers) -> Result<u8, String> {
    signals::unblock_inherited();
    match callers.connection.take() {
        Some(connection) => answer(&callers, connection),
        None if callers.hosts.len() == 1 => run_here(&callers),
        None if callers.host == 0 => run_over_hosts(&callers),
        None => ask_first_host(&callers),
    }
}

/// Runs the job of ranks that are all on this host.
fn run_here(callers: &Callers) -> Result<u8, String> {
    let status_page = Some(callers.status_page.as_raw_fd());
    let settings = Settings { status_page, ..settings(callers)? };
    Ok(launch::run_here(&settings, Some((callers.job, callers.secret))))
}

/// Runs the job of ranks on several hosts, once agents of all hosts are there.
fn run_over_hosts(callers: &Callers) -> Result<u8, String> {
    close_stdin();
    let arrived = gather(callers).map_err(|why| {
        format!("not all hosts of this job can be reached, to look for stalls or to spawn: {why}")
    })?;
    Ok(launch::run_arrived(&settings(callers)?, (callers.job, callers.secret), arrived))
}

/// Returns the settings of the job of all ranks.
fn settings(callers: &Callers) -> Result<Settings, String> {
    let host_of = Ranks::hosts_of(callers.hosts.iter().map(|host| &host.ranks));
    let host_of = host_of.ok_or("its hosts do not have each rank once")?;
    let (ranks, job) = (host_of.len().to_string(), format!("{:x}", callers.job));
    let settings = stand_in::settings(&["-n", &ranks], &[&job])?;
    Ok(Settings { host_of, on_failure: OnFailure::EndOnceJoined, ..settings })
}

/// Reaches an agent on each host. The error is a text for the user.
fn gather(callers: &Callers) -> Result<Vec<Arrival>, String> {
    let keys = keys(callers)?;
    let dialed = callers.hosts.iter().map(|host| dial(host, &keys, SERVE));
    // All of them first: the agents start at the same time.
    let streams: Vec<SecureStream> = dialed.collect::<Result<_, _>>()?;
    let end = Instant::now() + PROOF_TIME;
    let mut arrived = Vec::new();
    for (mut stream, host) in streams.into_iter().zip(&callers.hosts) {
        let greeting = greeting(&mut stream, end);
        let greeting = greeting.map_err(|why| format!("{}: {why}", first_address(host)))?;
        arrived.push((Greeting { slots: host.ranks.count(), ..greeting }, stream));
    }
    Ok(with_own_names(arrived))
}

/// Connects to a host, and says what is wanted.
fn dial(host: &CallersHost, keys: &KeyPair, wish: u8) -> Result<SecureStream, String> {
    let mut last = None;
    for address in &host.addresses {
        match TcpStream::connect_timeout(address, ATTEMPT) {
            Ok(socket) => {
                let stream = SecureStream::new(socket, keys, true).and_then(|mut stream| {
                    stream.write(&[wish])?;
                    Ok(stream)
                });
                return stream.map_err(|error| format!("{address}: {error}"));
            }
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
    Err(format!("cannot reach {}: {why}", first_address(host)))
}

fn first_address(host: &CallersHost) -> String {
    host.addresses.first().map(ToString::to_string).unwrap_or_default()
}

fn greeting(stream: &mut SecureStream, end: Instant) -> Result<Greeting, String> {
    let mut decoder = decoder();
    loop {
        let bytes = receive(stream, end)?;
        decoder.push(&bytes);
        match decoder.next_message::<Greeting>() {
            Ok(None) => {}
            Ok(Some(greeting)) => return greeting.fault().map_or(Ok(greeting), Err),
            Err(_) => return Err("it has another version of Verbena".into()),
        }
    }
}

/// Waits for the next bytes.
fn receive(stream: &mut SecureStream, end: Instant) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    loop {
        let flushed = stream.flush();
        let state =
            flushed.and_then(|()| stream.read(&mut bytes)).map_err(|why| why.to_string())?;
        if !bytes.is_empty() {
            return Ok(bytes);
        }
        if state != End::Open {
            return Err("it has closed the connection".into());
        }
        if Instant::now() >= end {
            return Err(format!("no answer within {} s", PROOF_TIME.as_secs()));
        }
        let out = if stream.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
        poll_set::wait(&[((), stream.as_fd(), PollFlags::IN | out)], Some(end));
    }
}

/// Has the first host's launcher start the job.
fn ask_first_host(callers: &Callers) -> Result<u8, String> {
    let mut stream = dial(&callers.hosts[0], &keys(callers)?, START)?;
    // It closes the connection when it has read the wish.
    let _ = receive(&mut stream, Instant::now() + PROOF_TIME);
    Ok(0)
}

/// Does what the launcher of another host wants, once it has proved the secret.
fn answer(callers: &Callers, connection: OwnedFd) -> Result<u8, String> {
    let stream = SecureStream::new(TcpStream::from(connection), &keys(callers)?, false);
    let mut stream = stream.map_err(|error| error.to_string())?;
    // A stranger is not worth a line.
    let Ok(wish) = receive(&mut stream, Instant::now() + PROOF_TIME) else { return Ok(1) };
    close_stdin();
    match wish[..] {
        [SERVE] => {
            let ranks = callers.hosts[callers.host as usize].ranks.count();
            let greeting = Greeting::new(host_name(), ranks);
            join::serve(stream, greeting, callers.status_page.as_fd())
        }
        [START] => {
            stream.close();
            let page = StatusPage::attach_number(callers.status_page.as_raw_fd());
            let page = page.map_err(|error| error.to_string())?;
            if !page.begin_own_launcher() {
                return Ok(0);
            }
            page.own_launcher_started(true);
            run_over_hosts(callers)
        }
        _ => Err("a launcher of another version has come".into()),
    }
}

/// Closes the socket to the rank that has started this process: it need not wait any more.
fn close_stdin() {
    if let Ok(null) = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(null);
    }
}

fn keys(callers: &Callers) -> Result<KeyPair, String> {
    let keys = KeyPair::derive(KEY_CONTEXT, &callers.secret);
    keys.map_err(|error| format!("cannot make a key of the job's secret: {error}"))
}
