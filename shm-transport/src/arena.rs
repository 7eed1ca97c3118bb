//! Arenas: memory in which the members of a communicator meet (see [`fabric::arena`]).
//!
//! ```text
//! 0         head      64 B: closed, the number of meetings that were closed
//!                     64 B for each half: arrived, the members that have; verdict
//! 192       calls     for each half, for each rank of the host: 8 B; rounded up to 64
//! next 64   seats     for each half: the result, and a seat for each rank of the host
//! ```
//!
//! Meetings take the two halves in turn. All of it starts as zero and that is its valid first state.
//!
//! Invariants:
//! - A member has one meeting at a time, and begins meeting m when m - 2, which had the same
//!   half, was closed.
//! - A member's seat and call are written by that member between the beginning of a meeting and its
//!   arrival. They are read by who arrives last, before it closes the meeting, and by members that
//!   heard the writer arrive, before they arrive themselves. So nobody reads them any more when the meeting
//!   was closed.
//! - Result and verdict are written by who arrives last, before it closes the meeting, and read by
//!   members that have not left it: none of these arrives at the next meeting in this half.
//!
//! The owner of a doorbell looks at its meetings after it has said that it sleeps, and who closes
//! one looks at the doorbells after that: see `wake`.
//!
//! What it does not do: notice a member that has died. The launcher ends the job.

#![allow(unsafe_code)]

use fabric::Memory;
use fabric::arena::SEAT_BYTES;

use crate::ring::LINE;
use crate::sync::{AtomicU64, Ordering};
use crate::wake::Doorbell;

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
struct Closed(AtomicU64);

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
#[derive(Debug)]
pub struct Arena {
    words: Words,
    seats: [Memory; 2],
    /// Of all members.
    doorbells: Vec<&'static Doorbell>,
    /// Meetings that this member has entered, and left. Relaxed: one thread at a time.
    entered: AtomicU64,
    left: AtomicU64,
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
    (u64::from(size) + 1) * SEAT_BYTES
}

impl Words {
    /// The words of an arena of `members`, of whom this is `me`; there are as many calls in each half.
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
        self.head.closed.0.load(Ordering::Acquire) + 1 >= meeting
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
    pub(crate) fn call_of(&self, meeting: u64, member: u32) -> Option<u64> {
        let word = self.half(meeting).1[member as usize].load(Ordering::Acquire);
        (word >> CALL_BITS == stamp(meeting)).then_some(word & ((1 << CALL_BITS) - 1))
    }

