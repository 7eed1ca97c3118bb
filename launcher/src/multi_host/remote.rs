//! One host, seen from `mpiexec`: its agent, its state, and the messages in both directions.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bootstrap::control::Decoder;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::frames::{self, DAEMON_OPTION, FromHost, ToHost};
use crate::heartbeat::Heartbeat;
use crate::hosts::{Host, is_this_host};
use crate::rank_table::RankLine;
use crate::settings::DEFAULT_AGENT;
use crate::stall::HostStall;

/// The longest text of an agent that an error quotes, in bytes.
const MAX_QUOTE: usize = 200;

/// Time that the first message of a daemon may take after its agent has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The states of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The agent was started; the daemon has not sent a message.
    Starting,
    /// The daemon has sent its first message.
    Running,
    /// Nothing runs there.
    Over,
    /// The connection ended before that.
    Lost,
}

/// A host of the job.
pub(super) struct Remote {
    /// The name as the user wrote it.
    pub(super) name: String,
    /// The ranks that it runs.
    pub(super) ranks: Range<u32>,
    pub(super) state: State,
    /// Ranks there read mpiexec's standard input.
    pub(super) wants_input: bool,
    /// They have not taken the last piece of input yet.
    pub(super) input_pending: bool,
    /// Whether its ranks make progress.
    pub(super) stall: HostStall,
    /// The answer to the last question for the table.
    pub(super) lines: Option<Vec<RankLine>>,
    /// Sentences that came with it.
    pub(super) notes: Vec<String>,
    /// Runs from the first message on.
    pub(super) heartbeat: Option<Heartbeat>,
    agent: Child,
    started: Instant,
    /// The agent was first seen to have ended before the first message of its daemon.
    agent_ended: Option<Instant>,
    channel: Channel,
}

/// The daemon's standard input and output.
struct Channel {
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
        let mut command = agent_command(host, agent)?;
        // A process group of its own: Ctrl-C must not end the agent.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| {
            format!("cannot start on {}: {}: {error}", host.name, command.get_program().display())
        })?;
        let to = OwnedFd::from(child.stdin.take().expect("piped"));
        let from = OwnedFd::from(child.stdout.take().expect("piped"));
        for pipe in [&to, &from] {
            fcntl_setfl(pipe, OFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
        }
        let decoder = frames::decoder();
        Ok(Remote {
            name: host.name.clone(),
            ranks,
            state: State::Starting,
            wants_input: false,
            input_pending: false,
            stall: HostStall::Active,
            lines: None,
            notes: Vec::new(),
            heartbeat: None,
            agent: child,
            started: Instant::now(),
            agent_ended: None,
            channel: Channel { to: Some(to), from: Some(from), pending: Vec::new(), decoder },
        })
    }

    /// Returns its ranks in words.
    pub(super) fn ranks_in_words(&self) -> String {
        let (first, last) = (self.ranks.start, self.ranks.end - 1);
        if first == last { format!("rank {first}") } else { format!("ranks {first} to {last}") }
    }

    /// Returns true while messages may come.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Starting | State::Running)
    }

    /// Sends a message, now or when the pipe has space.
    pub(super) fn send(&mut self, message: &ToHost) {
        if let (Some(_), Ok(frame)) = (&self.channel.to, frames::encode(message)) {
            self.channel.pending.extend_from_slice(&frame);
            self.write();
        }
    }

    /// Writes as much as the pipe takes.
    pub(super) fn write(&mut self) {
        let Channel { to, pending, .. } = &mut self.channel;
        while let Some(pipe) = to.as_ref().filter(|_| !pending.is_empty()) {
            match rustix::io::write(pipe, pending) {
                Ok(wrote) => drop(pending.drain(..wrote)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The reading side reports what happened.
                Err(_) => *to = None,
            }
        }
    }

    /// Reads what has arrived. Returns false at the end.
    pub(super) fn read(&mut self) -> bool {
        let mut piece = [0u8; 64 << 10];
        let Some(from) = &self.channel.from else { return false };
        match rustix::io::read(from, &mut piece[..]) {
            Ok(read) if read > 0 => {
                self.channel.decoder.push(&piece[..read]);
                self.heartbeat.iter_mut().for_each(Heartbeat::received);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            _ => {
                self.channel.from = None;
                return false;
            }
        }
        true
    }

    /// Returns the next message. The error is the text that came instead of a message.
    pub(super) fn next_message(&mut self) -> Result<Option<FromHost>, String> {
        let decoder = &mut self.channel.decoder;
        decoder.next_message().map_err(|_| {
            let bytes = decoder.undecoded();
            String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_QUOTE)])
                .trim()
                .replace(char::is_control, " ")
        })
    }

    /// Returns the descriptor to read from.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.channel.from.as_ref().map(AsFd::as_fd)
    }

    /// Returns the descriptor to write to, if bytes are pending.
    pub(super) fn writable(&self) -> Option<BorrowedFd<'_>> {
        let Channel { to, pending, .. } = &self.channel;
        to.as_ref().filter(|_| !pending.is_empty()).map(AsFd::as_fd)
    }

    /// Closes the connection and counts the host as lost. A daemon that still runs then ends
    /// its ranks.
    pub(super) fn give_up(&mut self) {
        self.hang_up();
        (self.state, self.heartbeat) = (State::Lost, None);
    }

    /// Closes the connection.
    pub(super) fn hang_up(&mut self) {
        (self.channel.to, self.channel.from) = (None, None);
    }

    /// Returns the time at which a daemon without a message is given up.
    pub(super) fn start_deadline(&self, limit: Duration) -> Option<Instant> {
        (self.state == State::Starting && !limit.is_zero()).then(|| self.started + limit)
    }

    /// Returns the time at which [`Remote::has_lost_agent`] becomes true.
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
        self.agent.try_wait().ok().flatten()
    }

    /// Kills the agent.
    pub(super) fn kill_agent(&mut self) {
        self.kill_group();
        let _ = self.agent.wait();
    }

    /// Kills the processes of the agent's group.
    pub(super) fn kill_group(&self) {
        let _ = kill_process_group(Pid::from_child(&self.agent), Signal::KILL);
    }
}

