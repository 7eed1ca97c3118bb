//! Chooses how often a large body is copied: twice, through the segment, or once, straight out of
//! the sender's memory (`single_copy`).
//!
//! Two ranks that both copy win where they share a cache. A single copy wins where lines cross
//! slowly. In a virtual machine that changes while a job runs; therefore the receiver measures it,
//! for each sender and class of sizes.
//!
//! ```text
//!              `interval` bodies                  four bodies copied the other way
//!   the faster -----------------> trial of the ------------------------------------> the faster
//!                                 other          or `MAX_TRIAL` bodies, if the sender does not
//!                                                send that way
//! ```
//!
//! Trials get rarer while they fail. The receiver alone decides about messages that are announced
//! anyway. Of shorter ones it tells the sender which classes it wants to read by itself, by a bit
//! for each in a word of the ring; the sender announces those of collectives, which have a receive
//! (or will soon), and sends the others eagerly.

use std::time::Duration;

use crate::copy_cost::{CopyCost, RecentCosts};

/// How often a body is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// By the sender into the segment, by the receiver out of it.
    Two,
    /// By the receiver.
    One,
}

impl Copies {
    fn other(self) -> Copies {
        match self {
            Copies::Two => Copies::One,
            Copies::One => Copies::Two,
        }
    }
}

/// Classes of sizes. Each begins at twice the bytes of the one before; the last has no end.
const CLASSES: usize = 6;
/// Binary logarithm of the least bytes of the first class. Below, announcing costs what a copy
/// saves.
const FIRST_CLASS: u32 = 16;
/// Least bytes of the first class.
pub(crate) const LEAST_BYTES: u32 = 1 << FIRST_CLASS;
/// Bodies between two trials.
const INTERVAL: std::ops::RangeInclusive<u32> = 16..=4096;
/// Bodies after which a trial ends in which the sender did not send the other way.
const MAX_TRIAL: u32 = 32;

/// What an announcement and the answer that frees the sender cost, nanoseconds.
const ANNOUNCEMENT_NS: u64 = 1_000;

/// Returns the class of a body; `None` for one that is too short to be copied once.
#[inline]
pub(crate) fn class_of(bytes: u64) -> Option<usize> {
    let class = bytes.checked_ilog2()?.checked_sub(FIRST_CLASS)?;
    Some((class as usize).min(CLASSES - 1))
}

/// Returns the cost of two copies. `reading` is the receiver's time from the frame to the last of
/// `bytes`. `before` of them were written while the receiver had a large message of its own to
/// send, as in an exchange: then the two copies did not overlap, and the time of writing those
/// counts as well. Writing takes about as long as reading.
pub(crate) fn cost_of_two(reading: Duration, before: usize, bytes: usize) -> CopyCost {
    let nanoseconds = reading.as_nanos() as u64;
    CopyCost::of(nanoseconds + (nanoseconds as f64 * before as f64 / bytes as f64) as u64, bytes)
}

/// Returns the cost of one copy, by the receiver's time from the announcement to the last byte.
pub(crate) fn cost_of_one(reading: Duration, bytes: usize) -> CopyCost {
    CopyCost::of(reading.as_nanos() as u64 + ANNOUNCEMENT_NS, bytes)
}

/// The faster way for one class, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Class {
    best: Copies,
    /// Costs by [`Copies`].
    costs: [RecentCosts; 2],
    is_trial: bool,
    /// Bodies since the last trial, or in this one.
    bodies: u32,
    /// Bodies before the next trial.
    interval: u32,
}

impl Class {
    const NEW: Class = Class {
        best: Copies::Two,
        costs: [RecentCosts::NONE; 2],
        is_trial: false,
        bodies: 0,
        interval: *INTERVAL.start(),
    };

    fn next(&self) -> Copies {
        if self.is_trial { self.best.other() } else { self.best }
    }

