//! Collective segments: memory that the members of one communicator share (see
//! [`fabric::coll_segment`]), with two kinds of counting the members that have arrived.
//!
//! ```text
//! 0         header      64 B: completed, the rounds that are complete (`Counter` only);
//!                       returned, the number of leases that were given back
//! 64        counts      64 B for each slot set: arrived, mismatch (`Counter` only)
//! next 64   signatures  for each slot set, for each rank of the host: 8 B (`Counter` only)
//! next 64   published   for each slot set, for each rank of the host: 8 B
//! next 64   slot sets   `Counter`: the result, slots of the members, and space for longer ones
//!                       `Flags`: for each member its signature, then its slot
//! ```
//!
//! Rounds use the slot sets in turn. Zero is the valid first state of all memory. The space for
//! longer slots has memory from the first call on that needs it.
//!
//! A lease is one member's right to a segment, from the agreement that its communicator has it to
//! the member's last use. The owner counts the leases that it gave, the segment those that came
//! back; neither number ever starts again:
//!
//! ```text
//!          renew: all leases are back                     agreed: one more lease for each member
//!   Free -----------------------------> Reserved ----------------------------------> Leased
//!     ^                                    |                                            |
//!     |  another proposal was agreed on    |          the last lease was given back     |
//!     +------------------------------------+--------------------------------------------+
//! ```
//!
//! Members may learn of the agreement, use the segment and return it before the owner learns of the
//! agreement: until then it is Reserved. A member that ends without returning its lease keeps the
//! segment from ever being Free again. Between two leases the owner zeroes what the last members
//! left; the next members learn of the segment from the owner, after that.
//!
//! What it does not do: detect a member that has died. The launcher ends the job.

#![allow(unsafe_code)]

mod counter;
#[cfg(not(loom))]
mod distance;
mod flags;
mod lease;
#[cfg(not(loom))]
pub(crate) mod memory;
mod signatures;

#[cfg(not(loom))]
use std::ops::Range;
#[cfg(not(loom))]
use std::sync::atomic::AtomicBool;
#[cfg(not(loom))]
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(not(loom))]
use std::time::Instant;

#[cfg(not(loom))]
use fabric::UserBuf;
#[cfg(not(loom))]
use fabric::coll_segment::MAX_FLAGS_RANKS;
#[cfg(not(loom))]
use fabric::coll_segment::Wakes;

use self::counter::Counter;
#[cfg(not(loom))]
use self::distance::{Distance, FAR_MIN};
use self::flags::Flags;
#[cfg(not(loom))]
use self::lease::Lease;
#[cfg(not(loom))]
use self::memory::LongSlots;
#[cfg(not(loom))]
use self::signatures::Signatures;
use self::signatures::Signed;
#[cfg(not(loom))]
use crate::control::Control;
#[cfg(not(loom))]
use crate::event_count::EventCount;
use crate::ring;
#[cfg(not(loom))]
use crate::single_copy::{Access, Outcome};
use crate::sync::AtomicU64;
#[cfg(not(loom))]
use crate::sync::{Ordering, fence};

/// How the members of a segment count arrivals; the same for all segments of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// They count in one word, and the last to arrive does the work for all. For members that
    /// share processors.
    Counter,
    /// Each raises a flag in the first line of its slot. For few members, each with a processor.
    Flags,
}

/// One way of counting. Rounds, slots and signatures are those of [`fabric::CollSegment`].
pub(crate) trait Counting: std::fmt::Debug + Send + Sync + 'static {
    /// Which one it is.
    const KIND: SyncKind;
    /// Slot sets: a member may be so many rounds ahead of another one.
    const SETS: usize;

    /// True when no member still reads this member's slot of the round's set.
    fn is_free(&self, round: u64) -> bool;

    /// Publishes this member's slot and signature. Returns how many members have not arrived, if
    /// this way of counting knows.
    fn arrive(&self, round: u64, signature: u64) -> Option<u64>;

    /// The signatures of all members.
    fn signatures(&self) -> &impl Signed;

    /// Completes the round; called by the last member to arrive.
    fn complete(&self, round: u64);

    /// True when all members have arrived, and the last one has completed the round.
    fn is_complete(&self, round: u64) -> bool;

    /// A member with another signature in a round that is complete and not left; otherwise one
    /// with another signature in the round before.
    fn mismatch(&self, round: u64, signature: u64) -> Option<u32>;

    /// Zeroes all data that rounds leave in the segment. Called by the owner between two leases.
    fn reset(&self);
}