/// Returns the command that starts the daemon on a host. A further way to reach hosts belongs
/// here.
fn agent_command(host: &Host, agent: Option<&str>) -> Result<Command, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot find the path of mpiexec itself: {error}"))?;
    if agent.is_none() && is_this_host(&host.name) {
        let mut command = Command::new(&program);
        command.arg(DAEMON_OPTION);
        return Ok(command);
    }
    // One line for the shell of the other host, as ssh expects it.
    let line = format!("exec {} {DAEMON_OPTION}", quoted(&program.to_string_lossy()));
    let words = agent_words(agent.unwrap_or(DEFAULT_AGENT), &host.name, &line);
    let (name, rest) = words.split_first().ok_or("--agent is empty: it must name a program")?;
    let mut command = Command::new(name);
    command.args(rest);
    Ok(command)
}

/// Returns an agent's command for messages; `command` stands for the line of the shell.
pub(super) fn shown(agent: &str, host: &str, command: &str) -> String {
    agent_words(agent, host, command).join(" ")
}

/// Returns the words of an agent's command: `{host}` and `{command}` stand for the host and the
/// line for its shell. Without them both follow.
fn agent_words(agent: &str, host: &str, line: &str) -> Vec<String> {
    let replace = |word: &str| match word {
        "{command}" => line.to_owned(),
        word => word.replace("{host}", host),
    };
    let mut words: Vec<String> = agent.split_whitespace().map(replace).collect();
    if !words.is_empty() && !agent.contains("{host}") {
        words.extend([host.to_owned(), line.to_owned()]);
    }
    words
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns how an agent or its connection ended, in words.
pub(super) fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("ended with exit code {code}"),
        Some((None, Some(signal))) => format!("was killed by signal {signal}"),
        _ => "was closed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_gets_host_and_command_where_it_wants_them() {
        assert_eq!(agent_words("ssh -q", "a", "exec x y"), ["ssh", "-q", "a", "exec x y"]);
        let words = agent_words("srun --nodelist={host} sh -c {command}", "n1", "exec x y");
        assert_eq!(words, ["srun", "--nodelist=n1", "sh", "-c", "exec x y"]);
        assert!(agent_words(" ", "a", "x").is_empty());
    }
}
