//! One host, seen from `mpiexec`: its agent, and what goes to and fro.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use bootstrap::control::Decoder;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::daemon::DAEMON;
use crate::frames::{self, FromHost, ToHost};
use crate::heartbeat::Heartbeat;
use crate::hosts::Host;
use crate::options::AGENT;
use crate::report::Line;

/// How far a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The agent was started, and the daemon has not said a word.
    Starting,
    /// The daemon has said who it is.
    Running,
    /// Nothing runs there any more.
    Over,
    /// The connection has ended before that.
    Lost,
}

/// A host of the job.
pub(super) struct Remote {
    /// As the user wrote it.
    pub(super) name: String,
    /// Which ranks it runs.
    pub(super) ranks: Range<u32>,
    pub(super) state: State,
    /// Ranks there read our standard input.
    pub(super) wants_input: bool,
    /// It has not said yet that they have taken the last piece.
    pub(super) input_pending: bool,
    /// Its ranks all wait, and none gets any further.
    pub(super) stands: bool,
    /// What its ranks do, once it was asked and has answered.
    pub(super) lines: Option<Vec<Line>>,
    /// From its first word on.
    pub(super) heartbeat: Option<Heartbeat>,
    agent: Child,
    to: Option<OwnedFd>,
    from: Option<OwnedFd>,
    pending: Vec<u8>,
    decoder: Decoder,
}

impl Remote {
    /// Starts the agent. The error is one line for the user.
    pub(super) fn start(
        host: &Host,
        ranks: Range<u32>,
        agent: Option<&str>,
    ) -> Result<Remote, String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("our own path is not known: {error}"))?;
        let mut command = match agent {
            None if is_here(&host.name) => {
                let mut command = Command::new(&program);
                command.arg(DAEMON);
                command
            }
            _ => {
                let mut words = agent.unwrap_or(AGENT).split_whitespace();
                let mut command = Command::new(words.next().ok_or("--agent names no program")?);
                // One line for the shell over there, as ssh wants it.
                let line = format!("exec {} {DAEMON}", quoted(&program.to_string_lossy()));
                command.args(words).arg(&host.name).arg(line);
                command
            }
        };
        // A group of its own: Ctrl-C is ours to pass on, not the agent's to die of.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| {
            format!("cannot start on {}: {}: {error}", host.name, command.get_program().display())
        })?;
        let to = OwnedFd::from(child.stdin.take().expect("piped"));
        let from = OwnedFd::from(child.stdout.take().expect("piped"));
        for pipe in [&to, &from] {
            fcntl_setfl(pipe, OFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
        }
        Ok(Remote {
            name: host.name.clone(),
            ranks,
            state: State::Starting,
            wants_input: false,
            input_pending: false,
            stands: false,
            lines: None,
            heartbeat: None,
            agent: child,
            to: Some(to),
            from: Some(from),
            pending: Vec::new(),
            decoder: frames::decoder(),
        })
    }

    /// As a sentence has them.
    pub(super) fn ranks_in_words(&self) -> String {
        let (first, last) = (self.ranks.start, self.ranks.end - 1);
        if first == last { format!("rank {first}") } else { format!("ranks {first} to {last}") }
    }

    /// True while something is to be expected from it.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.state, State::Starting | State::Running)
    }

    /// Says something, now or when the pipe takes it.
    pub(super) fn say(&mut self, message: &ToHost) {
        if let (Some(_), Ok(frame)) = (&self.to, frames::encode(message)) {
            self.pending.extend_from_slice(&frame);
            self.write();
        }
    }

    /// Writes what the pipe takes.
    pub(super) fn write(&mut self) {
        while let Some(to) = self.to.as_ref().filter(|_| !self.pending.is_empty()) {
            match rustix::io::write(to, &self.pending) {
                Ok(wrote) => drop(self.pending.drain(..wrote)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // What became of it is seen where we read.
                Err(_) => self.to = None,
            }
        }
    }

    /// Reads what is there. False at the end.
    pub(super) fn read(&mut self) -> bool {
        let mut piece = [0u8; 64 << 10];
        let Some(from) = &self.from else { return false };
        match rustix::io::read(from, &mut piece[..]) {
            Ok(read) if read > 0 => {
                self.decoder.push(&piece[..read]);
                self.heartbeat.iter_mut().for_each(Heartbeat::heard);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            _ => {
                self.from = None;
                return false;
            }
        }
        true
    }

    /// The next message; the error is what came instead of one.
    pub(super) fn message(&mut self) -> Result<Option<FromHost>, String> {
        let said = |decoder: &Decoder| {
            let bytes = decoder.rest();
            String::from_utf8_lossy(&bytes[..bytes.len().min(200)])
                .trim()
                .replace(char::is_control, " ")
        };
        self.decoder.message().map_err(|_| said(&self.decoder))
    }

    /// What the agent's beginning of a sentence was, if it said no message at all.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(AsFd::as_fd)
    }

    /// The way to it, if something waits.
    pub(super) fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| !self.pending.is_empty()).map(AsFd::as_fd)
    }

    /// Hangs up: a daemon that still runs ends its ranks.
    pub(super) fn hang_up(&mut self) {
        (self.to, self.from) = (None, None);
    }

    /// How the agent ended, if it has.
    pub(super) fn agent_ended(&mut self) -> Option<ExitStatus> {
        self.agent.try_wait().ok().flatten()
    }

    /// Ends the agent.
    pub(super) fn kill_agent(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.agent), Signal::KILL);
        let _ = self.agent.wait();
    }
}

/// This host needs no agent.
fn is_here(name: &str) -> bool {
    let own = crate::job::host_name();
    name == "localhost" || name == own || own.split('.').next() == Some(name)
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
