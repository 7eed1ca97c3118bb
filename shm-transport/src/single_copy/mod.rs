//! A single copy straight out of the sender's memory: through XPMEM if the kernel has it
//! (`xpmem`), otherwise by process_vm_readv.
//!
//! Kernel, Yama, seccomp and namespaces decide for each pair whether either is allowed; therefore
//! each pair is probed. Every rank publishes the address and value of a random number in its
//! control block. Before the first transfer the reader fetches that number the same way. It is
//! random so that a process id that means another process here (another pid namespace) does not
//! pass.
//!
//! States of a pair, seen from the reader: `Unprobed`, then `Attached`, `Readv` or `Refused`. A
//! later refusal by the system makes it `Refused` for good.

#![allow(unsafe_code)]

mod xpmem;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fabric::UserBuf;

use crate::control::Probe;
use crate::sync::Ordering;

/// The longest wait for a peer that is to be described.
const MAX_START: Duration = Duration::from_secs(10);

/// Which kinds of single copy are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// XPMEM, then process_vm_readv.
    Auto,
    /// process_vm_readv alone.
    Readv,
    /// None.
    Off,
}

/// The result of probing access to a peer's memory.
#[derive(Debug)]
pub(crate) enum Access {
    /// The probe is due.
    Unprobed,
    /// Its memory is mapped here.
    Attached(xpmem::Remote),
    /// The kernel copies from and to the memory of that process.
    Readv(u32),
    /// Probes or a later transfer were refused.
    Refused,
}

/// The outcome of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it.
    Done,
    /// Impossible with this peer from now on.
    Forbidden,
    /// Not this memory, or not now.
    Failed,
}

/// The number that other ranks' probes read; it differs between processes.
static NUMBER: OnceLock<u64> = OnceLock::new();

/// Lets a process and its descendants read this one's memory where Yama would refuse it
/// (ptrace_scope 1). `process` is the common ancestor of the host's ranks.
pub fn permit_descendants_of(process: u32) {
    // SAFETY: the call takes no pointers. An error means that there is no Yama.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(process), 0, 0, 0) };
}

