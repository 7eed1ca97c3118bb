//! Arenas: memory in which the members of a communicator meet (see [`fabric::coll_segment`]).
//!
//! ```text
//! 0         head      64 B: closed, the number of meetings that were closed; given back, the number of
//!                     leases that were
//!                     64 B for each half: arrived, the members that have; verdict
//! 192       calls     for each half, for each rank of the host: 8 B; rounded up to 64
//! next 64   seats     for each half: the result, and a seat for each member
//! ```
//!
//! Meetings take the two halves in turn. All of it starts as zero and that is its valid first state.
//!
//! A member holds an arena from the agreement that its communicator has it to its last use by that member: a lease.
//! The owner counts those that there were, the arena those that were given back, which never starts again:
//!
//! ```text
//!          renew: as many back as there were              agreed: one more lease for each member
//!   Free ------------------------------------> Offered -----------------------------------------> Leased
//!     ^                                           |                                                  |
//!     |   agreed on something else; nobody saw it |         the last of all leases was given back    |
//!     +-------------------------------------------+--------------------------------------------------+
//! ```
//!
//! Members may hear of the agreement, meet and give back before the owner has heard of it: until then the arena
//! is Offered. One that ends without giving back keeps the arena from ever being Free again, which harms nobody.
//!
//! Invariants:
//! - A member has one meeting at a time, and begins meeting m when m - 2, which had the same
//!   half, was closed.
//! - A member's seat and call are written by that member between the beginning of a meeting and its
//!   arrival. They are read by who arrives last, before it closes the meeting, and by members that
//!   heard the writer arrive, before they arrive themselves. So nobody reads them any more when the meeting
//!   was closed.
//! - What a meeting leaves behind is made zero between two leases: the owner has seen all of them given back, and
//!   the next members hear of the arena from the owner.
//! - Result and verdict are written by who arrives last, before it closes the meeting, and read by
//!   members that have not left it: none of these arrives at the next meeting in this half.
//!
//! The owner of a doorbell looks at its meetings after it has said that it sleeps, and who closes
//! one looks at the doorbells after that: see `wake`.
//!
//! What it does not do: notice a member that has died. The launcher ends the job.

#![allow(unsafe_code)]

#[cfg(not(loom))]
use std::sync::Arc;

#[cfg(not(loom))]
use fabric::UserBuf;
use fabric::coll_segment::{SLOT_BYTES, SLOTS_BYTES};
#[cfg(not(loom))]
use fabric::user_buf::valgrind_mark_defined;

#[cfg(not(loom))]
use crate::event_count::EventCount;
use crate::lease::{self, Lease};
use crate::ring::LINE;
#[cfg(not(loom))]
use crate::segment::Site;
use crate::sync::{AtomicU64, Ordering};

/// Bits of a word that hold a call; above it stands of which meeting it is.
const CALL_BITS: u32 = 56;
/// Bits of a verdict that hold a member.
const MEMBER_BITS: u32 = 32;

/// What all members look at while they wait, and what they count in.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Head {
    closed: Closed,
    halves: [Half; 2],
}

/// On a line of its own: those who arrive write to another one.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Closed {
    meetings: AtomicU64,
    /// Leases that were given back. Here because it is hardly ever written.
    returned: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Half {
    arrived: AtomicU64,
    /// Two members that have said different things, one above the other; 0 if all
    /// have said the same.
    verdict: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Head>() == 3 * LINE);

