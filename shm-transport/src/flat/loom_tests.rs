//! The words of a flat arena under loom: every order in which two members may see each other's stores.
//!
//! Seats have a model: cells that note who touches them. What the orderings do not keep apart is found by the cells.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{ROUNDS, Words};
use crate::event_count::EventCount;
use crate::loom_harness::{self, in_every_order, wait};
use crate::sync::{AtomicU64, Ordering, fence};

const CALL: u64 = 5;

/// One member, and the seats of both in each round.
struct Member {
    words: Words,
    seats: Arc<[[UnsafeCell<u64>; 2]; ROUNDS]>,
    me: usize,
}

// SAFETY: the cells are loom's, which looks after them.
unsafe impl Send for Member {}

fn members() -> [Member; 2] {
    let leak = || -> &'static AtomicU64 { Box::leak(Box::new(AtomicU64::new(0))) };
    let returned = leak();
    let words: Vec<_> = (0..2 * ROUNDS).map(|_| leak()).collect();
    let seats = Arc::new(std::array::from_fn(|_| std::array::from_fn(|_| UnsafeCell::new(0))));
    [0, 1].map(|me| Member {
        words: Words::new(returned, words.clone(), me as u32),
        seats: seats.clone(),
        me,
    })
}

impl Member {
    fn read(&self, meeting: u64, seat: usize) -> u64 {
        // SAFETY: loom panics where another thread writes.
        self.seats[meeting as usize % ROUNDS][seat].with(|cell| unsafe { *cell })
    }

    fn write(&self, meeting: u64, value: u64) {
        // SAFETY: loom panics where another thread reads or writes.
        self.seats[meeting as usize % ROUNDS][self.me].with_mut(|cell| unsafe { *cell = value });
    }

    /// Each gives a number to the other.
    fn exchange(&self, meeting: u64) {
        wait(|| self.words.is_free(meeting));
        self.write(meeting, 10 * meeting + self.me as u64);
        self.words.come(meeting, CALL);
        wait(|| self.words.have_come(meeting));
        assert_eq!(self.read(meeting, 1 - self.me), 10 * meeting + 1 - self.me as u64);
    }

    /// Member `root` gives a number to the other.
    fn bcast(&self, meeting: u64, root: usize) {
        wait(|| self.words.is_free(meeting));
        if self.me == root {
            self.write(meeting, meeting);
        }
        self.words.come(meeting, CALL);
        if self.me != root {
            wait(|| self.words.signature_of(meeting, root as u32) == Some(CALL));
            assert_eq!(self.read(meeting, root), meeting);
        }
    }
}

/// Preemptions at most.
const BOUND: usize = 2;

/// Both members do this.
fn together(work: fn(&Member)) {
    loom_harness::together(BOUND, members, work);
}

#[test]
fn everyone_hears_everyone_and_seats_are_used_again() {
    together(|member| (0..ROUNDS as u64 + 2).for_each(|meeting| member.exchange(meeting)));
}

#[test]
fn who_gives_alone_may_be_ahead_and_not_too_far() {
    together(|member| (0..ROUNDS as u64 + 2).for_each(|meeting| member.bcast(meeting, 0)));
}

#[test]
fn who_gives_changes() {
    together(|member| {
        (0..ROUNDS as u64).for_each(|meeting| member.bcast(meeting, meeting as usize % 2));
        member.bcast(ROUNDS as u64, 1);
        member.exchange(ROUNDS as u64 + 1);
    });
}

#[test]
fn whoever_sleeps_for_a_word_is_woken() {
    loom::model(|| {
        let [one, other] = members();
        let event_count = Arc::new(EventCount::default());
        let theirs = event_count.clone();
        one.words.come(0, CALL);
        let late = thread::spawn(move || {
            other.words.come(0, CALL);
            fence(Ordering::SeqCst);
            theirs.ring()
        });
        let sleeps = event_count.prepare_wait() && !one.words.have_come(0);
        let woke = late.join().unwrap();
        assert!(!sleeps || woke, "it sleeps though everyone has come");
    });
}

/// Member 0, whose arena it is, makes it new when both are done, and the other one hears of it by a message.
#[test]
fn what_the_last_members_left_is_not_seen_by_the_next() {
    in_every_order(BOUND, || {
        let [one, other] = members();
        let agreed: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let theirs = thread::spawn(move || {
            other.exchange(0);
            drop(other.words.lease());
            wait(|| agreed.load(Ordering::Acquire) == 1);
            (0..2).for_each(|meeting| other.exchange(meeting));
        });
        one.exchange(0);
        drop(one.words.lease());
        wait(|| one.words.renew(2));
        agreed.store(1, Ordering::Release);
        (0..2).for_each(|meeting| one.exchange(meeting));
        theirs.join().unwrap();
        assert!(!one.words.renew(4), "two leases are not given back");
    });
}