    fn record(&mut self, copies: Copies, cost: CopyCost) {
        self.costs[copies as usize].push(cost);
        self.bodies += 1;
        let other = self.best.other();
        if self.is_trial {
            self.judge(self.costs[self.best as usize].least(), self.costs[other as usize].least());
        } else if self.bodies >= self.interval {
            self.costs[other as usize] = RecentCosts::NONE;
            (self.is_trial, self.bodies) = (true, 0);
        }
    }

    /// Ends the trial when enough is known.
    fn judge(&mut self, now: Option<u32>, tried: Option<u32>) {
        match (now, tried) {
            (None, Some(_)) => {}
            // The other way must be faster by more than what two measurements differ by.
            (Some(now), Some(tried)) if tried < now - now / 16 => {
                self.best = self.best.other();
                self.interval = *INTERVAL.start();
            }
            (_, None) if self.bodies < MAX_TRIAL => return,
            _ => self.interval = (2 * self.interval).min(*INTERVAL.end()),
        }
        (self.is_trial, self.bodies) = (false, 0);
    }
}

/// The faster way from one sender, for each class.
#[derive(Debug)]
pub(crate) struct CopyTuner {
    classes: [Class; CLASSES],
    /// The class of the message that was last requested in pieces.
    requested: usize,
}

impl Default for CopyTuner {
    fn default() -> CopyTuner {
        CopyTuner { classes: [Class::NEW; CLASSES], requested: 0 }
    }
}

impl CopyTuner {
    /// Returns how the next body of a class should be copied.
    pub(crate) fn next(&self, class: usize) -> Copies {
        self.classes[class].next()
    }

    /// Notes that a message is requested in pieces: the pieces count for its class.
    pub(crate) fn request(&mut self, class: usize) {
        self.requested = class;
    }

    /// Records the cost of a body. `is_piece`: of the message that was last requested.
    pub(crate) fn record(&mut self, class: usize, is_piece: bool, copies: Copies, cost: CopyCost) {
        let class = if is_piece { self.requested } else { class };
        self.classes[class].record(copies, cost);
    }

    /// Returns the classes that the receiver wants to read by itself, a bit for each.
    pub(crate) fn wanted(&self) -> u64 {
        let bit = |(at, class): (usize, &Class)| u64::from(class.next() == Copies::One) << at;
        self.classes.iter().enumerate().map(bit).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_double() {
        let classes = [(0, None), (64 << 10, Some(0)), (128 << 10, Some(1)), (u64::MAX, Some(5))];
        for (bytes, class) in classes {
            assert_eq!(class_of(bytes), class, "{bytes} bytes");
        }
        assert_eq!([class_of((64 << 10) - 1), class_of((128 << 10) - 1)], [None, Some(0)]);
    }

    #[test]
    fn the_faster_way_is_found_and_left_again() {
        let mut tuner = CopyTuner::default();
        for (costs, expected) in [
            ([2_000, 9_000], Copies::Two),
            ([9_000, 2_000], Copies::One),
            ([800, 2_000], Copies::Two),
        ] {
            let mut slow = 0;
            for body in 0..20_000 {
                let copies = tuner.next(3);
                slow += u32::from(copies != expected);
                let interrupted = if body % 21 == 0 { 1_000_000 } else { 0 };
                tuner.record(3, false, copies, CopyCost(costs[copies as usize] + interrupted));
            }
            assert_eq!(tuner.next(3), expected);
            assert_eq!(tuner.wanted(), if expected == Copies::One { 1 << 3 } else { 0 });
            assert!(slow < 5_000, "{slow} bodies were copied the slower way");
        }
    }

    #[test]
    fn a_sender_that_sends_one_way_is_tried_ever_more_seldom() {
        let mut tuner = CopyTuner::default();
        let mut wanted = 0;
        for _ in 0..100_000 {
            wanted += u32::from(tuner.wanted() != 0);
            tuner.record(0, false, Copies::Two, CopyCost(5_000));
        }
        assert_eq!(tuner.next(0), Copies::Two);
        assert!((1..1_500).contains(&wanted), "{wanted} bodies of 100,000 were in trials");
    }
}