/// The first line of a segment, written seldom.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Header {
    /// Rounds that are complete.
    completed: AtomicU64,
    /// Leases that were given back.
    returned: AtomicU64,
}

/// Bytes of a cache line.
const LINE: u64 = ring::LINE as u64;
const _: () = assert!(cfg!(loom) || size_of::<Header>() as u64 == LINE);

/// Resets a segment if `leases` leases, all that there were, are back; false otherwise.
fn renew(header: &Header, leases: u64, counting: &impl Counting) -> bool {
    let are_back = lease::are_back(&header.returned, leases);
    if are_back {
        counting.reset();
    }
    are_back
}

/// Bytes of a segment on a host of `size` ranks.
pub(crate) fn bytes(size: u32, sync: SyncKind) -> u64 {
    slot_set_at(size, sync, slot_sets(sync))
}

/// The parts of a segment that only long slots use, or all others.
#[cfg(not(loom))]
pub(crate) fn parts(size: u32, sync: SyncKind, is_long: bool) -> impl Iterator<Item = Range<u64>> {
    let long_part = move |set| {
        let part = match sync {
            SyncKind::Counter => counter::long_part(size),
            SyncKind::Flags => slot_set_bytes(size, sync)..slot_set_bytes(size, sync),
        };
        let at = slot_set_at(size, sync, set);
        at + part.start..at + part.end
    };
    (0..slot_sets(sync)).map(move |set| match set.checked_sub(1) {
        _ if is_long => long_part(set),
        None => 0..long_part(set).start,
        Some(before) => long_part(before).end..long_part(set).start,
    })
}

/// How many slot sets a segment has.
fn slot_sets(sync: SyncKind) -> u64 {
    match sync {
        SyncKind::Counter => Counter::SETS as u64,
        SyncKind::Flags => Flags::SETS as u64,
    }
}

/// Bytes of a slot set.
fn slot_set_bytes(size: u32, sync: SyncKind) -> u64 {
    match sync {
        SyncKind::Counter => counter::set_bytes(size),
        SyncKind::Flags => flags::set_bytes(size),
    }
}

/// Where a slot set lies; behind the last one the segment ends.
fn slot_set_at(size: u32, sync: SyncKind, set: u64) -> u64 {
    let first = published_at(size, sync, slot_sets(sync), 0).next_multiple_of(LINE);
    first + set * slot_set_bytes(size, sync)
}

/// Where the word lies that a member publishes for a slot set.
fn published_at(size: u32, sync: SyncKind, set: u64, member: u32) -> u64 {
    let first = match sync {
        SyncKind::Counter => counter::signatures_end(size),
        SyncKind::Flags => LINE,
    };
    first + (set * u64::from(size) + u64::from(member)) * size_of::<u64>() as u64
}

/// Where a segment lies in this process.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    base: *mut u8,
    /// Ranks of the host.
    size: u32,
    sync: SyncKind,
}

/// The most slot sets of any way of counting.
#[cfg(not(loom))]
const MAX_SETS: usize = 4;
#[cfg(not(loom))]
const _: () = assert!(Counter::SETS <= MAX_SETS && Flags::SETS <= MAX_SETS);

#[cfg(not(loom))]
impl Location {
    /// A segment on a host of `size` ranks.
    ///
    /// # Safety
    /// `base` must be aligned to a line and valid for [`bytes`] of `size` and `sync`, for the life
    /// of the process. The bytes were zero before the first member came, and all processes access
    /// them through segments of the same `size` and `sync` only.
    pub(crate) unsafe fn new(base: *mut u8, size: u32, sync: SyncKind) -> Location {
        Location { base, size, sync }
    }

    /// Makes a segment of this rank ready for other members. False while some of `leases` leases,
    /// all that there were, are not back.
    pub(crate) fn renew(self, leases: u64) -> bool {
        let header = self.header();
        match self.sync {
            SyncKind::Counter => renew(header, leases, &self.counter(self.size, 0)),
            SyncKind::Flags => {
                // The last members may have been many or few: each size has its flags elsewhere.
                let [few, many] = flags::most_members(self.size);
                renew(header, leases, &self.flags(few, 0))
                    && renew(header, leases, &self.flags(many, 0))
            }
        }
    }

    /// The lease of member `me`; `members` are the control blocks of all of them.
    pub(crate) fn lease(
        self,
        me: u32,
        members: Vec<&'static Control>,
        long_slots: LongSlots,
    ) -> Arc<dyn fabric::CollSegment> {
        let count = members.len() as u32;
        match self.sync {
            SyncKind::Counter => self.open(self.counter(count, me), members, long_slots),
            SyncKind::Flags => self.open(self.flags(count, me), members, long_slots),
        }
    }

