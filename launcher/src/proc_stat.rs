//! A process in /proc/PID/stat (proc_pid_stat(5)): its state, its parent and its CPU time.

use std::time::Duration;

use rustix::process::Pid;

/// Returns the letter of a process's state: `R` running, `S` asleep, `D` waiting for a disk, `T`
/// stopped.
pub(crate) fn state(pid: Pid) -> Option<char> {
    fields(&read(pid)?)?.trim_start().chars().next()
}

/// Returns the parent of a process.
pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    parse_parent(&read(pid)?)
}

/// Returns the CPU time of all threads of a process, in user and in kernel mode.
pub(crate) fn cpu_time(pid: Pid) -> Option<Duration> {
    parse_cpu_time(&read(pid)?)
}

fn read(pid: Pid) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()
}

fn parse_parent(stat: &[u8]) -> Option<Pid> {
    let parent: u32 = fields(stat)?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Pid::from_raw(i32::try_from(parent).ok()?)
}

fn parse_cpu_time(stat: &[u8]) -> Option<Duration> {
    let mut fields = fields(stat)?.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()?.checked_add(next()?)?;
    Some(Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32)
}

/// Returns the fields from the third on: the second may hold spaces and parentheses.
fn fields(stat: &[u8]) -> Option<&str> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    std::str::from_utf8(&stat[after_name..]).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_process_has_a_parent_and_uses_cpu_time() {
        let me = rustix::process::getpid();
        assert_eq!(parent(me), rustix::process::getppid());
        assert!(state(me).is_some_and(|state| "RSD".contains(state)));
        let before = cpu_time(me).unwrap();
        while cpu_time(me).unwrap() < before + Duration::from_millis(20) {
            std::hint::spin_loop();
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_fields_or_nothing(text in "1 \\(a\\) S [0-9 -]{0,90}|\\PC*") {
            let _ = (parse_parent(text.as_bytes()), parse_cpu_time(text.as_bytes()));
        }
    }
}
