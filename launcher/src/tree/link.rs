//! An edge of the tree, seen from the parent: the agent, the state of the daemon that it has
//! started, and the messages in both directions. A host that has dialed in has its own agent.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};

use super::channel::Channel;
use super::{Branch, agent};
use crate::dial_in::secure_stream::SecureStream;
use crate::frames::{self, FromHost, ToHost};
use crate::heartbeat::Heartbeat;
use crate::stall::HostStall;

/// Time that the first message of a daemon may take after its agent has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The states of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The agent was started; the daemon has not sent a message.
    Starting,
    /// The daemon has sent its first message.
    Running,
    /// Nothing runs there, nor on the hosts below it.
    Over,
    /// The connection ended before that.
    Lost,
}

/// A child in the tree.
#[derive(Debug)]
pub(crate) struct Link {
    /// The child's host, and the hosts below it.
    pub(crate) branch: Branch,
    /// The levels below the child.
    pub(super) height: u32,
    /// The ranks of these hosts.
    ranges: Vec<Range<u32>>,
    pub(crate) state: State,
    /// Ranks of these hosts read mpiexec's standard input.
    pub(super) wants_input: bool,
    /// They have not taken the last piece of input yet.
    pub(super) input_pending: bool,
    /// Whether their ranks make progress.
    pub(super) stall: HostStall,
    /// Runs from the first message on.
    pub(super) heartbeat: Option<Heartbeat>,
    /// `None` for a host that has dialed in.
    agent: Option<Child>,
    /// The way the agent ended, if this process has reaped it.
    reaped: Option<ExitStatus>,
    started: Instant,
    /// The agent was first seen to have ended before the first message of its daemon.
    agent_ended: Option<Instant>,
    channel: Channel,
}

/// How a child is reached.
pub(super) enum Reach<'a> {
    /// By an agent, if not the default, that starts this program.
    Agent(Option<&'a str>, &'a Path),
    /// It has dialed in.
    Dialed(SecureStream),
}

impl Link {
    /// Starts the agent, if the host has not dialed in. The error is one line for the user.
    pub(super) fn start(
        branch: Branch,
        height: u32,
        reach: Reach<'_>,
    ) -> Result<Link, (Branch, String)> {
        let (agent, channel) = match reach {
            Reach::Dialed(stream) => (None, Channel::of_stream(stream)),
            Reach::Agent(agent, program) => match start_agent(&branch.head.name, agent, program) {
                Ok((child, to, from)) => (Some(child), Channel::of_pipes(to, from)),
                Err(why) => return Err((branch, why)),
            },
        };
        let ranges = branch.ranges();
        Ok(Link {
            branch,
            ranges,
            height,
            state: State::Starting,
            wants_input: false,
            input_pending: false,
            stall: HostStall::Active,
            heartbeat: None,
            agent,
            reaped: None,
            started: Instant::now(),
            agent_ended: None,
            channel,
        })
    }

    /// Returns true if the host has dialed in.
    pub(super) fn has_dialed_in(&self) -> bool {
        self.agent.is_none()
    }

    /// Returns true while messages may come.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Starting | State::Running)
    }

    /// Sends a message, now or when there is space.
    pub(super) fn send(&mut self, message: &ToHost) {
        if let Ok(frame) = frames::encode(message) {
            self.channel.send(&frame);
        }
    }

    /// Writes as much as there is space for.
    pub(super) fn write(&mut self) {
        self.channel.write();
    }

    /// Reads what has arrived. Returns false at the end.
    pub(super) fn read(&mut self) -> bool {
        let read = self.channel.read();
        if read == Some(true) {
            self.heartbeat.iter_mut().for_each(Heartbeat::received);
        }
        read.is_some()
    }

    /// Returns the next message. The error is the text that came instead of a message.
    pub(super) fn next_message(&mut self) -> Result<Option<FromHost>, String> {
        self.channel.next_message()
    }

    /// Returns the descriptor to read from.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.channel.readable()
    }

    /// Returns the descriptor to write to, if bytes are pending.
    pub(super) fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.channel.writable()
    }

    /// Closes the connection and counts the host as lost. A daemon that still runs then ends
    /// its ranks.
    pub(super) fn give_up(&mut self) {
        self.hang_up();
        (self.state, self.heartbeat) = (State::Lost, None);
    }

    /// Closes the connection.
    pub(super) fn hang_up(&mut self) {
        self.channel.hang_up();
    }

    /// Returns the time at which a daemon without a message is given up.
    pub(super) fn start_deadline(&self, limit: Duration) -> Option<Instant> {
        (self.state == State::Starting && !limit.is_zero()).then(|| self.started + limit)
    }

    /// Returns the time at which [`Link::has_lost_agent`] becomes true.
    pub(super) fn lost_agent_deadline(&self) -> Option<Instant> {
        let ended = self.agent_ended.filter(|_| self.state == State::Starting)?;
        Some(ended + LAST_WORDS)
    }

    /// Returns true if the agent has ended and its daemon has not sent a message for a moment.
    pub(super) fn has_lost_agent(&mut self, now: Instant) -> bool {
        if self.state != State::Starting {
            return false;
        }
        if self.agent_ended.is_none() && self.agent_status().is_some() {
            self.agent_ended = Some(now);
        }
        self.lost_agent_deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Returns the agent's exit status once it has ended.
    pub(super) fn agent_status(&mut self) -> Option<ExitStatus> {
        self.reaped.or_else(|| self.agent.as_mut()?.try_wait().ok().flatten())
    }

    /// Records the end of the agent, which a wait for all children has found. Returns false if
    /// the process is another one.
    pub(super) fn on_reaped(&mut self, pid: Pid, status: i32) -> bool {
        let is_own = self.agent_pid() == Some(pid);
        if is_own {
            self.reaped = Some(ExitStatus::from_raw(status));
        }
        is_own
    }

    fn agent_pid(&self) -> Option<Pid> {
        self.agent.as_ref().map(Pid::from_child)
    }

    /// Returns true if a rank runs on the child's host or below it.
    pub(crate) fn covers(&self, rank: u32) -> bool {
        self.ranges.iter().any(|ranks| ranks.contains(&rank))
    }

    /// Kills the agent.
    pub(super) fn kill_agent(&mut self) {
        self.kill_group();
        self.agent.iter_mut().for_each(|agent| _ = agent.wait());
    }

    /// Kills the processes of the agent's group.
    pub(super) fn kill_group(&self) {
        self.agent_pid().iter().for_each(|pid| _ = kill_process_group(*pid, Signal::KILL));
    }
}

type Started = (Child, OwnedFd, OwnedFd);

/// Starts an agent. Returns it with our ends of its standard input and output.
fn start_agent(host: &str, agent: Option<&str>, program: &Path) -> Result<Started, String> {
    let mut command = agent::command(host, agent, program)?;
    // A process group of its own: Ctrl-C must not end the agent.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| {
        format!("cannot start on {host}: {}: {error}", command.get_program().display())
    })?;
    let to = OwnedFd::from(child.stdin.take().expect("piped"));
    let from = OwnedFd::from(child.stdout.take().expect("piped"));
    for pipe in [&to, &from] {
        fcntl_setfl(pipe, OFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
    }
    Ok((child, to, from))
}
