//! The shared words of one rank in a window whose ranks are all on one host.
//!
//! A record of [`Control::BYTES`] bytes for each rank lies in memory that all of them map, zero at
//! first. It holds a queue lock for passive synchronisation and a spin lock for elements that no
//! processor changes atomically.
//!
//! The queue lock has three counters: `users` deals tickets, `read` and `write` are the tickets
//! that may begin to read or to write. A reader moves `read` on when it begins and `write` when it
//! ends; a writer moves both when it ends. Waiters are therefore served in order, and adjacent
//! readers together. The lock wakes no waiter: a call that lets another waiter begin says so, and
//! its caller wakes those that sleep.
//!
//! Invariant: a rank draws one ticket, begins when it is its turn, and ends what it began.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use fabric::UserBuf;

/// The record of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Control(UserBuf);

const USERS: usize = 0;
const READ: usize = 4;
const WRITE: usize = 8;
const HOLDER: usize = 12;
const SPIN: usize = 64;

impl Control {
    /// Bytes of a record: two cache lines.
    pub const BYTES: usize = 128;

    /// Returns the record in `memory`, which is zero at first and shared by all ranks of the
    /// window. Panics if it is not [`Control::BYTES`] long and aligned to 4 bytes.
    pub fn new(memory: UserBuf) -> Control {
        assert!(memory.len() == Control::BYTES && memory.addr().is_multiple_of(4));
        Control(memory)
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: inside the record, aligned, and valid while the window lives by the promise of
        // the memory's maker. All ranks access it atomically.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().add(at).cast()) }
    }

    /// Draws a ticket.
    pub(crate) fn draw(&self) -> u32 {
        self.word(USERS).fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true when it is the ticket's turn.
    pub(crate) fn is_turn(&self, ticket: u32, exclusive: bool) -> bool {
        let word = if exclusive { WRITE } else { READ };
        // Acquire: what the holders before have written is visible.
        self.word(word).load(Ordering::Acquire) == ticket
    }

    /// Begins what the ticket was drawn for; it must be its turn. Returns true if another waiter
    /// may begin now.
    pub(crate) fn begin(&self, ticket: u32, exclusive: bool, rank: u32) -> bool {
        self.word(HOLDER).store(rank + 1, Ordering::Relaxed);
        if exclusive {
            return false;
        }
        self.word(READ).store(ticket.wrapping_add(1), Ordering::Release);
        self.has_waiters(ticket.wrapping_add(1))
    }

    /// Ends what `begin` began. Returns true if another waiter may begin now.
    pub(crate) fn end(&self, exclusive: bool) -> bool {
        self.word(HOLDER).store(0, Ordering::Relaxed);
        if exclusive {
            self.word(READ).fetch_add(1, Ordering::Release);
        }
        // Release: the next holder sees what this one has written.
        let next = self.word(WRITE).fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        self.has_waiters(next)
    }

    /// Returns the rank that began last and has not ended, for reports.
    pub(crate) fn holder(&self) -> Option<u32> {
        self.word(HOLDER).load(Ordering::Relaxed).checked_sub(1)
    }

    fn has_waiters(&self, next: u32) -> bool {
        self.word(USERS).load(Ordering::Relaxed) != next
    }

    /// Runs `work` while no other rank runs anything under this rank's spin lock.
    pub(crate) fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let word = self.word(SPIN);
        let mut polls = 0_u32;
        while word.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            polls += 1;
            if polls.is_multiple_of(64) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let result = work();
        word.store(0, Ordering::Release);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_control(test: impl FnOnce(Control)) {
        let mut memory = [0_u64; Control::BYTES / 8];
        // SAFETY: the array outlives the record, which the test does not keep.
        test(Control::new(unsafe { UserBuf::new(memory.as_mut_ptr().cast(), Control::BYTES) }));
    }

    #[test]
    fn tickets_are_served_in_order_and_readers_together() {
        with_control(|control| {
            let [first, second, writer, last] = [(); 4].map(|()| control.draw());
            assert!(control.is_turn(first, false) && !control.is_turn(second, false));
            assert!(control.begin(first, false, 3));
            assert!(control.is_turn(second, false) && !control.is_turn(writer, true));
            control.begin(second, false, 4);
            assert_eq!(control.holder(), Some(4));
            assert!(!control.is_turn(last, false), "a reader does not overtake a writer");
            control.end(false);
            assert!(!control.is_turn(writer, true));
            assert!(control.end(false), "the writer waits");
            assert!(control.is_turn(writer, true) && !control.is_turn(last, false));
            control.begin(writer, true, 1);
            assert!(control.end(true));
            assert!(control.is_turn(last, false));
            control.begin(last, false, 0);
            assert!(!control.end(false));
        });
    }

    #[test]
    fn one_at_a_time_is_alone() {
        with_control(|control| {
            let mut counter = 0_u64;
            let address = &raw mut counter as usize;
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..1000 {
                            control.alone(|| {
                                let counter = address as *mut u64;
                                // SAFETY: one thread at a time, by the lock that is tested.
                                unsafe { counter.write_volatile(counter.read_volatile() + 1) };
                            });
                        }
                    });
                }
            });
            assert_eq!(counter, 4000);
        });
    }
}
