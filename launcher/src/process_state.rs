//! What the system says about a rank that makes no progress and does not wait in MPI: stopped by a
//! signal, or asleep in the kernel. In words for the user, from /proc/PID.
//!
//! A rank behind a wrapper script is its youngest descendant. Files that the system hides from this
//! process (a hardened kernel, another user) are left out of the sentence.

use std::time::Duration;

use bootstrap::calls::Call;
use bootstrap::{RankState, Snapshot};
use rustix::process::Pid;

use crate::proc_stat;
use crate::proc_tree;

/// Returns the sentence for a rank that is stopped, or that was idle for `idle_for`. `None` if the
/// rank runs, or waits in MPI, where the table says what for.
pub(crate) fn describe(
    rank: u32,
    pid: u32,
    seen: &Snapshot,
    idle_for: Option<Duration>,
) -> Option<String> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    if let Some(reason) = stopped(pid) {
        return Some(format!("rank {rank} (pid {}) is {reason}", pid.as_raw_nonzero()));
    }
    let idle_for = idle_for?;
    if seen.call != 0 && seen.blocked.is_some() {
        return None;
    }
    let asleep = proc_tree::descendants(pid).pop().unwrap_or(pid);
    let position = match (
        seen.state,
        Call::from_index(seen.call).filter(|_| seen.call != 0).map(Call::name),
    ) {
        (RankState::Finalized, _) => return None,
        (_, Some(call)) => format!("has been in {call} without computing"),
        (RankState::Starting, None) => "has not called MPI_Init and has not computed".into(),
        (_, None) => "has been outside of MPI without computing".into(),
    };
    Some(format!(
        "rank {rank} (pid {}) {position} for {:.1} s, {}",
        pid.as_raw_nonzero(),
        idle_for.as_secs_f64(),
        position_in_kernel(asleep)
    ))
}

/// Returns true if a process is stopped by a signal or by a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    i32::try_from(pid).ok().and_then(Pid::from_raw).is_some_and(|pid| stopped(pid).is_some())
}

fn stopped(pid: Pid) -> Option<&'static str> {
    match proc_stat::state(pid)? {
        'T' => Some("stopped by a signal (SIGSTOP or SIGTSTP); `kill -CONT` continues it"),
        't' => Some("stopped by a debugger"),
        _ => None,
    }
}

/// Returns state, system call and wait channel of a process, in words.
fn position_in_kernel(pid: Pid) -> String {
    let number = pid.as_raw_nonzero();
    let state = match proc_stat::state(pid) {
        Some('D') => "in state D (waiting for a disk or a network file system)".into(),
        Some('S') => "in state S (asleep)".into(),
        Some(state) => format!("in state {state}"),
        None => "ended meanwhile".into(),
    };
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{number}/{name}"));
    let call = read("syscall").ok().and_then(|text| system_call(number.get(), &text));
    let channel = read("wchan").ok().filter(|text| text.len() > 1 && text.len() < 64);
    let mut text = state;
    text.extend(call.map(|call| format!(", in the system call {call}")));
    text.extend(channel.map(|channel| format!(", in the kernel's {channel}")));
    text
}

/// Returns the call that /proc/PID/syscall shows, with the file that it is about.
fn system_call(pid: i32, text: &str) -> Option<String> {
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let (_, name, has_file) = CALLS.iter().find(|(call, _, _)| *call == number)?;
    let descriptor = words.next().and_then(|word| {
        u32::from_str_radix(word.strip_prefix("0x")?, 16).ok().filter(|_| *has_file)
    });
    let file = descriptor
        .and_then(|descriptor| std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok());
    Some(file.map_or((*name).into(), |file| format!("{name} of {}", file.display())))
}

/// System calls that block: number, name, and whether the first argument is a descriptor.
const CALLS: &[(i64, &str, bool)] = &[
    (libc::SYS_read, "read", true),
    (libc::SYS_write, "write", true),
    (libc::SYS_pread64, "pread", true),
    (libc::SYS_pwrite64, "pwrite", true),
    (libc::SYS_readv, "readv", true),
    (libc::SYS_writev, "writev", true),
    (libc::SYS_fsync, "fsync", true),
    (libc::SYS_fdatasync, "fdatasync", true),
    (libc::SYS_flock, "flock", true),
    (libc::SYS_fcntl, "fcntl", true),
    (libc::SYS_recvfrom, "recv", true),
    (libc::SYS_recvmsg, "recvmsg", true),
    (libc::SYS_connect, "connect", true),
    (libc::SYS_openat, "open", false),
    (libc::SYS_futex, "futex (a mutex or a condition variable)", false),
    (libc::SYS_nanosleep, "sleep", false),
    (libc::SYS_clock_nanosleep, "sleep", false),
    (libc::SYS_wait4, "wait (for a child)", false),
    (libc::SYS_waitid, "wait (for a child)", false),
    (libc::SYS_pselect6, "select", false),
    (libc::SYS_ppoll, "poll", false),
    (libc::SYS_epoll_pwait, "epoll", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_stat, "stat", false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_is_named_with_its_file() {
        use std::os::fd::AsRawFd as _;
        let file = std::fs::File::open("/dev/null").unwrap();
        let line = format!("{} {:#x} 0x7f 0x1", libc::SYS_read, file.as_raw_fd());
        let own = std::process::id() as i32;
        assert_eq!(system_call(own, &line).as_deref(), Some("read of /dev/null"));
        let sleep = format!("{} 0x0 0x0", libc::SYS_clock_nanosleep);
        assert_eq!(system_call(own, &sleep).as_deref(), Some("sleep"));
        assert_eq!(system_call(own, "running\n"), None);
        assert_eq!(system_call(own, ""), None);
    }
}
