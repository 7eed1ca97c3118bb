//! Starts one rank.
//!
//! The child shares our memory until it executes its program (`CLONE_VM` and `CLONE_VFORK`, as
//! posix_spawn does): nothing is copied, and an error in the child is written into the parent's
//! memory. Unlike posix_spawn, this binds the child to its cores and ties its life to ours before
//! the program begins.
//!
//! The child has: standard streams, and the control socket and the status page at agreed numbers.
//! The child keeps other descriptors that the caller left open for it, and has a process group of
//! its own. It dies with its parent, has default signals, and the caller's signal mask and file
//! limit.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::RawFd;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::signals::Mask;

/// The arguments of [`spawn`]. The caller still owns the descriptors.
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

/// The reason why a rank did not request.
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
        // SAFETY: all zeros are a valid `cpu_set_t`, the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in cpus.into_iter().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
            // SAFETY: `cpu` is below CPU_SETSIZE, checked by the filter.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        CpuSet(set)
    }
}

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: every number is below CPU_SETSIZE.
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

/// The arguments of the child: plain pointers, since it must not allocate.
struct ChildArgs {
    program: *const c_char,
    argv: *const *const c_char,
    /// The arguments of the shell, for a script whose first line names no interpreter.
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

/// Starts a rank. When this returns, the child executes its program.
pub fn spawn(request: &SpawnArgs<'_>, stack: &mut Stack) -> Result<Pid, SpawnError> {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let argv = pointers(request.arguments);
    let envp = pointers(request.environment);
    let mut shell_argv = vec![SHELL.as_ptr(), request.program.as_ptr()];
    shell_argv.extend(&argv[1..]);
    let mut args = ChildArgs {
        program: request.program.as_ptr(),
        argv: argv.as_ptr(),
        shell_argv: shell_argv.as_ptr(),
        envp: envp.as_ptr(),
        directory: request.directory.map_or(std::ptr::null(), CStr::as_ptr),
        streams: request.streams,
        control: request.control,
        status_page: request.status_page,
        cpus: request.cpus.map_or(std::ptr::null(), |set| &raw const set.0),
        mask: request.mask.as_ptr(),
        open_files: request.open_files.as_ref().map_or(std::ptr::null(), |limit| &raw const *limit),
        parent: std::process::id() as libc::pid_t,
        failed_at: 0,
        errno: 0,
    };
    let top = stack.0.as_mut_ptr_range().end.cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is aligned to 16 bytes and exclusively borrowed. CLONE_VFORK stops this
    // thread until the child has executed or ended. Therefore no other code uses the stack, and
    // `args` and all it points to live as long as the child needs them. The child calls only
    // async-signal-safe functions and allocates nothing. The signals of `Signals` are blocked and
    // no handler is installed, so that none runs in it.
    let pid = unsafe { libc::clone(child, top, flags, (&raw mut args).cast()) };
    let Some(pid) = Pid::from_raw(pid.max(0)) else {
        let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN);
        return Err(SpawnError { step: Step::Clone, errno });
    };
    child_result(&args, pid)
}

/// Returns the child, which has executed its program or ended with an error.
fn child_result(args: &ChildArgs, pid: Pid) -> Result<Pid, SpawnError> {
    // SAFETY: the reference is valid, and both fields are aligned and initialised. The reads are
    // volatile, since the child wrote the fields unseen by the compiler.
    let (failed_at, errno) = unsafe {
        ((&raw const args.failed_at).read_volatile(), (&raw const args.errno).read_volatile())
    };
    if errno == 0 {
        return Ok(pid);
    }
    // The child has ended, and nothing else waits for it.
    let _ = waitpid(Some(pid), WaitOptions::empty());
    let step = match failed_at {
        1 => Step::Prepare,
        2 => Step::Directory,
        _ => Step::Execute,
    };
    Err(SpawnError { step, errno: Errno::from_raw_os_error(errno) })
}

const SHELL: &CStr = c"/bin/sh";

