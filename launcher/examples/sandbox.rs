//! Runs a command in a sandbox that refuses system calls, as a container's profile may: for the
//! launcher's tests. `sandbox NAME,NAME COMMAND ARGUMENT...`

use std::os::unix::process::CommandExt as _;
use std::process::Command;

fn main() {
    let mut words = std::env::args().skip(1);
    let names = words.next().expect("names of system calls");
    refuse(&names.split(',').map(number).collect::<Vec<_>>());
    let error = Command::new(words.next().expect("a command")).args(words).exec();
    panic!("cannot run the command: {error}");
}

fn number(name: &str) -> u32 {
    let number = match name {
        "memfd_create" => libc::SYS_memfd_create,
        "fallocate" => libc::SYS_fallocate,
        "signalfd" => libc::SYS_signalfd4,
        "prctl" => libc::SYS_prctl,
        _ => panic!("unknown system call {name}"),
    };
    number as u32
}

/// Installs a seccomp filter that answers EPERM to these calls.
fn refuse(calls: &[u32]) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number of the call is the first field of `seccomp_data`.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (index, call) in calls.iter().enumerate() {
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let to_refusal = (calls.len() - index) as u8;
        program.push(libc::sock_filter { code: jump as u16, jt: to_refusal, jf: 0, k: *call });
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    program.push(statement(libc::BPF_RET | libc::BPF_K, refusal));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter points to a program of its length, which lives until the call returns.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
    };
    assert!(!failed, "cannot install the filter: {}", std::io::Error::last_os_error());
}
