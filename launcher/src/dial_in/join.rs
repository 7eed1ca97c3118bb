//! An agent (`mpiexec --join ADDRESS`): takes part in one job of the `mpiexec` that listens there.
//!
//! States: dialing, until it is answered or the time is over -> greeted -> copying, from the first
//! byte of `mpiexec` on, between the connection and a daemon of this host -> over, once the daemon
//! has ended. A connection that ends before it copies is dialed again. What it carries is the
//! daemon's business (`frames`); if the agent or its connection ends, the daemon's input ends and
//! with it its ranks.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use tcp_transport::key_pair::KeyPair;

use super::gather::KEY_CONTEXT;
use super::greeting::Greeting;
use super::secure_stream::{End, SecureStream};
use super::token;
use crate::frames::DAEMON_OPTION;
use crate::hosts::host_name;
use crate::poll_set::{self, Interest};
use crate::program;
use crate::settings::STATUS_PAGE_VARIABLE;
use crate::signals::Signals;

/// Longest time of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Time from one attempt to the next.
const PAUSE: Duration = Duration::from_millis(200);
/// Time that `mpiexec` has to take the last bytes.
const LAST_BYTES: Duration = Duration::from_secs(2);
/// The most bytes that wait for one direction before the other is not read.
const MAX_WAITING: usize = 1 << 20;

/// The command line of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// The address of `mpiexec`.
    pub address: String,
    /// The file of the token, if not in the environment.
    pub token_file: Option<String>,
    /// The ranks that this host is meant for, if not one for each processor.
    pub slots: Option<u32>,
    /// Time in which `mpiexec` must answer; zero for no limit.
    pub limit: Duration,
}

/// The meaning of a descriptor in the poll set.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Connection,
    ToDaemon,
    FromDaemon,
}

/// How a connection came to its end.
enum Outcome {
    /// It ended before the job began.
    NotBegun,
    /// The job on this host is over; true if `mpiexec` has said so.
    Over(bool),
    /// A signal has ended the agent.
    Stopped,
}

/// A daemon of this host, before and while a job runs.
struct Daemon {
    child: Child,
    to: Option<OwnedFd>,
    from: Option<OwnedFd>,
}

/// Takes part in one job. Returns the exit code.
pub fn run(join: &Join) -> u8 {
    try_run(join).unwrap_or_else(|why| {
        eprintln!("mpiexec --join: {why}");
        1
    })
}

fn try_run(join: &Join) -> Result<u8, String> {
    let secret = token::read(
        join.token_file.as_deref(),
        |path| std::fs::read_to_string(path),
        |name| std::env::var(name).ok(),
    )?;
    let keys = KeyPair::derive(KEY_CONTEXT, &secret)
        .map_err(|error| format!("cannot make a key of the token: {error}"))?;
    // Before signals are blocked, which it would inherit.
    let mut daemon = Daemon::start(None)?;
    let signals = Signals::open().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let slots = join.slots.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
    });
    let greeting = Greeting::new(host_name(), slots);
    let greeting = greeting.encode().map_err(|error| error.to_string())?;
    let end = Instant::now().checked_add(join.limit).filter(|_| !join.limit.is_zero());
    let outcome = loop {
        let Some(socket) = dial(join, &signals, end)? else { break Outcome::Stopped };
        let stream = SecureStream::new(socket, &keys, true).map_err(|error| error.to_string())?;
        let mut copying = Copying::new(stream, greeting.clone(), &mut daemon, &signals);
        match copying.run().map_err(|why| format!("{}: {why}", join.address))? {
            Outcome::NotBegun => std::thread::sleep(PAUSE),
            outcome => break outcome,
        }
    };
    daemon.end();
    match outcome {
        Outcome::Over(true) => Ok(0),
        Outcome::Stopped => Ok(143),
        _ => Err(format!("the connection to {} has ended before the job", join.address)),
    }
}

