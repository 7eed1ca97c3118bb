//! What the system says about a rank that makes no progress: stopped by a signal, or asleep in the
//! kernel. In words for the user, from /proc/PID. And whether a rank that waits in one thread has
//! others that may call MPI.
//!
//! A rank behind a wrapper script is its youngest descendant. Files that the system hides from this
//! process (a hardened kernel, another user) are left out of the sentence.

use std::path::Path;
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

/// The names of the threads that the library starts. They call nothing by themselves.
const LIBRARY_THREADS: [&str; 5] =
    ["mpi-progress", "mpi-io", "verbena-watch", "verbena-memory", "verbena-host"];

/// Returns true if a process has a thread of the application, beside one that waits in MPI, that
/// may go on by itself. That is any thread that does not sleep on a futex of the process without a
/// time limit: the workers of numerical libraries sleep so, and only threads of the process wake
/// them. Where the system hides the threads, any may go on.
pub(crate) fn others_may_call(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let read = |task: &Path, name: &str| std::fs::read_to_string(task.join(name)).ok();
    let goes_on = |task: &Path| {
        let name = read(task, "comm").unwrap_or_default();
        !LIBRARY_THREADS.contains(&name.trim_end())
            && !read(task, "syscall").is_some_and(|text| is_endless_futex(&text))
    };
    tasks.flatten().filter(|task| goes_on(&task.path())).count() > 1
}

/// Returns true for a wait without a time limit on a futex that only the own process can wake.
fn is_endless_futex(syscall: &str) -> bool {
    let mut words = syscall.split_ascii_whitespace();
    let is_futex = words.next().and_then(|word| word.parse().ok()) == Some(libc::SYS_futex);
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let words: Vec<u64> = words.map_while(hex).collect();
    // uaddr, futex_op, val, timeout (futex(2)).
    let &[_, operation, _, timeout, ..] = words.as_slice() else { return false };
    let private = libc::FUTEX_PRIVATE_FLAG;
    let waits = [libc::FUTEX_WAIT | private, libc::FUTEX_WAIT_BITSET | private];
    let operation = operation as i32 & !libc::FUTEX_CLOCK_REALTIME;
    is_futex && waits.contains(&operation) && timeout == 0
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

    #[test]
    fn only_a_private_futex_without_a_limit_is_endless() {
        let futex = |operation: i32, timeout: u64| {
            let call = libc::SYS_futex;
            is_endless_futex(&format!(
                "{call} 0x7f {operation:#x} 0x0 {timeout:#x} 0x0 0x0 0x1 0x2"
            ))
        };
        let private = libc::FUTEX_PRIVATE_FLAG;
        assert!(futex(libc::FUTEX_WAIT | private, 0));
        assert!(futex(libc::FUTEX_WAIT_BITSET | private | libc::FUTEX_CLOCK_REALTIME, 0));
        assert!(!futex(libc::FUTEX_WAIT | private, 0x7ff0));
        assert!(!futex(libc::FUTEX_WAIT, 0));
        assert!(!is_endless_futex("running\n") && !is_endless_futex(""));
    }
}