/// The words of an arena: all of it but for the seats.
#[derive(Debug)]
pub(crate) struct Words {
    head: &'static Head,
    /// Of both halves.
    calls: [&'static [AtomicU64]; 2],
    me: u32,
}

/// An arena, as one member sees it.
#[cfg(not(loom))]
#[derive(Debug)]
struct CollSegment {
    words: Words,
    seats: [UserBuf; 2],
    /// Of all members.
    event_counts: Vec<&'static EventCount>,
    lease: Lease,
}

/// Bytes of an arena on a host of so many ranks.
pub(crate) fn bytes(size: u32) -> u64 {
    seats_at(size) + 2 * half_bytes(size)
}

fn seats_at(size: u32) -> u64 {
    let calls = 2 * size_of::<AtomicU64>() as u64 * u64::from(size);
    3 * LINE as u64 + calls.next_multiple_of(LINE as u64)
}

fn half_bytes(size: u32) -> u64 {
    SLOT_BYTES.end() + SLOTS_BYTES.max(u64::from(size) * SLOT_BYTES.start())
}

impl Words {
    /// The words of an arena of which this is member `me`; there are as many calls in each half as members.
    pub(crate) fn new(head: &'static Head, calls: [&'static [AtomicU64]; 2], me: u32) -> Words {
        Words { head, calls, me }
    }

    fn half(&self, meeting: u64) -> (&Half, &[AtomicU64]) {
        let at = (meeting % 2) as usize;
        (&self.head.halves[at], self.calls[at])
    }

    /// True when the meeting before the last was closed.
    #[inline]
    pub(crate) fn is_free(&self, meeting: u64) -> bool {
        // Acquire: whoever closed it has read what we are about to write to.
        self.head.closed.meetings.load(Ordering::Acquire) + 1 >= meeting
    }

    /// True for the last one.
    #[inline]
    pub(crate) fn arrive(&self, meeting: u64, call: u64) -> bool {
        let (half, calls) = self.half(meeting);
        // Release: who hears it finds our seat.
        calls[self.me as usize].store(stamped(meeting, call), Ordering::Release);
        // Release: the last one finds our seat and our call, and that we have read the others'.
        // Acquire: we are the last one.
        half.arrived.fetch_add(1, Ordering::AcqRel) + 1 == calls.len() as u64
    }

    #[inline]
    pub(crate) fn signature_of(&self, meeting: u64, member: u32) -> Option<u64> {
        let word = self.half(meeting).1[member as usize].load(Ordering::Acquire);
        (word >> CALL_BITS == stamp(meeting)).then_some(word & ((1 << CALL_BITS) - 1))
    }

