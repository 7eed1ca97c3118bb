//! The processes below a process, from /proc/PID/task/TID/children (proc_pid_task(5)).

use rustix::process::Pid;

/// The largest number of processes that are visited.
const MAX_PROCESSES: usize = 256;

/// Returns a process and its descendants, at most some hundred, the process first.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied().filter(|_| found.len() < MAX_PROCESSES) {
        next += 1;
        let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
        for task in tasks.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = text.split_ascii_whitespace();
            found.extend(children.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_children_of_children_are_found() {
        let line = "sleep 30 & sleep 31 & wait";
        let mut shell = std::process::Command::new("sh").args(["-c", line]).spawn().unwrap();
        let began = std::time::Instant::now();
        while descendants(rustix::process::getpid()).len() < 4 {
            assert!(began.elapsed().as_secs() < 5);
        }
        let all = descendants(Pid::from_child(&shell));
        assert_eq!(all.len(), 3);
        for pid in all.into_iter().skip(1) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
    }
}
