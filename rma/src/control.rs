//! The shared words of one rank in a window whose ranks are all on one host.
//!
//! A record of [`Control::BYTES`] bytes for each rank lies in memory that all of them map, zero at
//! first. It holds a queue lock for passive synchronisation, a spin lock for accumulates that are
//! no processor atomics, and the announcement of an access that needs no lock (`guard`). The word
//! of the spin lock names its holder, so that a holder that dies does not keep it.
//!
//! The queue lock has three counters of 21 bits in one word: `users` deals tickets, `read` and
//! `write` are the tickets that may begin to read or to write. A reader moves `read` on when it
//! begins and `write` when it ends; a writer moves both when it ends. Waiters are therefore served
//! in order, and adjacent readers together. The lock wakes no waiter: a call that lets another
//! waiter begin says so, and its caller wakes those that sleep. Since all counters change as one
//! word, no waiter that draws its ticket meanwhile is missed.
//!
//! Invariants: a rank draws one ticket, begins when it is its turn, and ends what it began. Fewer
//! than 2^21 ranks have tickets.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fabric::UserBuf;

/// The record of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    memory: UserBuf,
    /// The rank in the window.
    rank: u32,
    /// Not 0 once the rank's process has ended.
    ended: &'static AtomicU32,
}

const LOCK: usize = 0;
const HOLDER: usize = 8;
const SPIN: usize = 64;
const ANNOUNCED: usize = 128;

/// Bits of a counter of the lock.
const BITS: u32 = 21;
/// Largest value of a counter.
const MASK: u64 = (1 << BITS) - 1;
/// First bit of `write`; `read` begins at bit 0.
const WRITE: u32 = BITS;
/// First bit of `users`, whose carry leaves the word.
const USERS: u32 = 64 - BITS;

/// The lock's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    read: u64,
    write: u64,
    users: u64,
}

impl Counters {
    #[inline(always)]
    fn of(word: u64) -> Counters {
        Counters { read: word & MASK, write: word >> WRITE & MASK, users: word >> USERS }
    }

    #[inline(always)]
    fn word(self) -> u64 {
        self.read & MASK | (self.write & MASK) << WRITE | self.users << USERS
    }
}

impl Control {
    /// Bytes of a record: three cache lines.
    pub const BYTES: usize = 192;

    /// Returns the record of a rank in `memory`, which is zero at first and shared by all ranks of
    /// the window. `ended` is not 0 once the rank's process has ended. Panics if the memory is not
    /// [`Control::BYTES`] long and aligned to 8 bytes.
    pub fn new(memory: UserBuf, rank: u32, ended: &'static AtomicU32) -> Control {
        assert!(memory.len() == Control::BYTES && memory.addr().is_multiple_of(8));
        Control { memory, rank, ended }
    }

