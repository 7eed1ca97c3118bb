//! Both kinds of counting under loom: every order in which two members may see each other's stores.
//!
//! Slots and results are modelled by cells that note each access: accesses that the orderings do
//! not keep apart are found by the cells.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::counter::{ArrivalCount, Counter};
use super::flags::Flags;
use super::lease::Lease;
use super::signatures::Signatures;
use super::{Counting, Header, renew};
use crate::coll_segment::signatures::Signed;
use crate::event_count::EventCount;
use crate::loom_harness::{self, in_every_order, wait};
use crate::sync::{AtomicU64, Ordering, fence};

const SIGNATURE: u64 = 5;
/// The slot of the result, after those of the two members.
const RESULT: usize = 2;

/// One member; and the slots of all sets: of member 0, of member 1, of the result.
struct Member<C> {
    counting: C,
    header: &'static Header,
    slots: Arc<Vec<[UnsafeCell<u64>; 3]>>,
    me: usize,
}

// SAFETY: the cells are loom's, which checks every access to them.
unsafe impl<C> Send for Member<C> {}

fn leak<T: Default>() -> &'static T {
    Box::leak(Box::default())
}

fn members<C: Counting>(counting: impl Fn(&'static Header, u32) -> C) -> [Member<C>; 2] {
    let header = leak();
    let slots: Vec<_> = (0..C::SETS).map(|_| std::array::from_fn(|_| UnsafeCell::new(0))).collect();
    let slots = Arc::new(slots);
    [0, 1].map(|me| Member {
        counting: counting(header, me as u32),
        header,
        slots: slots.clone(),
        me,
    })
}

fn signatures<const SETS: usize>() -> impl Fn(u32) -> Signatures<SETS> {
    let words: Vec<&'static AtomicU64> = (0..2 * SETS).map(|_| leak()).collect();
    move |me| Signatures::new(2, me, |set, member| words[(2 * set + member) as usize])
}

fn counters() -> [Member<Counter>; 2] {
    let arrival_counts: [&'static ArrivalCount; Counter::SETS] = std::array::from_fn(|_| leak());
    let signatures = signatures();
    members(|header, me| Counter::new(&header.completed, arrival_counts, signatures(me)))
}

fn flags() -> [Member<Flags>; 2] {
    let signatures = signatures();
    members(|_, me| Flags::new(signatures(me)))
}

impl<C: Counting> Member<C> {
    fn read(&self, round: u64, slot: usize) -> u64 {
        // SAFETY: loom panics where another thread writes.
        self.slots[round as usize % C::SETS][slot].with(|cell| unsafe { *cell })
    }

    fn write(&self, round: u64, slot: usize, value: u64) {
        // SAFETY: loom panics where another thread reads or writes.
        self.slots[round as usize % C::SETS][slot].with_mut(|cell| unsafe { *cell = value });
    }

    fn arrive(&self, round: u64) -> bool {
        self.counting.arrive(round, SIGNATURE) == Some(0)
    }

    fn give_lease_back(&self) {
        drop(Lease::new(&self.header.returned));
    }

    fn renew(&self, leases: u64) -> bool {
        renew(self.header, leases, &self.counting)
    }
}

impl Member<Counter> {
    /// Gives a number; receives the sum if it is for this member.
    fn reduce(&self, round: u64, is_for_me: bool) {
        wait(|| self.counting.is_free(round));
        self.write(round, self.me, 10 * round + self.me as u64);
        if self.arrive(round) {
            self.write(round, RESULT, self.read(round, 0) + self.read(round, 1));
            self.counting.complete(round);
        }
        if is_for_me {
            wait(|| self.counting.is_complete(round));
            assert_eq!(self.counting.mismatch(round, SIGNATURE), None);
            assert_eq!(self.read(round, RESULT), 20 * round + 1);
        }
    }

    /// Each member gives a number to the other one, which reads it when the round is complete.
    fn exchange(&self, round: u64) {
        wait(|| self.counting.is_free(round));
        self.write(round, self.me, 10 * round + self.me as u64);
        if self.arrive(round) {
            self.counting.complete(round);
        }
        wait(|| self.counting.is_complete(round));
        assert_eq!(self.read(round, 1 - self.me), 10 * round + 1 - self.me as u64);
    }

    /// Member 0 gives a number to the other one.
    fn bcast(&self, round: u64) {
        wait(|| self.counting.is_free(round));
        if self.me == 0 {
            self.write(round, 0, round);
        } else {
            wait(|| self.counting.signatures().agrees(round, 0, SIGNATURE) == Some(true));
            assert_eq!(self.read(round, 0), round);
        }
        if self.arrive(round) {
            self.counting.complete(round);
        }
    }
}

impl Member<Flags> {
    /// Each member gives a number to the other one.
    fn exchange(&self, round: u64) {
        wait(|| self.counting.is_free(round));
        self.write(round, self.me, 10 * round + self.me as u64);
        self.arrive(round);
        wait(|| self.counting.is_complete(round));
        assert_eq!(self.read(round, 1 - self.me), 10 * round + 1 - self.me as u64);
    }

    /// Member `root` gives a number to the other one.
    fn bcast(&self, round: u64, root: usize) {
        wait(|| self.counting.is_free(round));
        if self.me == root {
            self.write(round, root, round);
        }
        self.arrive(round);
        if self.me != root {
            wait(|| self.counting.signatures().agrees(round, root as u32, SIGNATURE) == Some(true));
            assert_eq!(self.read(round, root), round);
        }
    }
}

/// Wakes a member that sleeps until the round is complete, while the other one arrives.
fn a_sleeper_is_woken<C: Counting>(members: fn() -> [Member<C>; 2]) {
    loom::model(move || {
        let [one, other] = members();
        let event_count = Arc::new(EventCount::default());
        let theirs = event_count.clone();
        assert!(!one.arrive(0));
        let late = thread::spawn(move || {
            if other.arrive(0) {
                other.counting.complete(0);
            }
            fence(Ordering::SeqCst);
            theirs.notify()
        });
        let sleeps = event_count.prepare_wait() && !one.counting.is_complete(0);
        let woke = late.join().unwrap();
        assert!(!sleeps || woke, "it sleeps though the round is complete");
    });
}

/// Member 0, the owner, renews the segment when both are done; the other one learns by a message.
fn a_renewed_segment_is_as_new<C: Counting>(
    preemptions: usize,
    members: fn() -> [Member<C>; 2],
    use_round: fn(&Member<C>, u64),
) {
    in_every_order(preemptions, move || {
        let [one, other] = members();
        let agreed: &'static AtomicU64 = leak();
        let theirs = thread::spawn(move || {
            use_round(&other, 0);
            other.give_lease_back();
            wait(|| agreed.load(Ordering::Acquire) == 1);
            (0..2).for_each(|round| use_round(&other, round));
        });
        use_round(&one, 0);
        one.give_lease_back();
        wait(|| one.renew(2));
        agreed.store(1, Ordering::Release);
        (0..2).for_each(|round| use_round(&one, round));
        theirs.join().unwrap();
        assert!(!one.renew(4), "two leases are not given back");
    });
}

mod counter {
    use super::*;

    const PREEMPTIONS: usize = 3;

    /// Both members do this.
    fn both(work: fn(&Member<Counter>)) {
        loom_harness::together(PREEMPTIONS, counters, work);
    }

    #[test]
    fn every_member_gets_every_result() {
        both(|member| (0..3).for_each(|round| member.reduce(round, true)));
    }

    #[test]
    fn a_member_without_a_result_may_be_ahead() {
        both(|member| (0..4).for_each(|round| member.reduce(round, member.me == 0)));
    }

    #[test]
    fn a_root_may_be_ahead() {
        both(|member| (0..4).for_each(|round| member.bcast(round)));
    }

    #[test]
    fn members_exchange_and_a_root_may_be_ahead_of_their_reads() {
        both(|member| {
            member.exchange(0);
            (1..4).for_each(|round| member.bcast(round));
        });
    }

    #[test]
    fn givers_and_takers_change() {
        both(|member| {
            member.bcast(0);
            member.reduce(1, member.me == 1);
            member.bcast(2);
            member.reduce(3, true);
        });
    }

    #[test]
    fn a_member_that_sleeps_is_woken() {
        a_sleeper_is_woken(counters);
    }

    #[test]
    fn the_next_members_do_not_see_what_the_last_ones_left() {
        a_renewed_segment_is_as_new(PREEMPTIONS, counters, |member, round| {
            member.reduce(round, round > 0 || member.me == 1);
        });
    }

    #[test]
    fn a_member_with_another_signature_is_named() {
        both(|member| {
            let signature = SIGNATURE + member.me as u64;
            if member.counting.arrive(0, signature) == Some(0) {
                member.counting.complete(0);
            }
            wait(|| member.counting.is_complete(0));
            assert_eq!(member.counting.mismatch(0, signature), Some(1 - member.me as u32));
        });
    }
}

mod flags {
    use super::*;

    const PREEMPTIONS: usize = 2;
    const SETS: u64 = Flags::SETS as u64;

    /// Both members do this.
    fn both(work: fn(&Member<Flags>)) {
        loom_harness::together(PREEMPTIONS, super::flags, work);
    }

    #[test]
    fn members_exchange_and_slots_are_used_again() {
        both(|member| (0..SETS + 2).for_each(|round| member.exchange(round)));
    }

    #[test]
    fn a_root_may_be_ahead_and_not_too_far() {
        both(|member| (0..SETS + 2).for_each(|round| member.bcast(round, 0)));
    }

    #[test]
    fn the_root_changes() {
        both(|member| {
            (0..SETS).for_each(|round| member.bcast(round, round as usize % 2));
            member.bcast(SETS, 1);
            member.exchange(SETS + 1);
        });
    }

    #[test]
    fn a_member_that_sleeps_is_woken() {
        a_sleeper_is_woken(super::flags);
    }

    #[test]
    fn the_next_members_do_not_see_what_the_last_ones_left() {
        a_renewed_segment_is_as_new(PREEMPTIONS, super::flags, Member::<Flags>::exchange);
    }

    #[test]
    fn a_member_with_another_signature_is_named() {
        both(|member| {
            let signature = SIGNATURE + member.me as u64;
            member.counting.arrive(0, signature);
            wait(|| member.counting.is_complete(0));
            assert_eq!(member.counting.mismatch(0, signature), Some(1 - member.me as u32));
        });
    }
}
