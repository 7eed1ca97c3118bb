//! Ends the processes that ranks leave running.
//!
//! `mpiexec` is the subreaper of its descendants (`PR_SET_CHILD_SUBREAPER`): a process that
//! loses its parent becomes its child. Killing children until none is left therefore ends the whole
//! tree, also its process groups and sessions.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};

use crate::proc_stat;

/// The subreaper.
#[derive(Debug, Default)]
pub struct Reaper {
    /// Children that are no processes of the job: the guard, and those from before the job if
    /// `mpiexec` was executed in the place of their parent.
    spared: Vec<Pid>,
}

impl Reaper {
    /// Makes this process the subreaper. Call it before the first rank starts.
    pub fn become_subreaper() -> Reaper {
        // Without this in the kernel, groups and death signals still end most processes.
        let _ = set_child_subreaper(Some(getpid()));
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::All, look) {
            Err(Errno::CHILD) => Reaper::default(),
            _ => Reaper { spared: children() },
        }
    }

    /// Leaves out a child that is no process of the job.
    pub fn spare(&mut self, child: Pid) {
        self.spared.push(child);
    }

    /// No longer leaves out a child, which has ended.
    pub fn take_back(&mut self, child: Pid) {
        self.spared.retain(|spared| *spared != child);
    }

    /// Sends a signal to all children of the job. Returns true if there was one.
    pub fn signal(&self, signal: Signal) -> bool {
        let children = children();
        let children = children.iter().filter(|child| !self.spared.contains(child));
        children.filter(|child| kill_process(**child, signal).is_ok()).count() > 0
    }

    /// Returns true if children of the job are left.
    pub fn has_children(&self) -> bool {
        children().iter().any(|child| !self.spared.contains(child))
    }
}

/// Returns all children of this process; none if /proc is not mounted.
fn children() -> Vec<Pid> {
    listed().unwrap_or_else(found)
}

/// Returns the children as the kernel lists them (proc_pid_task(5)), if it does. A list may lack a
/// child while others are reaped, and only this thread reaps them.
fn listed() -> Option<Vec<Pid>> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        let pids = text.split_ascii_whitespace();
        all.extend(pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    Some(all)
}

/// Looks for the children among all processes of the system.
fn found() -> Vec<Pid> {
    let me = getpid();
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids =
        folder.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| proc_stat::parent(*pid) == Some(me)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let looks = [children, found];
        assert!(looks.iter().all(|look| look().contains(&pid)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!looks.iter().any(|look| look().contains(&pid)));
    }
}
