//! Signals as events: blocked, and read from a signalfd. Where a sandbox refuses signalfd, a thread
//! waits for them and writes their numbers into a pipe.
//!
//! No handler is installed. A signal that the process which started this one ignores (`nohup`, a
//! background job of a plain shell) is ignored in this process and in the ranks as well.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

/// A signal mask.
#[derive(Clone)]
pub struct Mask(libc::sigset_t);

/// The source of signals, and the mask from before it.
#[derive(Debug)]
pub struct Signals {
    file: OwnedFd,
    /// Bytes of one record of the source. The number of the signal is its first field.
    record: usize,
    original_mask: Mask,
}

/// The signals that [`Signals`] reads, besides SIGCHLD.
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
    /// Returns the mask of this thread.
    pub fn current() -> Mask {
        let mut set = MaybeUninit::uninit();
        // SAFETY: without a new set the call only writes the present one, into `set`, which
        // outlives it; it fails only for an invalid first argument.
        unsafe {
            libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
            Mask(set.assume_init())
        }
    }

    /// Returns the mask for system calls.
    pub fn as_ptr(&self) -> *const libc::sigset_t {
        &raw const self.0
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the set is initialised, and the call only reads it.
        f.debug_set()
            .entries((1..64).filter(|signal| unsafe { libc::sigismember(&self.0, *signal) } == 1))
            .finish()
    }
}

impl Signals {
    /// Blocks the signals and opens the descriptor. Call it while the process has one thread.
    pub fn open() -> std::io::Result<Signals> {
        let original_mask = Mask::current();
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set before it is used, and the set outlives the
        // calls. The descriptor is new and checked, so that nothing else owns it.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
            for signal in WATCHED.into_iter().filter(|signal| !is_ignored(*signal)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            // If the caller ignores SIGCHLD, the kernel would reap the ranks unseen.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            let file = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if file < 0 {
                let file = wait_in_thread(set.assume_init())?;
                return Ok(Signals { file, record: size_of::<i32>(), original_mask });
            }
            Ok(Signals { file: OwnedFd::from_raw_fd(file), record: RECORD_BYTES, original_mask })
        }
    }

    /// Returns the signals since the last call, by number.
    pub fn read(&self) -> Vec<i32> {
        let mut bytes = [0u8; 16 * RECORD_BYTES];
        let read = rustix::io::read(&self.file, &mut bytes[..]).unwrap_or(0);
        // The number is the first field of a record (signalfd(2)).
        bytes[..read]
            .chunks_exact(self.record)
            .map(|record| i32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
            .collect()
    }

    /// Returns true if signalfd was refused.
    pub fn is_thread(&self) -> bool {
        self.record != RECORD_BYTES
    }

    /// Returns the mask from before, which the ranks run with.
    pub fn original_mask(&self) -> &Mask {
        &self.original_mask
    }
}

/// Unblocks what [`Signals`] reads, in a process that was started by one which reads it so: a child
/// inherits its mask. Call it before [`Signals::open`].
pub fn unblock_inherited() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before it is used, and the set outlives the calls.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in WATCHED.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Bytes of one record of a signalfd.
const RECORD_BYTES: usize = size_of::<libc::signalfd_siginfo>();

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Starts a thread that waits for the signals of `set`, which are blocked. Returns the pipe with
/// their numbers.
fn wait_in_thread(set: libc::sigset_t) -> std::io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    let wait = move || {
        loop {
            let mut signal = 0;
            // SAFETY: both pointers are valid during the call.
            let failed = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
            if failed == 0 && rustix::io::write(&write, &signal.to_ne_bytes()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).stack_size(64 << 10).spawn(wait)?;
    Ok(read)
}

/// Returns whether this process ignores the signal, as the process that started it may have
/// arranged; false if the call fails.
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one, into `action`, which
    // outlives it. An action of zeros is valid if the call fails.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Returns the usual name of a signal.
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
        libc::SIGSTOP => "SIGSTOP",
        libc::SIGTSTP => "SIGTSTP",
        libc::SIGTTIN => "SIGTTIN, it reads the terminal in the background",
        libc::SIGTTOU => "SIGTTOU, it writes to the terminal in the background",
        _ => "signal",
    }
}
