//! Flat arenas: each member writes a seat of its own and reads the seats that it needs (see [`fabric::coll_segment`]).
//!
//! ```text
//! 0         returned  64 B: the number of leases that were given back
//! 64        seats     for each of ROUNDS meetings in turn, for each member: a word, which says of which meeting it
//!                     is and what the member has called; and behind it, from the same line on, what it gives
//! ```
//!
//! For members that have a processor each. One line of each goes to those who wait for it, and no line is written by two:
//! a word and a few bytes cross together. A meeting counts as closed for who has heard everyone in it.
//!
//! All of it starts as zero and that is its valid first state. Leases are those of `arena`.
//!
//! Invariants:
//! - A member has one meeting at a time. It writes its seat and then its word, once, and reads others' seats when it has seen
//!   their words.
//! - A seat is written again, [`ROUNDS`] meetings later, when everyone has come to the meeting after the one that it was
//!   written for: nobody reads it any more. So a member finds words of its own meeting and those before, and
//!   of the few after it, but never of one in the same round that it has not been to itself.
//! - `known` meetings have seen all members come, as far as this one has looked.
//!
//! Who waits and is about to sleep says so and looks once more, and who has come looks at the doorbells after that: see
//! `wake`.

#![allow(unsafe_code)]

#[cfg(not(loom))]
use std::sync::Arc;

#[cfg(not(loom))]
use fabric::UserBuf;
use fabric::coll_segment::{FLAGS_STRIDE, MAX_FLAGS_RANKS};

#[cfg(not(loom))]
use crate::event_count::{self, EventCount};
use crate::lease::{self, Lease};
use crate::ring::LINE;
#[cfg(not(loom))]
use crate::segment::Site;
use crate::sync::{AtomicU64, Ordering};

/// Meetings that have seats of their own: so far may those be ahead who wait for nobody.
pub(crate) const ROUNDS: usize = 4;
/// Bits of a word that hold a call; above it stands of which meeting it is.
const CALL_BITS: u32 = 56;

/// The words of a flat arena: all of it but for what members give.
#[derive(Debug)]
pub(crate) struct Words {
    returned: &'static AtomicU64,
    /// Of each member, round after round.
    words: Vec<&'static AtomicU64>,
    members: usize,
    me: usize,
    /// All members have come to so many meetings. Relaxed, as one thread at a time looks.
    known: AtomicU64,
}

impl Words {
    /// Those of member `me`; `words` are those of all members in each round.
    pub(crate) fn new(
        returned: &'static AtomicU64,
        words: Vec<&'static AtomicU64>,
        me: u32,
    ) -> Words {
        let members = words.len() / ROUNDS;
        assert!((me as usize) < members);
        Words { returned, words, members, me: me as usize, known: AtomicU64::new(0) }
    }

    /// The words of all members in the round of a meeting.
    #[inline]
    fn round(&self, meeting: u64) -> &[&'static AtomicU64] {
        let first = meeting as usize % ROUNDS * self.members;
        &self.words[first..first + self.members]
    }

    /// True when nobody reads the seat any more that this member is to write for a meeting.
    #[inline]
    pub(crate) fn is_free(&self, meeting: u64) -> bool {
        meeting + 2 <= self.known.load(Ordering::Relaxed) + ROUNDS as u64
            || self.has_become_free(meeting)
    }

    fn has_become_free(&self, meeting: u64) -> bool {
        // Everyone has to have come to the meeting after the last one with these seats.
        let Some(after) = (meeting + 1).checked_sub(ROUNDS as u64) else { return true };
        let later = after + ROUNDS as u64;
        let mut words = self.round(after).iter();
        // Acquire: who has come there has read what we are about to write to.
        let has_come = words.all(|word| {
            let stamp_of = word.load(Ordering::Acquire) >> CALL_BITS;
            stamp_of == stamp(after) || stamp_of == stamp(later)
        });
        if has_come {
            self.known.store(after + 1, Ordering::Relaxed);
        }
        has_come
    }

    /// This member's seat is written: it comes.
    #[inline]
    pub(crate) fn come(&self, meeting: u64, call: u64) {
        debug_assert!(call >> CALL_BITS == 0, "a call leaves room for its meeting");
        // Release: who hears it finds our seat, and that we have read all of the meetings before.
        self.round(meeting)[self.me].store(stamp(meeting) << CALL_BITS | call, Ordering::Release);
    }

    /// What a member has called; `None` until it comes.
    #[inline]
    pub(crate) fn signature_of(&self, meeting: u64, member: u32) -> Option<u64> {
        // Acquire: its seat is there.
        let word = self.round(meeting)[member as usize].load(Ordering::Acquire);
        (word >> CALL_BITS == stamp(meeting)).then_some(word & ((1 << CALL_BITS) - 1))
    }

    /// True when all have come.
    #[inline]
    pub(crate) fn have_come(&self, meeting: u64) -> bool {
        // Acquire: all seats are there.
        let mut words = self.round(meeting).iter();
        let have_come =
            words.all(|word| word.load(Ordering::Acquire) >> CALL_BITS == stamp(meeting));
        if have_come {
            self.known.store(meeting + 1, Ordering::Relaxed);
        }
        have_come
    }

