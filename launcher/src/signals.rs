//! Signals as events: blocked, and read from a descriptor.
//!
//! No handler is installed. What our caller ignores (`nohup`, a job in the
//! background of a plain shell) stays ignored, for us and for the ranks.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// A set of signals, as a process has it blocked.
#[derive(Clone)]
pub struct Mask(libc::sigset_t);

/// The descriptor, and the mask from before it.
#[derive(Debug)]
pub struct Signals {
    file: OwnedFd,
    before: Mask,
}

/// What `Signals` reads, beside SIGCHLD.
const WATCHED: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGWINCH,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

impl Mask {
    /// What this thread blocks now.
    pub fn current() -> Mask {
        let mut set = MaybeUninit::uninit();
        // SAFETY: without a new set the call only writes the present one.
        unsafe {
            libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
            Mask(set.assume_init())
        }
    }

    /// For the system calls that take it.
    pub fn as_ptr(&self) -> *const libc::sigset_t {
        &raw const self.0
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: asks a set that is initialised.
        f.debug_set()
            .entries((1..64).filter(|signal| unsafe { libc::sigismember(&self.0, *signal) } == 1))
            .finish()
    }
}

impl Signals {
    /// Blocks the signals and opens the descriptor. To be called while the
    /// process has one thread.
    pub fn open() -> std::io::Result<Signals> {
        let before = Mask::current();
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by `sigemptyset` before it is used;
        // the descriptor is new, so nothing else owns it.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
            for signal in WATCHED.into_iter().filter(|signal| !is_ignored(*signal)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            // A caller that ignores it would have our ranks vanish unseen.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            let file = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if file < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(Signals { file: OwnedFd::from_raw_fd(file), before })
        }
    }

    /// The signals that have come since the last look, by number.
    pub fn read(&self) -> Vec<i32> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut bytes = [0u8; 16 * SIZE];
        let read = rustix::io::read(&self.file, &mut bytes[..]).unwrap_or(0);
        // The number is the record's first field (signalfd(2)).
        bytes[..read]
            .chunks_exact(SIZE)
            .map(|record| i32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
            .collect()
    }

    /// The mask that ranks run with.
    pub fn before(&self) -> &Mask {
        &self.before
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one; an
    // action of zeros is a value, should it fail.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// The name people know a signal by.
pub fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "Hangup",
        libc::SIGINT => "Interrupt",
        libc::SIGQUIT => "Quit",
        libc::SIGILL => "Illegal instruction",
        libc::SIGTRAP => "Trace trap",
        libc::SIGABRT => "Aborted",
        libc::SIGBUS => "Bus error",
        libc::SIGFPE => "Floating point exception",
        libc::SIGKILL => "Killed",
        libc::SIGUSR1 => "User signal 1",
        libc::SIGSEGV => "Segmentation fault",
        libc::SIGUSR2 => "User signal 2",
        libc::SIGPIPE => "Broken pipe",
        libc::SIGALRM => "Alarm clock",
        libc::SIGTERM => "Terminated",
        libc::SIGXCPU => "CPU time limit exceeded",
        libc::SIGXFSZ => "File size limit exceeded",
        libc::SIGSYS => "Bad system call",
        _ => "signal",
    }
}
