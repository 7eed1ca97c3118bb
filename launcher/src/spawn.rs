//! Starts one rank.
//!
//! The child shares our memory until it executes its program (`CLONE_VM` and `CLONE_VFORK`, as
//! posix_spawn does): nothing is copied, whatever our size, and an error in the child is
//! written where we read it. Unlike posix_spawn, this binds the child to its cores and ties
//! its life to ours before the program begins.
//!
//! The child has: standard streams, the control socket and the status page at agreed numbers,
//! other descriptors that our caller left open for it, a process group of its own, death when
//! we die, default signals, and the caller's signal mask and file limit.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::RawFd;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::signals::Mask;

/// The arguments of [`spawn`]. Descriptors stay the caller's.
#[derive(Debug)]
pub struct SpawnArgs<'a> {
    /// The file to execute; relative to `directory` if that is given.
    pub program: &'a CStr,
    /// The arguments, the program's name first.
    pub arguments: &'a [CString],
    /// The environment, `NAME=VALUE` each.
    pub environment: &'a [CString],
    /// The working directory, if not ours.
    pub directory: Option<&'a CStr>,
    /// Standard input, output and error.
    pub streams: [RawFd; 3],
    /// Our descriptor of the rank's control socket, and its number in the child.
    pub control: (RawFd, RawFd),
    /// Our descriptor of the status page, which keeps its number.
    pub status_page: RawFd,
    /// The processors to run on, if bound.
    pub cpus: Option<&'a CpuSet>,
    /// The signal mask to run with.
    pub mask: &'a Mask,
    /// The limit of open files to run with, if we changed ours.
    pub open_files: Option<libc::rlimit>,
}

/// The reason why a rank did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnError {
    /// The step that failed.
    pub step: Step,
    /// The error of the system call.
    pub errno: Errno,
}

/// The steps of a start, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Step {
    /// Create a process.
    Clone,
    /// Set up process group, streams, limits, binding.
    Prepare,
    /// Enter the working directory.
    Directory,
    /// Execute the program.
    Execute,
}

/// A set of processors, by the numbers of the operating system.
#[derive(Clone)]
pub struct CpuSet(libc::cpu_set_t);

impl CpuSet {
    /// Returns a set. Numbers beyond the C library's set (1,023) are left out.
    pub fn of(cpus: impl IntoIterator<Item = usize>) -> CpuSet {
        // SAFETY: a set of bits, for which zero is a value: empty.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in cpus.into_iter().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
            // SAFETY: `cpu` is inside the set, just checked.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        CpuSet(set)
    }
}

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: every number asked for is inside the set.
        let cpus =
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &self.0) });
        f.debug_set().entries(cpus).finish()
    }
}

/// The stack of a child until it executes its program. One child uses it at a time, since this
/// thread sleeps meanwhile.
pub struct Stack(Vec<u128>);

impl Default for Stack {
    fn default() -> Stack {
        Stack(vec![0; (64 << 10) / size_of::<u128>()])
    }
}

/// What the child works with: plain pointers, since it must not allocate.
struct ChildArgs {
    program: *const c_char,
    argv: *const *const c_char,
    /// For a script without a first line that names its interpreter.
    shell_argv: *const *const c_char,
    envp: *const *const c_char,
    directory: *const c_char,
    streams: [RawFd; 3],
    control: (RawFd, RawFd),
    status_page: RawFd,
    cpus: *const libc::cpu_set_t,
    mask: *const libc::sigset_t,
    open_files: *const libc::rlimit,
    parent: libc::pid_t,
    failed_at: i32,
    errno: i32,
}

/// Starts a rank; it runs its program when this returns.
pub fn spawn(start: &SpawnArgs<'_>, stack: &mut Stack) -> Result<Pid, SpawnError> {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let argv = pointers(start.arguments);
    let envp = pointers(start.environment);
    let mut shell_argv = vec![SHELL.as_ptr(), start.program.as_ptr()];
    shell_argv.extend(&argv[1..]);
    let mut work = ChildArgs {
        program: start.program.as_ptr(),
        argv: argv.as_ptr(),
        shell_argv: shell_argv.as_ptr(),
        envp: envp.as_ptr(),
        directory: start.directory.map_or(std::ptr::null(), CStr::as_ptr),
        streams: start.streams,
        control: start.control,
        status_page: start.status_page,
        cpus: start.cpus.map_or(std::ptr::null(), |set| &raw const set.0),
        mask: start.mask.as_ptr(),
        open_files: start.open_files.as_ref().map_or(std::ptr::null(), |limit| &raw const *limit),
        parent: std::process::id() as libc::pid_t,
        failed_at: 0,
        errno: 0,
    };
    let top = stack.0.as_mut_ptr_range().end.cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is ours, aligned to 16 bytes, and nobody else's while
    // this thread sleeps, which CLONE_VFORK makes it do until the child has
    // executed or ended. `work` and all it points to live as long. The child
    // calls only what is async-signal-safe and allocates nothing. All signals
    // we read are blocked, so no handler runs in it.
    let pid = unsafe { libc::clone(child, top, flags, (&raw mut work).cast()) };
    let Some(pid) = Pid::from_raw(pid.max(0)) else {
        let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN);
        return Err(SpawnError { step: Step::Clone, errno });
    };
    // SAFETY: `work` is alive; volatile, because the child wrote it.
    let (failed_at, errno) = unsafe {
        ((&raw const work.failed_at).read_volatile(), (&raw const work.errno).read_volatile())
    };
    if errno == 0 {
        return Ok(pid);
    }
    // It has ended already; nothing else waits for it.
    let _ = waitpid(Some(pid), WaitOptions::empty());
    let step = match failed_at {
        1 => Step::Prepare,
        2 => Step::Directory,
        _ => Step::Execute,
    };
    Err(SpawnError { step, errno: Errno::from_raw_os_error(errno) })
}

