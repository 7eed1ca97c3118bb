//! The words of an arena under loom: every order in which two members may see each other's stores.
//!
//! Seats and results have a model: cells that note who touches them. What the orderings do not keep
//! apart is found by the cells.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Head, Words};
use crate::event_count::EventCount;
use crate::loom_harness::{self, in_every_order, wait};
use crate::sync::{AtomicU64, Ordering, fence};

const CALL: u64 = 5;

/// One member, and the seats of both halves: of member 0, of member 1, of the result.
struct Member {
    words: Words,
    seats: Arc<[[UnsafeCell<u64>; 3]; 2]>,
    me: usize,
}

// SAFETY: the cells are loom's, which looks after them.
unsafe impl Send for Member {}

fn members() -> [Member; 2] {
    let head: &'static Head = Box::leak(Box::default());
    let calls: [&'static [AtomicU64]; 2] =
        std::array::from_fn(|_| &*Vec::leak((0..2).map(|_| AtomicU64::new(0)).collect()));
    let seats = Arc::new(std::array::from_fn(|_| std::array::from_fn(|_| UnsafeCell::new(0))));
    [0, 1].map(|me| Member { words: Words::new(head, calls, me as u32), seats: seats.clone(), me })
}

impl Member {
    fn read(&self, meeting: u64, seat: usize) -> u64 {
        // SAFETY: loom panics where another thread writes.
        self.seats[meeting as usize % 2][seat].with(|cell| unsafe { *cell })
    }

    fn write(&self, meeting: u64, seat: usize, value: u64) {
        // SAFETY: loom panics where another thread reads or writes.
        self.seats[meeting as usize % 2][seat].with_mut(|cell| unsafe { *cell = value });
    }

    /// Gives a number, and gets the sum if it is for this member.
    fn reduce(&self, meeting: u64, is_for_me: bool) {
        wait(|| self.words.is_free(meeting));
        self.write(meeting, self.me, 10 * meeting + self.me as u64);
        if self.words.arrive(meeting, CALL) {
            self.write(meeting, 2, self.read(meeting, 0) + self.read(meeting, 1));
            self.words.complete(meeting);
        }
        if is_for_me {
            wait(|| self.words.is_complete(meeting));
            assert_eq!(self.words.mismatch(meeting, CALL), None);
            assert_eq!(self.read(meeting, 2), 20 * meeting + 1);
        }
    }

    /// Member 0 gives a number to the other.
    fn bcast(&self, meeting: u64) {
        wait(|| self.words.is_free(meeting));
        if self.me == 0 {
            self.write(meeting, 0, meeting);
        } else {
            wait(|| self.words.signature_of(meeting, 0) == Some(CALL));
            assert_eq!(self.read(meeting, 0), meeting);
        }
        if self.words.arrive(meeting, CALL) {
            self.words.complete(meeting);
        }
    }
}

/// Preemptions at most.
const BOUND: usize = 3;

/// Both members do this.
fn together(work: fn(&Member)) {
    loom_harness::together(BOUND, members, work);
}

#[test]
fn everyone_gets_every_result() {
    together(|member| (0..3).for_each(|meeting| member.reduce(meeting, true)));
}

#[test]
fn who_gets_nothing_may_be_ahead() {
    together(|member| (0..4).for_each(|meeting| member.reduce(meeting, member.me == 0)));
}

#[test]
fn who_gives_alone_may_be_ahead() {
    together(|member| (0..4).for_each(|meeting| member.bcast(meeting)));
}

#[test]
fn who_gives_and_who_gets_change() {
    together(|member| {
        member.bcast(0);
        member.reduce(1, member.me == 1);
        member.bcast(2);
        member.reduce(3, true);
    });
}

#[test]
fn whoever_sleeps_for_a_meeting_is_woken() {
    loom::model(|| {
        let [one, other] = members();
        let event_count = Arc::new(EventCount::default());
        let theirs = event_count.clone();
        assert!(!one.words.arrive(0, CALL));
        let closer = thread::spawn(move || {
            assert!(other.words.arrive(0, CALL));
            other.words.complete(0);
            fence(Ordering::SeqCst);
            theirs.ring()
        });
        let sleeps = event_count.prepare_wait() && !one.words.is_complete(0);
        let woke = closer.join().unwrap();
        assert!(!sleeps || woke, "it sleeps on a meeting that was closed");
    });
}

/// Member 0, whose arena it is, makes it new when both are done, and the other one hears of it by a message.
#[test]
fn what_the_last_members_left_is_not_seen_by_the_next() {
    in_every_order(BOUND, || {
        let [one, other] = members();
        let agreed: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let theirs = thread::spawn(move || {
            other.reduce(0, true);
            drop(other.words.lease());
            wait(|| agreed.load(Ordering::Acquire) == 1);
            (0..2).for_each(|meeting| other.reduce(meeting, true));
        });
        one.reduce(0, false);
        drop(one.words.lease());
        wait(|| one.words.renew(2));
        agreed.store(1, Ordering::Release);
        (0..2).for_each(|meeting| one.reduce(meeting, true));
        theirs.join().unwrap();
        assert!(!one.words.renew(4), "two leases are not given back");
    });
}

#[test]
fn who_says_something_else_is_named() {
    together(|member| {
        let call = CALL + member.me as u64;
        if member.words.arrive(0, call) {
            member.words.complete(0);
        }
        wait(|| member.words.is_complete(0));
        assert_eq!(member.words.mismatch(0, call), Some(1 - member.me as u32));
    });
}