/// Takes part in the job of an `mpiexec` that has dialed this host, whose ranks have a status page.
/// Returns the exit code.
pub(crate) fn serve(
    stream: SecureStream,
    greeting: Greeting,
    status_page: BorrowedFd<'_>,
) -> Result<u8, String> {
    let mut daemon = Daemon::start(Some(status_page))?;
    let signals = Signals::open().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let greeting = greeting.encode().map_err(|error| error.to_string())?;
    let outcome = Copying::new(stream, greeting, &mut daemon, &signals).run()?;
    daemon.end();
    Ok(u8::from(!matches!(outcome, Outcome::Over(true))))
}

/// Connects to `mpiexec`; `None` if a signal has come.
fn dial(join: &Join, signals: &Signals, end: Option<Instant>) -> Result<Option<TcpStream>, String> {
    loop {
        let error = match join.address.to_socket_addrs() {
            Err(error) => error,
            Ok(all) => {
                let mut last = ErrorKind::AddrNotAvailable.into();
                for address in all {
                    match TcpStream::connect_timeout(&address, ATTEMPT) {
                        Ok(socket) => return Ok(Some(socket)),
                        Err(error) => last = error,
                    }
                }
                last
            }
        };
        if end.is_some_and(|end| Instant::now() >= end) {
            let (address, limit) = (&join.address, join.limit.as_secs_f64());
            return Err(format!(
                "no mpiexec has answered at {address} within {limit} s (--start-timeout): {error}"
            ));
        }
        let pause = Some(Instant::now() + PAUSE);
        poll_set::wait(&[(Source::Signals, signals.as_fd(), PollFlags::IN)], pause);
        if is_stopped(signals) {
            return Ok(None);
        }
    }
}

/// Returns true if a signal has come that ends the agent.
fn is_stopped(signals: &Signals) -> bool {
    let ends = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    signals.read().iter().any(|signal| ends.contains(signal))
}

impl Daemon {
    /// Starts a daemon. `status_page`: what its ranks have, if another launcher has started them.
    fn start(status_page: Option<BorrowedFd<'_>>) -> Result<Daemon, String> {
        let program = program::own_path()?;
        let mut command = Command::new(program);
        if let Some(page) = status_page {
            fcntl_setfd(page, FdFlags::empty()).map_err(|errno| errno.to_string())?;
            command.env(STATUS_PAGE_VARIABLE, page.as_raw_fd().to_string());
        }
        command.arg(DAEMON_OPTION).env_remove(token::VARIABLE).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("cannot start a daemon: {error}"))?;
        let to = OwnedFd::from(child.stdin.take().expect("piped"));
        let from = OwnedFd::from(child.stdout.take().expect("piped"));
        for pipe in [&to, &from] {
            fcntl_setfl(pipe, OFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
        }
        Ok(Daemon { child, to: Some(to), from: Some(from) })
    }

    /// Ends a daemon that has no job, and waits for one that has ended.
    fn end(&mut self) {
        if self.from.is_some() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Bytes between a connection and the daemon.
struct Copying<'a> {
    stream: Option<SecureStream>,
    daemon: &'a mut Daemon,
    signals: &'a Signals,
    /// Bytes for `mpiexec`.
    up: Vec<u8>,
    /// Bytes for the daemon.
    down: Vec<u8>,
    has_begun: bool,
    /// `mpiexec` has closed the connection in order.
    is_dismissed: bool,
    is_stopped: bool,
}

impl<'a> Copying<'a> {
    fn new(
        stream: SecureStream,
        greeting: Vec<u8>,
        daemon: &'a mut Daemon,
        signals: &'a Signals,
    ) -> Copying<'a> {
        Copying {
            stream: Some(stream),
            daemon,
            signals,
            up: greeting,
            down: Vec::new(),
            has_begun: false,
            is_dismissed: false,
            is_stopped: false,
        }
    }