const SHELL: &CStr = c"/bin/sh";

/// The child's life between the clone and its program.
extern "C" fn child(work: *mut c_void) -> c_int {
    let work: *mut ChildArgs = work.cast();
    // SAFETY: `spawn` passes its `ChildArgs`, which lives while it sleeps; it does
    // not touch it meanwhile.
    let work = unsafe { &mut *work };
    let step = match prepare(work) {
        false => Step::Prepare,
        true => match enter_directory(work) {
            false => Step::Directory,
            true => {
                execute(work);
                Step::Execute
            }
        },
    };
    work.failed_at = step as i32;
    // SAFETY: the C library's errno of the thread we share with `spawn`.
    work.errno = unsafe { *libc::__errno_location() };
    // SAFETY: ends the child alone, running none of the parent's handlers.
    unsafe { libc::_exit(127) }
}

fn prepare(work: &ChildArgs) -> bool {
    let [input, output, errors] = work.streams;
    // SAFETY: system calls on the child's own process, descriptors and limits;
    // all pointers are null (checked) or from `spawn`.
    unsafe {
        if libc::setpgid(0, 0) != 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return false;
        }
        if libc::getppid() != work.parent {
            // It died before we asked to die with it.
            libc::_exit(127);
        }
        let placed = libc::dup2(input, 0) >= 0
            && libc::dup2(output, 1) >= 0
            && libc::dup2(errors, 2) >= 0
            && libc::dup2(work.control.0, work.control.1) >= 0
            && libc::fcntl(work.status_page, libc::F_SETFD, 0) == 0;
        if !placed {
            return false;
        }
        if !work.open_files.is_null() && libc::setrlimit(libc::RLIMIT_NOFILE, work.open_files) != 0
        {
            return false;
        }
        // A binding that the system does not allow (a container that changed
        // under us) must not keep the rank from running.
        if !work.cpus.is_null() {
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), work.cpus);
        }
        // Ours is ignored; the program expects to be told of a closed pipe.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, work.mask, std::ptr::null_mut()) == 0
    }
}

fn enter_directory(work: &ChildArgs) -> bool {
    // SAFETY: a C string from `spawn`, or null.
    work.directory.is_null() || unsafe { libc::chdir(work.directory) } == 0
}

/// Returns only if it failed, with errno set.
fn execute(work: &ChildArgs) {
    // SAFETY: null-terminated arrays of C strings from `spawn`.
    unsafe {
        libc::execve(work.program, work.argv, work.envp);
        if *libc::__errno_location() == libc::ENOEXEC && !is_elf(work.program) {
            libc::execve(SHELL.as_ptr(), work.shell_argv, work.envp);
        }
    }
}

/// True for a compiled program (then of another machine), and if unreadable.
///
/// # Safety
/// `path` must be a C string.
unsafe fn is_elf(path: *const c_char) -> bool {
    let mut start = [0u8; 4];
    // SAFETY: reads at most 4 bytes into an array of 4.
    let read = unsafe {
        let file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        libc::read(file, start.as_mut_ptr().cast(), start.len())
    };
    let elf = read < 0 || start == *b"\x7fELF";
    // SAFETY: the address of the thread's own errno. Restored for the report.
    unsafe { *libc::__errno_location() = libc::ENOEXEC };
    elf
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_and_wait(program: &CStr, arguments: &[&CStr]) -> Result<i32, SpawnError> {
        let arguments: Vec<CString> =
            arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let status_page = bootstrap::StatusPage::create(1, 1).unwrap();
        let status_page = std::os::fd::AsRawFd::as_raw_fd(&status_page.file().unwrap());
        let start = SpawnArgs {
            program,
            arguments: &arguments,
            environment: &[c"A=7".to_owned()],
            directory: None,
            streams: [0, 1, 2],
            control: (status_page, 190),
            status_page,
            cpus: None,
            mask: &Mask::current(),
            open_files: None,
        };
        let pid = spawn(&start, &mut Stack::default())?;
        let status = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1;
        Ok(status.exit_status().unwrap_or(-1))
    }

    #[test]
    fn a_child_runs_with_its_environment_and_descriptors() {
        let script = c"test \"$A\" = 7 && test -e /proc/self/fd/190 && exit 5";
        assert_eq!(start_and_wait(c"/bin/sh", &[c"sh", c"-c", script]), Ok(5));
    }

    #[test]
    fn what_fails_in_the_child_is_known_to_the_parent() {
        let missing = start_and_wait(c"/nowhere/at/all", &[c"all"]);
        assert_eq!(missing, Err(SpawnError { step: Step::Execute, errno: Errno::NOENT }));
    }
}
