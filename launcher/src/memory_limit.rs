//! Detects kills by the kernel's out-of-memory killer in this control group, which look like
//! any other SIGKILL. Reads control groups of both versions.

use std::fs;
use std::path::{Path, PathBuf};

/// Version 1 writes "no limit" as the largest multiple of a page; version 2 writes a word.
const UNLIMITED: u64 = 1 << 60;

/// The control group of mpiexec, as it was when the job began.
#[derive(Debug)]
pub struct MemoryLimit {
    /// The files with the count `oom_kill` and with the limit.
    files: Option<(PathBuf, PathBuf)>,
    kills: u64,
}

impl MemoryLimit {
    /// Records the present count.
    pub fn begin() -> MemoryLimit {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let files = candidates(&groups).find(|(counts, _)| counts.exists());
        let kills = files.as_ref().map_or(0, |(counts, _)| kills(counts));
        MemoryLimit { files, kills }
    }

    /// Returns one sentence if the kernel has killed a process since the job began.
    pub fn report(&self) -> Option<String> {
        let (counts, limit) = self.files.as_ref()?;
        if kills(counts) <= self.kills {
            return None;
        }
        Some(explain(&fs::read_to_string(limit).unwrap_or_default()))
    }
}

/// Returns the sentence for a group whose file of the limit has this content.
fn explain(limit: &str) -> String {
    match limit.trim().parse::<u64>() {
        Ok(bytes) if bytes < UNLIMITED => format!(
            "the kernel killed a process because the memory limit of {} MiB of this control group \
             is reached: start fewer ranks, or raise the limit (`--memory` of the container, \
             `--mem` of the batch system)",
            bytes >> 20
        ),
        // A group below one with a limit has none of its own.
        _ => "the kernel killed a process because the memory of this host, or of a control group \
              above this one, is used up: start fewer ranks, or more hosts"
            .to_owned(),
    }
}

/// Returns the two files of each line of /proc/self/cgroup that may have them.
fn candidates(groups: &str) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (controllers, path) = (fields.nth(1)?, fields.next()?.trim_start_matches('/'));
        let under = |root: &str, counts, limit| {
            let folder = Path::new(root).join(path);
            Some((folder.join(counts), folder.join(limit)))
        };
        match controllers {
            "" => under("/sys/fs/cgroup", "memory.events", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                under("/sys/fs/cgroup/memory", "memory.oom_control", "memory.limit_in_bytes")
            }
            _ => None,
        }
    })
}

fn kills(counts: &Path) -> u64 {
    let text = fs::read_to_string(counts).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let found: Vec<_> = candidates("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/x\n").collect();
        assert_eq!(found[0].0, Path::new("/sys/fs/cgroup/memory/a/b/memory.oom_control"));
        assert_eq!(found[1].1, Path::new("/sys/fs/cgroup/x/memory.max"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_group_without_a_limit_names_none() {
        assert!(explain("4294967296\n").contains("4096 MiB of this control group"));
        for unlimited in ["9223372036854771712\n", "max\n", ""] {
            assert!(explain(unlimited).contains("memory of this host"), "{unlimited}");
        }
    }
}
