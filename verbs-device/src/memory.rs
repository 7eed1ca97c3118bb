//! Registered memory, and access to it.
//!
//! Bytes are copied by the kernel within this process (`process_vm_readv`, `process_vm_writev`):
//! memory that the program has unmapped is an error here, as it is to a device. Keys are numbers
//! that are not used again soon.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use verbs_transport::ibv::layout::{Sge, access};

/// A registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) pd: u32,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) access: i32,
}

/// Bytes that were pinned so far, on all devices of this process.
static ALL_PINNED: AtomicU64 = AtomicU64::new(0);

/// Returns the bytes that were pinned so far.
pub(crate) fn all_pinned() -> u64 {
    ALL_PINNED.load(Ordering::Relaxed)
}

/// All registrations of a context; the local and the remote key are one number.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    by_key: HashMap<u32, Region>,
    next: u32,
}

impl Region {
    /// Returns the bytes that it pins.
    fn pinned(&self) -> u64 {
        if self.access & access::ON_DEMAND == 0 { self.length } else { 0 }
    }
}

impl Regions {
    pub(crate) fn insert(&mut self, region: Region) -> u32 {
        // The lowest byte is a variant in real keys.
        self.next = self.next.wrapping_add(0x101);
        while self.next == 0 || self.by_key.contains_key(&self.next) {
            self.next = self.next.wrapping_add(0x101);
        }
        self.by_key.insert(self.next, region);
        ALL_PINNED.fetch_add(region.pinned(), Ordering::Relaxed);
        self.next
    }

    pub(crate) fn remove(&mut self, key: u32) -> bool {
        self.by_key.remove(&key).is_some()
    }

    /// Returns whether a domain has registrations.
    pub(crate) fn are_of(&self, pd: u32) -> bool {
        self.by_key.values().any(|region| region.pd == pd)
    }

    /// Returns the bytes of all registrations that pin memory.
    pub(crate) fn pinned(&self) -> u64 {
        self.by_key.values().map(Region::pinned).sum()
    }

    /// Returns whether `key` gives all of these rights to the range, to a queue pair of domain
    /// `pd`.
    pub(crate) fn covers(
        &self,
        pd: u32,
        key: u32,
        (addr, length): (u64, u64),
        rights: i32,
    ) -> bool {
        let Some(region) = self.by_key.get(&key) else { return false };
        let offset = addr.wrapping_sub(region.addr);
        region.pd == pd
            && region.access & rights == rights
            && offset <= region.length
            && length <= region.length - offset
    }

    /// Reads local memory of a request; `None` if its key does not cover it, or it is gone.
    pub(crate) fn gather(&self, pd: u32, sge: Sge, from: usize, len: usize) -> Option<Vec<u8>> {
        let range = (sge.addr + from as u64, len as u64);
        if len > 0 && !self.covers(pd, sge.lkey, range, 0) {
            return None;
        }
        read(range.0, len)
    }

    /// Writes local memory of a request. Returns false if its key does not cover it, or it is
    /// gone.
    pub(crate) fn scatter(&self, pd: u32, sge: Sge, from: usize, bytes: &[u8]) -> bool {
        let range = (sge.addr + from as u64, bytes.len() as u64);
        bytes.is_empty()
            || (self.covers(pd, sge.lkey, range, access::LOCAL_WRITE) && write(range.0, bytes))
    }
}

/// Reads memory of this process; `None` if it is not there.
pub(crate) fn read(addr: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; len];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: addr as *mut _, iov_len: len };
    // SAFETY: the local range is the vector; the kernel checks the other one.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (len == 0 || copied == len as isize).then_some(bytes)
}

/// Writes memory of this process; false if it is not there.
pub(crate) fn write(addr: u64, bytes: &[u8]) -> bool {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: addr as *mut _, iov_len: bytes.len() };
    // SAFETY: the local range is the slice, which is only read. The other one is memory that the
    // program has registered for writes by the device, as the caller has checked.
    let copied = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    bytes.is_empty() || copied == bytes.len() as isize
}

/// Changes an aligned word of this process, and returns the old value; `None` if it is not there.
/// `compare` is `None` for an addition. In one step for other accesses of the device, and, if
/// `is_global`, for processors as well; otherwise what they write between the two steps is lost.
pub(crate) fn atomic(
    addr: u64,
    compare: Option<u64>,
    operand: u64,
    is_global: bool,
) -> Option<u64> {
    if !addr.is_multiple_of(8) || read(addr, 8).is_none() {
        return None;
    }
    // SAFETY: the word is aligned, was readable just now, and is registered for atomics of the
    // device, as the caller has checked: the program accesses it as other threads' memory.
    let word = unsafe { AtomicU64::from_ptr(addr as *mut u64) };
    if !is_global {
        let old = word.load(Ordering::SeqCst);
        std::thread::yield_now();
        match compare {
            None => word.store(old.wrapping_add(operand), Ordering::SeqCst),
            Some(expected) if expected == old => word.store(operand, Ordering::SeqCst),
            Some(_) => {}
        }
        return Some(old);
    }
    Some(match compare {
        None => word.fetch_add(operand, Ordering::SeqCst),
        Some(expected) => word
            .compare_exchange(expected, operand, Ordering::SeqCst, Ordering::SeqCst)
            .unwrap_or_else(|old| old),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_cover_their_range_and_rights_only() {
        let mut regions = Regions::default();
        let key =
            regions.insert(Region { pd: 1, addr: 100, length: 50, access: access::LOCAL_WRITE });
        assert!(regions.covers(1, key, (100, 50), access::LOCAL_WRITE));
        assert!(!regions.covers(2, key, (100, 50), 0));
        assert!(!regions.covers(1, key, (99, 1), 0) && !regions.covers(1, key, (149, 2), 0));
        assert!(!regions.covers(1, key, (100, 1), access::REMOTE_WRITE));
        assert!(regions.remove(key) && !regions.remove(key));
    }

    #[test]
    fn memory_that_is_not_there_is_no_crash() {
        let bytes = [1u8, 2, 3];
        assert_eq!(read(bytes.as_ptr() as u64, 3), Some(bytes.to_vec()));
        assert_eq!(read(8, 3), None);
        assert!(!write(8, &bytes));
        assert_eq!(atomic(8, None, 1, true), None);
    }
}