    /// By the last one.
    #[inline]
    pub(crate) fn close(&self, meeting: u64) {
        let (half, calls) = self.half(meeting);
        // Relaxed: all are ordered by the arrivals before, and by the store below.
        let mine = calls[self.me as usize].load(Ordering::Relaxed);
        let other = calls.iter().position(|call| call.load(Ordering::Relaxed) != mine);
        let verdict = other.map_or(0, |other| (other as u64 + 1) << MEMBER_BITS | u64::from(self.me));
        half.verdict.store(verdict, Ordering::Relaxed);
        half.arrived.store(0, Ordering::Relaxed);
        self.head.closed.0.store(meeting + 1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_closed(&self, meeting: u64) -> bool {
        // Acquire: the result is there.
        self.head.closed.0.load(Ordering::Acquire) > meeting
    }

    #[inline]
    fn dissenter(&self, meeting: u64, call: u64) -> Option<u32> {
        // Relaxed: it was closed.
        let verdict = self.half(meeting).0.verdict.load(Ordering::Relaxed);
        if verdict == 0 {
            return None;
        }
        // Of the two at least one has said something else than we did.
        let (one, other) = ((verdict >> MEMBER_BITS) as u32 - 1, verdict as u32);
        Some(if self.call_of(meeting, other) == Some(call) { one } else { other })
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

#[cfg(not(loom))]
impl Arena {
    /// An arena on a host of `size` ranks, as its member `me` sees it.
    ///
    /// # Safety
    /// `base` must be aligned to a line and valid for [`bytes`] of `size`, for the life of the process;
    /// they were zero when the first member came, and are accessed by arenas alone.
    pub(crate) unsafe fn new(base: *mut u8, size: u32, me: u32, doorbells: Vec<&'static Doorbell>) -> Arena {
        assert!(doorbells.len() <= size as usize && (me as usize) < doorbells.len());
        // SAFETY: the caller's promise; all fields are atomics, and any bytes are valid for them.
        let head = unsafe { &*base.cast::<Head>() };
        let calls = [0, size as usize].map(|from| {
            // SAFETY: the same; behind the head there is a call for each half and rank.
            unsafe {
                let first = base.add(size_of::<Head>()).cast::<AtomicU64>().add(from);
                std::slice::from_raw_parts(first, doorbells.len())
            }
        });
        let seats = [0, half_bytes(size)].map(|from| {
            // SAFETY: the same; the seats of each half lie one after the other.
            unsafe { Memory::new(base.add((seats_at(size) + from) as usize), half_bytes(size) as usize) }
        });
        let (entered, left) = (AtomicU64::new(0), AtomicU64::new(0));
        Arena { words: Words::new(head, calls, me), seats, doorbells, entered, left }
    }

    /// Has all members that sleep look at their meetings.
    fn wake(&self) {
        // What was stored is seen by those who are about to sleep, or their sleep is seen by us.
        crate::sync::fence(Ordering::SeqCst);
        for doorbell in &self.doorbells {
            doorbell.ring();
        }
    }
}

#[cfg(not(loom))]
impl fabric::Arena for Arena {
    fn enter(&self) -> u64 {
        self.entered.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    fn has_begun(&self, meeting: u64) -> bool {
        self.left.load(Ordering::Relaxed) == meeting && self.words.is_free(meeting)
    }

    #[inline]
    fn seats(&self, meeting: u64) -> Memory {
        self.seats[(meeting % 2) as usize]
    }

    fn arrive(&self, meeting: u64, call: u64, is_awaited: bool) -> bool {
        let is_last = self.words.arrive(meeting, call);
        if is_awaited {
            self.wake();
        }
        is_last
    }

    fn call_of(&self, meeting: u64, member: u32) -> Option<u64> {
        self.words.call_of(meeting, member)
    }

    fn close(&self, meeting: u64) {
        self.words.close(meeting);
        self.wake();
    }

    #[inline]
    fn is_closed(&self, meeting: u64) -> bool {
        self.words.is_closed(meeting)
    }

    fn dissenter(&self, meeting: u64, call: u64) -> Option<u32> {
        self.words.dissenter(meeting, call)
    }

    fn leave(&self, meeting: u64) {
        self.left.store(meeting + 1, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsFd;

    use fabric::Arena as _;

    use crate::Segment;

    const MEMBERS: [u32; 2] = [2, 0];

    fn segments() -> Vec<Segment> {
        let file = Segment::file().unwrap();
        (0..3).map(|me| Segment::attach(file.as_fd(), 0, me, 3, 1 << 14, 1 << 16).unwrap()).collect()
    }

    #[test]
    fn members_meet_in_the_same_memory_and_arenas_are_apart() {
        let segments = segments();
        let arena = |member: usize, owner, index| {
            let segment = &segments[MEMBERS[member] as usize];
            segment.arena(owner, index, &MEMBERS, member as u32).unwrap().unwrap()
        };
        let (one, other, elsewhere) = (arena(0, 1, 3), arena(1, 1, 3), arena(0, 2, 0));
        for meeting in 0..1000 {
            assert_eq!((one.enter(), other.enter()), (meeting, meeting));
            assert!(one.has_begun(meeting) && !one.has_begun(meeting + 1) && !one.is_closed(meeting));
            one.seats(meeting).write(0, &meeting.to_le_bytes());
            assert!(!one.arrive(meeting, 7, true));
            assert_eq!((other.call_of(meeting, 0), other.call_of(meeting, 1)), (Some(7), None));
            let mut seen = [0; 8];
            other.seats(meeting).read(0, &mut seen);
            assert_eq!(u64::from_le_bytes(seen), meeting);
            assert!(other.arrive(meeting, 7 + meeting % 2, false));
            other.close(meeting);
            assert!(one.is_closed(meeting) && !elsewhere.is_closed(meeting));
            assert_eq!(one.dissenter(meeting, 7), (meeting % 2 == 1).then_some(1));
            one.leave(meeting);
            other.leave(meeting);
        }
    }

    #[test]
    fn what_one_rank_found_about_memory_holds_for_all() {
        let segments = segments();
        segments[1].refuse_arena(0, 1);
        for (rank, segment) in segments.iter().enumerate() {
            assert!(segment.arena(0, 1, &[0, 1, 2], rank as u32).unwrap().is_none());
            assert!(segment.arena(0, 2, &[0, 1, 2], rank as u32).unwrap().is_some());
        }
    }
}