/// Probes a peer for `--explain`, and waits for it to start. Returns the method of single copy from
/// its memory, or why there is none, with the remedy.
pub(crate) fn describe(probe: &Probe) -> Result<&'static str, String> {
    let start = Instant::now();
    loop {
        match Access::probe(probe) {
            Access::Attached(_) => return Ok("XPMEM"),
            Access::Readv(_) => return Ok("process_vm_readv"),
            Access::Refused => return Err(obstacle()),
            Access::Unprobed if start.elapsed() > MAX_START => {
                return Err(format!("a rank has not started within {} s", MAX_START.as_secs()));
            }
            Access::Unprobed => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Returns why this process may not read the memory of another one.
fn obstacle() -> String {
    let (from, mut into) = (1_u64, [0; 8]);
    // SAFETY: eight bytes of our own that are valid for writes.
    let into = unsafe { UserBuf::new(into.as_mut_ptr(), into.len()) };
    let me = std::process::id();
    if copy(me, std::ptr::from_ref(&from) as u64, into, libc::process_vm_readv) != Outcome::Done {
        return "a sandbox refuses process_vm_readv: start a container with \
                --cap-add=SYS_PTRACE, or with a seccomp profile that allows it"
            .into();
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let scope = scope.trim();
    if scope == "3" || (scope == "2" && !may_trace()) {
        return format!(
            "kernel.yama.ptrace_scope is {scope}: `sysctl kernel.yama.ptrace_scope=1` lets ranks \
             read each other's memory"
        );
    }
    "ranks cannot read each other's memory: each is in a container that hides the others; \
     `podman run --pid=host`, without `--userns`, shows them"
        .into()
}

/// Returns whether this process may trace any other (CAP_SYS_PTRACE).
fn may_trace() -> bool {
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & CAP_SYS_PTRACE != 0)
}

/// Publishes the number that other ranks probe.
pub(crate) fn publish_probe(probe: &Probe, allowed: SingleCopy) {
    let number = NUMBER.get_or_init(random);
    probe.number.store(*number, Ordering::Relaxed);
    probe.addr.store(std::ptr::from_ref(number) as u64, Ordering::Relaxed);
    if allowed == SingleCopy::Auto {
        probe.segment.store(xpmem::offer() as u64, Ordering::Relaxed);
    }
    // Release: a reader that sees the process id sees the other words.
    probe.pid.store(std::process::id(), Ordering::Release);
}

fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // Two keys from the system's generator go into it. It is not secret, but differs from bytes in
    // other processes.
    RandomState::new().hash_one(std::process::id())
}

impl Access {
    /// Probes a peer: reads eight bytes of its memory and compares them with the published number.
    /// Returns `Unprobed` while the peer has published nothing.
    pub(crate) fn probe(probe: &Probe) -> Access {
        let pid = probe.pid.load(Ordering::Acquire);
        if pid == 0 {
            return Access::Unprobed;
        }
        let remote = xpmem::Remote::open(probe.segment.load(Ordering::Relaxed) as i64);
        let candidates = remote.map(Access::Attached).into_iter().chain([Access::Readv(pid)]);
        let passes = |access: &mut Access| {
            let mut found = [0; 8];
            // SAFETY: eight bytes of our own that are valid for writes.
            let into = unsafe { UserBuf::new(found.as_mut_ptr(), found.len()) };
            access.read(probe.addr.load(Ordering::Relaxed), into) == Outcome::Done
                && found == probe.number.load(Ordering::Relaxed).to_ne_bytes()
        };
        candidates
            .into_iter()
            .find_map(|mut access| passes(&mut access).then_some(access))
            .unwrap_or(Access::Refused)
    }

    /// Returns whether the peer's memory can be read.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Access::Attached(_) | Access::Readv(_))
    }

    /// Fills `into` from the peer's address `from`.
    pub(crate) fn read(&mut self, from: u64, into: UserBuf) -> Outcome {
        match self {
            Access::Attached(remote) => Outcome::of(remote.read(from, into)),
            Access::Readv(pid) => copy(*pid, from, into, libc::process_vm_readv),
            Access::Unprobed | Access::Refused => Outcome::Forbidden,
        }
    }

    /// Copies `from` to the peer's address `to`.
    pub(crate) fn write(&mut self, to: u64, from: UserBuf) -> Outcome {
        match self {
            Access::Attached(remote) => Outcome::of(remote.write(to, from)),
            // The kernel requires the same permission as to read.
            Access::Readv(pid) => copy(*pid, to, from, libc::process_vm_writev),
            Access::Unprobed | Access::Refused => Outcome::Forbidden,
        }
    }

    /// Has `change` change the eight aligned bytes at the peer's address `at`, which are mapped for
    /// reads and writes meanwhile. Fails where the memory cannot be mapped.
    pub(crate) fn change_word(&mut self, at: u64, change: impl FnOnce(*mut u8)) -> Outcome {
        match self {
            Access::Attached(remote) if at.is_multiple_of(8) => {
                Outcome::of(remote.with(at, 8, change))
            }
            Access::Attached(_) | Access::Readv(_) => Outcome::Failed,
            Access::Unprobed | Access::Refused => Outcome::Forbidden,
        }
    }
}

impl Outcome {
    fn of(done: Option<()>) -> Outcome {
        done.map_or(Outcome::Failed, |()| Outcome::Done)
    }
}

/// process_vm_readv or process_vm_writev.
type Copy = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Copies between `local` and address `remote` of process `pid`.
fn copy(pid: u32, remote: u64, local: UserBuf, call: Copy) -> Outcome {
    let mut done = 0;
    // The kernel copies less than requested at its own limit (2 GiB), at a signal, or before memory
    // that is missing.
    while done < local.len() {
        let part = local.slice(done, local.len() - done);
        match copy_some(pid, remote.wrapping_add(done as u64), part, call) {
            Ok(0) => return Outcome::Failed,
            Ok(bytes) => done += bytes.min(part.len()),
            Err(libc::EINTR) => {}
            Err(libc::EPERM | libc::EACCES | libc::ESRCH | libc::ENOSYS) => {
                return Outcome::Forbidden;
            }
            Err(_) => return Outcome::Failed,
        }
    }
    Outcome::Done
}

/// Makes one call; returns the number of bytes or the error number.
fn copy_some(pid: u32, remote: u64, local: UserBuf, call: Copy) -> Result<usize, libc::c_int> {
    let ours = libc::iovec { iov_base: local.as_ptr().cast(), iov_len: local.len() };
    let theirs = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(remote as usize),
        iov_len: local.len(),
    };
    // SAFETY: the kernel checks both ranges. The local one is valid for reads, and for writes if
    // the call writes it, by the promise of `UserBuf`. The remote one is in another process, which
    // has registered it for this access.
    let bytes = unsafe { call(pid as libc::pid_t, &ours, 1, &theirs, 1, 0) };
    usize::try_from(bytes).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
