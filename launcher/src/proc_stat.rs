//! What the system tells of a process in /proc/PID/stat (proc_pid_stat(5)).

use std::time::Duration;

use rustix::process::Pid;

/// The process that is its parent.
pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    Pid::from_raw(stat(pid)?.split_ascii_whitespace().nth(1)?.parse().ok()?)
}

/// The time that its threads have spent on processors, in user and in kernel mode.
pub(crate) fn computed(pid: Pid) -> Option<Duration> {
    let stat = stat(pid)?;
    let mut fields = stat.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()? + next()?;
    Some(Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32)
}

/// The fields from the third on; the second may hold spaces and brackets.
fn stat(pid: Pid) -> Option<String> {
    let mut stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    String::from_utf8(stat.split_off(after_name)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_have_a_parent_and_have_computed() {
        let me = rustix::process::getpid();
        assert_eq!(parent(me), rustix::process::getppid());
        let before = computed(me).unwrap();
        while computed(me).unwrap() < before + Duration::from_millis(20) {
            std::hint::spin_loop();
        }
    }
}