    /// This member's.
    pub(crate) fn lease(&self) -> Lease {
        Lease::new(self.returned)
    }

    /// By the owner, with the words of all ranks of the host: true when all of so many leases were given back; all
    /// is as in the beginning then.
    pub(crate) fn renew(&self, leases: u64) -> bool {
        let are_back = lease::are_back(self.returned, leases);
        if are_back {
            // Relaxed: nobody else looks until the owner says so.
            self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        are_back
    }
}

/// Tells a meeting from others in the same round; never 0.
#[inline]
fn stamp(meeting: u64) -> u64 {
    meeting / ROUNDS as u64 % 255 + 1
}

/// A flat arena, as one member sees it.
#[cfg(not(loom))]
#[derive(Debug)]
struct Flat {
    words: Words,
    /// Of each round.
    seats: [UserBuf; ROUNDS],
    /// Of all members but this one.
    event_counts: Vec<&'static EventCount>,
    /// This process takes part in membarrier; see `wake`.
    registered: bool,
    lease: Lease,
}

/// Where a flat arena is in this process.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    base: *mut u8,
    /// Seats of a round.
    seats: u32,
}

/// Bytes of a flat arena on a host of so many ranks.
pub(crate) fn bytes(size: u32) -> u64 {
    LINE as u64 + ROUNDS as u64 * round_bytes(size.min(MAX_FLAGS_RANKS))
}

fn round_bytes(seats: u32) -> u64 {
    u64::from(seats) * FLAGS_STRIDE
}

#[cfg(not(loom))]
impl Place {
    /// That of a flat arena on a host of `size` ranks.
    ///
    /// # Safety
    /// `base` must be aligned to a line and valid for [`bytes`] of `size`, for the life of the process;
    /// they were zero when the first member came, and are accessed by flat arenas alone.
    pub(crate) unsafe fn new(base: *mut u8, size: u32) -> Place {
        Place { base, seats: size.min(MAX_FLAGS_RANKS) }
    }

    fn words(self, members: u32, me: u32) -> Words {
        assert!(members <= self.seats);
        // SAFETY: the promise of `new`; all of these are atomics at multiples of a line, and any bytes are valid for them.
        let at = |offset: u64| unsafe { &*self.base.add(offset as usize).cast::<AtomicU64>() };
        let of_round = |round: u64| {
            (0..u64::from(members)).map(move |member| {
                at(LINE as u64 + round * round_bytes(self.seats) + member * FLAGS_STRIDE)
            })
        };
        Words::new(at(0), (0..ROUNDS as u64).flat_map(of_round).collect(), me)
    }

    fn seats(self) -> [UserBuf; ROUNDS] {
        std::array::from_fn(|round| {
            let bytes = round_bytes(self.seats) as usize;
            // SAFETY: the promise of `new`: rounds lie one after the other behind the first line.
            unsafe { UserBuf::new(self.base.add(LINE + round * bytes), bytes) }
        })
    }
}

#[cfg(not(loom))]
impl Site for Place {
    fn renew(&self, leases: u64) -> bool {
        self.words(self.seats, 0).renew(leases)
    }

    fn lease(
        &self,
        me: u32,
        mut event_counts: Vec<&'static EventCount>,
    ) -> Arc<dyn fabric::CollSegment> {
        let words = self.words(event_counts.len() as u32, me);
        event_counts.remove(me as usize);
        Arc::new(Flat {
            lease: words.lease(),
            words,
            seats: self.seats(),
            event_counts,
            registered: event_count::register_membarrier(),
        })
    }
}

#[cfg(not(loom))]
impl fabric::CollSegment for Flat {
    fn next_round(&self) -> u64 {
        self.lease.next_round()
    }

    #[inline]
    fn is_ready(&self, meeting: u64) -> bool {
        self.lease.is_next(meeting) && self.words.is_free(meeting)
    }

    #[inline]
    fn slots(&self, meeting: u64) -> UserBuf {
        self.seats[meeting as usize % ROUNDS]
    }

    #[inline]
    fn arrive(&self, meeting: u64, call: u64, is_awaited: bool) -> bool {
        self.words.come(meeting, call);
        for event_count in self.event_counts.iter().filter(|_| is_awaited) {
            event_count.publish_fence(self.registered);
            event_count.notify();
        }
        false
    }

    #[inline]
    fn signature_of(&self, meeting: u64, member: u32) -> Option<u64> {
        self.words.signature_of(meeting, member)
    }

    fn complete(&self, _: u64) {}

    #[inline]
    fn is_complete(&self, meeting: u64) -> bool {
        self.words.have_come(meeting)
    }

    #[inline]
    fn mismatch(&self, meeting: u64, call: u64) -> Option<u32> {
        (0..self.words.members as u32)
            .find(|&member| self.words.signature_of(meeting, member) != Some(call))
    }

    #[inline]
    fn leave(&self, meeting: u64) {
        self.lease.leave(meeting);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
