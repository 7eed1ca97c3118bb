//! The guard: a process that ends the ranks of this host when this process is killed.
//!
//! The kernel kills a rank's first process together with `mpiexec` (`PR_SET_PDEATHSIG`), but not
//! what that process has started, such as the program behind a wrapper script. The guard sleeps on
//! a pipe (the lifeline) that only `mpiexec` can write. The end of the stream means that `mpiexec`
//! is dead.
//!
//! States: asleep -> killing, at the end of the lifeline -> over, once a look at all processes
//! finds none of the job. A process belongs to the job if it is in the group of a rank that was not
//! reaped, or if its environment names the job and this `mpiexec`: another daemon of the job may
//! run on the same machine. `mpiexec` kills the guard when it ends by itself.
//!
//! The guard is `mpiexec --guard JOB PID`, so that it is known in lists of processes. It is apart
//! from `mpiexec` ([`crate::detached`]), and blocks all signals.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bootstrap::environment::VARIABLE;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::detached;
use crate::settings::EXIT_USAGE;

/// The option that starts the guard.
pub const OPTION: &str = "--guard";
/// Time from one look for processes of the job to the next.
const INTERVAL: Duration = Duration::from_millis(20);
/// The largest number of looks.
const MAX_LOOKS: u32 = 250;

/// The guard, seen from `mpiexec`. Dropping it ends it.
#[derive(Debug)]
pub struct Guard {
    pid: Pid,
    lifeline: OwnedFd,
}

impl Guard {
    /// Starts the guard of a job. `None` if the system refuses a process: the job runs without.
    pub fn start(job: u64) -> Option<Guard> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let (job, launcher) = (format!("{job:x}"), std::process::id().to_string());
        let pid = detached::child(&[OPTION, &job, &launcher], &read).ok()?;
        Some(Guard { pid, lifeline: write })
    }

    /// Returns the guard's process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Announces a rank by its first process, the leader of its group.
    pub fn add(&self, leader: Pid) {
        self.send(leader.as_raw_nonzero().get());
    }

    /// Announces that the leader of a group was reaped: its number may be used again.
    pub fn remove(&self, leader: Pid) {
        self.send(-leader.as_raw_nonzero().get());
    }

    fn send(&self, number: i32) {
        // Four bytes are written as a whole. A guard that has ended needs none.
        let _ = rustix::io::write(&self.lifeline, &number.to_ne_bytes());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        detached::end(self.pid);
    }
}

/// Runs `mpiexec --guard JOB PID` with the lifeline as standard input: sleeps until `mpiexec` is
/// dead, then ends the ranks. Returns the exit code.
pub fn run(mut words: impl Iterator<Item = OsString>) -> u8 {
    let job = words.next().and_then(|job| u64::from_str_radix(job.to_str()?, 16).ok());
    let launcher = words.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(job), Some(launcher)) = (job, launcher) else {
        eprintln!("mpiexec: --guard is used by mpiexec itself");
        return EXIT_USAGE;
    };
    watch(job, launcher);
    0
}

fn watch(job: u64, launcher: u32) {
    let mut leaders = BTreeSet::new();
    let mut bytes = [0u8; 4];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes[..]) {
            Ok(4) => match i32::from_ne_bytes(bytes) {
                leader @ 0.. => _ = leaders.insert(leader),
                reaped => _ = leaders.remove(&reaped.wrapping_neg()),
            },
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    for leader in leaders.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    let tokens = [format!("job={job:x}"), format!("launcher={launcher}")];
    for _ in 0..MAX_LOOKS {
        if !kill_members(&tokens) {
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Kills all processes whose environment has the job's tokens. Returns true if there was one.
fn kill_members(tokens: &[String; 2]) -> bool {
    let Ok(folder) = std::fs::read_dir("/proc") else { return false };
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut found = false;
    for pid in pids {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if names_job(&environment, tokens)
            && let Some(pid) = Pid::from_raw(pid)
        {
            found |= kill_process(pid, Signal::KILL).is_ok();
        }
    }
    found
}

/// Returns true if an environment has the bootstrap variable of the job and its launcher.
fn names_job(environment: &[u8], tokens: &[String; 2]) -> bool {
    environment.split(|byte| *byte == 0).any(|line| {
        line.strip_prefix(VARIABLE.as_bytes()).is_some_and(|rest| {
            let has = |token: &String| {
                rest.split(|byte| *byte == b' ').any(|word| word == token.as_bytes())
            };
            tokens.iter().all(has)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_names_one_job() {
        let own = b"A=1\0VERBENA_BOOTSTRAP=v1 rank=0 size=2 launcher=7 job=1f\0B=job=2f\0";
        let tokens = |job: &str, launcher: &str| [job.to_owned(), launcher.to_owned()];
        let job = tokens("job=1f", "launcher=7");
        assert!(names_job(own, &job) && !names_job(b"", &job));
        for other in [("job=1", "launcher=7"), ("job=2f", "launcher=7"), ("job=1f", "launcher=8")] {
            assert!(!names_job(own, &tokens(other.0, other.1)), "{other:?}");
        }
    }
}
