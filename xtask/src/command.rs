//! Other programs: run with a time limit, their output kept and shown.
//!
//! A program that exceeds its limit gets SIGTERM, and SIGKILL after [`TERM_GRACE`]. Its descendants
//! are found by a mark in the environment (see [`Mark`]); therefore a test detects each process
//! that is left.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Longest time for a program to end after SIGTERM, and for its output to end
/// after it.
const TERM_GRACE: Duration = Duration::from_secs(3);

/// Longest time after the end of a job until its processes have exited.
const EXIT_GRACE: Duration = Duration::from_millis(200);

/// The end of a program and its output.
pub(crate) struct Ran {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// All of its standard output.
    pub(crate) stdout: String,
    /// All of its standard error.
    pub(crate) stderr: String,
    /// From start to end.
    pub(crate) elapsed: Duration,
    /// The program exceeded its limit and was ended.
    pub(crate) timed_out: bool,
}

impl Ran {
    /// Exit code 0, in time.
    pub(crate) fn success(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// The exit code as a shell has it: 128 + the signal for a signal.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Returns how it ended, in words.
    pub(crate) fn ending(&self) -> String {
        let how = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown end".to_owned(),
        };
        let late = if self.timed_out { "over its time limit, then " } else { "" };
        format!("{late}{how} after {:.1} s", self.elapsed.as_secs_f64())
    }

    /// Everything it printed, indented, for a report.
    pub(crate) fn output(&self) -> String {
        let mut text = String::new();
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                let _ = writeln!(text, "    --- {name}");
            }
            for line in stream.lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
        text
    }
}

/// Runs `command` to its end and keeps what it prints.
pub(crate) fn capture(command: &mut Command, stdin: Option<&str>, limit: Duration) -> Result<Ran> {
    watch(command, stdin, limit, |_, _| {})
}

/// Like [`capture`], and shows what it prints while it runs.
pub(crate) fn capture_and_show(command: &mut Command, limit: Duration) -> Result<Ran> {
    follow(command, limit, |line, is_error| match is_error {
        true => eprint!("{line}"),
        false => print!("{line}"),
    })
}

/// Like [`capture`], and hands each line to `each` at once; true: of its standard error.
pub(crate) fn follow(
    command: &mut Command,
    limit: Duration,
    each: impl Fn(&str, bool) + Send + Sync + 'static,
) -> Result<Ran> {
    watch(command, None, limit, each)
}

/// Runs a command; an end other than success is an error.
pub(crate) type Runner<'a> = &'a dyn Fn(&mut Command) -> Result<()>;

/// Runs `command` on this terminal; an end other than success is an error.
pub(crate) fn show(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", line(command));
    }
    Ok(())
}

/// Runs `command` and shows what it printed only if it fails, as an error.
pub(crate) fn quietly(command: &mut Command, limit: Duration) -> Result<Ran> {
    let ran = capture(command, None, limit)?;
    if !ran.success() {
        bail!("`{}` ended with {}\n{}", line(command), ran.ending(), ran.output());
    }
    Ok(ran)
}

/// True if `program` is found on the PATH and runs with `argument`.
pub(crate) fn exists(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the command as typed in a shell.
pub(crate) fn line(command: &Command) -> String {
    let mut text = quoted(&command.get_program().to_string_lossy());
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&quoted(&argument.to_string_lossy()));
    }
    text
}

/// One word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn watch(
    command: &mut Command,
    stdin: Option<&str>,
    limit: Duration,
    each: impl Fn(&str, bool) + Send + Sync + 'static,
) -> Result<Ran> {
    let start = Instant::now();
    let input = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", line(command)))?;
    if let (Some(text), Some(mut pipe)) = (stdin.map(str::to_owned), child.stdin.take()) {
        // A program that reads nothing closes the pipe; that is its right.
        std::thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
    }
    let each = Arc::new(each);
    let of_stderr = each.clone();
    let stdout = reader(child.stdout.take().expect("piped"), move |line| each(line, false));
    let stderr = reader(child.stderr.take().expect("piped"), move |line| of_stderr(line, true));
    let (status, timed_out) = wait(&mut child, start + limit)?;
    let elapsed = start.elapsed();
    Ok(Ran { status, stdout: rest(&stdout), stderr: rest(&stderr), elapsed, timed_out })
}

