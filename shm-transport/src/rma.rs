//! One-sided access to the memory of a peer on this host: get, put and atomics.
//!
//! A region's first key shows the kind of its memory:
//! - a window of the segment (`window`): any access is by loads, stores and processor atomics;
//! - user memory that a window was created over: get and put by single copy, and atomics where
//!   XPMEM maps it. Otherwise they are refused, and a message to the owner does them;
//! - the buffer of a rendezvous: get alone.
//!
//! Every access is finished when the call returns. Processor atomics on both sides agree with each
//! other; a window on which devices also run atomics is the concern of the window's owner.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use fabric::{Atomic, OneSided, Peer, Region, Rights, Transfer, UserBuf};

use crate::connect::ShmTransport;
use crate::segment::SegmentError;
use crate::single_copy::{Access, Outcome};
use crate::window::{WINDOW_KEY, WindowRange, region_holds};

/// First key of the buffer of a rendezvous.
const RENDEZVOUS_KEY: u32 = 0;
/// First key of user memory that peers may also write.
const USER_KEY: u32 = 2;

impl ShmTransport {
    /// Maps a window and returns its memory, which is mapped until [`ShmTransport::unmap_window`].
    /// The window is the same on all ranks of the host; see [`crate::Segment::reserve_window`].
    pub fn map_window(&mut self, range: WindowRange) -> Result<UserBuf, SegmentError> {
        self.windows.pin(&self.segment, range)
    }

    /// Ends one [`ShmTransport::map_window`].
    ///
    /// # Safety
    /// The memory that `map_window` returned is not used again.
    pub unsafe fn unmap_window(&mut self, range: WindowRange) {
        // SAFETY: the caller's promise.
        unsafe { self.windows.unpin(range) }
    }

    /// Wakes a peer that may sleep, after a change of memory that it waits for. Peers that are not
    /// on this host are ignored.
    #[inline]
    pub fn wake(&self, peer: Peer) {
        if let Some(local) = self.peers.local(peer) {
            self.segment.wake(local, self.has_membarrier);
        }
    }

    /// Describes memory for one-sided access by `peer`; `None` if the route has none.
    pub(crate) fn describe(&self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        let (addr, len) = (memory.addr(), memory.len() as u64);
        let copies = self.caps_of(peer).get_min != u64::MAX;
        match rights {
            Rights::Get => copies.then_some(Region { addr, keys: [RENDEZVOUS_KEY; 4] }),
            Rights::Put | Rights::All => self.windows.describe(memory).or_else(|| {
                let keys = [USER_KEY, 0, len as u32, (len >> 32) as u32];
                copies.then_some(Region { addr, keys })
            }),
        }
    }

    /// Does an access to the memory of a peer.
    pub(crate) fn access_region(
        &mut self,
        (peer, local): (Peer, u32),
        region: &Region,
        at: u64,
        what: OneSided,
    ) -> Transfer {
        let len = what.memory().len();
        match (region.keys[0], what) {
            (WINDOW_KEY, _) => match self.windows.resolve(&self.segment, region, (at, len)) {
                Some(memory) => access_memory(memory, what),
                None => Transfer::Refused,
            },
            (USER_KEY, _) if region_holds(region, at, len) => {
                self.access_user(peer, local, region.addr.wrapping_add(at), what)
            }
            (RENDEZVOUS_KEY, OneSided::Get(_)) => {
                self.access_user(peer, local, region.addr.wrapping_add(at), what)
            }
            _ => Transfer::Refused,
        }
    }

    /// Returns whether user memory of the peer may be accessed by single copy.
    pub(crate) fn may_access(&mut self, peer: Peer, local: u32) -> bool {
        self.caps_of(peer).get_min != u64::MAX && self.may_read(peer, local)
    }

    /// Accesses user memory by single copy.
    fn access_user(&mut self, peer: Peer, local: u32, addr: u64, what: OneSided) -> Transfer {
        if !self.may_access(peer, local) {
            return Transfer::Refused;
        }
        let access = &mut self.access[local as usize];
        let outcome = match what {
            OneSided::Get(into) => access.read(addr, into),
            OneSided::Put(from) => access.write(addr, from),
            OneSided::Atomic(atomic, old) => change_user(access, addr, atomic, old),
        };
        match outcome {
            Outcome::Done => Transfer::Done,
            Outcome::Failed => Transfer::Refused,
            Outcome::Forbidden => {
                self.refuse(peer, local);
                Transfer::Refused
            }
        }
    }
}

/// Accesses mapped memory, which is as long as this process's side.
#[inline]
fn access_memory(memory: UserBuf, what: OneSided) -> Transfer {
    match what {
        OneSided::Get(into) => into.copy_from(memory),
        OneSided::Put(from) => memory.copy_from(from),
        OneSided::Atomic(atomic, old) => {
            let is_word = memory.len() == 8 && memory.addr().is_multiple_of(8);
            if !is_word {
                return Transfer::Refused;
            }
            // SAFETY: eight aligned bytes that are mapped for reads and writes. Ranks that access
            // them at the same time do so by atomics; otherwise their program is erroneous (MPI-5.0
            // §12.7).
            let before = unsafe { change(memory.as_ptr(), atomic) };
            old.write(0, &before.to_ne_bytes());
        }
    }
    Transfer::Done
}

/// Changes a word of user memory that XPMEM maps.
fn change_user(access: &mut Access, addr: u64, atomic: Atomic, old: UserBuf) -> Outcome {
    let mut before = 0;
    // SAFETY: `change_word` passes eight aligned bytes that are mapped for reads and writes.
    let outcome = access.change_word(addr, |word| before = unsafe { change(word, atomic) });
    if outcome == Outcome::Done {
        old.write(0, &before.to_ne_bytes());
    }
    outcome
}

/// Changes a word by a processor atomic; returns what it held.
///
/// # Safety
/// `word` is aligned to 8 and valid for reads and writes of 8 bytes.
unsafe fn change(word: *mut u8, atomic: Atomic) -> u64 {
    // SAFETY: as the caller promises.
    let word = unsafe { AtomicU64::from_ptr(word.cast()) };
    // AcqRel: an atomic may take a lock or return it.
    match atomic {
        Atomic::Add(more) => word.fetch_add(more, Ordering::AcqRel),
        Atomic::CompareSwap { expected, new } => word
            .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|found| found),
    }
}
