//! Processes that ranks leave behind.
//!
//! We are the reaper of all our descendants (`PR_SET_CHILD_SUBREAPER`): whoever
//! loses its parent becomes our child, so killing children until none is left
//! ends the whole tree, whatever groups and sessions it has made.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};

use crate::proc_stat;

/// Our children that are not ours to end.
#[derive(Debug, Default)]
pub struct Reaper {
    /// They were there when we were executed in the place of their parent.
    spared: Vec<Pid>,
}

impl Reaper {
    /// Makes us the reaper. To be called before the first rank starts.
    pub fn adopt() -> Reaper {
        // If the kernel can't, groups and death signals still do most of it.
        let _ = set_child_subreaper(Some(getpid()));
        let nobody = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::All, nobody) {
            Err(Errno::CHILD) => Reaper::default(),
            _ => Reaper { spared: children() },
        }
    }

    /// Sends a signal to all our children. True if there was any.
    pub fn signal(&self, signal: Signal) -> bool {
        let children = children();
        let reaper = children.iter().filter(|child| !self.spared.contains(child));
        reaper.filter(|child| kill_process(**child, signal).is_ok()).count() > 0
    }

    /// True if children are left that are ours to end.
    pub fn remain(&self) -> bool {
        children().iter().any(|child| !self.spared.contains(child))
    }
}

/// All processes whose parent we are, from /proc. None if it is not mounted.
fn children() -> Vec<Pid> {
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
        assert!(children().contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children().contains(&pid));
    }
}