    fn run(&mut self) -> Result<Outcome, String> {
        self.write_up()?;
        while self.daemon.from.is_some() {
            for source in poll_set::wait(&self.interests(), None) {
                match source {
                    Source::Signals => self.is_stopped |= is_stopped(self.signals),
                    Source::Connection => self.use_connection()?,
                    Source::ToDaemon => self.write_down(),
                    Source::FromDaemon => self.read_daemon()?,
                }
            }
            if self.is_stopped {
                self.stream = None;
            }
            if self.stream.is_none() {
                if !self.has_begun {
                    return Ok(if self.is_stopped { Outcome::Stopped } else { Outcome::NotBegun });
                }
                // The daemon then ends its ranks.
                self.daemon.to = None;
            }
        }
        self.send_last();
        Ok(if self.is_stopped { Outcome::Stopped } else { Outcome::Over(self.is_dismissed) })
    }

    fn interests(&self) -> Vec<Interest<'_, Source>> {
        let mut all = vec![(Source::Signals, self.signals.as_fd(), PollFlags::IN)];
        all.extend(self.stream.iter().map(|stream| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, self.down.len() < MAX_WAITING);
            flags.set(PollFlags::OUT, stream.wants_write() || !self.up.is_empty());
            (Source::Connection, stream.as_fd(), flags)
        }));
        let Daemon { to, from, .. } = &*self.daemon;
        let to = to.as_ref().filter(|_| !self.down.is_empty());
        all.extend(to.map(|pipe| (Source::ToDaemon, pipe.as_fd(), PollFlags::OUT)));
        let from = from.as_ref().filter(|_| self.up.len() < MAX_WAITING);
        all.extend(from.map(|pipe| (Source::FromDaemon, pipe.as_fd(), PollFlags::IN)));
        all
    }

    /// Reads and writes what the connection has and takes.
    fn use_connection(&mut self) -> Result<(), String> {
        self.write_up()?;
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let end = stream.read(&mut self.down);
        self.has_begun |= !self.down.is_empty();
        self.write_down();
        match end {
            Ok(End::Open) => {}
            Ok(end) => {
                self.is_dismissed = end == End::Closed;
                self.stream = None;
            }
            Err(error) => self.on_error(&error)?,
        }
        Ok(())
    }

    /// A connection that breaks is dialed again, unless the other side has refused us.
    fn on_error(&mut self, error: &std::io::Error) -> Result<(), String> {
        self.stream = None;
        if error.kind() == ErrorKind::InvalidData && !self.has_begun {
            return Err(format!(
                "the process that listens there has another token, or is no mpiexec ({error})"
            ));
        }
        Ok(())
    }

    fn write_up(&mut self) -> Result<(), String> {
        while let Some(stream) = &mut self.stream {
            match stream.write(&self.up) {
                Ok(0) => break,
                Ok(taken) => drop(self.up.drain(..taken)),
                Err(error) => self.on_error(&error)?,
            }
        }
        Ok(())
    }

    fn write_down(&mut self) {
        while let Some(pipe) = self.daemon.to.as_ref().filter(|_| !self.down.is_empty()) {
            match rustix::io::write(pipe, &self.down) {
                Ok(wrote) => drop(self.down.drain(..wrote)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Its output tells how it ended.
                Err(_) => self.daemon.to = None,
            }
        }
    }

    fn read_daemon(&mut self) -> Result<(), String> {
        let Some(pipe) = &self.daemon.from else { return Ok(()) };
        let mut piece = [0u8; 64 << 10];
        match rustix::io::read(pipe, &mut piece[..]) {
            Ok(read) if read > 0 && self.stream.is_some() => {
                self.up.extend_from_slice(&piece[..read]);
                self.write_up()?;
            }
            // Without a connection nobody wants it.
            Ok(read) if read > 0 => {}
            Err(Errno::INTR | Errno::AGAIN) => {}
            _ => self.daemon.from = None,
        }
        Ok(())
    }

    /// Sends the daemon's last bytes, and waits until `mpiexec` has closed the connection.
    fn send_last(&mut self) {
        let end = Instant::now() + LAST_BYTES;
        while let Some(stream) = &mut self.stream {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, stream.wants_write() || !self.up.is_empty());
            poll_set::wait(&[(Source::Connection, stream.as_fd(), flags)], Some(end));
            let _ = self.use_connection();
            if Instant::now() >= end {
                break;
            }
        }
        if let Some(stream) = self.stream.take() {
            stream.close();
        }
    }
}
