//! Starts `mpiexec` itself in a further role, apart from this process: in a session of its own, so
//! that Ctrl-C and SIGTERM do not reach it, with no environment, and with one descriptor, its
//! standard input. A reader of this process's output therefore sees the end of it.
//!
//! `wait` does not report such a process: it is a child without an exit signal ([`child`]), or no
//! child at all ([`start`]). All signals are blocked in it until it unblocks them.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::environment::c_string;

/// Starts `mpiexec WORDS` as a child that [`end`] ends.
pub(crate) fn child(words: &[&str], stdin: &OwnedFd) -> io::Result<Pid> {
    run(words, stdin, false)
}

/// Kills a child that [`child`] has started, and waits for it.
pub(crate) fn end(child: Pid) {
    let _ = kill_process(child, Signal::KILL);
    reap(child);
}

/// Starts `mpiexec WORDS` so that it is no child of this process, and outlives it.
pub(crate) fn start(words: &[&str], stdin: &OwnedFd) -> io::Result<()> {
    run(words, stdin, true).map(reap)
}

fn run(words: &[&str], stdin: &OwnedFd, is_apart: bool) -> io::Result<Pid> {
    let program = CString::new(std::env::current_exe()?.into_os_string().into_vec())?;
    let words: Vec<CString> = ["mpiexec"].iter().chain(words).map(|word| c_string(*word)).collect();
    let argv: Vec<*const c_char> =
        words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    let envp = [std::ptr::null()];
    // SAFETY: without flags this is a fork: the child has a copy of all memory and its own stack.
    // No exit signal is named; therefore `wait` ignores the child.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    if pid == 0 {
        detach(stdin);
        // SAFETY: the path is a C string, and the arrays of C strings end with null. On failure,
        // and between two forks, the child ends without a destructor or a handler of the parent.
        unsafe {
            // Not fork(3), which would run functions of the parent.
            if is_apart && libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) != 0 {
                libc::_exit(0);
            }
            libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr());
            libc::_exit(127)
        }
    }
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    pid.ok_or_else(|| Errno::AGAIN.into())
}

fn reap(child: Pid) {
    // SAFETY: the status pointer may be null. `__WCLONE` waits for a child without exit signal.
    unsafe { libc::waitpid(child.as_raw_nonzero().get(), std::ptr::null_mut(), libc::__WCLONE) };
}

/// Leaves the terminal and the descriptors of `mpiexec`. Called between fork and exec: only
/// async-signal-safe calls.
fn detach(stdin: &OwnedFd) {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised before it is used. One descriptor becomes descriptor 0; the
    // others are closed, and nothing in this process uses them before it executes or exits. Copies
    // of their owners are never dropped.
    unsafe {
        libc::setsid();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
        let number = stdin.as_raw_fd();
        libc::dup2(number, 0);
        if libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) != 0 {
            (1..=1024.max(number)).for_each(|fd| _ = libc::close(fd));
        }
    }
}