    fn counter(self, members: u32, me: u32) -> Counter {
        assert!(members <= self.size);
        // SAFETY: the offset is that of a tally, aligned to a line, inside the segment by the
        // promise of `new`. Its fields are atomics, for which any bytes are valid.
        let tally =
            |set| unsafe { &*self.base.add(counter::arrival_count_at(set) as usize).cast() };
        let word = |set, member| self.word(counter::signature_at(self.size, set, member));
        Counter::new(
            &self.header().completed,
            std::array::from_fn(|set| tally(set as u64)),
            Signatures::new(members, me, word),
        )
    }

    fn flags(self, members: u32, me: u32) -> Flags {
        assert!(members <= self.size.min(MAX_FLAGS_RANKS));
        let word = |set, member| {
            self.word(slot_set_at(self.size, self.sync, set) + flags::flag_at(members, member))
        };
        Flags::new(Signatures::new(members, me, word))
    }

    fn open<C: Counting>(
        self,
        counting: C,
        members: Vec<&'static Control>,
        long_slots: LongSlots,
    ) -> Arc<dyn fabric::CollSegment> {
        let at = |set| slot_set_at(self.size, self.sync, set as u64) as usize;
        let me = counting.signatures().me() as usize;
        let count = members.len() as u32;
        let others = members.iter().enumerate().filter(|&(member, _)| member != me);
        let published = |set| {
            let word = |member| self.word(published_at(self.size, self.sync, set, member));
            (0..count).map(word).collect()
        };
        let slots = std::array::from_fn(|set| match set < C::SETS {
            // SAFETY: the set lies inside the segment by the promise of `new`, and the segment's
            // memory is mapped for the life of the process.
            true => unsafe { UserBuf::new(self.base.add(at(set)), at(set + 1) - at(set)) },
            false => UserBuf::EMPTY,
        });
        Arc::new(CollSegment {
            counting,
            slots,
            published: (0..C::SETS as u64).map(published).collect(),
            event_counts: others.map(|(_, control)| &control.event_count).collect(),
            has_get: AtomicBool::new(members[me].probe.pid.load(Ordering::Relaxed) != 0),
            access: Mutex::new(members.iter().map(|_| Access::Unprobed).collect()),
            members,
            long_slots,
            registered: matches!(C::KIND, SyncKind::Flags) && fabric::membarrier::register(),
            lease: Lease::new(&self.header().returned),
            distance: Distance::default(),
        })
    }

    fn header(self) -> &'static Header {
        // SAFETY: the first line of the segment, aligned and valid for the life of the process by
        // the promise of `new`. All fields are atomics, for which any bytes are valid.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The word at an offset that is a multiple of its size, below [`bytes`].
    fn word(self, offset: u64) -> &'static AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < bytes(self.size, self.sync));
        // SAFETY: inside the segment and aligned, as the callers' offsets are those of signatures;
        // valid for the life of the process by the promise of `new`. Any bytes are a valid atomic.
        unsafe { &*self.base.add(offset as usize).cast::<AtomicU64>() }
    }
}

/// A segment as one member sees it.
#[cfg(not(loom))]
#[derive(Debug)]
struct CollSegment<C> {
    counting: C,
    /// The first [`Counting::SETS`] of them.
    slots: [UserBuf; MAX_SETS],
    /// Of each slot set, the word of each member.
    published: Vec<Vec<&'static AtomicU64>>,
    members: Vec<&'static Control>,
    long_slots: LongSlots,
    /// To the memory of each member.
    access: Mutex<Vec<Access>>,
    has_get: AtomicBool,
    /// Those of all other members.
    event_counts: Vec<&'static EventCount>,
    /// This process takes part in membarrier; see `event_count`.
    registered: bool,
    lease: Lease,
    distance: Distance,
}

#[cfg(not(loom))]
impl<C: Counting> CollSegment<C> {
    const IS_COUNTER: bool = matches!(C::KIND, SyncKind::Counter);

    /// Wakes the members that sleep: they look at their rounds again.
    #[inline]
    fn notify(&self) {
        // Either a member that is about to sleep sees what was stored before, or its sleep is
        // seen here. One fence serves many members.
        if Self::IS_COUNTER {
            fence(Ordering::SeqCst);
        }
        for event_count in &self.event_counts {
            if !Self::IS_COUNTER {
                event_count.publish_fence(self.registered);
            }
            event_count.notify();
        }
    }