    /// By the last one.
    #[inline]
    pub(crate) fn complete(&self, meeting: u64) {
        let (half, calls) = self.half(meeting);
        // Relaxed: all are ordered by the arrivals before, and by the store below.
        let mine = calls[self.me as usize].load(Ordering::Relaxed);
        let other = calls.iter().position(|call| call.load(Ordering::Relaxed) != mine);
        let verdict =
            other.map_or(0, |other| (other as u64 + 1) << MEMBER_BITS | u64::from(self.me));
        half.verdict.store(verdict, Ordering::Relaxed);
        half.arrived.store(0, Ordering::Relaxed);
        self.head.closed.meetings.store(meeting + 1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_complete(&self, meeting: u64) -> bool {
        // Acquire: the result is there.
        self.head.closed.meetings.load(Ordering::Acquire) > meeting
    }

    /// This member's.
    pub(crate) fn lease(&self) -> Lease {
        Lease::new(&self.head.closed.returned)
    }

    /// By the owner, with the calls of all ranks of the host: true when all of so many leases were given back; all
    /// is as in the beginning then.
    pub(crate) fn renew(&self, leases: u64) -> bool {
        if !lease::are_back(&self.head.closed.returned, leases) {
            return false;
        }
        // Relaxed: nobody else looks until the owner says so.
        let zero = |word: &AtomicU64| word.store(0, Ordering::Relaxed);
        zero(&self.head.closed.meetings);
        self.head.halves.iter().flat_map(|half| [&half.arrived, &half.verdict]).for_each(zero);
        self.calls.iter().copied().flatten().for_each(zero);
        true
    }

    #[inline]
    fn mismatch(&self, meeting: u64, call: u64) -> Option<u32> {
        // Relaxed: it was closed.
        let verdict = self.half(meeting).0.verdict.load(Ordering::Relaxed);
        if verdict == 0 {
            return None;
        }
        // Of the two at least one has said something else than we did.
        let (one, other) = ((verdict >> MEMBER_BITS) as u32 - 1, verdict as u32);
        Some(if self.signature_of(meeting, other) == Some(call) { one } else { other })
    }
}

/// Tells a meeting from the one before in the same half; never 0.
fn stamp(meeting: u64) -> u64 {
    meeting / 2 % 255 + 1
}

fn stamped(meeting: u64, call: u64) -> u64 {
    debug_assert!(call >> CALL_BITS == 0, "a call leaves room for its meeting");
    stamp(meeting) << CALL_BITS | call
}

/// Where an arena is in this process.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    head: &'static Head,
    /// Of all ranks of the host.
    calls: [&'static [AtomicU64]; 2],
    seats: [UserBuf; 2],
}

#[cfg(not(loom))]
impl Place {
    /// That of an arena on a host of `size` ranks.
    ///
    /// # Safety
    /// `base` must be aligned to a line and valid for [`bytes`] of `size`, for the life of the process;
    /// they were zero when the first member came, and are accessed by arenas alone.
    pub(crate) unsafe fn new(base: *mut u8, size: u32) -> Place {
        // SAFETY: the caller's promise; all fields are atomics, and any bytes are valid for them.
        let head = unsafe { &*base.cast::<Head>() };
        let calls = [0, size as usize].map(|from| {
            // SAFETY: the same; behind the head there is a call for each half and rank.
            unsafe {
                let first = base.add(size_of::<Head>()).cast::<AtomicU64>().add(from);
                std::slice::from_raw_parts(first, size as usize)
            }
        });
        let seats = [0, half_bytes(size)].map(|from| {
            // SAFETY: the same; the seats of each half lie one after the other.
            unsafe {
                UserBuf::new(base.add((seats_at(size) + from) as usize), half_bytes(size) as usize)
            }
        });
        Place { head, calls, seats }
    }
}

#[cfg(not(loom))]
impl Site for Place {
    fn renew(&self, leases: u64) -> bool {
        Words::new(self.head, self.calls, 0).renew(leases)
    }

    fn lease(
        &self,
        me: u32,
        event_counts: Vec<&'static EventCount>,
    ) -> Arc<dyn fabric::CollSegment> {
        assert!((me as usize) < event_counts.len());
        let words = Words::new(self.head, self.calls.map(|calls| &calls[..event_counts.len()]), me);
        Arc::new(CollSegment { lease: words.lease(), words, seats: self.seats, event_counts })
    }
}

#[cfg(not(loom))]
impl CollSegment {
    /// Our seat or our result is written. Its bytes are others' in later meetings, with seats of other sizes.
    #[inline]
    fn others_will_write(&self, meeting: u64) {
        let seats = &self.seats[(meeting % 2) as usize];
        valgrind_mark_defined(seats.as_ptr(), seats.len());
    }

    /// Has all members that sleep look at their meetings.
    fn wake(&self) {
        // What was stored is seen by those who are about to sleep, or their sleep is seen by us.
        crate::sync::fence(Ordering::SeqCst);
        for event_count in &self.event_counts {
            event_count.notify();
        }
    }
}

#[cfg(not(loom))]
impl fabric::CollSegment for CollSegment {
    fn next_round(&self) -> u64 {
        self.lease.next_round()
    }

    #[inline]
    fn is_ready(&self, meeting: u64) -> bool {
        self.lease.is_next(meeting) && self.words.is_free(meeting)
    }

    #[inline]
    fn slots(&self, meeting: u64) -> UserBuf {
        self.seats[(meeting % 2) as usize]
    }

    fn arrive(&self, meeting: u64, call: u64, is_awaited: bool) -> bool {
        self.others_will_write(meeting);
        let is_last = self.words.arrive(meeting, call);
        if is_awaited {
            self.wake();
        }
        is_last
    }

    fn signature_of(&self, meeting: u64, member: u32) -> Option<u64> {
        self.words.signature_of(meeting, member)
    }

    fn complete(&self, meeting: u64) {
        self.others_will_write(meeting);
        self.words.complete(meeting);
        self.wake();
    }

    #[inline]
    fn is_complete(&self, meeting: u64) -> bool {
        self.words.is_complete(meeting)
    }

    fn mismatch(&self, meeting: u64, call: u64) -> Option<u32> {
        self.words.mismatch(meeting, call)
    }

    fn leave(&self, meeting: u64) {
        self.lease.leave(meeting);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsFd;

    use crate::{Segment, SyncKind};

    const MEMBERS: [u32; 2] = [2, 0];

    fn segments() -> Vec<Segment> {
        let file = Segment::file().unwrap();
        (0..3)
            .map(|me| Segment::attach(file.as_fd(), 0, me, 3, 1 << 14, 1 << 16).unwrap())
            .collect()
    }

    #[test]
    fn members_meet_in_the_same_memory_and_arenas_are_apart() {
        let segments = segments();
        let arena = |member: usize, owner, index| {
            let segment = &segments[MEMBERS[member] as usize];
            segment
                .coll_segment(SyncKind::Counter, owner, index, &MEMBERS, member as u32)
                .unwrap()
                .unwrap()
        };
        let (one, other, elsewhere) = (arena(0, 1, 3), arena(1, 1, 3), arena(0, 2, 0));
        for meeting in 0..1000 {
            assert_eq!((one.next_round(), other.next_round()), (meeting, meeting));
            assert!(
                one.is_ready(meeting) && !one.is_ready(meeting + 1) && !one.is_complete(meeting)
            );
            one.slots(meeting).write(0, &meeting.to_le_bytes());
            assert!(!one.arrive(meeting, 7, true));
            assert_eq!(
                (other.signature_of(meeting, 0), other.signature_of(meeting, 1)),
                (Some(7), None)
            );
            let mut seen = [0; 8];
            other.slots(meeting).read(0, &mut seen);
            assert_eq!(u64::from_le_bytes(seen), meeting);
            assert!(other.arrive(meeting, 7 + meeting % 2, false));
            other.complete(meeting);
            assert!(one.is_complete(meeting) && !elsewhere.is_complete(meeting));
            assert_eq!(one.mismatch(meeting, 7), (meeting % 2 == 1).then_some(1));
            one.leave(meeting);
            other.leave(meeting);
        }
    }

    #[test]
    fn an_arena_is_new_for_other_members_when_all_have_given_it_back() {
        let segments = segments();
        let renew = |leases| segments[1].renew_coll_segment(SyncKind::Counter, 2, leases);
        assert!(renew(0) && renew(0), "nobody has had it");
        let mut leases = 0;
        for members in [&[2, 0][..], &[0, 1, 2], &[1, 2]] {
            let lease = |me: u32| {
                let segment = &segments[members[me as usize] as usize];
                segment.coll_segment(SyncKind::Counter, 1, 2, members, me).unwrap().unwrap()
            };
            let mut arenas: Vec<_> = (0..members.len() as u32).map(lease).collect();
            leases += members.len() as u64;
            for meeting in 0..3 {
                assert!(
                    arenas
                        .iter()
                        .all(|arena| arena.next_round() == meeting && arena.is_ready(meeting))
                );
                let last = arenas.iter().filter(|arena| arena.arrive(meeting, 7, false)).count();
                assert!(last == 1 && !arenas[0].is_complete(meeting));
                arenas[0].complete(meeting);
                assert!(arenas.iter().all(|arena| arena.mismatch(meeting, 7).is_none()));
                arenas.iter().for_each(|arena| arena.leave(meeting));
            }
            while arenas.pop().is_some() {
                assert_eq!(renew(leases), arenas.is_empty());
            }
        }
    }

    #[test]
    fn what_one_rank_found_about_memory_holds_for_all() {
        let segments = segments();
        segments[1].refuse_coll_segment(0, 1);
        for (rank, segment) in segments.iter().enumerate() {
            let arena = |index| {
                segment.coll_segment(SyncKind::Counter, 0, index, &[0, 1, 2], rank as u32).unwrap()
            };
            assert!(arena(1).is_none() && arena(2).is_some());
        }
        assert!(
            !segments[0].renew_coll_segment(SyncKind::Counter, 1, 0),
            "it is not offered any more"
        );
    }
}
