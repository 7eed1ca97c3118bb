//! One copy straight out of the sender's memory (process_vm_readv).
//!
//! Whether it is allowed depends on the kernel, Yama, seccomp and namespaces, for
//! each pair: the first transfer is the probe, and a refusal ends single copies
//! from that peer for good.

#![allow(unsafe_code)]

use fabric::Memory;

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All of it.
    Done,
    /// Never possible with this peer.
    Forbidden,
    /// Not this memory.
    Failed,
}

/// Lets any process of the same user read this one's memory where Yama would
/// have it otherwise (ptrace_scope 1).
pub(crate) fn permit() {
    // SAFETY: takes no pointers; an error (no Yama) is no harm.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Fills `into` from address `from` of process `pid`.
pub(crate) fn read(pid: u32, from: u64, into: Memory) -> Read {
    let mut done = 0;
    while done < into.len() {
        let part = into.slice(done, (into.len() - done).min(1 << 30));
        let local = libc::iovec { iov_base: part.as_ptr().cast(), iov_len: part.len() };
        let remote = libc::iovec { iov_base: (from as usize + done) as *mut _, iov_len: part.len() };
        // SAFETY: the kernel checks both ranges; ours is valid for writes by the
        // promise of `Memory`.
        let read = unsafe { libc::process_vm_readv(pid as i32, &local, 1, &remote, 1, 0) };
        match read {
            1.. => done += read as usize,
            _ => {
                return match std::io::Error::last_os_error().raw_os_error() {
                    Some(libc::EPERM | libc::ESRCH | libc::ENOSYS | libc::EACCES) => Read::Forbidden,
                    _ => Read::Failed,
                };
            }
        }
    }
    Read::Done
}
