//! The command that starts a daemon on another host, and the words about it.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::allocation::SRUN_OPTIONS;
use crate::frames::DAEMON_OPTION;
use crate::hosts::is_this_host;
use crate::settings::DEFAULT_AGENT;

/// Returns the command that starts the daemon `program` on a host. A further way to reach hosts
/// belongs here.
pub(super) fn command(host: &str, agent: Option<&str>, program: &Path) -> Result<Command, String> {
    if agent.is_none() && is_this_host(host) {
        let mut command = Command::new(program);
        command.arg(DAEMON_OPTION);
        return Ok(command);
    }
    // One line for the shell of the other host, as ssh expects it.
    let line = format!("exec {} {DAEMON_OPTION}", quoted(&program.to_string_lossy()));
    let words = words(agent.unwrap_or(DEFAULT_AGENT), host, &line);
    let (name, rest) = words.split_first().ok_or("--agent is empty: it must name a program")?;
    let mut command = Command::new(name);
    command.args(rest);
    // The ranks get them from this process, with its environment.
    SRUN_OPTIONS.iter().for_each(|name| _ = command.env_remove(name));
    Ok(command)
}

/// Returns an agent's command for messages; `command` stands for the line of the shell.
pub(super) fn shown(agent: Option<&str>, host: &str, command: &str) -> String {
    words(agent.unwrap_or(DEFAULT_AGENT), host, command).join(" ")
}

/// Returns the words of an agent's command: `{host}` and `{command}` stand for the host and the
/// line for its shell. Without them both follow.
fn words(agent: &str, host: &str, line: &str) -> Vec<String> {
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
        assert_eq!(words("ssh -q", "a", "exec x y"), ["ssh", "-q", "a", "exec x y"]);
        let words_of_srun = words("srun --nodelist={host} sh -c {command}", "n1", "exec x y");
        assert_eq!(words_of_srun, ["srun", "--nodelist=n1", "sh", "-c", "exec x y"]);
        assert!(words(" ", "a", "x").is_empty());
    }
}