/// Runs the child from the clone to its program.
extern "C" fn child(args: *mut c_void) -> c_int {
    let args: *mut ChildArgs = args.cast();
    // SAFETY: `spawn` passes a valid pointer to its `ChildArgs`, which lives until the child has
    // executed or ended; `spawn` does not access it meanwhile.
    let args = unsafe { &mut *args };
    let step = match prepare(args) {
        false => Step::Prepare,
        true => match enter_directory(args) {
            false => Step::Directory,
            true => {
                execute(args);
                Step::Execute
            }
        },
    };
    args.failed_at = step as i32;
    // SAFETY: returns the address of the errno of the thread that is shared with `spawn`; it is
    // valid, and that thread sleeps.
    args.errno = unsafe { *libc::__errno_location() };
    // SAFETY: has no preconditions; it ends the child alone and runs no handler of the parent.
    unsafe { libc::_exit(127) }
}

fn prepare(args: &ChildArgs) -> bool {
    let [input, output, errors] = args.streams;
    // SAFETY: the calls change only the child's own process, descriptors and limits. The pointers
    // come from `spawn` and are valid; those that may be null are checked.
    unsafe {
        if libc::setpgid(0, 0) != 0 {
            return false;
        }
        // A sandbox may refuse it. The guard then ends the rank if this process is killed.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != args.parent {
            // The parent died before PR_SET_PDEATHSIG took effect.
            libc::_exit(127);
        }
        let placed = libc::dup2(input, 0) >= 0
            && libc::dup2(output, 1) >= 0
            && libc::dup2(errors, 2) >= 0
            && libc::dup2(args.control.0, args.control.1) >= 0
            && libc::fcntl(args.status_page, libc::F_SETFD, 0) == 0;
        if !placed {
            return false;
        }
        if !args.open_files.is_null() && libc::setrlimit(libc::RLIMIT_NOFILE, args.open_files) != 0
        {
            return false;
        }
        // A binding that the system refuses (the container has changed) must not keep the rank
        // from running.
        if !args.cpus.is_null() {
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), args.cpus);
        }
        // Ignored in this process; the program expects the default.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, args.mask, std::ptr::null_mut()) == 0
    }
}

fn enter_directory(args: &ChildArgs) -> bool {
    // SAFETY: the directory is null (checked first) or a C string from `spawn`.
    args.directory.is_null() || unsafe { libc::chdir(args.directory) } == 0
}

/// Executes the program. Returns only on failure, with errno set.
fn execute(args: &ChildArgs) {
    // SAFETY: the path is a C string and the arrays end with null, all from `spawn`; errno's
    // address is valid.
    unsafe {
        libc::execve(args.program, args.argv, args.envp);
        if *libc::__errno_location() == libc::ENOEXEC && !is_elf(args.program) {
            libc::execve(SHELL.as_ptr(), args.shell_argv, args.envp);
        }
    }
}

/// Returns true for a compiled program (of another machine), and for an unreadable file.
///
/// # Safety
/// `path` must be a C string.
unsafe fn is_elf(path: *const c_char) -> bool {
    let mut magic = [0u8; 4];
    // SAFETY: `path` is a C string (see above); at most 4 bytes are read into an array of 4.
    let read = unsafe {
        let file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        libc::read(file, magic.as_mut_ptr().cast(), magic.len())
    };
    let elf = read < 0 || magic == *b"\x7fELF";
    // SAFETY: the address of the thread's own errno is valid. Restored for the report.
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
        let request = SpawnArgs {
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
        let pid = spawn(&request, &mut Stack::default())?;
        let status = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1;
        Ok(status.exit_status().unwrap_or(-1))
    }

    #[test]
    fn a_child_runs_with_its_environment_and_descriptors() {
        let script = c"test \"$A\" = 7 && test -e /proc/self/fd/190 && exit 5";
        assert_eq!(start_and_wait(c"/bin/sh", &[c"sh", c"-c", script]), Ok(5));
    }

    #[test]
    fn a_failure_in_the_child_reaches_the_parent() {
        let missing = start_and_wait(c"/nowhere/at/all", &[c"all"]);
        assert_eq!(missing, Err(SpawnError { step: Step::Execute, errno: Errno::NOENT }));
    }
}
