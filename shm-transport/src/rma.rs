//! One-sided access to the memory of a peer on this host: get, put and atomics.
//!
//! A region's first key shows the kind of its memory:
//! - a window of the segment (`window`): any access is by loads, stores and processor atomics;
//! - user memory that a window was created over: get and put by single copy, and atomics where
//!   XPMEM maps it. Otherwise they are refused, and a message to the owner does them;
//! - the buffer of a rendezvous: get alone;
//! - the second half of the buffer of a receive: put alone, by the rank that takes the offer.
//!
//! Every access is finished when the call returns. Processor atomics on both sides agree with each
//! other; a window on which devices also run atomics is the concern of the window's owner.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use fabric::{Atomic, OneSided, Peer, Placed, Region, Rights, Transfer, UserBuf};

use crate::connect::ShmTransport;
use crate::outbound::outbound_to;
use crate::segment::SegmentError;
use crate::single_copy::{Access, Outcome};
use crate::window::{WINDOW_KEY, WindowRange, region_holds};

/// First key of the buffer of a rendezvous.
const RENDEZVOUS_KEY: u32 = 0;
/// First key of user memory that peers may also write.
const USER_KEY: u32 = 2;
/// First key of user memory that a peer may write once; the second is the number of the offer.
const OFFER_KEY: u32 = 3;

/// Describes user memory by its first two keys; the others are its length.
fn describe_user([kind, number]: [u32; 2], memory: UserBuf) -> Region {
    let len = memory.len() as u64;
    Region { addr: memory.addr(), keys: [kind, number, len as u32, (len >> 32) as u32] }
}

/// Describes memory of an offer.
pub(crate) fn describe_offer(number: u64, memory: UserBuf) -> Region {
    describe_user([OFFER_KEY, number as u32], memory)
}

/// Gets bytes into new memory; `None` if `get`, which fills what it is given, does not.
pub(crate) fn get_boxed(bytes: usize, get: impl FnOnce(UserBuf) -> Transfer) -> Option<Box<[u8]>> {
    let mut data = Box::new_uninit_slice(bytes);
    // SAFETY: valid for writes, and only written until `get` returns.
    let into = unsafe { UserBuf::new(data.as_mut_ptr().cast(), bytes) };
    let is_here = get(into) == Transfer::Done;
    // SAFETY: a get that is done has written every byte.
    is_here.then(|| unsafe { data.assume_init() })
}

/// Returns whether a region is the buffer of a message.
pub(crate) fn is_message(region: &Region) -> bool {
    region.keys[0] == RENDEZVOUS_KEY
}

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
            let (segment, rank) = self.outsiders.find(&self.segment, local);
            segment.wake(rank, self.has_membarrier);
        }
    }

    /// Describes memory for one-sided access by `peer`; `None` if the route has none.
    pub(crate) fn describe(&self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        let addr = memory.addr();
        let copies = self.caps_of(peer).get_min != u64::MAX;
        match rights {
            Rights::Get => copies.then_some(Region { addr, keys: [RENDEZVOUS_KEY; 4] }),
            // A window's place is known in its own segment alone.
            Rights::Put | Rights::All => self
                .windows
                .describe(memory)
                .filter(|_| !self.is_outsider(peer))
                .or_else(|| copies.then(|| describe_user([USER_KEY, 0], memory))),
        }
    }

    /// Takes an offer of a peer, and writes all of its memory.
    pub(crate) fn take_offer(&mut self, peer: Peer, offer: &Region, from: UserBuf) -> Placed {
        let [key, number, ..] = offer.keys;
        let is_offer = key == OFFER_KEY && region_holds(offer, 0, from.len());
        let Some(local) = self.peers.local(peer).filter(|_| is_offer) else {
            return Placed::Withdrawn;
        };
        let is_taken = outbound_to(&mut self.outbound, peer)
            .is_some_and(|outbound| outbound.producer.take_offer(number.into()));
        if !is_taken {
            return Placed::Withdrawn;
        }
        match self.access_user(peer, local, offer.addr, OneSided::Put(from)) {
            Transfer::Done => Placed::Done,
            _ => Placed::Refused,
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
