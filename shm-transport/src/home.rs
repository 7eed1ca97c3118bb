//! How processes of other jobs on the same host find a process's segment.
//!
//! A home names the memory file by the process that has it open. Another process can open it if it
//! has the same host, PID namespace and user, which is what [`Home::is_near`] compares; their rings
//! must be equally long, too. Both sides compare the same two homes; therefore both use shared
//! memory, or none does.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rustix::process::{DumpableBehavior, dumpable_behavior, geteuid};

/// Where a process's segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// A number of host, PID namespace, user, and the length of rings.
    host: u64,
    /// The segment's.
    pub(crate) nonce: u64,
    /// Where the segment begins in its file.
    pub(crate) offset: u64,
    pid: u32,
    fd: u32,
    /// The process's rank in the segment.
    pub(crate) rank: u32,
}

impl Home {
    /// Bytes of a home.
    const SIZE: usize = 36;

    /// Returns the home of this process; `None` if others cannot open its files.
    pub(crate) fn of_this_process(
        nonce: u64,
        (fd, offset): (u32, u64),
        rank: u32,
        ring_bytes: u64,
    ) -> Option<Home> {
        Some(Home { host: host(ring_bytes)?, nonce, offset, pid: std::process::id(), fd, rank })
    }

    /// Returns whether the processes of both can open each other's files, and use them.
    pub fn is_near(&self, other: &Home) -> bool {
        self.host == other.host
    }

    /// Returns the path of the memory file.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.fd)
    }

    /// Returns the home as bytes, for processes of this machine.
    pub fn encode(&self) -> [u8; Home::SIZE] {
        let mut out = [0; Home::SIZE];
        let words = [self.host, self.nonce, self.offset].map(u64::to_le_bytes);
        out[..24].copy_from_slice(words.as_flattened());
        let halves = [self.pid, self.fd, self.rank].map(u32::to_le_bytes);
        out[24..].copy_from_slice(halves.as_flattened());
        out
    }

    /// Reads what [`Home::encode`] has written.
    pub fn decode(bytes: &[u8]) -> Option<Home> {
        let bytes: &[u8; Home::SIZE] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let (host, nonce, offset) = (word(0), word(8), word(16));
        Some(Home { host, nonce, offset, pid: half(24), fd: half(28), rank: half(32) })
    }
}

/// Returns a number of what must be the same in two processes that use each other's files.
fn host(ring_bytes: u64) -> Option<u64> {
    if dumpable_behavior() != Ok(DumpableBehavior::Dumpable) {
        return None;
    }
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let mut hasher = DefaultHasher::new();
    (boot, namespace, geteuid().as_raw(), ring_bytes).hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_survives_the_wire() {
        let home = Home { host: u64::MAX, nonce: 2, offset: 3, pid: 4, fd: 5, rank: 6 };
        assert_eq!(Home::decode(&home.encode()), Some(home));
        assert_eq!(Home::decode(&home.encode()[1..]), None);
        assert_eq!(Home::decode(&[]), None);
        assert!(home.is_near(&home) && !home.is_near(&Home { host: 1, ..home }));
    }
}