/// Sleeps until the program ends, without polling: that would disturb its measurements, and the
/// time of its end is exact.
fn wait(child: &mut Child, end: Instant) -> Result<(ExitStatus, bool)> {
    let pid = Pid::from_child(child);
    let ending = pidfd_open(pid, PidfdFlags::empty())
        .context("cannot wait for a program with a time limit")?;
    for (signal, end) in [
        (Some(Signal::TERM), end),
        (Some(Signal::KILL), end + TERM_GRACE),
        (None, end + 2 * TERM_GRACE),
    ] {
        while Instant::now() < end {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now()))?;
            let ended = poll(&mut [PollFd::new(&ending, PollFlags::IN)], Some(&left))
                .is_ok_and(|ready| ready > 0);
            if ended {
                return Ok((child.wait()?, signal != Some(Signal::TERM)));
            }
        }
        if let Some(signal) = signal {
            let _ = kill_process(pid, signal);
        }
    }
    Ok((child.wait()?, true))
}

/// Collects a stream on a thread of its own, line by line.
fn reader(
    stream: impl Read + Send + 'static,
    each: impl Fn(&str) + Send + 'static,
) -> Receiver<String> {
    let (lines, receiver) = channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            each(&text);
            if lines.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// All that a reader collected. A stream that an orphan holds open is given up
/// after [`TERM_GRACE`].
fn rest(lines: &Receiver<String>) -> String {
    let end = Instant::now() + TERM_GRACE;
    let mut text = String::new();
    while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
        text.push_str(&line);
    }
    text
}

/// A mark in the environment by which all descendants of a command are found.
pub(crate) struct Mark(String);

impl Mark {
    const NAME: &str = "XTASK_MARK";

    /// A mark that no other command carries.
    pub(crate) fn new() -> Mark {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Mark(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Puts the mark on a command that has not been started.
    pub(crate) fn put_on(&self, command: &mut Command) {
        command.env(Mark::NAME, &self.0);
    }

    /// Ends every process that still carries the mark, and names them. Those that are
    /// just being ended by the kernel have [`EXIT_GRACE`] to do so.
    pub(crate) fn end_survivors(&self) -> Vec<String> {
        let end = Instant::now() + EXIT_GRACE;
        while !self.survivors().is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let kill = |(pid, name): (i32, String)| {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
            name
        };
        self.survivors().into_iter().map(kill).collect()
    }

    /// Sends SIGKILL to that rank of the marked job; false if there is no such process yet.
    pub(crate) fn kill_rank(&self, rank: u64) -> bool {
        let named = format!(" rank={rank} ");
        let is_it = |pid: i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| {
                variable.starts_with(b"VERBENA_BOOTSTRAP=")
                    && String::from_utf8_lossy(variable).contains(&named)
            })
        };
        let found = self.survivors().into_iter().find(|(pid, _)| is_it(*pid));
        found
            .and_then(|(pid, _)| Pid::from_raw(pid))
            .is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }

    /// Every process that carries the mark: its number, and its name for a report.
    pub(crate) fn survivors(&self) -> Vec<(i32, String)> {
        let marked = format!("{}={}", Mark::NAME, self.0);
        let mut survivors = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
            else {
                continue;
            };
            let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
            if !environment.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes()) {
                continue;
            }
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            survivors.push((pid, format!("{} (pid {pid})", name.trim())));
        }
        survivors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn output_exit_code_and_stdin_are_kept() {
        let ran =
            capture(&mut shell("cat; echo bad >&2; exit 3"), Some("good\n"), TERM_GRACE).unwrap();
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str(), ran.status.code()),
            ("good\n", "bad\n", Some(3))
        );
        assert!(!ran.timed_out && !ran.success());
    }

    #[test]
    fn a_program_over_its_limit_is_ended() {
        let ran = capture(&mut shell("exec sleep 60"), None, Duration::from_millis(50)).unwrap();
        assert!(ran.timed_out && ran.elapsed < TERM_GRACE, "{}", ran.ending());
    }

    #[test]
    fn what_is_left_behind_is_found_and_ended() {
        let mark = Mark::new();
        let mut command = shell("sleep 60 >/dev/null 2>&1 &");
        mark.put_on(&mut command);
        capture(&mut command, None, TERM_GRACE).unwrap();
        assert_eq!(mark.end_survivors().len(), 1);
        std::thread::sleep(Duration::from_millis(100));
        assert!(mark.end_survivors().is_empty());
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        assert_eq!(line(&shell("echo it's")), r"sh -c 'echo it'\''s'");
    }
}