    /// Wakes one member of those that count in one word, if it sleeps.
    #[inline]
    fn notify_one(&self, member: u32) {
        fence(Ordering::SeqCst);
        // Its own event count is not in the list.
        let before_me = member < self.counting.signatures().me();
        self.event_counts[member as usize - usize::from(!before_me)].notify();
    }

    /// Announces to valgrind that other members write this set: their slots have other sizes.
    #[inline]
    fn mark_defined(&self, round: u64) {
        if Self::IS_COUNTER {
            let slots = &self.slots[round as usize % C::SETS];
            fabric::valgrind::mark_defined(slots.as_ptr(), slots.len());
        }
    }
}

#[cfg(not(loom))]
impl<C: Counting> fabric::CollSegment for CollSegment<C> {
    fn next_round(&self) -> u64 {
        self.lease.next_round()
    }

    fn begun(&self) -> u64 {
        self.lease.begun()
    }

    #[inline]
    fn is_ready(&self, round: u64) -> bool {
        self.lease.is_next(round) && self.counting.is_free(round)
    }

    #[inline]
    fn slots(&self, round: u64) -> UserBuf {
        self.slots[round as usize % C::SETS]
    }

    fn take_long_slots(&self) -> bool {
        Self::IS_COUNTER && self.long_slots.take()
    }

    fn write(&self, round: u64, to: UserBuf, from: UserBuf) {
        if !Self::IS_COUNTER {
            to.replace_lines(from);
        } else if from.len() < FAR_MIN {
            // Members that share a processor would read it more slowly.
            to.copy_from(from);
        } else if self.distance.is_far(round) {
            to.copy_from_past_cache(from);
        } else {
            let begun = Instant::now();
            to.copy_from(from);
            self.distance.record_write(from.len(), begun.elapsed());
        }
    }

    #[inline]
    fn arrive(&self, round: u64, signature: u64, wakes: Wakes) -> bool {
        self.mark_defined(round);
        let left = self.counting.arrive(round, signature);
        match (wakes, left) {
            // Where nobody is known to be the last, nobody else wakes the others.
            (Wakes::None, Some(_)) => {}
            (Wakes::None, None) => self.notify(),
            (Wakes::Last(member), Some(1)) => self.notify_one(member),
            (Wakes::Last(_), Some(_)) => {}
            (Wakes::All | Wakes::Last(_), _) => self.notify(),
        }
        left == Some(0)
    }

    #[inline]
    fn agrees(&self, round: u64, member: u32, signature: u64) -> Option<bool> {
        self.counting.signatures().agrees(round, member, signature)
    }

    fn signature_of(&self, round: u64, member: u32) -> Option<u64> {
        self.counting.signatures().of(round, member)
    }

    fn own_signature(&self, back: u64) -> Option<u64> {
        let round = self.lease.begun().checked_sub(back + 1)?;
        let signatures = self.counting.signatures();
        signatures.of(round, signatures.me())
    }

    fn mark_reported(&self, round: u64) {
        self.lease.mark_reported(round);
    }

    fn is_reported(&self, round: u64) -> bool {
        self.lease.is_reported(round)
    }

    fn complete(&self, round: u64) {
        self.mark_defined(round);
        self.counting.complete(round);
        self.notify();
    }

    #[inline]
    fn is_complete(&self, round: u64) -> bool {
        self.counting.is_complete(round)
    }

    #[inline]
    fn mismatch(&self, round: u64, signature: u64) -> Option<u32> {
        self.counting.mismatch(round, signature)
    }

    #[inline]
    fn leave(&self, round: u64) {
        self.lease.leave(round);
    }

    fn publish(&self, round: u64, word: u64) {
        let me = self.counting.signatures().me() as usize;
        // Relaxed: this member's arrival publishes it.
        self.published[round as usize % C::SETS][me].store(word, Ordering::Relaxed);
    }

    fn published(&self, round: u64, member: u32) -> u64 {
        self.published[round as usize % C::SETS][member as usize].load(Ordering::Relaxed)
    }

    fn has_get(&self) -> bool {
        self.has_get.load(Ordering::Relaxed)
    }

    fn get(&self, member: u32, address: u64, into: UserBuf) -> bool {
        let mut access = self.access.lock().unwrap_or_else(PoisonError::into_inner);
        let access = &mut access[member as usize];
        if matches!(access, Access::Unprobed) {
            *access = Access::probe(&self.members[member as usize].probe);
        }
        access.read(address, into) == Outcome::Done
    }

    fn refuse_gets(&self) {
        self.has_get.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
