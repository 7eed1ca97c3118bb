//! A single copy straight out of the sender's memory: through XPMEM if the kernel has it
//! (`xpmem`), otherwise by process_vm_readv.
//!
//! Kernel, Yama, seccomp and namespaces decide for each pair whether either is allowed, so each
//! pair is probed. Every rank publishes the address and value of a random number in its control
//! block. Before the first transfer the reader fetches that number the same way. It is random so
//! that a process id that means another process here (another pid namespace) does not pass.
//!
//! States of a pair, seen from the reader: `Unprobed`, then `Attached`, `Readv` or `Refused`. A later
//! refusal by the system makes it `Refused` for good.

#![allow(unsafe_code)]

mod xpmem;

use std::sync::OnceLock;

use fabric::UserBuf;

use crate::segment::Probe;
use crate::sync::Ordering;

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

/// What is known about reading a peer's memory.
#[derive(Debug)]
pub(crate) enum Access {
    /// The probe is due.
    Unprobed,
    /// Its memory is mapped here.
    Attached(xpmem::Remote),
    /// The kernel reads the memory of that process.
    Readv(u32),
    /// Probes or a later transfer were refused.
    Refused,
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All of it.
    Done,
    /// Impossible with this peer from now on.
    Forbidden,
    /// Not this memory, or not now.
    Failed,
}

/// The number that other ranks' probes read; it differs between processes.
static NUMBER: OnceLock<u64> = OnceLock::new();

/// Publishes the number that other ranks probe. Also lets any process of the same user read this
/// one's memory where Yama would refuse it (ptrace_scope 1).
pub(crate) fn publish_probe(probe: &Probe, allowed: SingleCopy) {
    // SAFETY: the call takes no pointers. An error means that there is no Yama.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
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
    // Two keys from the system's generator go into it. It need not be secret, only differ from
    // what lies in other processes.
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
            access.read(probe.addr.load(Ordering::Relaxed), into) == Read::Done
                && found == probe.number.load(Ordering::Relaxed).to_ne_bytes()
        };
        candidates
            .into_iter()
            .find_map(|mut access| passes(&mut access).then_some(access))
            .unwrap_or(Access::Refused)
    }

    /// Fills `into` from the peer's address `from`.
    pub(crate) fn read(&mut self, from: u64, into: UserBuf) -> Read {
        match self {
            Access::Attached(remote) => {
                remote.read(from, into).map_or(Read::Failed, |()| Read::Done)
            }
            Access::Readv(pid) => read(*pid, from, into),
            Access::Unprobed | Access::Refused => Read::Forbidden,
        }
    }
}

/// Fills `into` from address `from` of process `pid`.
fn read(pid: u32, from: u64, into: UserBuf) -> Read {
    let mut done = 0;
    // The kernel copies less than asked for at its own limit (2 GiB), at a signal, or before
    // memory that is missing.
    while done < into.len() {
        let part = into.slice(done, into.len() - done);
        match read_some(pid, from.wrapping_add(done as u64), part) {
            Ok(0) => return Read::Failed,
            Ok(bytes) => done += bytes.min(part.len()),
            Err(libc::EINTR) => {}
            Err(libc::EPERM | libc::EACCES | libc::ESRCH | libc::ENOSYS) => return Read::Forbidden,
            Err(_) => return Read::Failed,
        }
    }
    Read::Done
}

/// Makes one call; returns the number of bytes or the error number.
fn read_some(pid: u32, from: u64, into: UserBuf) -> Result<usize, libc::c_int> {
    let local = libc::iovec { iov_base: into.as_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(from as usize),
        iov_len: into.len(),
    };
    // SAFETY: the kernel checks both ranges. The local one is valid for writes by the promise of
    // `UserBuf`; the remote one is in another process.
    let bytes = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    usize::try_from(bytes).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