    /// Returns the rank in the window.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns whether the rank's process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        // Acquire: all that it has written is visible.
        self.ended.load(Ordering::Acquire) != 0
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: inside the record, aligned, and valid while the window lives by the promise of
        // the memory's maker. All ranks access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    fn lock(&self) -> &AtomicU64 {
        // SAFETY: as for `word`.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(LOCK).cast()) }
    }

    /// Draws a ticket.
    pub(crate) fn draw(&self) -> u32 {
        // Relaxed: `is_turn` acquires.
        Counters::of(self.lock().fetch_add(1 << USERS, Ordering::Relaxed)).users as u32
    }

    /// Takes the lock if that needs no waiting; false if it changed nothing.
    #[inline(always)]
    pub(crate) fn begin_free(&self, exclusive: bool, rank: u32) -> bool {
        let lock = self.lock();
        let mut found = lock.load(Ordering::Relaxed);
        loop {
            let now = Counters::of(found);
            if now.users != if exclusive { now.write } else { now.read } {
                return false;
            }
            // The carry of `users` leaves the word.
            let drawn = found.wrapping_add(1 << USERS);
            let next = if exclusive { drawn } else { drawn & !MASK | (now.read + 1) & MASK };
            // Acquire: what the holders before have written is visible.
            let (to, or) = (Ordering::Acquire, Ordering::Relaxed);
            match lock.compare_exchange_weak(found, next, to, or) {
                Ok(_) => break,
                Err(other) => found = other,
            }
        }
        self.word(HOLDER).store(rank + 1, Ordering::Relaxed);
        true
    }

    /// Returns true when it is the ticket's turn.
    pub(crate) fn is_turn(&self, ticket: u32, exclusive: bool) -> bool {
        // Acquire: what the holders before have written is visible.
        let now = Counters::of(self.lock().load(Ordering::Acquire));
        u64::from(ticket) == if exclusive { now.write } else { now.read }
    }

    /// Begins what a ticket was drawn for; it must be its turn. Returns true if another waiter may
    /// begin now.
    pub(crate) fn begin(&self, exclusive: bool, rank: u32) -> bool {
        self.word(HOLDER).store(rank + 1, Ordering::Relaxed);
        if exclusive {
            return false;
        }
        let now = self.change(|now| Counters { read: now.read + 1, ..now });
        now.users != now.read
    }

    /// Ends what `begin` or `begin_free` began. Returns true if another waiter may begin now.
    #[inline(always)]
    pub(crate) fn end(&self, exclusive: bool) -> bool {
        self.word(HOLDER).store(0, Ordering::Relaxed);
        let now = self.change(|now| Counters {
            read: if exclusive { now.read + 1 } else { now.read },
            write: now.write + 1,
            ..now
        });
        // A ticket that has not begun, and no reader that has not ended.
        now.users != now.read && now.read == now.write
    }

    /// Changes the counters; returns the new ones.
    #[inline(always)]
    fn change(&self, next: impl Fn(Counters) -> Counters) -> Counters {
        let lock = self.lock();
        let mut found = lock.load(Ordering::Relaxed);
        loop {
            let new = next(Counters::of(found)).word();
            // Release: the next holder sees what this one has written. Acquire: a reader that
            // begins here has seen what the holders before have written.
            match lock.compare_exchange_weak(found, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Counters::of(new),
                Err(other) => found = other,
            }
        }
    }

    /// Returns the rank that began last and has not ended, for reports.
    pub(crate) fn holder(&self) -> Option<u32> {
        self.word(HOLDER).load(Ordering::Relaxed).checked_sub(1)
    }

    /// Takes the spin lock for `rank`; false if it is taken.
    pub(crate) fn hold(&self, rank: u32) -> bool {
        // Sequentially consistent, as are all accesses of announcements: see `guard`.
        let (to, or) = (Ordering::SeqCst, Ordering::Relaxed);
        self.word(SPIN).compare_exchange_weak(0, rank + 1, to, or).is_ok()
    }

    /// Releases the spin lock.
    pub(crate) fn release(&self) {
        self.word(SPIN).store(0, Ordering::Release);
    }

    /// Returns the rank that has the spin lock.
    pub(crate) fn held_by(&self) -> Option<u32> {
        self.word(SPIN).load(Ordering::Relaxed).checked_sub(1)
    }

    /// Releases the spin lock for a rank whose process has ended, if that rank has it.
    pub(crate) fn release_for(&self, rank: u32) {
        let (to, or) = (Ordering::AcqRel, Ordering::Relaxed);
        // An error: another rank has done it.
        let _ = self.word(SPIN).compare_exchange(rank + 1, 0, to, or);
    }

    /// Announces in this record, the own one, an access to the memory of the target's rank. False,
    /// and nothing announced, while the spin lock there is taken.
    #[inline(always)]
    pub(crate) fn announce(&self, target: &Control) -> bool {
        self.word(ANNOUNCED).swap(target.rank + 1, Ordering::SeqCst);
        let is_free = target.word(SPIN).load(Ordering::SeqCst) == 0;
        if !is_free {
            self.withdraw();
        }
        is_free
    }

    /// Ends what was announced.
    #[inline(always)]
    pub(crate) fn withdraw(&self) {
        self.word(ANNOUNCED).store(0, Ordering::Release);
    }

    /// Returns whether the rank of this record accesses the memory of `rank` as announced.
    pub(crate) fn accesses(&self, rank: u32) -> bool {
        self.word(ANNOUNCED).load(Ordering::SeqCst) == rank + 1 && !self.has_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_control(test: impl FnOnce(Control)) {
        let mut memory = [0_u64; Control::BYTES / 8];
        static ENDED: AtomicU32 = AtomicU32::new(0);
        // SAFETY: the array outlives the record, which the test does not keep.
        let memory = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), Control::BYTES) };
        test(Control::new(memory, 0, &ENDED));
    }

    #[test]
    fn tickets_are_served_in_order_and_readers_together() {
        with_control(|control| {
            let [first, second, writer, last] = [(); 4].map(|()| control.draw());
            assert!(control.is_turn(first, false) && !control.is_turn(second, false));
            assert!(control.begin(false, 3));
            assert!(control.is_turn(second, false) && !control.is_turn(writer, true));
            control.begin(false, 4);
            assert_eq!(control.holder(), Some(4));
            assert!(!control.is_turn(last, false), "a reader does not overtake a writer");
            control.end(false);
            assert!(!control.is_turn(writer, true));
            assert!(control.end(false), "the writer waits");
            assert!(control.is_turn(writer, true) && !control.is_turn(last, false));
            control.begin(true, 1);
            assert!(control.end(true));
            assert!(control.is_turn(last, false));
            control.begin(false, 0);
            assert!(!control.end(false));
        });
    }

    #[test]
    fn a_free_lock_is_taken_at_once_and_no_ticket_is_overtaken() {
        with_control(|control| {
            // Past the end of the counters.
            for round in 0..(1 << BITS) + 5 {
                assert!(control.begin_free(round % 2 == 0, 1) && !control.end(round % 2 == 0));
            }
            assert!(control.begin_free(false, 1) && control.begin_free(false, 2));
            assert!(!control.begin_free(true, 3), "readers hold it");
            let ticket = control.draw();
            assert!(!control.begin_free(false, 3), "a writer waits");
            assert!(!control.end(false) && control.end(false));
            assert!(control.is_turn(ticket, true) && !control.begin_free(true, 3));
            control.begin(true, 4);
            assert!(!control.end(true) && control.begin_free(true, 5) && !control.end(true));
        });
    }

    #[test]
    fn holders_exclude_each_other() {
        with_control(|control| {
            let mut counter = 0_u64;
            let address = &raw mut counter as usize;
            std::thread::scope(|scope| {
                for rank in 0..4 {
                    scope.spawn(move || {
                        for _ in 0..500 {
                            if !control.begin_free(true, rank) {
                                let ticket = control.draw();
                                while !control.is_turn(ticket, true) {
                                    std::thread::yield_now();
                                }
                                control.begin(true, rank);
                            }
                            let counter = address as *mut u64;
                            // SAFETY: one thread at a time, by the lock that is tested.
                            unsafe { counter.write_volatile(counter.read_volatile() + 1) };
                            control.end(true);
                        }
                    });
                }
            });
            assert_eq!(counter, 2000);
        });
    }
}
