//! The stacks of ranks in a report (`--stack-traces`), by eu-stack or gdb, whichever is there.
//!
//! Attaching to a process interrupts its system call, which few programs expect; therefore only
//! the option does it. The tools run one after another, beside the job: nothing waits for them,
//! and each has [`LIMIT`]. A rank that is stopped, or that waits for a disk, is left alone: the
//! first must not be continued, the second cannot be attached to. Where a tool is ended early, its
//! rank is continued.

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::proc_stat;

/// Time that a tool has for one rank.
const LIMIT: Duration = Duration::from_secs(10);
/// Ranks of a host whose stacks one report has.
const MAX_RANKS: usize = 8;
/// Lines of a stack that are printed.
const MAX_LINES: usize = 40;
/// Bytes of a tool's output that are kept.
const MAX_BYTES: usize = 256 * 1024;

/// Takes the stacks that were asked for.
#[derive(Debug, Default)]
pub(crate) struct UserStacks {
    is_wanted: bool,
    queue: VecDeque<(u32, Pid)>,
    running: Option<Capture>,
}

/// A tool that looks at a rank.
#[derive(Debug)]
struct Capture {
    rank: u32,
    /// The process that it looks at.
    of: Pid,
    child: Child,
    output: ChildStdout,
    text: Vec<u8>,
    until: Instant,
}

/// What became of a stack.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The lines for the user.
    pub(crate) lines: Vec<String>,
    /// The tool, which has ended.
    pub(crate) tool: Pid,
}

impl UserStacks {
    /// Takes stacks if `is_wanted`.
    pub(crate) fn new(is_wanted: bool) -> UserStacks {
        UserStacks { is_wanted, ..UserStacks::default() }
    }

    /// Asks for the stacks of these ranks, unless earlier ones are still being taken.
    pub(crate) fn request(&mut self, ranks: impl Iterator<Item = (u32, Pid)>) {
        if self.is_wanted && self.running.is_none() && self.queue.is_empty() {
            self.queue.extend(ranks.filter(|(_, pid)| may_attach(*pid)).take(MAX_RANKS));
        }
    }

    /// Starts the next tool if none runs. Returns it, or the reason why there is none.
    pub(crate) fn start_next(&mut self, now: Instant) -> Option<Result<Pid, String>> {
        if self.running.is_some() {
            return None;
        }
        let (rank, of) = self.queue.pop_front()?;
        match start(of) {
            Ok(mut child) => {
                let tool = Pid::from_child(&child);
                let output = child.stdout.take()?;
                let until = now + LIMIT;
                self.running = Some(Capture { rank, of, child, output, text: Vec::new(), until });
                Some(Ok(tool))
            }
            Err(why) => {
                self.queue.clear();
                Some(Err(why))
            }
        }
    }

    /// Returns the output to wait for.
    pub(crate) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|capture| capture.output.as_fd())
    }

    /// Returns the time at which the running tool is ended.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.running.as_ref().map(|capture| capture.until)
    }

    /// Reads what the tool has written; returns the stack once that is all.
    pub(crate) fn read(&mut self) -> Option<Taken> {
        let capture = self.running.as_mut()?;
        let mut piece = [0; 16 * 1024];
        match capture.output.read(&mut piece) {
            Ok(0) | Err(_) => self.finish(false),
            Ok(len) => {
                let space = MAX_BYTES.saturating_sub(capture.text.len());
                capture.text.extend_from_slice(&piece[..len.min(space)]);
                None
            }
        }
    }

    /// Ends a tool that takes too long, and returns what there is.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Taken> {
        (self.deadline()? <= now).then(|| self.finish(true)).flatten()
    }

    /// Ends all of it, as the job does.
    pub(crate) fn end(&mut self) -> Option<Taken> {
        self.queue.clear();
        self.finish(true)
    }

    /// Ends with what there is. mpiexec reaps the tool like its other children.
    fn finish(&mut self, is_early: bool) -> Option<Taken> {
        let Capture { rank, of, mut child, text, .. } = self.running.take()?;
        let tool = Pid::from_child(&child);
        if is_early {
            let _ = child.kill();
            // The tool may have begun to stop the rank, which was not stopped before.
            let _ = kill_process(of, Signal::CONT);
        }
        Some(Taken { lines: lines(rank, of, &String::from_utf8_lossy(&text)), tool })
    }
}

/// Returns true for a process that sleeps or runs.
fn may_attach(pid: Pid) -> bool {
    matches!(proc_stat::state(pid), Some('S' | 'R'))
}

/// Starts the first tool that is there.
fn start(of: Pid) -> Result<Child, String> {
    let pid = of.as_raw_nonzero().to_string();
    let mut by_elfutils = Command::new("eu-stack");
    by_elfutils.args(["-n", "30", "-p", &pid]);
    let mut by_gdb = Command::new("gdb");
    by_gdb.args(["-nx", "-batch", "-iex", "set auto-load off", "-p", &pid]);
    by_gdb.args(["-ex", "thread apply all -q bt 30"]);
    for tool in [&mut by_elfutils, &mut by_gdb] {
        tool.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        tool.env_remove("DEBUGINFOD_URLS");
        match tool.spawn() {
            Ok(child) => return Ok(child),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("no stacks: cannot run a tool for them: {error}")),
        }
    }
    Err("no stacks: neither eu-stack (package elfutils) nor gdb is installed".to_owned())
}

/// Returns the frames in a tool's output, with the rank in front.
fn lines(rank: u32, of: Pid, text: &str) -> Vec<String> {
    let is_frame = |line: &&str| ["#", "TID ", "Thread "].iter().any(|word| line.starts_with(word));
    let frames: Vec<&str> = text.lines().map(str::trim_end).filter(is_frame).collect();
    let pid = of.as_raw_nonzero();
    if !frames.iter().any(|line| line.starts_with('#')) {
        return vec![format!(
            "the stack of rank {rank} (pid {pid}) cannot be read: the system does not permit to \
             attach to it, or it took more than {} s",
            LIMIT.as_secs()
        )];
    }
    let mut all = vec![format!("the stack of rank {rank} (pid {pid}):")];
    all.extend(frames.iter().take(MAX_LINES).map(|line| format!("  {line}")));
    if frames.len() > MAX_LINES {
        all.push(format!("  ... {} lines more", frames.len() - MAX_LINES));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_and_limited() {
        let me = rustix::process::getpid();
        let text = "warning: nothing\nThread 1 (LWP 7):\n#0  read () at x.c:1\n    x = 1\n";
        let found = lines(3, me, text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[2], "  #0  read () at x.c:1");
        assert!(lines(3, me, "ptrace: Operation not permitted.\n")[0].contains("cannot be read"));
        let long = "#1 f\n".repeat(MAX_LINES + 5);
        let found = lines(3, me, &long);
        assert_eq!((found.len(), &*found[MAX_LINES + 1]), (MAX_LINES + 2, "  ... 5 lines more"));
    }

    #[test]
    fn nothing_is_taken_unasked() {
        let mut stacks = UserStacks::new(false);
        stacks.request([(0, rustix::process::getpid())].into_iter());
        assert!(stacks.start_next(Instant::now()).is_none());
    }
}
